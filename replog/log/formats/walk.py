"""Walks over the batches of an unchecked `.log`, one behind the other, through one window of bounded size.

If no batch can be read, the walk says so and continues at the next batch that the offset index leads to."""

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from operator import itemgetter
from typing import NamedTuple

from crc32c import crc32c

from replog.config.properties import MAX_LONG
from replog.log.errors import CorruptRecord
from replog.log.formats.batch import CRC_START, HEADER_SIZE, LOG_OVERHEAD, BatchHeader, parse_header
from replog.log.formats.segment_file import MAX_HEADERS, SegmentFile, Vanished

WINDOW = 1 << 20
MAX_BATCH_IN_MEMORY = 64 << 20  # only the CRC of a larger batch is checked
FIRST_HEADERS = 16  # a walk reads so many at once, then twice as many, and so on


class CutShort(CorruptRecord):
    """The file ends before the batch does."""


class Break(NamedTuple):
    """A position where no batch could be read; the next one begins at `resume`, or None if none was found."""

    position: int
    resume: int | None
    reason: str
    cut_short: bool  # a batch may begin here, but the file ends before it does


Landmarks = Sequence[tuple[int, int, int]]  # slot, offset and position of entries of an offset index
Step = tuple[int, BatchHeader] | Break
_position = itemgetter(2)


class LogFile:
    """Reads a `.log` file in bounded pieces, below the size that it had when it was opened.

    With a window of `HEADER_SIZE` nothing but headers is read. Raises Vanished if the file has become shorter."""

    def __init__(self, file: SegmentFile, window: int = WINDOW) -> None:
        self._file = file
        self.size = file.size
        self._window_size = window
        self._buffer = memoryview(bytearray(min(window, self.size)))
        self._window = self._buffer[:0]
        self._start = self._held = 0  # the window has the bytes from the one to the other
        self._headers: dict[int, BatchHeader] = {}  # headers read in advance

    def header(self, position: int) -> BatchHeader:
        """Return the header at `position`. Raises CorruptRecord if it cannot be right, or the batch is not whole."""
        header = self._headers.get(position) if self._headers else None
        if header is None:
            behind = position + HEADER_SIZE
            if behind > self.size:
                raise CutShort(f"{max(0, self.size - position)} bytes are too few for a batch header")
            if behind > self._held or position < self._start:
                self._fill(position)
            header = parse_header(self._window, position - self._start)
        if (beyond := position + header.length + LOG_OVERHEAD - self.size) > 0:
            raise CutShort(f"a batch of {header.size} bytes ends {beyond} past the file")
        return header

    def crc(self, position: int, header: BatchHeader) -> int:
        """Compute the CRC-32C of the stored bytes, however large the header says the batch is."""
        size = header.length + LOG_OVERHEAD
        if size <= self._window_size:
            if position < self._start or position + size > self._held:
                self._fill(position)
            start = position - self._start
            return int(crc32c(self._window[start + CRC_START : start + size]))
        crc = 0
        for piece in self._pieces(position + CRC_START, position + size):
            crc = crc32c(piece, crc)
        return int(crc)

    def read(self, position: int, size: int) -> memoryview:
        """Return all of a batch, which `crc` has found sound, so that its size is right; valid until the next step."""
        if size > self._window_size:
            return memoryview(self._file.read(position, size))
        if position < self._start or position + size > self._held:
            self._fill(position)
        start = position - self._start
        return self._window[start : start + size]

    def walk(self, position: int = 0, landmarks: Landmarks = (), end: int | None = None) -> Iterator[Step]:
        """Yield position and header of each whole batch from `position` on, up to the one that begins at `end`.

        `landmarks` are entries of the offset index. If no batch can be read, yield a `Break`, and continue at the next
        landmark at which a batch begins that may have its offset. A batch that would cover such a landmark is not
        believed, so that a walk meets every one of them, wherever it began and whatever it met before."""
        end = self.size if end is None else end
        slot, coming = bisect_left(landmarks, position, key=_position), -1  # the next landmark, and its position
        in_advance, count = self._window_size == HEADER_SIZE, FIRST_HEADERS
        while position < end:
            if in_advance and position not in self._headers:
                self._headers = dict(self._file.headers(position, count))
                count = min(2 * count, MAX_HEADERS)
            while coming <= position:
                coming = landmarks[slot][2] if slot < len(landmarks) else MAX_LONG
                slot += coming <= position
            try:
                header = self.header(position)
                following = position + header.length + LOG_OVERHEAD
                if coming < following:
                    self._covers_none(header.size, following, landmarks, slot)
            except CorruptRecord as error:
                later = range(slot, len(landmarks))
                resume = next((landmarks[at][2] for at in later if self.is_landmark(landmarks[at])), None)
                yield Break(position, resume, error.message, isinstance(error, CutShort))
                if resume is None:
                    return
                position = resume
                continue
            yield position, header
            position = following

    def _covers_none(self, size: int, end: int, landmarks: Landmarks, slot: int) -> None:
        while slot < len(landmarks) and landmarks[slot][2] < end:
            if self.is_landmark(landmarks[slot]):
                raise CorruptRecord(f"batch of {size} bytes runs into the one at {landmarks[slot][2]}")
            slot += 1

    def is_landmark(self, entry: tuple[int, int, int]) -> bool:
        """Return True if a batch begins where the entry of the offset index says, with offsets that fit."""
        try:
            return self.header(entry[2]).base_offset <= entry[1]
        except CorruptRecord:
            return False

    def only_zeros(self, position: int) -> bool:
        """Return True if there are only zeros up to the end of the file."""
        return not any(piece.strip(b"\0") for piece in self._pieces(position, self.size))

    def _pieces(self, position: int, end: int) -> Iterator[bytes]:
        while position < end:
            piece = self._file.read(position, min(WINDOW, end - position))
            if not piece:
                raise Vanished(f"{end - position} bytes at {position} are gone: the log was cut")
            yield piece
            position += len(piece)

    def _fill(self, position: int) -> None:
        wanted = min(self._window_size, self.size - position)
        buffer = self._buffer[:wanted]
        self._held = 0
        if (got := self._file.read_into(position, buffer)) < wanted:
            raise Vanished(f"{wanted} bytes at {position} became {got}: the log was cut")
        self._window, self._start, self._held = buffer, position, position + wanted
