"""Control batches, transactions and producers: the transaction indexes and the snapshots against the batches.

The batches are replayed as a follower would (PS-2: the state follows the data).
"""

from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from replog.log.errors import CorruptSnapshot, InvalidRecord
from replog.log.files.names import TRANSACTION_INDEX_SUFFIX
from replog.log.formats.batch import BatchHeader
from replog.log.formats.control_batch import EndTransactionMarker, end_transaction_marker
from replog.log.indexes.entries import IndexFile
from replog.log.indexes.transaction_index import VERSION, AbortedTxn, TransactionIndex
from replog.log.producers.snapshot import ProducerSnapshotEntry, read_snapshot
from replog.log.producers.state import ProducerStateManager
from replog.log.tools.judge.findings import Fault, Finding, Kind
from replog.log.tools.judge.indexes import Segment, lie, open_index, shape_faults


class Producers:
    """What the batches so far say of producers; kept over all segments of a partition."""

    def __init__(self, log_start: int, *, compacted: bool) -> None:
        self.known_from = log_start  # a broker that rebuilds the state begins at the log start
        self.complete = True  # nothing was lost on the way since the first batch
        self._compacted = compacted
        self._state = ProducerStateManager()

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
        if self._compacted:
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


class TransactionIndexCheck:
    """One segment's entries against its abort markers (IX-19)."""

    def __init__(self, segment: Segment, path: Path, producers: Producers, *, exact: bool) -> None:
        """Reads the file at `path`, if there is one; `exact` if the cleaner was not here."""
        self._path = path
        self._producers = producers
        self._exact = exact
        self._coming: deque[tuple[int, AbortedTxn]] = deque()  # slots and entries, by last offset
        self.faults: list[Fault] = []  # of the file by itself
        with suppress(FileNotFoundError), open_index(segment, TRANSACTION_INDEX_SUFFIX) as file:
            index = IndexFile(file, TRANSACTION_INDEX_SUFFIX)
            self.faults = shape_faults(index, file.size, TRANSACTION_INDEX_SUFFIX, segment.base)
            self._read(index, segment.base)

    def _read(self, index: IndexFile, base: int) -> None:
        before, entries = base - 1, []
        for slot, (version, *fields) in enumerate(index):
            entry = AbortedTxn._make(fields)
            if version != VERSION or min(entry) < 0 or not entry.first_offset <= entry.last_offset >= base:
                self._add_fault(Kind.INDEX_ORDER, slot, entry, f"cannot be, in version {version}")
                continue
            if entry.last_offset <= before:
                self._add_fault(Kind.INDEX_ORDER, slot, entry, f"comes behind offset {before}")
            before = entry.last_offset
            entries.append((slot, entry))
        self._coming.extend(sorted(entries, key=lambda entry: entry[1].last_offset))

    def _add_fault(self, kind: Kind, slot: int, entry: AbortedTxn, detail: str) -> None:
        last = entry.last_offset
        self.faults.append(lie(TRANSACTION_INDEX_SUFFIX, slot, last, f"{tuple(entry)} {detail}", kind))

    def see(
        self, header: BatchHeader, marker: EndTransactionMarker | None, due: AbortedTxn | None
    ) -> Iterator[Finding]:
        """A sound batch, what it says of a transaction, and the entry that follows from it."""
        while self._coming and self._coming[0][1].last_offset <= header.last_offset:
            slot, entry = self._coming.popleft()
            aborts = marker is not None and not marker.committed and entry.last_offset == header.last_offset
            if aborts and entry.producer_id == header.producer_id:
                if wrong := self._contradiction(entry, due):
                    yield self._wrong(slot, entry, wrong)
                due = None
            elif self._exact:
                yield self._wrong(slot, entry, f"no abort marker of that producer is at offset {entry.last_offset}")
        if due is not None and self._exact and due.first_offset >= self._producers.known_from:
            message = f"no entry for the transaction that {due} was"
            yield Kind.TRANSACTION_INDEX.at(self._path, message, offset=due.last_offset)

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

    def _wrong(self, slot: int, entry: AbortedTxn, wrong: str) -> Finding:
        message, position = f"entry {slot} {tuple(entry)}: {wrong}", slot * TransactionIndex.layout.size
        return Kind.TRANSACTION_INDEX.at(self._path, message, position=position, offset=entry.last_offset)

    def skip_to(self, header: BatchHeader) -> None:
        """Nothing is known of what lies before this batch."""
        while self._coming and self._coming[0][1].last_offset < header.base_offset:
            self._coming.popleft()

    def beyond(self) -> list[Fault]:
        """The batches are over."""
        self.faults = []
        for slot, entry in self._coming:
            self._add_fault(Kind.INDEX_BEYOND, slot, entry, "is beyond the last batch")
        return self.faults
