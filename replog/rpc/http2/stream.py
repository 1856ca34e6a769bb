"""The state of one stream, shared by the parts of a connection."""

from collections import deque

from replog.log.offsets import Buffer
from replog.rpc.http2.fields import Wanted
from replog.rpc.http2.partial import Partial


class Stream:
    """One stream. It counts bytes on the wire: messages with their prefixes, padding."""

    __slots__ = (
        *("admitted", "answered", "compressed", "content_left", "deaf", "ending", "held", "local_done"),
        *("number", "partial", "prefix", "queue", "queued", "remote_done", "room", "send_window", "since_ms"),
        *("special", "trailers", "turn", "untaken", "untaken_bytes"),
    )

    def __init__(self, number: int, send_window: int, room: int) -> None:
        self.number = number
        # received
        self.room = room  # the peer may still send so much
        self.held = 0  # received bytes for which no credit was given
        self.since_ms = 0  # the oldest of them arrived then, or the last message was taken, if that is later
        self.untaken = 0  # whole messages that wait for their reader
        self.untaken_bytes = 0  # their bytes; all other held bytes are of a message that is not whole
        self.prefix = b""  # a message's, not whole
        self.partial: Partial | None = None  # the message that arrives
        self.admitted = False  # a message larger than the window has its place in memory, and may be sent
        self.answered = False  # the headers of a request, or of its answer, have arrived
        self.compressed = False  # the peer said that messages are, in a way unknown here
        self.content_left: int | None = None  # bytes that its content-length announced
        self.deaf = False  # more data is dropped
        self.remote_done = False  # the peer sends no more
        self.special = True  # DATA needs a closer look, for one of the reasons above
        # sent
        self.send_window = send_window
        self.queue: deque[Buffer] = deque()
        self.queued = 0  # bytes in it
        self.turn = False  # it waits for its turn to send
        self.ending = False  # END_STREAM follows the queue
        self.trailers: bytes | None = None  # this header block and END_STREAM follow the queue
        self.local_done = False  # END_STREAM has gone out

    def hears(self, wanted: Wanted) -> None:
        """The headers have arrived."""
        self.answered = True
        self.content_left = wanted.content_length
        self.compressed = wanted.compressed
        self.special = wanted.content_length is not None
