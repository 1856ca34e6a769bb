"""Wrong ways to follow transactions."""

from replog.log.offsets import NO_OFFSET
from replog.log.producers.snapshot import ProducerSnapshotEntry
from replog.log.producers.state import ProducerState
from replog.log.segments import Segments
from tests.replog.simulator.variants.variant import Variant


def _none_open(entry: ProducerSnapshotEntry) -> ProducerState:
    return _of_snapshot(entry._replace(current_txn_first_offset=NO_OFFSET))


_of_snapshot = ProducerState.of_snapshot


VARIANTS = [
    Variant("aborted-shown", "transactions", (Segments, "aborted_transactions", lambda *_: [])),
    Variant("open-transactions-forgotten", "transactions", (ProducerState, "of_snapshot", staticmethod(_none_open))),
]
