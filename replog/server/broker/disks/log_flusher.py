"""Group commit: flushes of logs, in a thread for each disk (LG-18, divergence 36).

One fsync serves every append before it, and later ones share the next; the truncations of many logs share one write of
each checkpoint. Then acknowledgements, high watermarks and followers that waited go on."""

import asyncio
from dataclasses import dataclass, field
from functools import partial
from itertools import islice

import structlog

from replog.config.properties import MAX_LONG
from replog.log.directories.log_directory import LogDirectory
from replog.log.directories.log_manager import LogManager
from replog.log.durable import FlushTask, run_all
from replog.log.errors import LogStorageError
from replog.log.log import Log
from replog.server.broker.replicas.replica_manager import ReplicaManager
from replog.server.broker.replication.replica_fetcher import FetcherManager
from replog.server.logging import log_each
from replog.server.work import in_thread
from replog.topic import TopicPartition

log = structlog.get_logger()

MOST = 256  # logs at once: a client that waits for one of them waits for all
RETRY_S = 0.1  # the pause after a flush for which no descriptor was left


@dataclass(slots=True)
class _Disk:
    directory: LogDirectory
    asked: dict[tuple[TopicPartition, Log], int] = field(default_factory=dict)  # logs to flush, up to which offset
    wake: asyncio.Event = field(default_factory=asyncio.Event)


class LogFlusher:
    """Flushes hosted logs while the broker runs. Nothing else fsyncs them."""

    def __init__(self, manager: ReplicaManager, logs: LogManager, fetchers: FetcherManager) -> None:
        self._manager = manager
        self._context = manager.context
        self._replicas = manager.replicas
        self._fetchers = fetchers
        self._disks = {directory.path: _Disk(directory) for directory in logs.directories}
        for directory in logs.directories:
            directory.on_flush_due = self.ask

    def ask(self, tp: TopicPartition, asking: Log, up_to: int = MAX_LONG) -> None:
        """Have the log made durable soon, below `up_to` or its end."""
        disk = self._disks[asking.directory.parent]
        disk.asked[tp, asking] = max(up_to, disk.asked.get((tp, asking), 0))
        disk.wake.set()

    async def run(self) -> None:
        """Flush until cancelled. Storage failures are reported to the log, and by it to the broker."""
        async with asyncio.TaskGroup() as group:
            for disk in self._disks.values():
                group.create_task(self._run(disk))

    async def _run(self, disk: _Disk) -> None:
        while True:
            await disk.wake.wait()
            asked = dict(islice(disk.asked.items(), MOST))
            tasks: dict[TopicPartition, FlushTask] = {}
            logs: dict[TopicPartition, Log] = {}
            for (tp, asking), up_to in asked.items():
                del disk.asked[tp, asking]
                task = asking.flush_task(up_to) if asking.failure is None else None
                if task is not None:
                    tasks[tp], logs[tp] = task, asking
            if not disk.asked:
                disk.wake.clear()
            if tasks:
                await self._flush(disk, tasks, logs)

    async def _flush(
        self, disk: _Disk, tasks: dict[TopicPartition, FlushTask], logs: dict[TopicPartition, Log]
    ) -> None:
        checkpoint = disk.directory.checkpoint_truncated
        clock, begun_s = self._context.clock, self._context.clock.monotonic_s()
        failures = await in_thread(
            partial(run_all, tasks, lambda settled: checkpoint({tp: logs[tp] for tp in settled}))
        )
        ended_s = clock.monotonic_s()
        self._context.traffic.flushes.add((ended_s - begun_s) * 1000, ended_s)
        later: list[dict[str, object]] = []
        for tp, task in tasks.items():
            flushed, error = logs[tp], failures.get(tp)
            if flushed.failure is not None:
                continue  # it was deleted or moved meanwhile; the disk must not be blamed
            if flushed.directory != task.directory:  # it has moved here meanwhile, and its files were not found
                self.ask(tp, flushed, task.up_to)
            elif error is None:
                stable_before = flushed.last_stable_offset
                flushed.flushed(task)
                self.flushed(tp, flushed)
                if flushed.last_stable_offset != stable_before:  # a truncation is done: transactions are known again
                    self._manager.touched(tp, high_watermark_advanced=False)
            elif isinstance(error, LogStorageError):
                flushed.work.fail(error)
            else:
                later.append({"partition": str(tp), "reason": error.message})
                self.ask(tp, flushed, task.up_to)
        log_each(log.warning, "flush left for later", later)
        if failures:
            await asyncio.sleep(RETRY_S)

    def flushed(self, tp: TopicPartition, flushed: Log) -> None:
        """Check all that waits for a flush of this log."""
        flushed.ask_for_flush()  # a truncation may have made the flush void
        hosted = self._replicas.hosted.get(tp)
        if hosted is None or hosted.log is not flushed:
            return
        if hosted.leader is not None:
            hosted.leader.advance_high_watermark(self._context.clock.monotonic_ms())
            self._manager.touched(tp, high_watermark_advanced=True)  # otherwise acks=1 would wait on
        self._fetchers.flushed(tp)
