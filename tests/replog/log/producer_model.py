"""What a log must know of producers and transactions, by a walk over all batches that it ever held."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from replog.log.formats.batch import CONTROL, TRANSACTIONAL
from replog.log.formats.control_batch import end_transaction_marker
from tests.replog.log.log_model import Batch


@dataclass
class Producer:
    epoch: int
    last_sequence: int = -1
    last_offset: int = -1  # of its data, in this epoch
    last_seen: int = -1  # data or marker
    open: "Transaction | None" = None


@dataclass
class Transaction:
    producer_id: int
    batches: list[Batch] = field(default_factory=list)
    end: int | None = None  # offset of the marker
    committed: bool = False
    stable: int = -1  # up to where all was decided at its end (PS-6)

    @property
    def first(self) -> int:
        return self.batches[0].base

    def first_from(self, offset: int) -> int | None:
        """The first of its batches that a log which begins to remember at `offset` knows."""
        return next((batch.base for batch in self.batches if batch.last >= offset), None)


def walk(batches: Iterable[Batch]) -> tuple[dict[int, Producer], list[Transaction]]:
    """The producers by id, and all transactions."""
    producers: dict[int, Producer] = {}
    transactions: list[Transaction] = []
    for batch in batches:
        header = batch.header
        if header.producer_id < 0:
            continue
        state = producers.setdefault(header.producer_id, Producer(header.producer_epoch))
        if header.producer_epoch != state.epoch:  # PS-1
            state.epoch, state.last_sequence, state.last_offset = header.producer_epoch, -1, -1
        state.last_seen = batch.last
        if header.attributes & CONTROL:
            marker = end_transaction_marker(batch.data, header)
            assert marker is not None
            if state.open is not None:
                state.open.end, state.open.committed = batch.last, marker.committed
                state.open = None
                others = [open.first for open in transactions if open.end is None]
                ended = next(one for one in reversed(transactions) if one.end == batch.last)
                ended.stable = min(others, default=batch.last + 1)
            continue
        state.last_sequence = (header.base_sequence + header.last_offset_delta) % 2**31
        state.last_offset = batch.last
        if header.attributes & TRANSACTIONAL:
            if state.open is None:
                state.open = Transaction(header.producer_id)
                transactions.append(state.open)
            state.open.batches.append(batch)
    return producers, transactions
