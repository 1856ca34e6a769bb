"""A log's knowledge of its producers (section 7): their last batches, which show duplicates and gaps, and their
transactions, which bound what READ_COMMITTED consumers see. In memory alone; see `producers.recovery`."""

from typing import NamedTuple

from replog.errors import ErrorCode
from replog.log.formats.batch import CONTROL, TRANSACTIONAL, BatchHeader
from replog.log.formats.control_batch import EndTransactionMarker
from replog.log.indexes.transaction_index import AbortedTxn
from replog.log.offsets import NO_EPOCH, NO_OFFSET, NO_TIMESTAMP, AppendOrigin
from replog.log.producers.snapshot import ProducerSnapshotEntry

NO_SEQUENCE = -1
NO_PRODUCER = -1
BEFORE_ALL = -1  # an offset
MAX_SEQUENCE = 2**31 - 1
MAX_BATCHES = 5


class BatchMetadata(NamedTuple):
    """The facts that are remembered of a batch."""

    first_sequence: int
    last_sequence: int
    first_offset: int
    last_offset: int
    timestamp: int


class ProducerState:
    """One producer; a new epoch forgets the batches of the one before (PS-1)."""

    __slots__ = (
        "batches",
        "coordinator_epoch",
        "epoch",
        "last_timestamp",
        "producer_id",
        "silent_since_ms",
        "txn_first_offset",
    )

    def __init__(self, producer_id: int, epoch: int) -> None:
        self.producer_id = producer_id
        self.epoch = epoch
        self.batches: list[BatchMetadata] = []  # the latest, oldest first
        self.coordinator_epoch = NO_EPOCH
        self.last_timestamp = NO_TIMESTAMP
        self.txn_first_offset = NO_OFFSET  # the open transaction's
        self.silent_since_ms: int | None = None  # the first check for expiry since it wrote

    @property
    def last_sequence(self) -> int:
        return self.batches[-1].last_sequence if self.batches else NO_SEQUENCE

    def add(self, header: BatchHeader) -> None:
        last_sequence, time = sequence_of_last(header), header.max_timestamp
        first, last = header.base_offset, header.base_offset + header.last_offset_delta
        self.batches.append(BatchMetadata(header.base_sequence, last_sequence, first, last, time))
        if len(self.batches) > MAX_BATCHES:
            del self.batches[0]
        self.last_timestamp = time

    def snapshot_entry(self) -> ProducerSnapshotEntry:
        sequence, offset, delta = NO_SEQUENCE, NO_OFFSET, 0
        if self.batches:
            last = self.batches[-1]
            sequence, offset, delta = last.last_sequence, last.last_offset, last.last_offset - last.first_offset
        return ProducerSnapshotEntry(
            self.producer_id,
            self.epoch,
            sequence,
            offset,
            delta,
            self.last_timestamp,
            self.coordinator_epoch,
            self.txn_first_offset,
        )

    @classmethod
    def of_snapshot(cls, entry: ProducerSnapshotEntry) -> "ProducerState":
        state = cls(entry.producer_id, entry.epoch)
        if entry.last_offset >= 0:
            first_sequence = (entry.last_sequence - entry.offset_delta) & MAX_SEQUENCE
            first_offset = entry.last_offset - entry.offset_delta
            batch = first_sequence, entry.last_sequence, first_offset, entry.last_offset, entry.timestamp
            state.batches.append(BatchMetadata._make(batch))
        state.coordinator_epoch = entry.coordinator_epoch
        state.last_timestamp = entry.timestamp
        state.txn_first_offset = entry.current_txn_first_offset
        return state


def sequence_of_last(header: BatchHeader) -> int:
    """Return the sequence of the last record: 0 follows 2^31-1 (RB-5, PS-2)."""
    if header.base_sequence < 0:
        return NO_SEQUENCE
    return (header.base_sequence + header.last_offset_delta) & MAX_SEQUENCE


