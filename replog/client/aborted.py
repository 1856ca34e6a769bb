"""Batches of aborted transactions, which READ_COMMITTED skips (LG-9). Pure."""

from collections import deque
from collections.abc import Iterable

from replog.log.formats.batch import CONTROL, TRANSACTIONAL, BatchHeader
from replog.log.formats.control_batch import marker_or_none
from replog.log.offsets import AbortedTransaction, Buffer


class AbortedBatches:
    """The aborted transactions of a fetch answer. Call `hides` for each of its batches in order."""

    def __init__(self, aborted: Iterable[AbortedTransaction]) -> None:
        self._to_begin = deque(sorted(aborted, key=lambda transaction: transaction.first_offset))
        self._producers: set[int] = set()  # their open transaction will be aborted

    def hides(self, buffer: Buffer, position: int, header: BatchHeader) -> bool:
        """Return True if the batch at `position` is data of an aborted transaction."""
        while self._to_begin and self._to_begin[0].first_offset <= header.last_offset:
            self._producers.add(self._to_begin.popleft().producer_id)
        if header.producer_id not in self._producers:
            return False
        if header.attributes & CONTROL:
            marker = marker_or_none(buffer, header, position)
            if marker is not None and not marker.committed:
                self._producers.remove(header.producer_id)
            return False
        return bool(header.attributes & TRANSACTIONAL)
