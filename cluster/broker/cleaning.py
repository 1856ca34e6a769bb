"""The broker's log cleaner: one cleaning at a time, the dirtiest log first (CL-2).

A cleaning is Python at work for long, so it runs in a thread that sleeps as much as it works, a millisecond at a time:
the event loop then has the interpreter when it wants it. The loop itself does the renames, a few for each segment.
"""

import asyncio
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TypeVar

import structlog

from cluster.broker.replica_manager import ReplicaManager
from cluster.broker.threads import in_thread
from replog.errors import ErrorCode, ReplogError
from replog.log.compaction.cleanable import Cleanable
from replog.log.compaction.cleaning import Cleaning, CleanTask
from replog.log.directories import LogDirectories
from replog.log.errors import CorruptRecord, storage_error
from replog.log.files import fsync_directory
from replog.log.log import Log
from replog.topic import TopicPartition

log = structlog.get_logger()
T = TypeVar("T")

WORK_S = 0.001


class LogCleaner:
    """`run` it for as long as the broker runs."""

    def __init__(self, manager: ReplicaManager, logs: LogDirectories) -> None:
        self._manager = manager
        self._logs = logs
        self._uncleanable: set[Log] = set()  # after an unexpected error, until the broker is restarted
        self._stopping = threading.Event()

    async def run(self) -> None:
        """Look for work every `log.cleaner.backoff.ms`, until cancelled. A disk error is reported as the broker's."""
        config = self._manager.config
        while config.log_cleaner_enable:
            await asyncio.sleep(config.log_cleaner_backoff_ms / 1000)
            while await self._clean_dirtiest():
                pass

    async def _clean_dirtiest(self) -> bool:
        """Clean the log that needs it most; False if none does, or it had to be given up."""
        dirtiest = self._dirtiest()
        if dirtiest is None:
            return False
        tp, found, cleanable = dirtiest
        try:
            return await self._clean(tp, found, cleanable)
        except Exception as error:
            if self._logs.get(tp) is not found:
                log.info("a replica was deleted during its cleaning", partition=str(tp))
            elif isinstance(error, FileNotFoundError) and not _is_lost(error, found):
                log.info("segments were removed during their cleaning", partition=str(tp), reason=str(error))
            elif isinstance(error, OSError):
                self._manager.on_storage_error(storage_error(found.directory, error))
            elif isinstance(error, ReplogError) and error.code is ErrorCode.KAFKA_STORAGE_ERROR:
                self._manager.on_storage_error(error)
            else:
                log.exception("a log cannot be cleaned; left alone until the next start", partition=str(tp))
                self._uncleanable.add(found)
        return False

    def _dirtiest(self) -> tuple[TopicPartition, Log, Cleanable] | None:
        candidates = []
        now_ms = self._manager.clock.wall_ms()
        for tp in self._manager.hosted:
            found = self._logs.get(tp)
            if found is None or self._logs.future(tp) is not None:  # one that is being moved waits (7.7)
                continue
            if found.failure or not found.config.compacted or found in self._uncleanable:
                continue
            cleanable = found.compaction.cleanable(self._logs.cleaned_offsets(tp).get(tp), now_ms)
            if cleanable.is_worth_it(found.config):
                candidates.append((tp, found, cleanable))
        return max(candidates, key=lambda candidate: candidate[2].dirty_ratio, default=None)

    async def _clean(self, tp: TopicPartition, found: Log, cleanable: Cleanable) -> bool:
        """False if a truncation, a removal of segments or the replica's deletion came in between (CL-2)."""
        size_before, started = found.size, time.monotonic()
        map_bytes = self._manager.config.log_cleaner_dedupe_buffer_size
        task = found.compaction.task(cleanable, self._manager.clock.wall_ms(), map_bytes)
        cleaning = Cleaning(task, _Breather(self._stopping))
        try:
            replaced = await self._replace(tp, found, cleaning)
        except CorruptRecord:
            if not found.compaction.is_void(task):
                raise
            replaced = False  # segments were cut while they were read
        if not replaced or not await self._note(tp, found, task, cleaning.end_offset):
            return False
        log.info(
            "cleaned",
            partition=str(tp),
            from_offset=task.first_dirty,
            to_offset=cleaning.end_offset,
            bytes_before=size_before,
            bytes_after=found.size,
            seconds=round(time.monotonic() - started, 3),
        )
        return True

    async def _replace(self, tp: TopicPartition, found: Log, cleaning: Cleaning) -> bool:
        """Each group of segments by a clean one, and note that; False as soon as what is to be replaced is gone."""
        await self._off_loop(cleaning.map_keys)
        for group in cleaning.groups():
            swap = await self._off_loop(partial(cleaning.rewrite, group))
            if swap is None:
                continue
            if self._logs.get(tp) is not found or not found.compaction.begin_swap(cleaning.task, swap):
                return False
            await in_thread(partial(fsync_directory, found.directory))
            if self._logs.get(tp) is not found or not found.compaction.finish_swap(swap):
                return False
            await in_thread(partial(fsync_directory, found.directory))
            clean_to = min(group[-1].next_offset, cleaning.end_offset)
            if not await self._note(tp, found, cleaning.task, clean_to):
                return False
        return True

    async def _note(self, tp: TopicPartition, found: Log, task: CleanTask, offset: int) -> bool:
        """Have the checkpoint say that the log is clean up to `offset`, if it is beyond what was; False if the task is
        void. Also of a part of the task: whoever reads the files, after a crash too, knows where offsets may be missing
        (CL-8), and what is below holds no key twice, as the keys of all that was dirty were mapped."""
        if self._logs.get(tp) is not found or found.compaction.is_void(task):
            return False
        if offset > task.first_dirty:
            cleaned_offsets = self._logs.cleaned_offsets(tp)
            cleaned_offsets.raise_to(tp, offset)
            await in_thread(cleaned_offsets.write)
        return True

    async def _off_loop(self, work: Callable[[], T]) -> T:
        """In a thread; a cancellation ends the work at its next breath."""
        task = asyncio.create_task(in_thread(work))
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            self._stopping.set()
            await asyncio.wait([task])
            task.exception()  # marks it as seen
            raise


def _is_lost(missing: FileNotFoundError, found: Log) -> bool:
    """Whether it is a file that the log counts on: no removal of segments took it."""
    path = Path(missing.filename or "")
    return path in {segment.path for segment in found.segments} and not path.exists()


class _Stopped(Exception):
    """The broker stops."""


class _Breather:
    """Called by the thread at work: lets it rest for as long as it has worked, and ends it when the broker stops."""

    def __init__(self, stopping: threading.Event) -> None:
        self._stopping = stopping
        self._since = time.perf_counter()

    def __call__(self) -> None:
        worked = time.perf_counter() - self._since
        if worked >= WORK_S:
            if self._stopping.wait(worked):
                raise _Stopped
            self._since = time.perf_counter()
