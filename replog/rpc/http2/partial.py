"""A message that arrives in pieces, and their place until it is whole.

Once an eighth of a large message has arrived, there is memory for all of it. The rest is read from the socket into its
place, and copied nowhere. With less, a peer could take memory for messages of which it sends hardly anything."""

from replog.common.buffers import unwritten
from replog.log.offsets import Buffer
from replog.rpc.http2.frames import HEADER_BYTES

SHARE = 8  # a message's memory is at most so many times what has arrived
_LARGE = 128 << 10  # bytes of a message for which that pays
LITTLE = 64 << 10  # so few bytes are read together with what is behind them
_PIECE = 64 << 10  # a shorter piece grows; a larger one is not copied until all are joined


class Partial:
    __slots__ = ("_lent", "_pieces", "_whole", "lacks", "reserved", "size")

    def __init__(self, size: int) -> None:
        self.size = size
        self.lacks = size  # bytes that are still to be added
        self.reserved = 0  # bytes of memory that nothing has arrived for
        self._pieces: list[bytearray] = []
        self._whole: memoryview | None = None  # the memory of all
        self._lent = b""  # bytes of it that are replaced for the moment

    @property
    def has_memory(self) -> bool:
        """True if there is memory for all of it."""
        return self._whole is not None

    def should_reserve(self, more: int) -> bool:
        """Return True if memory should be reserved when `more` bytes arrive."""
        return self._whole is None and self.size >= _LARGE and (self.size - self.lacks + more) * SHARE >= self.size

    def reserve(self) -> None:
        pieces, self._pieces = self._pieces, []
        self._whole, self.lacks = memoryview(unwritten(self.size)), self.size
        for piece in pieces:
            self.add(piece)

    def add(self, piece: Buffer) -> None:
        begin, size = self.size - self.lacks, len(piece)
        if self._whole is not None:
            self._whole[begin : begin + size] = piece
        elif self._pieces and len(self._pieces[-1]) < _PIECE:
            self._pieces[-1] += piece
        else:
            self._pieces.append(bytearray(piece))
        self.lacks -= size

    def place(self, size: int, *, begins: bool) -> memoryview | None:
        """Return the place of its next `size` bytes. With `begins`, the header of their frame comes first, and has room
        before them until `give_back`. None: they are better read together with others."""
        if self._whole is None or self.lacks < LITTLE:
            return None
        begin = self.size - self.lacks
        if not begins:
            return self._whole[begin : begin + size]
        place = self._whole[begin - HEADER_BYTES : begin + size]
        self._lent = bytes(place[:HEADER_BYTES])
        return place

    def give_back(self, size: int) -> bytes:
        """Return the header's bytes of a frame that begins, of which `size` bytes were read."""
        assert self._whole is not None
        begin = self.size - self.lacks
        lent = self._whole[begin - HEADER_BYTES : begin]
        header = bytes(lent[:size])
        lent[:] = self._lent
        return header

    def landed(self, size: int, behind: int) -> bytes:
        """`size` bytes are in their place. Return those behind them, which are not part of it."""
        assert self._whole is not None
        end = self.size - self.lacks + size
        self.lacks -= size
        return bytes(self._whole[end : end + behind])

    def payload(self) -> bytearray:
        """Return the bytes of a message that lacks nothing."""
        return bytearray().join(self._pieces) if self._whole is None else self._whole.obj  # type: ignore[return-value]
