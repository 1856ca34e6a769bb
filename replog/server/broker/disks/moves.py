"""Replicas that move between this broker's log directories, under load, as leaders or as followers (7.7).

All moves share one task, which copies a slice of one log after the other and rests as long as it has worked. A thread
creates and removes the copies' directories, and fsyncs what was copied and the checkpoints before and after the
swap. The swap is one step of the event loop and waits twice for the disk: for the directories' new names."""

import asyncio
import shutil
from dataclasses import dataclass
from functools import partial

import structlog

from follower.future_replica import FutureReplica
from replog.errors import ErrorCode, ReplogError
from replog.log.directories.changes import LogChange
from replog.log.directories.log_manager import LogManager, SwapPreparation
from replog.log.errors import LogStorageError, TooManyOpenFiles, storage_errors
from replog.log.files.cold import NOTHING, ByteRange, ColdRead
from replog.log.files.opening import bring
from replog.log.log import Log
from replog.server.broker.context import MOVE
from replog.server.broker.disks.log_flusher import LogFlusher
from replog.server.broker.replicas.replica_manager import ReplicaManager
from replog.server.work import in_thread
from replog.topic import TopicPartition

log = structlog.get_logger()

SLICE_BYTES = 128 << 10
FLUSH_BYTES = 16 << 20
PAUSE_S = 0.1  # when no move can go on
REST_S = 0.001  # the least rest between two slices
ROOM_BYTES = 64 << 20  # stay free for the logs of that directory


@dataclass(slots=True)
class _Move:
    replica: FutureReplica
    unflushed_bytes: int = 0
    flushed: bool = False  # it was flushed after it had caught up
    prepared: SwapPreparation | None = None
    brought: ByteRange = NOTHING  # bytes brought into memory to be copied


