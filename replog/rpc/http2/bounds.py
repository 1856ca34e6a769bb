"""The memory of one HTTP/2 connection, and the rates of frames that cost its peer little."""

from dataclasses import dataclass

KIB, MIB = 1 << 10, 1 << 20


@dataclass(frozen=True, slots=True)
class Rate:
    """At most `burst` at once; `per_second` of them are forgotten each second."""

    burst: int
    per_second: int


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
        least = self.max_message + self.window + 5
        if not least <= self.connection_memory < 1 << 31:
            raise ValueError(f"memory is {self.memory}; it has to be from {least} to {(1 << 31) - 1}")
        if self.window < 65_535 or not 1 << 14 <= self.max_frame < 1 << 24:
            raise ValueError(
                f"window {self.window} is below 65535, or max_frame {self.max_frame} not 16384 to 16777215"
            )

    @property
    def connection_memory(self) -> int:
        return self.memory or max(64 * MIB, 2 * self.max_message + self.window)
