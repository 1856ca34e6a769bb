"""Wrong ways to compact a log."""

from typing import Any

from replog.log.batch import DELETE_HORIZON, BatchHeader
from replog.log.compaction import rewriting
from replog.log.compaction.offset_map import OffsetMap
from tests.cluster.simulation.variants.variant import Variant

_get = OffsetMap.get


def _the_next(self: OffsetMap, key: bytes) -> Any:
    found = _get(self, key)
    return found + (found >= 0)


def _over_at_once(header: BatchHeader) -> int:
    return header.base_timestamp if header.attributes & DELETE_HORIZON else 0


VARIANTS = [
    Variant(
        "latest-of-key-goes",
        "a cleaning takes every record of the keys that it has seen, the latest too",
        "CL-5",
        "compaction",
        ((OffsetMap, "get", _the_next),),
    ),
    Variant(
        "tombstones-go-at-once",
        "the first cleaning that meets a tombstone takes it",
        "CL-6 (KAFKA-4545)",
        "compaction",
        ((rewriting, "delete_horizon", _over_at_once),),
    ),
]
