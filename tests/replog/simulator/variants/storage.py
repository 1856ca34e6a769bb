"""Wrong ways to keep a log on disk, to compact it, and to follow its transactions, seen from the cluster."""

import asyncio
from typing import Any

from follower.partition_follower import PartitionFollower
from replog.log import recovery
from replog.log.compaction import rewriting
from replog.log.compaction.rewriting import Compaction
from replog.log.directories import identity, log_directory
from replog.log.directories.identity import CleanStop
from replog.log.directories.log_directory import LogDirectory
from replog.log.durable import DurableLog
from replog.log.epochs import LeaderEpochCache
from replog.log.fetch import FetchPartition
from replog.log.formats.batch import DELETE_HORIZON, BatchHeader
from replog.log.formats.checkpoint import HIGH_WATERMARK_CHECKPOINT, OffsetCheckpoint
from replog.log.offsets import NO_OFFSET
from replog.log.producers.recovery import LoadingProducers
from replog.log.producers.snapshot import ProducerSnapshotEntry
from replog.log.producers.state import ProducerState, ProducerStateManager
from replog.log.segments import Segments
from replog.server.clock import TrustedTime
from tests.replog.simulator.variants import Variant

_load = LogDirectory.load


def _trust_any_stop(self: LogDirectory, *arguments: Any) -> Any:
    self.clean = True
    return _load(self, *arguments)


def _epochs_in_memory(self: LeaderEpochCache, entries: Any) -> None:
    """They are lost with the process."""
    _replace_epochs(self, entries)
    self._saved = self._entries


_replace_epochs = LeaderEpochCache.replace


def _no_epochs(path: Any) -> LeaderEpochCache:
    return LeaderEpochCache(path)


def _no_high_watermarks(self: OffsetCheckpoint, offsets: Any) -> None:
    if self.path.name != HIGH_WATERMARK_CHECKPOINT:
        _write(self, offsets)


_write = OffsetCheckpoint.write


def _start_over_without_high_watermarks(self: LogDirectory, *arguments: Any) -> Any:
    logs = _load(self, *arguments)
    if self.clean and not (self.path / HIGH_WATERMARK_CHECKPOINT).exists():
        for log in logs.values():
            log.truncate_to(log.high_watermark)
    return logs


def _always_clean(directory: Any, log_dirs: int) -> tuple[bool, CleanStop]:
    clean, stop = _take_marker(directory, log_dirs)
    if clean:
        identity.write_marker(directory, stop.broker_epoch, log_dirs, stop.incarnation_id)
    return clean, stop


_take_marker = identity.take_marker


def _fetch_as_if_flushed(self: PartitionFollower, *arguments: Any) -> FetchPartition | None:
    fetch = _next_fetch(self, *arguments)
    return None if fetch is None else fetch._replace(unflushed=0)


_next_fetch = PartitionFollower.next_fetch


def _flush_by_a_timer(self: DurableLog) -> None:
    if self.config.flush_messages == 1:
        asyncio.get_running_loop().call_later(BEFORE_ANYBODY_HEARS_S, _have_flushed, self)


BEFORE_ANYBODY_HEARS_S = 0.0001


def _have_flushed(log: DurableLog) -> None:
    if log.failure is None:
        log.on_flush_due()


def _no_producers(self: LoadingProducers, segments: Any) -> ProducerStateManager:
    state = _finish(self, segments)
    state.clear(segments[-1].next_offset)
    return state


_finish = LoadingProducers.finish


def _over_at_once(header: BatchHeader) -> int:
    return header.base_timestamp if header.attributes & DELETE_HORIZON else 0


def _none_open(entry: ProducerSnapshotEntry) -> ProducerState:
    return _of_snapshot(entry._replace(current_txn_first_offset=NO_OFFSET))


_of_snapshot = ProducerState.of_snapshot


VARIANTS = [
    Variant("no-recovery", "disks", (LogDirectory, "load", _trust_any_stop), raises=True),
    Variant("marker-left-behind", "power", (log_directory, "take_marker", _always_clean), raises=True),
    Variant(
        "stale-epochs-believed",
        "crashes",
        (LeaderEpochCache, "replace", _epochs_in_memory),
        (LeaderEpochCache, "begin_save", lambda self: None),
        (recovery, "epochs_match", lambda *_: True),
    ),
    Variant(
        "epochs-lost-at-load",
        "crashes",
        (LeaderEpochCache, "load", staticmethod(_no_epochs)),
        (recovery, "epochs_match", lambda *_: True),
    ),
    Variant(
        "cut-to-lost-high-watermark",
        "crashes",
        (OffsetCheckpoint, "write", _no_high_watermarks),
        (LogDirectory, "load", _start_over_without_high_watermarks),
    ),
    Variant("unflushed-fetch-counts", "swarm", (PartitionFollower, "next_fetch", _fetch_as_if_flushed)),
    Variant(
        "late-flush-timer",
        "disks",
        (DurableLog, "promised_offset", property(lambda self: self.log_end_offset)),
        (DurableLog, "ask_for_flush", _flush_by_a_timer),
    ),
    Variant(
        "flush-messages-ignored",
        "power",
        (DurableLog, "promised_offset", property(lambda self: self.log_end_offset)),
        (DurableLog, "ask_for_flush", lambda self: None),
    ),
    Variant("any-clock-deletes", "clocks", (TrustedTime, "may_delete_ms", lambda self: self.clock.wall_ms())),
    Variant("producers-forgotten", "stragglers", (LoadingProducers, "finish", _no_producers)),
    Variant("latest-of-key-goes", "compaction", (Compaction, "_records", lambda self, header, data: None)),
    Variant("tombstones-go-at-once", "compaction", (rewriting, "delete_horizon", _over_at_once)),
    Variant("aborted-shown", "transactions", (Segments, "aborted_transactions", lambda *_: [])),
    Variant("open-transactions-forgotten", "transactions", (ProducerState, "of_snapshot", staticmethod(_none_open))),
]
