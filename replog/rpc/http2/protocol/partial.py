"""A message that arrives in pieces, and their place until it is whole.

Once an eighth of a large message has arrived, there is memory for all of it (with less, a peer could take memory for
messages of which it sends hardly anything). From then on a shell reads from the socket straight into `place`:

```
the message    |#########################|                               |    # has arrived
a read                                |hhhhhhhhh|------------------->|      a frame's header, and its data
after landed() |#########################+++++++++++++++++++|            |
```

The header of a frame comes first. It lands on the nine bytes before, which are kept meanwhile (`_lent`) and put back.
If it is not the expected frame, everything behind it is cut as usual. Without this a message of 1 MiB costs its
receiver a third more CPU, 6 to 8 % of all that a produce of it costs the cluster."""

from replog.common.buffers import unwritten
from replog.log.offsets import Buffer
from replog.rpc.http2.protocol.bounds import RESERVED_TIMES
from replog.rpc.http2.protocol.frames import HEADER_BYTES

_LARGE = 128 << 10  # bytes of a message for which that pays
LITTLE = 64 << 10  # so few bytes are read together with what is behind them
_PIECE = 64 << 10  # a shorter piece grows; a larger one is not copied until all are joined


class Partial:
    __slots__ = ("_lent", "_pieces", "missing", "reserved", "size", "whole")

    def __init__(self, size: int) -> None:
        self.size = size
        self.missing = size  # bytes that are still to be added
        self.reserved = 0  # bytes of memory that nothing has arrived for
        self._pieces: list[bytearray] = []
        self.whole: memoryview | None = None  # the memory of all
        self._lent = b""  # bytes of it that are replaced for the moment

    def should_reserve(self, more: int) -> bool:
        """Return True if memory should be reserved when `more` bytes arrive."""
        return (
            self.whole is None
            and self.size >= _LARGE
            and (self.size - self.missing + more) * RESERVED_TIMES >= self.size
        )

    def reserve(self) -> None:
        pieces, self._pieces = self._pieces, []
        self.whole, self.missing = memoryview(unwritten(self.size)), self.size
        for piece in pieces:
            self.add(piece)

    def add(self, piece: Buffer) -> None:
        begin, size = self.size - self.missing, len(piece)
        if self.whole is not None:
            self.whole[begin : begin + size] = piece
        elif self._pieces and len(self._pieces[-1]) < _PIECE:
            self._pieces[-1] += piece
        else:
            self._pieces.append(bytearray(piece))
        self.missing -= size

    def place(self, size: int, *, begins: bool) -> memoryview | None:
        """Return the place of its next `size` bytes. With `begins`, the header of their frame comes first, and has room
        before them until `give_back`. None: they are better read together with others."""
        if self.whole is None or self.missing < LITTLE:
            return None
        begin = self.size - self.missing
        if not begins:
            return self.whole[begin : begin + size]
        place = self.whole[begin - HEADER_BYTES : begin + size]
        self._lent = bytes(place[:HEADER_BYTES])
        return place

    def give_back(self, size: int) -> bytes:
        """Return the header's bytes of a frame that begins, of which `size` bytes were read."""
        assert self.whole is not None
        begin = self.size - self.missing
        lent = self.whole[begin - HEADER_BYTES : begin]
        header = bytes(lent[:size])
        lent[:] = self._lent
        return header

    def landed(self, size: int, behind: int) -> bytes:
        """`size` bytes are in their place. Return those behind them, which are not part of it."""
        assert self.whole is not None
        end = self.size - self.missing + size
        self.missing -= size
        return bytes(self.whole[end : end + behind])

    def payload(self) -> bytearray:
        """Return the bytes of a message that lacks nothing."""
        return bytearray().join(self._pieces) if self.whole is None else self.whole.obj  # type: ignore[return-value]
