"""One stream: its state by RFC 9113 5.1, and what the parts of a connection know of it.

```
                 IDLE
                  |  HEADERS, of either side
    END_STREAM   OPEN   END_STREAM
    sent        /    \\  received
    HALF_CLOSED_LOCAL  HALF_CLOSED_REMOTE
    END_STREAM  \\    /  END_STREAM
    received     CLOSED  sent
```

RST_STREAM leads from each of them, IDLE excepted, to RESET_SENT or RESET_RECEIVED. Both are "closed" in the RFC, which
tells them apart by what late frames do: `REACTIONS`."""

from collections import deque
from dataclasses import dataclass, field

from replog.log.offsets import Buffer
from replog.rpc.http2.protocol.frames import DATA, HEADERS, RST_STREAM, WINDOW_UPDATE
from replog.rpc.http2.protocol.hpack import Wanted
from replog.rpc.http2.protocol.partial import Partial

IDLE, OPEN, HALF_CLOSED_LOCAL, HALF_CLOSED_REMOTE, CLOSED, RESET_SENT, RESET_RECEIVED = range(7)
LOCAL_END, REMOTE_END = range(2)  # END_STREAM, sent and received

NEXT = {
    (OPEN, LOCAL_END): HALF_CLOSED_LOCAL,
    (OPEN, REMOTE_END): HALF_CLOSED_REMOTE,
    (HALF_CLOSED_LOCAL, REMOTE_END): CLOSED,
    (HALF_CLOSED_REMOTE, LOCAL_END): CLOSED,
}

# the reactions to a frame of the peer
HANDLE, IGNORE, RESET_AGAIN, STREAM_ERROR, CONNECTION_ERROR, UNOPENED = range(6)

# states: IDLE, OPEN, HALF_CLOSED_LOCAL, HALF_CLOSED_REMOTE, CLOSED, RESET_SENT, RESET_RECEIVED
_MORE = (UNOPENED, HANDLE, HANDLE, STREAM_ERROR, CONNECTION_ERROR, IGNORE, RESET_AGAIN)
_REST = (UNOPENED, HANDLE, HANDLE, HANDLE, IGNORE, IGNORE, IGNORE)
REACTIONS = {DATA: _MORE, HEADERS: _MORE, RST_STREAM: _REST, WINDOW_UPDATE: _REST}  # a server opens by HEADERS before

# the uses of a stream's DATA
AWAIT_HEADERS, CUT_MESSAGES, COUNT_LENGTH, DROP = range(4)


@dataclass(slots=True, eq=False)
class Stream:
    """One stream. It counts bytes on the wire: messages with their prefixes, padding."""

    number: int
    send_window: int
    room: int  # the peer may still send so much
    state: int = OPEN
    # received
    reading: int = AWAIT_HEADERS  # a request's, or its answer's
    held: int = 0  # received bytes for which no credit was given
    since_ms: int = 0  # the oldest of them arrived then, or the last message was taken, if that is later
    untaken: int = 0  # whole messages that wait for their reader
    untaken_bytes: int = 0  # their bytes; all other held bytes are of a message that is not whole
    prefix: bytes = b""  # a message's, not whole
    partial: Partial | None = None  # the message that arrives
    admitted: bool = False  # a message larger than the window has its place in memory, and may be sent
    compressed: bool = False  # the peer said that messages are, in a way unknown here
    content_left: int | None = None  # bytes that its content-length announced
    # sent
    queue: deque[Buffer] = field(default_factory=deque)
    queued: int = 0  # bytes in it
    turn: bool = False  # it waits for its turn to send
    ending: bool = False  # END_STREAM follows the queue
    trailers: bytes | None = None  # this header block and END_STREAM follow the queue

    def has_headers(self, wanted: Wanted) -> None:
        """Note the headers of the request, or of its answer."""
        self.content_left = wanted.content_length
        self.compressed = wanted.compressed
        self.reading = CUT_MESSAGES if wanted.content_length is None else COUNT_LENGTH

    def remote_end(self) -> None:
        """The peer sends no more."""
        self.state = NEXT[self.state, REMOTE_END]
        self.reading = DROP
