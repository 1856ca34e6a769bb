"""A broker's periodic work: ISR checks, checkpoints, retention, deletion of expired files.

The work of every second looks only at logs that have changed, and at those with something due."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

import structlog

from leader.failure_detector import LISTENING_MS
from replog.config.properties import MAX_LONG
from replog.errors import ReplogError
from replog.log.directories.checkpoints import Checkpoints
from replog.log.directories.log_directory import LogDirectory
from replog.log.directories.log_manager import LogManager
from replog.log.errors import LogStorageError, RetriableLogError
from replog.log.files.deletion import remove
from replog.log.files.open_files import OPEN_FILES, sync_all
from replog.log.log import Log
from replog.log.retention import Deletion, delete_old_segments
from replog.server.broker.disks.log_flusher import LogFlusher
from replog.server.broker.replicas.replica_manager import ReplicaManager
from replog.server.logging import log_each
from replog.server.work import in_slices, in_thread
from replog.topic import TopicPartition

log = structlog.get_logger()

FILES_INTERVAL_MS = 1000
FIRST_MS, LAST_MS = 5000, 600_000  # the waits before a file that cannot be removed is tried again
REMOVED = 10  # deleted replicas and files at a time: some milliseconds of work
UNSAVED_INTERVAL_MS = 100  # how far the epoch file of a broker that is killed may lag its batches

Chore = Callable[[], Awaitable[None] | None]


class Housekeeping:
    """Runs a task for each interval. Threads wait for disks; only the event loop changes the state of logs."""

    def __init__(self, manager: ReplicaManager, logs: LogManager, flusher: LogFlusher) -> None:
        self._manager = manager
        self._context = manager.context
        self._replicas = manager.replicas
        self._logs = logs
        self._flusher = flusher
        self._expired: list[Path] = []  # files to remove
        self._stuck: dict[Path, tuple[int, int]] = {}  # files that cannot be removed: tries, time of the next
        self._restless: dict[tuple[TopicPartition, Log], int] = {}  # logs with something due, and since when
        self._unsaved = asyncio.Event()
        self._unsaved.set()  # the logs may have loaded something that is not saved
        logs.on_unsaved = self._unsaved.set
        manager.dirty.update(dict.fromkeys(manager.replicas.hosted))

    async def run(self) -> None:
        """Run until cancelled. Storage failures are reported to the broker; any other error ends it."""
        config = self._context.config
        chores: list[tuple[int, Sequence[Chore]]] = [
            (config.replica_lag_time_max_ms // 2, [self._manager.check_isrs]),  # ISR-5
            (LISTENING_MS, [self._resign_where_unheard]),
            (config.replica_high_watermark_checkpoint_interval_ms, [self._checkpoint_high_watermarks]),
            (config.log_flush_offset_checkpoint_interval_ms, [self._checkpoint_offsets]),
            (config.log_retention_check_interval_ms, [self._look_at_strays, self._enforce_retention]),
            (config.producer_id_expiration_check_interval_ms, [self._expire_producers]),
            (UNSAVED_INTERVAL_MS, [self._save]),
            (FILES_INTERVAL_MS, [self._flush, self._sync_files]),
            (FILES_INTERVAL_MS, [self._delete_expired]),
        ]
        async with asyncio.TaskGroup() as group:
            for interval_ms, some in chores:
                group.create_task(self._every(interval_ms, some))

    async def _every(self, interval_ms: int, chores: Sequence[Chore]) -> None:
        while True:
            await asyncio.sleep(interval_ms / 1000)
            for chore in chores:
                with self._context.storage_errors_reported(chore.__name__.strip("_")):
                    if (doing := chore()) is not None:
                        await doing

    def _resign_where_unheard(self) -> None:
        """Have leaders resign that nobody reaches (ISR-20)."""
        self._replicas.failure_detector.look(self._context.clock.monotonic_ms())
        self._manager.resign_where_unheard()

    async def _checkpoint_high_watermarks(self) -> None:
        await in_thread(partial(self._logs.checkpoint, Checkpoints.write_high_watermarks))  # HW-11

    async def _checkpoint_offsets(self) -> None:
        for write in (Checkpoints.write_recovery_points, Checkpoints.write_log_starts):
            await in_thread(partial(self._logs.checkpoint, write))

    async def _enforce_retention(self) -> None:
        """Delete old segments, some of one log in each step of the event loop (LG-13, LG-14). A log without room for a
        new segment is left for later, otherwise it would keep the others from making room."""
        for tp, log in self._logs.logs.items():
            deleted = 1
            while deleted and self._logs.get(tp) is log and log.failure is None:
                deleted = 0
                with self._context.storage_errors_reported(f"retention of {tp}"):
                    deleted = delete_old_segments(log, self._context.time.may_delete_ms(), partial(self._report, tp))
                if deleted:
                    self._manager.log_start_moved(tp)
                await asyncio.sleep(0)

    def _report(self, tp: TopicPartition, deletion: Deletion) -> None:
        now_ms = self._context.clock.wall_ms()
        log.info(
            "retention has deleted records",
            partition=str(tp),
            records=deletion.records,
            up_to_offset=deletion.up_to,
            why=deletion.why,
            newest_age_s=(now_ms - deletion.newest_ms) / 1000 if deletion.newest_ms >= 0 else None,
            written_age_s=(now_ms - deletion.written_ms) / 1000,
        )

    def _expire_producers(self) -> None:
        now_ms = self._context.clock.monotonic_ms()
        for log in self._logs.logs.values():
            log.producers.remove_expired(now_ms, self._context.config.producer_id_expiration_ms)  # PS-11

    async def _save(self) -> None:
        """Save epochs (EP-9), and log starts, which are reported once they are durable (FT-23). Without room they are
        left for the next time: batches have the epochs, too, and deletions of records wait for their answer."""
        await self._unsaved.wait()
        self._unsaved.clear()
        for directory in self._logs.working:
            with self._context.storage_errors_reported("save"):
                await self._save_in(directory)

    async def _save_in(self, directory: LogDirectory) -> None:
        try:
            await in_thread(directory.save_epochs)
            starts = await in_thread(directory.checkpoints.save_log_starts)
        except ReplogError as error:
            if isinstance(error, RetriableLogError):
                self._unsaved.set()
                return
            asyncio.get_running_loop().call_later(FIRST_MS / 1000, self._unsaved.set)  # the disk may work again
            raise
        for tp, saved, start in starts:
            saved.log_start_saved(start)
            if self._logs.get(tp) is saved:
                self._manager.log_start_moved(tp)

    async def _flush(self) -> None:
        """Flush rolled segments, otherwise recovery after a crash would begin before the active one (LG-5), and records
        that have waited for `flush.ms` (LG-18). Write index entries that wait (divergence 16)."""
        now_ms = self._context.clock.monotonic_ms()
        dirty, self._manager.dirty = self._manager.dirty, {}
        async for tp in in_slices(dirty):
            hosted = self._replicas.hosted.get(tp)
            if hosted is None:
                continue
            with suppress(LogStorageError):  # the log has reported it to the broker
                hosted.log.write_indexes()
            if _has_something_due(hosted.log):
                self._restless.setdefault((tp, hosted.log), now_ms)
        async for (tp, log), since_ms in in_slices(list(self._restless.items())):
            if self._logs.get(tp) is not log or log.failure is not None:
                self._restless.pop((tp, log), None)
                continue
            due = now_ms - since_ms >= log.config.flush_ms
            up_to = log.log_end_offset if due else log.bases[1]
            if up_to > log.recovery_point:
                self._flusher.ask(tp, log, up_to)
            if due and (tp, log) in self._restless:
                self._restless[tp, log] = now_ms

    async def _sync_files(self) -> None:
        """Sync files that are to be closed, or were, before their fsync (`open_files`)."""
        if files := OPEN_FILES.get().to_sync():
            await in_thread(lambda: sync_all(files))

    async def _delete_expired(self) -> None:
        """Delete expired files, some at a time, with rests while clients are served (LG-15, LG-17). Logs with nothing
        due are not looked at again."""
        now_ms = self._context.clock.monotonic_ms()
        self._expired += self._logs.take_expired(now_ms)
        async for tp, each in in_slices(list(self._restless)):
            self._expired += each.deleted.take_expired(now_ms, each.config.file_delete_delay_ms)
            if not _has_something_due(each):
                self._restless.pop((tp, each), None)
        self._expired += [path for path, (_, due_ms) in self._stuck.items() if due_ms <= now_ms]
        firsts = range(0, len(self._expired), REMOVED)
        async for _ in self._context.throttle.in_slices(firsts):
            left, links = dict[Path, str](), dict[Path, str]()
            tried = self._expired[:REMOVED]
            await in_thread(partial(remove, tried, left, links))
            for path in tried:
                tries, _ = self._stuck.pop(path, (0, 0))
                if path in left:  # it is tried again later and later (D57)
                    self._stuck[path] = tries + 1, now_ms + min(FIRST_MS << min(tries, 20), LAST_MS)
            stuck = [{"path": str(path), "reason": reason} for path, reason in left.items()]
            log_each(log.warning, "cannot be deleted, to be tried again", stuck)
            gone = [{"path": str(path), "target": target} for path, target in links.items() if path not in left]
            log_each(log.warning, "a link is deleted, and what it points to stays", gone)
            del self._expired[:REMOVED]  # not earlier: they must be tried again if `remove` had no descriptors
        self._context.traffic.undeleted = len(self._stuck)

    async def _look_at_strays(self) -> None:
        """Count strays. They are never deleted, since they may have the last copy of records (CT-26)."""
        strays = {directory.path: await in_thread(directory.strays) for directory in self._logs.working}
        oldest = min((moment for since in strays.values() for moment in since), default=None)
        traffic, now_s = self._context.traffic, self._context.clock.wall_ms() / 1000
        traffic.strays = {path: len(since) for path, since in strays.items()}
        traffic.oldest_stray_s = 0.0 if oldest is None else max(0.0, now_s - oldest)


def _has_something_due(log: Log) -> bool:
    to_flush = log.log_end_offset if log.config.flush_ms < MAX_LONG else log.bases[1]
    return log.recovery_point < to_flush or bool(log.deleted)