class ReplicaMoves:
    def __init__(self, manager: ReplicaManager, logs: LogManager, flusher: LogFlusher) -> None:
        """Go on with the moves of an earlier run whose replicas still exist. Needs roles that are taken up."""
        self._manager = manager
        self._context = manager.context
        self._replicas = manager.replicas
        self._logs = logs
        self._flusher = flusher
        self._moves: dict[TopicPartition, _Move] = {}
        self._wake = asyncio.Event()
        self._turn = asyncio.Lock()
        logs.on_truncated = self._on_truncated
        for tp in logs.futures:
            if tp in manager.replicas.hosted:
                self._begin(tp)

    async def move(self, tp: TopicPartition, directory: str) -> None:
        """Start or cancel a move, one after the other. Raises as `LogManager.plan_move`, and REPLICA_NOT_AVAILABLE for
        a replica that the cluster does not place here."""
        async with self._turn:
            current, change = self._logs.get(tp), LogChange()
            if current is not None and tp not in self._replicas.hosted:
                raise ErrorCode.REPLICA_NOT_AVAILABLE.error(f"the cluster does not place {tp} on this broker")
            self._logs.plan_move(tp, directory, change)
            if not change:
                return
            if self._moves.pop(tp, None) is not None:
                log.info("move called off", partition=str(tp))
            await self._carry_out(change)
            if tp in change.failures:
                raise change.failures[tp]
            if self._logs.future(tp) is None:
                return
            if self._logs.get(tp) is current:
                self._begin(tp)
            else:  # the replica was deleted meanwhile
                await self._drop(tp)

    async def _drop(self, *partitions: TopicPartition) -> None:
        """Drop the copies of these partitions. Their files are deleted soon."""
        change = LogChange()
        for tp in partitions:
            self._logs.plan_no_move(tp, change)
        await self._carry_out(change)

    async def _carry_out(self, change: LogChange) -> None:
        try:
            await in_thread(change.run)
        except BaseException:
            change.abandon()
            raise
        self._logs.commit(change, self._context.clock.monotonic_ms())

    def _begin(self, tp: TopicPartition) -> None:
        current, future = self._logs.get(tp), self._logs.future(tp)
        assert current is not None
        assert future is not None
        replica = FutureReplica(tp, current, future, backoff_ms=self._context.config.replica_fetch_backoff_ms)
        self._moves[tp] = _Move(replica)
        self._wake.set()
        log.info("moving", partition=str(tp), to=str(future.directory.parent), from_offset=future.log_end_offset)

    def _on_truncated(self, tp: TopicPartition, truncated: Log) -> None:
        if tp in self._moves and self._logs.get(tp) is truncated:
            self._moves[tp].replica.current_truncated(truncated.log_end_offset)

    async def run(self) -> None:
        """Copy until cancelled. A move is cancelled if the copy's directory has no room, or fails. Other storage
        failures are reported to the broker, and any other error ends it."""
        await self._drop(*(tp for tp in self._logs.futures if tp not in self._moves))
        while True:
            progressed = False
            for tp, move in list(self._moves.items()):
                try:
                    progressed |= await self._advance(tp, move)
                except TooManyOpenFiles as error:
                    log.warning("moving is left for later", partition=str(tp), reason=error.message)
                except ReplogError as error:
                    if error.code is not ErrorCode.KAFKA_STORAGE_ERROR:
                        raise
                    await self._on_storage_error(tp, move, error)
            if not progressed:
                self._wake.clear()
                await (asyncio.sleep(PAUSE_S) if self._moves else self._wake.wait())

    async def _on_storage_error(self, tp: TopicPartition, move: _Move, error: ReplogError) -> None:
        if tp not in self._replicas.hosted:
            return  # the replica was deleted meanwhile, and its directory renamed
        current = self._logs.get(tp)
        if current is None:  # a swap is half done: the broker stops, and its next start finishes it
            raise error
        if current.failure is not None:  # the replica has failed, not its copy
            self._moves.pop(tp, None)
            self._manager.went_offline(tp, error)
        elif self._is_under_way(tp, move):
            await self._call_off(tp, error.message)

    async def _call_off(self, tp: TopicPartition, reason: str) -> None:
        del self._moves[tp]
        log.error("move called off", partition=str(tp), reason=reason)
        with self._context.storage_errors_reported("removal of the copy"):
            await self._drop(tp)

    def _is_under_way(self, tp: TopicPartition, move: _Move) -> bool:
        return self._logs.future(tp) is move.replica.log

    async def _advance(self, tp: TopicPartition, move: _Move) -> bool:
        """Copy one slice. Return True if the move got further."""
        if not self._is_under_way(tp, move):  # the replica was deleted
            if self._moves.get(tp) is move:
                del self._moves[tp]
            return True
        loop = asyncio.get_running_loop()
        started = loop.time()
        self._check_room(move)
        slice_bytes = min(SLICE_BYTES, self._context.config.replica_fetch_max_bytes)
        try:
            progress = move.replica.copy(slice_bytes, self._context.clock.monotonic_ms(), move.brought)
        except ColdRead as cold:
            await in_thread(partial(bring, cold))
            move.brought = cold.byte_range
            return True
        if progress.note:
            log.warning("moving", partition=str(tp), note=progress.note)
            self._context.traffic.damage[MOVE] += progress.refused
        if move.replica.failure is not None:
            await self._call_off(tp, move.replica.failure)
            return True
        move.unflushed_bytes += progress.appended_bytes
        caught_up = move.replica.caught_up
        if move.unflushed_bytes >= FLUSH_BYTES or (caught_up and not self._is_durable(tp, move)):
            await self._flush(move)
            return True
        if caught_up and move.replica.settled:
            if move.prepared is None or not self._logs.is_prepared(tp, move.prepared):
                preparation = self._logs.preparation(tp)
                await in_thread(preparation.run)
                preparation.done()
                move.prepared = preparation
                return True
            await self._swap(tp)
        await asyncio.sleep(max(loop.time() - started, REST_S))
        return caught_up or progress.appended_bytes > 0 or progress.truncated_to is not None

    @staticmethod
    def _check_room(move: _Move) -> None:
        """Raises LogStorageError if the disk is nearly full: the logs of that directory need the rest."""
        directory = move.replica.log.directory.parent
        with storage_errors(directory):
            free = shutil.disk_usage(directory).free
        if free < ROOM_BYTES:
            raise LogStorageError(f"{directory} has {free} bytes left, and {ROOM_BYTES} are to stay free")

    def _is_durable(self, tp: TopicPartition, move: _Move) -> bool:
        """Return True if as much of the copy is flushed as of the current log."""
        current = self._logs.get(tp)
        return current is not None and move.flushed and move.replica.log.recovery_point >= current.recovery_point

    async def _flush(self, move: _Move) -> None:
        move.unflushed_bytes = 0
        move.flushed |= move.replica.caught_up
        copy = move.replica.log
        task = copy.flush_task() if copy.settled else None  # a copy that is not settled waits for the flusher
        if task is not None:
            await in_thread(task.run)
            copy.flushed(task)

    async def _swap(self, tp: TopicPartition) -> None:
        """Swap the logs in one step, so that no event finds the replica without its log, or with two. Checkpoints are
        written after it; without room, with those of the next change."""
        old, hosted = self._logs.get(tp), self._replicas.hosted[tp]
        new = self._logs.swap(tp, self._context.clock.monotonic_ms())
        hosted.replace_log(new)
        self._flusher.flushed(tp, new)  # otherwise requests would wait for a flush of the old log (LG-18)
        self._manager.dirty[tp] = None
        del self._moves[tp]
        assert old is not None
        log.info(
            "moved",
            partition=str(tp),
            origin=str(old.directory.parent),
            to=str(new.directory.parent),
            log_end_offset=new.log_end_offset,
        )
        with self._context.storage_errors_reported("checkpoints of a move"):
            await in_thread(self._logs.swapped)
