"""The broker's log cleaner: one cleaning at a time, the dirtiest log first (CL-2).

Another process does the long work. The loop only does the renames, a few for each segment."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Protocol

import structlog

from replog.log.compaction.cleaning import Cleanable, CleanTask, find_cleanable
from replog.log.directories.checkpoints import CleanedOffsets
from replog.log.directories.log_manager import LogManager
from replog.log.errors import CorruptRecord, InvalidRecord, LogStorageError, RetriableLogError, storage_error
from replog.log.files.opening import fsync_directory
from replog.log.log import Log
from replog.log.swap import written_swap
from replog.server.broker.cleaning.cleaning_child import CleaningRequest
from replog.server.broker.cleaning.cleaning_process import CleaningInterrupted
from replog.server.broker.context import CLEANING
from replog.server.broker.replicas.hosted_replicas import HostedPartition
from replog.server.broker.replicas.replica_manager import ReplicaManager
from replog.server.work import in_thread
from replog.topic import TopicPartition

log = structlog.get_logger()


FIRST_MS, LAST_MS = 15_000, 3_600_000  # the waits before a log that a cleaning failed on is tried again


class CleaningWorker(Protocol):
    """Carries out cleanings: a process, and in the simulator a thread."""

    async def ask(self, request: CleaningRequest) -> int:
        """Carry out a request, and return its answer. Raises as `Cleaning`, and CleaningInterrupted."""

    async def close(self) -> None: ...


class LogCleaner:
    def __init__(self, manager: ReplicaManager, logs: LogManager, worker: CleaningWorker) -> None:
        self._manager = manager
        self._context = manager.context
        self._replicas = manager.replicas
        self._logs = logs
        self._worker = worker
        self._uncleanable: dict[Log, tuple[int, int]] = {}  # number of failures, time of the next try

    async def run(self) -> None:
        """Look for work every `log.cleaner.backoff.ms`, until cancelled. Disk errors are reported to the broker."""
        config = self._context.config
        try:
            while config.log_cleaner_enable:
                await asyncio.sleep(config.log_cleaner_backoff_ms / 1000)
                while await self._clean_dirtiest():
                    pass
                self._count_uncleanable()
        finally:
            await self._worker.close()

    async def _clean_dirtiest(self) -> bool:
        """Clean the log that needs it most. Return False if none does, or if the cleaning was given up."""
        await self._name_compacted()
        dirtiest = await self._dirtiest()
        if dirtiest is None:
            return False
        tp, replica, cleanable = dirtiest
        try:
            return await self._clean(tp, replica, cleanable)
        except Exception as error:  # noqa: BLE001 (otherwise one log would stop the cleaning of all)
            failed = storage_error(replica.directory, error) if isinstance(error, OSError) else error
            if self._logs.get(tp) is not replica:
                log.info("a replica was deleted during its cleaning", partition=str(tp))
            elif isinstance(error, FileNotFoundError) and not _is_lost(error, replica):
                log.info("segments were removed during their cleaning", partition=str(tp), reason=str(error))
            elif isinstance(error, CleaningInterrupted):
                log.warning("a cleaning was interrupted; it begins again", partition=str(tp), reason=str(error))
            elif isinstance(failed, RetriableLogError):
                log.warning("cleaning a log is left for the next time", partition=str(tp), reason=failed.message)
            elif isinstance(failed, LogStorageError) and (failed.of_the_disk or isinstance(error, FileNotFoundError)):
                self._context.on_storage_error(failed)
            else:
                self._give_up(tp, replica, error)
        return False

    def _give_up(self, tp: TopicPartition, replica: Log, error: Exception) -> None:
        """Try the log again later and later, so that nobody need restart the broker after mending it."""
        tries, _ = self._uncleanable.get(replica, (0, 0))
        wait_ms = min(FIRST_MS << min(tries, 20), LAST_MS)
        self._uncleanable[replica] = tries + 1, self._context.clock.monotonic_ms() + wait_ms
        log.error(
            "a log cannot be cleaned, to be tried again", partition=str(tp), seconds=wait_ms // 1000, exc_info=error
        )
        self._context.traffic.damage[CLEANING] += isinstance(error, CorruptRecord | InvalidRecord) and not tries

    def _count_uncleanable(self) -> None:
        there = {log for log in self._logs.logs.values() if log.failure is None} if self._uncleanable else ()
        self._uncleanable = {replica: when for replica, when in self._uncleanable.items() if replica in there}
        self._context.traffic.uncleanable = Counter(replica.directory.parent for replica in self._uncleanable)

    async def _name_compacted(self) -> None:
        """Have the checkpoint name every compacted log before its first hole: if the metadata are lost, only this shows
        that its topic is compacted (CL-8)."""
        written: dict[CleanedOffsets, None] = {}
        async for tp, hosted in self._all_hosted():
            if not hosted.log.config.compacted or hosted.log.failure or self._logs.get(tp) is not hosted.log:
                continue
            cleaned_offsets = self._logs.cleaned_offsets(tp)
            if cleaned_offsets.get(tp) is None:
                cleaned_offsets.raise_to(tp, 0)
                written[cleaned_offsets] = None
        for cleaned_offsets in written:
            with self._context.storage_errors_reported("checkpoint of what is clean"):
                await in_thread(cleaned_offsets.write)

    def _all_hosted(self) -> AsyncIterator[tuple[TopicPartition, HostedPartition]]:
        """Yields all hosted replicas, in slices."""
        return self._context.throttle.in_slices(list(self._replicas.hosted.items()))

    async def _dirtiest(self) -> tuple[TopicPartition, Log, Cleanable] | None:
        """Return the dirtiest log. It is looked at again at the end, since logs change meanwhile."""
        dirtiest, most = None, 0.0
        async for tp, hosted in self._all_hosted():
            cleanable = self._cleanable(tp, hosted.log)
            if cleanable is not None and cleanable.dirty_ratio > most:
                dirtiest, most = (tp, hosted.log), cleanable.dirty_ratio
        if dirtiest is None or (cleanable := self._cleanable(*dirtiest)) is None:
            return None
        return *dirtiest, cleanable

    def _cleanable(self, tp: TopicPartition, replica: Log) -> Cleanable | None:
        """Return the part of the log that may be cleaned; None if it is not worth it, or must wait."""
        if not replica.config.compacted or replica.failure:
            return None
        if self._uncleanable.get(replica, (0, 0))[1] > self._context.clock.monotonic_ms():
            return None
        if self._logs.get(tp) is not replica or self._logs.future(tp) is not None:
            return None  # it is being moved (7.7)
        cleanable = find_cleanable(replica, self._logs.cleaned_offsets(tp).get(tp), self._context.time.may_delete_ms())
        return cleanable if cleanable.is_worth_it(replica.config) else None

    async def _clean(self, tp: TopicPartition, replica: Log, cleanable: Cleanable) -> bool:
        """Clean a log. Return False if it was truncated, lost segments or was deleted meanwhile (CL-2)."""
        size_before, clock = replica.size, self._context.clock
        started_ms = clock.monotonic_ms()
        map_bytes = self._context.config.log_cleaner_dedupe_buffer_size
        task = CleanTask.of(replica, cleanable, self._context.time.may_delete_ms(), map_bytes)
        try:
            end_offset = await self._worker.ask(task)
            replaced = await self._replace(tp, replica, task, end_offset)
        except CorruptRecord:
            if task.generation == replica.generation:
                raise
            replaced = False  # segments were truncated while they were read
        if not replaced or not await self._note(tp, replica, task, end_offset):
            return False
        self._uncleanable.pop(replica, None)
        log.info(
            "cleaned",
            partition=str(tp),
            from_offset=task.first_dirty,
            to_offset=end_offset,
            bytes_before=size_before,
            bytes_after=replica.size,
            seconds=(clock.monotonic_ms() - started_ms) / 1000,
        )
        return True

    async def _replace(self, tp: TopicPartition, replica: Log, task: CleanTask, end_offset: int) -> bool:
        """Replace each group of segments by a clean one, and note that. Return False if the segments are gone."""
        for group in task.groups(end_offset):
            if not await self._worker.ask(group):
                continue
            bases = [source.base_offset for source in group]
            swap = await in_thread(partial(written_swap, task.directory, bases, task.config))
            if self._logs.get(tp) is not replica or not replica.begin_swap(task.generation, swap):
                return False
            await in_thread(partial(fsync_directory, replica.directory))
            if self._logs.get(tp) is not replica or not replica.finish_swap(swap):
                return False
            self._manager.dirty[tp] = None
            await in_thread(partial(fsync_directory, replica.directory))
            if not await self._note(tp, replica, task, min(group[-1].next_offset, end_offset)):
                return False
        return True

    async def _note(self, tp: TopicPartition, replica: Log, task: CleanTask, offset: int) -> bool:
        """Have the checkpoint say that the log is clean up to `offset`. Return False if the task is void.

        It is called for each part of the task: otherwise readers of the files, after a crash, would not know where
        offsets may be missing (CL-8). Below `offset` no key comes twice, since all dirty keys were mapped."""
        if self._logs.get(tp) is not replica or task.generation != replica.generation:
            return False
        if offset > task.first_dirty:
            cleaned_offsets = self._logs.cleaned_offsets(tp)
            cleaned_offsets.raise_to(tp, offset)
            await in_thread(cleaned_offsets.write)
        return True


def _is_lost(missing: FileNotFoundError, replica: Log) -> bool:
    """Return True if the missing file is one that the log counts on, not one that it has removed."""
    path = Path(missing.filename or "")
    return path in {segment.path for segment in replica.segments} and not path.exists()
