"""Control batches, transactions and producers: the transaction indexes and the snapshots against the batches.

The batches are replayed as a follower would (PS-2: the state follows the data).
"""

from collections.abc import Iterator
from pathlib import Path

from replog.log.errors import CorruptSnapshot, InvalidRecord
from replog.log.files.names import TRANSACTION_INDEX_SUFFIX
from replog.log.formats.batch import BatchHeader
from replog.log.formats.control_batch import EndTransactionMarker, end_transaction_marker
from replog.log.formats.segment_file import SegmentFile
from replog.log.indexes.transaction_index import VERSION, AbortedTxn
from replog.log.producers.snapshot import ProducerSnapshotEntry, read_snapshot
from replog.log.producers.state import ProducerStateManager
from replog.log.tools.verify.batches import Continuity
from replog.log.tools.verify.findings import Finding, Kind
from replog.log.tools.verify.index_check import Fields, IndexCheck, IndexEntry


class Producers:
    """What the batches so far say of producers; kept over all segments of a partition."""

    def __init__(self, continuity: Continuity, log_start: int) -> None:
        self.known_from = log_start  # a broker that rebuilds the state begins at the log start
        self._continuity = continuity
        self._state = ProducerStateManager()

    @property
    def complete(self) -> bool:
        """Whether nothing was lost on the way since the first batch."""
        return self._continuity.complete

    def see(self, header: BatchHeader, marker: EndTransactionMarker | None) -> AbortedTxn | None:
        """A sound batch; returns what the transaction index must remember of it."""
        if header.producer_id < 0:
            return None
        aborted = self._state.update(header, marker)
        if marker is not None:
            self._state.replicated_to(header.next_offset)  # so that decided transactions cost no memory
        return aborted

    def check_snapshot(self, path: Path, offset: int) -> Iterator[Finding]:
        """A snapshot of the state at `offset`, which is now: what it says must follow from the batches.

        It may say less, producers expire (PS-11), and only its own batch is known of each (PS-7).
        """
        try:
            entries = read_snapshot(path)
        except CorruptSnapshot as damage:
            yield Kind.SNAPSHOT.at(path, damage.message)
            return
        except FileNotFoundError:
            return  # by a running broker, which keeps few
        if not self.complete:
            return
        known = {entry.producer_id: entry for entry in self._state.snapshot_entries()}
        for entry in entries:
            if entry.last_offset >= self.known_from and (
                wrong := self._contradiction(entry, known.get(entry.producer_id))
            ):
                message = f"producer {entry.producer_id}: {wrong}"
                yield Kind.SNAPSHOT_STATE.at(path, message, offset=entry.last_offset)
            if entry.last_offset >= offset:
                message = f"producer {entry.producer_id} has a batch up to offset {entry.last_offset}"
                yield Kind.SNAPSHOT_STATE.at(path, message, offset=entry.last_offset)

    def _contradiction(self, entry: ProducerSnapshotEntry, batches: ProducerSnapshotEntry | None) -> str | None:
        if self._continuity.compacted:
            # Only a producer's very last batch stays (CL-7), which may have come later than the snapshot.
            if batches is None or batches.last_offset != entry.last_offset:
                return None
            compared = ["last_sequence"]
        elif batches is None:
            return f"has a batch up to offset {entry.last_offset}, which is not in the log"
        else:
            compared = ["epoch", "last_sequence", "last_offset"]
            first_offsets = entry.current_txn_first_offset, batches.current_txn_first_offset
            if min(offset for offset in (*first_offsets, self.known_from) if offset >= 0) >= self.known_from:
                compared.append("current_txn_first_offset")  # no transaction is open, or all of it is known
        for name in compared:
            here, there = getattr(entry, name), getattr(batches, name)
            if here != there:
                return f"{name} is {here}, the batches make it {there}"
        return None


def check_control(
    path: Path, position: int, header: BatchHeader, data: memoryview
) -> tuple[EndTransactionMarker | None, list[Finding]]:
    """What a sound control batch says of a transaction, and what is wrong with it (2.3)."""
    wrong, marker = None, None
    try:
        marker = end_transaction_marker(data, header)
    except InvalidRecord as damage:
        wrong = damage.message
    if header.records_count > 1:
        wrong = f"a control batch of {header.records_count} records"
    elif marker is not None and header.producer_id < 0:
        wrong = "a marker of no producer"
    if wrong is None:
        return marker, []
    return None, [Kind.CONTROL.at(path, wrong, position=position, offset=header.base_offset)]


class TransactionIndexCheck(IndexCheck):
    """One segment's entries against its abort markers (IX-19)."""

    def __init__(self, path: Path, file: SegmentFile | None, base: int, producers: Producers, *, exact: bool) -> None:
        """`file` is None if there is no file; `exact` if the cleaner was not here."""
        self._base = base
        self._producers = producers
        self._exact = exact
        super().__init__(path, file, TRANSACTION_INDEX_SUFFIX)

    def _follows(self, before: Fields | None, fields: Fields) -> bool:
        version, producer_id, first, last, stable = fields
        after = self._base - 1 if before is None else before[3]
        return version == VERSION and producer_id >= 0 and 0 <= first <= last and stable >= 0 and last > after

    def see(
        self, header: BatchHeader, marker: EndTransactionMarker | None, due: AbortedTxn | None
    ) -> Iterator[Finding]:
        """A sound batch, what it says of a transaction, and the entry that follows from it."""
        yield from self._drained()
        while self._next is not None and self._next.fields[3] <= header.last_offset:
            entry = self._next
            aborts = marker is not None and not marker.committed and entry.fields[3] == header.last_offset
            if aborts and entry.fields[1] == header.producer_id:
                if wrong := self._contradiction(AbortedTxn._make(entry.fields[1:]), due):
                    yield self._wrong(entry, wrong)
                due = None
            elif self._exact:
                yield self._wrong(entry, f"no abort marker of that producer is at offset {entry.fields[3]}")
            self._advance()
        if due is not None and self._exact and due.first_offset >= self._producers.known_from:
            message = f"no entry for the transaction that {due} was"
            yield Kind.TRANSACTION_INDEX.at(self.path, message, offset=due.last_offset)

    def _contradiction(self, entry: AbortedTxn, due: AbortedTxn | None) -> str | None:
        known_from = self._producers.known_from
        if not self._exact or not self._producers.complete:
            return None
        if due is None:
            return None if entry.first_offset < known_from else "the producer had no open transaction"
        if min(entry.first_offset, due.first_offset) < known_from:
            return None
        if entry.first_offset != due.first_offset:
            return f"the transaction begins at offset {due.first_offset}"
        bounded = known_from <= due.last_stable_offset <= due.last_offset  # by a transaction whose begin can be read
        later = entry.last_stable_offset > due.last_stable_offset and not bounded
        earlier = entry.last_stable_offset < known_from  # by a transaction that began before the log does
        if entry.last_stable_offset != due.last_stable_offset and not later and not earlier:
            return f"transactions were decided up to offset {due.last_stable_offset} then"
        return None

    def _wrong(self, entry: IndexEntry, wrong: str) -> Finding:
        message = f"entry {entry.slot} {tuple(AbortedTxn._make(entry.fields[1:]))}: {wrong}"
        return Kind.TRANSACTION_INDEX.at(self.path, message, position=entry.position, offset=entry.fields[3])

    def skip_to(self, header: BatchHeader) -> None:
        """Nothing is known of what lies before this batch."""
        while self._next is not None and self._next.fields[3] < header.base_offset:
            self._advance()
