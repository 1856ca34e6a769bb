"""The newest bytes of some files: readers at the end of a log then need not ask the disk's cache for them.

They are the buffers that were written, so a read of one of them copies nothing. For any thread, under the lock of the
files that they belong to (`open_files`)."""

from collections import OrderedDict

from replog.log.offsets import Buffer

FILE_BYTES = 4 << 20  # one file's: followers of a busy leader are so far behind
FILE_BUFFERS = 64  # one file's: each takes some 100 bytes more
ALL_BYTES = 32 << 20  # all files' of a process


class Tails:
    """The tails of all files, at most `limit` bytes. Beyond them, the tail without writes for longest is dropped."""

    def __init__(self, limit: int = ALL_BYTES) -> None:
        self.limit = limit
        self.size = 0
        self.kept: OrderedDict[Tail, None] = OrderedDict()

    def changed(self, tail: "Tail", size: int) -> None:
        """Count `size` more bytes of a tail."""
        self.size += size
        if not tail.size:
            self.kept.pop(tail, None)
            return
        self.kept[tail] = None
        self.kept.move_to_end(tail)
        while self.size > self.limit:
            next(iter(self.kept)).clear()


class Tail:
    __slots__ = ("_buffers", "_end", "_tails", "size")

    def __init__(self, tails: Tails) -> None:
        self.size = 0
        self._tails = tails
        self._buffers: list[Buffer] = []  # few: a deque takes more memory, and many logs have a tail
        self._end = 0  # position in the file

    def add(self, buffer: Buffer, position: int) -> None:
        """Add what was written at `position`. Nobody changes the buffer from now on."""
        before = self.size
        if position != self._end:
            self._buffers.clear()
            self.size = 0
        self._buffers.append(buffer)
        self.size += len(buffer)
        self._end = position + len(buffer)
        while self.size > FILE_BYTES or len(self._buffers) > FILE_BUFFERS:
            self.size -= len(self._buffers.pop(0))
        self._tails.changed(self, self.size - before)

    def read(self, position: int, size: int) -> Buffer | None:
        """Return these bytes, if all of them are here."""
        end = position + size
        if not self._end - self.size <= position < end <= self._end:
            return None
        pieces: list[Buffer] = []
        begin = self._end
        for buffer in reversed(self._buffers):
            after, begin = begin, begin - len(buffer)
            if begin < end:
                whole = position <= begin and after <= end
                pieces.append(buffer if whole else memoryview(buffer)[max(0, position - begin) : end - begin])
            if begin <= position:
                break
        return pieces[0] if len(pieces) == 1 else b"".join(reversed(pieces))

    def clear(self) -> None:
        if self.size:
            before, self.size = self.size, 0
            self._buffers.clear()
            self._tails.changed(self, -before)
