"""Wrong ways to compact a log."""

from replog.log.compaction import rewriting
from replog.log.compaction.rewriting import Compaction
from replog.log.formats.batch import DELETE_HORIZON, BatchHeader
from tests.replog.simulator.variants.variant import Variant


def _over_at_once(header: BatchHeader) -> int:
    return header.base_timestamp if header.attributes & DELETE_HORIZON else 0


VARIANTS = [
    Variant("latest-of-key-goes", "compaction", (Compaction, "_records", lambda self, header, data: None)),
    Variant("tombstones-go-at-once", "compaction", (rewriting, "delete_horizon", _over_at_once)),
]
