"""The state of one stream, shared by the parts of a connection."""

from collections import deque

from replog.log.offsets import Buffer
from replog.rpc.http2.fields import Wanted
from replog.rpc.http2.partial import Partial


class Stream:
    """Bytes on the wire count: messages with their prefixes, padding."""

    __slots__ = (
        *("admitted", "answered", "compressed", "content_left", "deaf", "ending", "held", "local_done"),
        *("number", "partial", "prefix", "queue", "queued", "remote_done", "room", "send_window", "since_ms"),
        *("special", "trailers", "turn", "untaken", "untaken_bytes"),
    )

    def __init__(self, number: int, send_window: int, room: int) -> None:
        self.number = number
        # what comes
        self.room = room  # that the peer may still send
        self.held = 0  # bytes that came, and have no credit again
        self.since_ms = 0  # when the oldest of them came, or the last message was taken, if that is later
        self.untaken = 0  # whole messages that wait for their reader
        self.untaken_bytes = 0  # of them; all else that is held is of a message that is not whole
        self.prefix = b""  # of a message, not whole
        self.partial: Partial | None = None  # the message that is coming
        self.admitted = False  # a message larger than the window has its place in memory, and may come
        self.answered = False  # headers of a request, or of its answer, have come
        self.compressed = False  # the peer said that messages are, in a way unknown here
        self.content_left: int | None = None  # bytes that its content-length announced
        self.deaf = False  # what comes is dropped
        self.remote_done = False  # the peer sends no more
        self.special = True  # DATA cannot be taken just so: for one of the reasons above
        # what goes
        self.send_window = send_window
        self.queue: deque[Buffer] = deque()
        self.queued = 0  # bytes in it
        self.turn = False  # it waits for its turn to send
        self.ending = False  # after the queue: END_STREAM
        self.trailers: bytes | None = None  # after the queue: this header block, and END_STREAM
        self.local_done = False  # END_STREAM has gone out

    def hears(self, wanted: Wanted) -> None:
        """The headers have come."""
        self.answered = True
        self.content_left = wanted.content_length
        self.compressed = wanted.compressed
        self.special = wanted.content_length is not None
