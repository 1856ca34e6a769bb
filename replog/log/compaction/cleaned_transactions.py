"""Transactions in a cleaning: void data (CL-5), and markers that have nothing left to mark (CL-6)."""

from collections.abc import Callable

from replog.log.formats.batch import CONTROL, TRANSACTIONAL, BatchHeader
from replog.log.formats.control_batch import end_transaction_marker
from replog.log.indexes.transaction_index import AbortedTxn
from replog.log.offsets import Buffer


class CleanedTransactions:
    """Sees every batch of the log in order, as far as the cleaning goes."""

    def __init__(self, retain: Callable[[AbortedTxn], None]) -> None:
        """`retain` gets each aborted transaction that had data, at its marker: its index entry must stay."""
        self._retain = retain
        self._known: list[AbortedTxn] = []  # later ones, by descending first offset
        self._aborted: dict[int, AbortedTxn] = {}  # producer id → the transaction at hand
        self._with_data: set[int] = set()  # producers whose transaction at hand had a data batch

    def add_aborted(self, transactions: list[AbortedTxn]) -> None:
        """Add aborted transactions that overlap the next batches; one may be given again."""
        self._known = sorted({*self._known, *transactions}, key=lambda txn: txn.first_offset, reverse=True)

    def observe(self, header: BatchHeader, data: Buffer) -> bool:
        """Return True if the batch may go: void data, or a marker without data before it."""
        while self._known and self._known[-1].first_offset <= header.last_offset:
            transaction = self._known.pop()
            if transaction.last_offset < header.base_offset:
                continue  # it ended before the cleaning begins
            known = self._aborted.get(transaction.producer_id)
            if known is None or known.last_offset < transaction.first_offset:
                self._aborted[transaction.producer_id] = transaction
        if header.attributes & CONTROL:
            return self._at_marker(header, data)
        if not header.attributes & TRANSACTIONAL:
            return False
        self._with_data.add(header.producer_id)
        return header.producer_id in self._aborted

    def _at_marker(self, header: BatchHeader, data: Buffer) -> bool:
        if not header.records_count:
            return True  # an earlier cleaning has removed its record
        marker = end_transaction_marker(data, header)
        if marker is None:
            return False  # only the coordinator's markers end transactions
        had_data = header.producer_id in self._with_data
        self._with_data.discard(header.producer_id)
        aborted = None if marker.committed else self._aborted.pop(header.producer_id, None)
        if aborted is not None and had_data:
            self._retain(aborted)
        return not had_data
