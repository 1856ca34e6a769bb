"""Group commit: flushes of logs, in a thread for each disk (LG-18, divergence 36).

One fsync serves every append that came before it began, and later ones share the next; the truncations of many logs
share one write of each checkpoint. Waiting acknowledgements, high watermarks and followers continue on the loop."""

import asyncio
from dataclasses import dataclass, field
from functools import partial
from itertools import islice

import structlog

from replog.log.directories.log_directory import LogDirectory
from replog.log.directories.log_manager import LogManager
from replog.log.errors import LogStorageError
from replog.log.flushing import FlushTask, run_all
from replog.log.log import Log
from replog.properties import MAX_LONG
from replog.server.broker.replicas.replica_manager import ReplicaManager
from replog.server.broker.replication.fetcher_manager import FetcherManager
from replog.server.logging import tell_each
from replog.server.threads import in_thread
from replog.topic import TopicPartition

log = structlog.get_logger()

MOST = 256  # logs at once: who waits for one of them waits for all
RETRY_S = 0.1  # where there was no descriptor


@dataclass(slots=True)
class _Disk:
    directory: LogDirectory
    asked: dict[tuple[TopicPartition, Log], int] = field(default_factory=dict)  # up to which offset
    wake: asyncio.Event = field(default_factory=asyncio.Event)


class LogFlusher:
    """`run` it while the broker runs; nothing else fsyncs a log that is hosted."""

    def __init__(self, manager: ReplicaManager, logs: LogManager, fetchers: FetcherManager) -> None:
        self._manager = manager
        self._fetchers = fetchers
        self._disks = {directory.path: _Disk(directory) for directory in logs.directories}
        for directory in logs.directories:
            directory.on_flush_due = self.ask

    def ask(self, tp: TopicPartition, asking: Log, up_to: int = MAX_LONG) -> None:
        """Have it durable below `up_to`, or the log end, soon."""
        disk = self._disks[asking.directory.parent]
        disk.asked[tp, asking] = max(up_to, disk.asked.get((tp, asking), 0))
        disk.wake.set()

    async def run(self) -> None:
        """Until cancelled. A storage failure is the log's, and with it the broker's."""
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
        clock, begun_s = self._manager.clock, self._manager.clock.monotonic_s()
        failures = await in_thread(
            partial(run_all, tasks, lambda settled: checkpoint({tp: logs[tp] for tp in settled}))
        )
        ended_s = clock.monotonic_s()
        self._manager.traffic.flushes.add((ended_s - begun_s) * 1000, ended_s)
        later: list[dict[str, object]] = []
        for tp, task in tasks.items():
            flushed, error = logs[tp], failures.get(tp)
            if flushed.failure is not None:
                continue  # deleted meanwhile, or moved: the disk is not to blame
            if flushed.directory != task.directory:  # a copy that took its log's place: files were looked for in vain
                self.ask(tp, flushed, task.up_to)
            elif error is None:
                stable_before = flushed.last_stable_offset
                flushed.flushed(task)
                self.flushed(tp, flushed)
                if flushed.last_stable_offset != stable_before:  # a truncation is settled: transactions are known again
                    self._manager.touched(tp, high_watermark_advanced=False)
            elif isinstance(error, LogStorageError):
                flushed.flush_failed(error)
            else:
                later.append({"partition": str(tp), "reason": error.message})
                self.ask(tp, flushed, task.up_to)
        tell_each(log.warning, "flush left for later", later)
        if failures:
            await asyncio.sleep(RETRY_S)

    def flushed(self, tp: TopicPartition, flushed: Log) -> None:
        """More of this log may count, or less is to be waited for: tell who waits for that."""
        flushed.ask_for_flush()  # a truncation may have made the task void
        hosted = self._manager.hosted.get(tp)
        if hosted is None or hosted.log is not flushed:
            return
        if hosted.leader is not None:
            hosted.leader.advance_high_watermark(self._manager.clock.monotonic_ms())
            self._manager.touched(tp, high_watermark_advanced=True)  # acks=1 waits, too
        self._fetchers.flushed(tp)
