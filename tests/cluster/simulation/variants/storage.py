"""Wrong ways to keep a log on disk, seen from the cluster."""

from typing import Any

import replog.log.clean_shutdown
import replog.log.manager
from replog.log.checkpoint import OffsetCheckpoint
from replog.log.epoch_cache import LeaderEpochCache
from replog.log.manager import LogManager
from tests.cluster.simulation.variants.variant import Variant

_load = LogManager.load


def _trust_any_stop(self: LogManager, *arguments: Any) -> Any:
    self.clean = True
    return _load(self, *arguments)


def _epochs_in_memory(self: LeaderEpochCache) -> None:
    """They are lost with the process."""


def _no_high_watermarks(self: OffsetCheckpoint, offsets: Any) -> None:
    if self.path.name != replog.log.manager.HIGH_WATERMARK_CHECKPOINT:
        _write(self, offsets)


_write = OffsetCheckpoint.write


def _always_clean(directory: Any) -> tuple[bool, int]:
    clean, epoch = _take_marker(directory)
    if clean:
        replog.log.clean_shutdown.write_marker(directory, epoch)
    return clean, epoch


_take_marker = replog.log.manager.take_marker

VARIANTS = [
    Variant(
        "no-recovery",
        "a log is believed after an unclean stop as after a clean one",
        "LD-5, SG-8",
        "swarm",
        ((LogManager, "load", _trust_any_stop),),
    ),
    Variant(
        "marker-left-behind",
        "the clean-shutdown marker of an earlier stop is still there after a crash",
        "FN-3, ISR-18",
        "swarm",
        ((replog.log.manager, "take_marker", _always_clean),),
    ),
]