class ProducerStateManager:
    """Call `check` before a leader appends, then `update` after it; followers only update."""

    def __init__(self) -> None:
        self._producers: dict[int, ProducerState] = {}
        self._ongoing: dict[int, int] = {}  # first offset of each open transaction, ascending → producer id
        self._unreplicated: dict[int, int] = {}  # likewise for those that ended at or above the HW → their marker
        self.first_unstable_offset: int | None = None  # the least of all these (PS-5)

    @property
    def empty(self) -> bool:
        return not self._producers and not self._unreplicated

    # -- before an append

    def check(
        self, header: BatchHeader, origin: AppendOrigin, marker: EndTransactionMarker | None = None
    ) -> BatchMetadata | None:
        """Check if a batch with a producer id may be appended (PS-2 to PS-4). Return the batch that it repeats, if any.

        An unknown producer may begin anywhere. Nothing changes. Raises
        OUT_OF_ORDER_SEQUENCE_NUMBER, INVALID_PRODUCER_EPOCH, INVALID_TXN_STATE or TRANSACTION_COORDINATOR_FENCED."""
        state = self._producers.get(header.producer_id)
        if state is None:
            return None
        if header.producer_epoch < state.epoch:
            raise ErrorCode.INVALID_PRODUCER_EPOCH.error(
                f"producer {state.producer_id} sent epoch {header.producer_epoch} and is at {state.epoch}: "
                "a later incarnation has replaced it"
            )
        if header.attributes & CONTROL:
            if marker is not None and marker.coordinator_epoch < state.coordinator_epoch:
                raise ErrorCode.TRANSACTION_COORDINATOR_FENCED.error(
                    f"a marker for producer {state.producer_id} is of coordinator epoch {marker.coordinator_epoch}, "
                    f"below {state.coordinator_epoch}"
                )
            return None
        if origin is AppendOrigin.CLIENT and not self._continues(state, header):
            duplicate = self._duplicate(state, header)
            if duplicate is None:
                raise ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER.error(
                    f"producer {state.producer_id} sent epoch {header.producer_epoch}, sequence {header.base_sequence} "
                    f"after epoch {state.epoch}, sequence {state.last_sequence}"
                )
            return duplicate
        if state.txn_first_offset >= 0 and not header.attributes & TRANSACTIONAL:
            raise ErrorCode.INVALID_TXN_STATE.error(
                f"producer {state.producer_id} sent a batch outside of its open transaction, which began at offset "
                f"{state.txn_first_offset}"
            )
        return None

    @staticmethod
    def _continues(state: ProducerState, header: BatchHeader) -> bool:
        """Return True if the batch is the next one, and so no duplicate: five batches cannot use all sequences."""
        if header.producer_epoch != state.epoch:
            return header.base_sequence == 0 or state.epoch == NO_EPOCH
        return header.base_sequence == (state.last_sequence + 1) & MAX_SEQUENCE

    @staticmethod
    def _duplicate(state: ProducerState, header: BatchHeader) -> BatchMetadata | None:
        if header.producer_epoch != state.epoch:
            return None
        sequences = header.base_sequence, sequence_of_last(header)
        return next((batch for batch in state.batches if batch[:2] == sequences), None)

    # -- after an append

    def update(self, header: BatchHeader, marker: EndTransactionMarker | None = None) -> AbortedTxn | None:
        """Follow a batch with a producer id, even one that `check` refuses. `marker` is the content of a control batch.

        Return the entry for the transaction index if it aborts a transaction."""
        if header.attributes & CONTROL and marker is None:
            return None
        state = self._producers.get(header.producer_id)
        if state is None:
            state = self._producers[header.producer_id] = ProducerState(header.producer_id, header.producer_epoch)
        if state.epoch != header.producer_epoch:
            state.epoch = header.producer_epoch
            state.batches.clear()
        state.silent_since_ms = None
        if marker is not None:
            return self._end_transaction(state, header, marker)
        state.add(header)
        if header.attributes & TRANSACTIONAL and state.txn_first_offset < 0:
            state.txn_first_offset = header.base_offset
            self._ongoing[header.base_offset] = state.producer_id
            if self.first_unstable_offset is None or header.base_offset < self.first_unstable_offset:
                self.first_unstable_offset = header.base_offset  # lower if a truncation reads again what it has kept
        return None

    def _end_transaction(
        self, state: ProducerState, header: BatchHeader, marker: EndTransactionMarker
    ) -> AbortedTxn | None:
        state.coordinator_epoch = marker.coordinator_epoch
        state.last_timestamp = header.max_timestamp
        first_offset, state.txn_first_offset = state.txn_first_offset, NO_OFFSET
        if first_offset < 0:
            return None
        self._ongoing.pop(first_offset, None)
        self._unreplicated[first_offset] = header.last_offset
        if marker.committed:
            return None
        last_stable_offset = next(iter(self._ongoing), header.last_offset + 1)  # PS-6
        return AbortedTxn(state.producer_id, first_offset, header.last_offset, last_stable_offset)

    def replicated_to(self, high_watermark: int) -> None:
        """Count transactions that ended below as decided for good (PS-5)."""
        if not self._unreplicated:
            return
        decided = [first for first, marker in self._unreplicated.items() if marker < high_watermark]
        if decided:
            for first in decided:
                del self._unreplicated[first]
            self._find_first_unstable()

    def _find_first_unstable(self) -> None:
        oldest = [min(offsets) for offsets in (self._ongoing, self._unreplicated) if offsets]
        self.first_unstable_offset = min(oldest, default=None)

    def remove_expired(self, now_ms: int, expiration_ms: int) -> int:
        """Forget producers without an open transaction that were silent for `expiration_ms` (PS-11); return how many.

        Silence counts from the first call after a producer's last batch, on the caller's clock: a producer may send
        records of any age."""
        expired = []
        for state in self._producers.values():
            if state.silent_since_ms is None:
                state.silent_since_ms = now_ms
            elif state.txn_first_offset < 0 and now_ms - state.silent_since_ms >= expiration_ms:
                expired.append(state.producer_id)
        for producer_id in expired:
            del self._producers[producer_id]
        return len(expired)

    # -- snapshots

    def snapshot_entries(self) -> list[ProducerSnapshotEntry]:
        return [state.snapshot_entry() for state in self._producers.values()]

    def load(self, entries: list[ProducerSnapshotEntry]) -> None:
        """Take the state from a snapshot, which has no ended transactions."""
        states = [ProducerState.of_snapshot(entry) for entry in entries]
        self._producers = {state.producer_id: state for state in states}
        self._ongoing = dict(sorted((s.txn_first_offset, s.producer_id) for s in states if s.txn_first_offset >= 0))
        self._find_first_unstable()

    def missing_from(self, other: "ProducerStateManager") -> list[ProducerSnapshotEntry]:
        """Return the producers that `other` knows and this one does not. Both are of logs of the same batches."""
        return [s.snapshot_entry() for s in other._producers.values() if s.producer_id not in self._producers]

    def learn(self, entries: list[ProducerSnapshotEntry]) -> None:
        self.load([*self.snapshot_entries(), *entries])

    def cut_to(self, end_offset: int) -> "ProducerStateManager":
        """Return a new state, which knows only the transactions whose unreplicated end lies below `end_offset`.

        Until it replaces this one, nothing here counts as decided: ends of transactions may be gone (PS-5)."""
        cut = ProducerStateManager()
        cut._unreplicated = dict(self._unreplicated)
        cut.clear(end_offset)
        if not self.empty:
            self._ongoing[BEFORE_ALL] = NO_PRODUCER
            self._find_first_unstable()
        return cut

    def clear(self, end_offset: int = 0) -> None:
        """Forget everything except the transactions whose unreplicated end lies below `end_offset`."""
        self._producers.clear()
        self._ongoing.clear()
        self._unreplicated = {first: marker for first, marker in self._unreplicated.items() if marker < end_offset}
        self._find_first_unstable()
