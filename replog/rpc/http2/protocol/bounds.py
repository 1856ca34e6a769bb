"""The memory of one HTTP/2 connection, and the rates of frames that cost its peer little."""

from dataclasses import dataclass

from replog.rpc.http2.protocol.frames import ENHANCE_YOUR_CALM, ConnectionFailure

KIB, MIB = 1 << 10, 1 << 20
RESERVED_TIMES = 8  # the memory of a message that arrives is at most so many times what has arrived


@dataclass(frozen=True, slots=True)
class Rate:
    """At most `burst` at once; `per_second` of them are forgotten each second."""

    burst: int
    per_second: int


class Meter:
    """Counts one kind of event; what it forgives is worked out only when there seem to be too many."""

    def __init__(self, what: str, rate: Rate) -> None:
        self._what = what
        self._rate = rate
        self._count = 0
        self._since_ms: int | None = None

    def count(self, now_ms: int) -> None:
        """Count one event. Raises ConnectionFailure(ENHANCE_YOUR_CALM) when there are too many."""
        self._count += 1
        if self._since_ms is None:
            self._since_ms = now_ms
        if self._count > self._rate.burst:
            forgiven = (now_ms - self._since_ms) * self._rate.per_second // 1000
            if forgiven:
                self._count = max(1, self._count - forgiven)
                self._since_ms = now_ms
            if self._count > self._rate.burst:
                raise ConnectionFailure(
                    ENHANCE_YOUR_CALM,
                    f"too many {self._what}: {self._rate.burst} at once and {self._rate.per_second} a second are taken",
                )


@dataclass(frozen=True, slots=True)
class Bounds:
    """The bounds of one side of a connection, in bytes except where said.

    The peer may have sent `memory` bytes in messages that are incomplete or untaken: that is the window of the
    connection, and credit goes back as messages are taken. It holds the largest message and a stream's window."""

    max_message: int  # one gRPC message, without its prefix
    memory: int = 0  # 0: twice the largest message, at least 64 MiB
    window: int = 256 * KIB  # a stream's, before anybody reads; at least 65,535
    max_frame: int = 256 * KIB  # a frame of the peer; at least 16,384
    max_streams: int = 1000  # the peer may have so many open
    untaken: int = 100_000  # messages that wait for their readers
    header_list: int = 16 * KIB  # one header list, as RFC 9113 6.5.2 counts; more costs the stream
    header_block: int = 64 * KIB  # one header list, compressed or not; more costs the connection
    continuations: int = 32  # frames of one header block
    # the rates
    resets: Rate = Rate(2000, 500)  # streams that the peer opened and reset, or made us reset
    refusals: Rate = Rate(10_000, 1000)  # streams over max_streams
    pings: Rate = Rate(2000, 1000)
    settings: Rate = Rate(100, 10)
    empty_data: Rate = Rate(1000, 100)  # DATA frames without data that end nothing
    window_updates: Rate = Rate(100_000, 50_000)  # some peers send two for each message
    ignored: Rate = Rate(10_000, 1000)  # PRIORITY, unknown frames, frames of closed streams

    def __post_init__(self) -> None:
        """Raise ValueError for bounds that contradict each other."""
        assert self.max_message + self.window + 5 <= self.connection_memory < 1 << 31
        assert self.window >= 65_535
        assert 1 << 14 <= self.max_frame < 1 << 24

    @property
    def connection_memory(self) -> int:
        return self.memory or max(64 * MIB, 2 * self.max_message + self.window)
