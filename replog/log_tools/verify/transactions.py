"""Checks control batches, transactions and producers: transaction indexes and snapshots against the batches.

The batches are replayed as a follower would (PS-2: the state follows the data). Audits use it for one segment after the
other, from the snapshot with which each begins."""

from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from replog.log.errors import InvalidRecord
from replog.log.files.names import SNAPSHOT_SUFFIX, TRANSACTION_INDEX_SUFFIX, segment_file_name
from replog.log.formats.batch import BatchHeader
from replog.log.formats.control_batch import EndTransactionMarker, end_transaction_marker
from replog.log.indexes.entries import IndexFile
from replog.log.indexes.transaction_index import VERSION, AbortedTxn
from replog.log.producers.snapshot import ENTRY, HEADER, ProducerSnapshotEntry
from replog.log.producers.state import ProducerStateManager
from replog.log_tools.checker.findings import Fault, Finding, Kind
from replog.log_tools.checker.indexes import Segment, lie, open_index, shape_faults


class Producers:
    """The producers' state by the batches so far; kept over all segments of a partition."""

    def __init__(
        self, log_start: int, *, compacted: bool, begin: int = 0, entries: list[ProducerSnapshotEntry] | None = None
    ) -> None:
        """`entries` are those of a snapshot at offset `begin`, where the batches begin."""
        self.known_from = log_start  # a broker that rebuilds the state begins at the log start
        self._begin = begin
        self.complete = True  # no batch was lost since the first one
        self._compacted = compacted
        self._state = ProducerStateManager()
        self._state.load(entries or [])

    def see(self, header: BatchHeader, marker: EndTransactionMarker | None) -> AbortedTxn | None:
        """Follow a sound batch, and return the entry that the transaction index must have for it."""
        if header.producer_id < 0:
            return None
        aborted = self._state.update(header, marker)
        if marker is not None:
            self._state.replicated_to(header.next_offset)  # decided transactions would take memory
        return aborted

    def check_snapshot(self, entries: list[ProducerSnapshotEntry], offset: int) -> Iterator[Fault]:
        """Check that a snapshot at `offset`, which the batches have reached, follows from them.

        It may have less, since producers expire (PS-11), and has only the last batch of each (PS-7)."""
        known = {entry.producer_id: entry for entry in self._state.snapshot_entries()} if self.complete else {}
        name = segment_file_name(offset, SNAPSHOT_SUFFIX)
        for slot, entry in enumerate(entries if self.complete else ()):
            last = entry.last_offset
            wrong = self._contradiction(entry, known.get(entry.producer_id)) if last >= self.known_from else None
            if last >= offset:
                wrong = f"has a batch up to offset {last}"
            if wrong is not None:
                message, position = f"producer {entry.producer_id}: {wrong}", HEADER.size + slot * ENTRY.size
                yield Fault(Kind.SNAPSHOT_STATE, name, position, last, last, -1, message)

    def _contradiction(self, entry: ProducerSnapshotEntry, batches: ProducerSnapshotEntry | None) -> str | None:
        if self._compacted:
            # A producer's very last batch alone stays (CL-7), which may have come later than the snapshot.
            if batches is None or batches.last_offset != entry.last_offset:
                return None
            compared = ["last_sequence"]
        elif batches is None:
            if entry.last_offset < self._begin:
                return None  # the snapshot there may be of a broker that did not know it
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
    """Return the marker in a sound control batch, and the batch's faults (2.3)."""
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
    """Checks one segment's entries against its abort markers (IX-19)."""

    def __init__(self, segment: Segment, producers: Producers, *, exact: bool) -> None:
        """Read the file, if there is one; `exact` if the cleaner has not been here."""
        self._producers = producers
        self._exact = exact
        self._coming: deque[tuple[int, AbortedTxn]] = deque()  # slots and entries, by last offset
        self.faults: list[Fault] = []  # the file's own
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

    def see(self, header: BatchHeader, marker: EndTransactionMarker | None, due: AbortedTxn | None) -> Iterator[Fault]:
        """Check entries against a sound batch, its marker, and the entry that follows from it."""
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
            last, message = due.last_offset, f"no entry for the transaction that {due} was"
            yield Fault(Kind.TRANSACTION_INDEX, TRANSACTION_INDEX_SUFFIX, -1, last, last, -1, message)

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
        bounded = known_from <= due.last_stable_offset <= due.last_offset  # the bounding transaction's begin is known
        later = entry.last_stable_offset > due.last_stable_offset and not bounded
        earlier = entry.last_stable_offset < known_from  # the bounding transaction began before the log
        if entry.last_stable_offset != due.last_stable_offset and not later and not earlier:
            return f"transactions were decided up to offset {due.last_stable_offset} then"
        return None

    def _wrong(self, slot: int, entry: AbortedTxn, wrong: str) -> Fault:
        detail = f"{tuple(entry)}: {wrong}"
        return lie(TRANSACTION_INDEX_SUFFIX, slot, entry.last_offset, detail, Kind.TRANSACTION_INDEX)

    def skip_to(self, header: BatchHeader) -> None:
        """Skip entries before this batch: nothing is known of the batches there."""
        while self._coming and self._coming[0][1].last_offset < header.base_offset:
            self._coming.popleft()

    def beyond(self) -> list[Fault]:
        """Return faults for the entries behind the last batch."""
        self.faults = []
        for slot, entry in self._coming:
            self._add_fault(Kind.INDEX_BEYOND, slot, entry, "is beyond the last batch")
        return self.faults
