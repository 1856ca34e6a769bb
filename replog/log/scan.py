"""Walks over the batches of a `.log` file by reads of bounded size."""

from collections.abc import Iterator

from replog.log import cold
from replog.log.batch import HEADER_SIZE, BatchHeader, parse_header
from replog.log.errors import CorruptRecord
from replog.log.files import read_into
from replog.log.offsets import Buffer

HEADER_WINDOW = 4096
DATA_WINDOW = 1 << 20


class BatchReader:
    """Reads batches below `end` through a window, so that small batches share a system call."""

    def __init__(self, fd: int, end: int) -> None:
        self._fd = fd
        self._end = end

    def headers(self, position: int) -> Iterator[tuple[int, BatchHeader]]:
        """Position and header of each whole batch; ends at a partial one. Raises CorruptRecord at no batch."""
        fd, end = self._fd, self._end
        window: Buffer = b""
        start = held = size = 0
        while (following := position + HEADER_SIZE) <= end:
            if following > held:
                window_size = HEADER_SIZE if size > HEADER_WINDOW else min(HEADER_WINDOW, end - position)
                window, start, held = cold.read(fd, position, window_size), position, position + window_size
            header = parse_header(window, position - start)
            size = header.size
            following = position + size
            if following > end:
                return
            yield position, header
            position = following

    def batches(self, position: int, max_bytes: int | None = None) -> Iterator[tuple[int, BatchHeader, memoryview]]:
        """As `headers`, each with all its bytes, valid until the next step. CorruptRecord beyond `max_bytes` of one.

        The bytes are fewer than the header says only if the file was cut meanwhile.
        """
        end = self._end
        buffer = memoryview(bytearray(min(DATA_WINDOW, max(end - position, 0))))
        window, start, held = buffer, 0, 0  # the bytes from `start` to `held`
        while (following := position + HEADER_SIZE) <= end:
            if following > held:
                window, start, held = self._read(buffer, position), position, position + len(buffer)
            header = parse_header(window, position - start)
            size = header.size
            following = position + size
            if following > end:
                return
            if max_bytes is not None and size > max_bytes:
                raise CorruptRecord(f"batch {header.base_offset} has {size} bytes, more than {max_bytes}")
            if following > held:
                if size > len(buffer):
                    buffer = memoryview(bytearray(size))
                window, start, held = self._read(buffer, position), position, position + len(buffer)
            yield position, header, window[position - start : following - start]
            position = following

    def _read(self, buffer: memoryview, position: int) -> memoryview:
        """What the file has at `position`, in `buffer`."""
        return buffer[: read_into(self._fd, position, buffer)]
