"""One broker: starts in the order that keeps promises, serves, and stops so that nothing has to be recovered.

Start (CT-2): listen → hear the metadata → load the logs, recovering what an unclean stop left → register → take up
roles → ask to be unfenced. Stop (CT-13): hand over leaderships → stop serving and fetching →
flush, checkpoint, clean marker.
"""

import asyncio
import os
import random
from collections.abc import Coroutine, Sequence
from functools import partial
from typing import Any

import structlog

from cluster.broker.alter_partition import AlterPartitionSender
from cluster.broker.cleaning import CleaningWorker, LogCleaner
from cluster.broker.fetcher import Fetcher
from cluster.broker.fetcher_manager import FetcherManager
from cluster.broker.housekeeping import Housekeeping
from cluster.broker.inspection_service import InspectionService
from cluster.broker.lifecycle import BrokerLifecycle, BrokerState
from cluster.broker.log_dirs_service import LogDirsService
from cluster.broker.log_flusher import LogFlusher
from cluster.broker.log_service import LogService
from cluster.broker.metadata_watch import MetadataWatch
from cluster.broker.moves import ReplicaMoves
from cluster.broker.presence_service import PresenceService
from cluster.broker.producer_ids import ProducerIds
from cluster.broker.replica_manager import ReplicaManager
from cluster.broker.replica_service import ReplicaService
from cluster.broker.role_changes import RoleChanges
from cluster.broker.threads import in_thread
from cluster.clock import Clock
from cluster.metadata_image import MetadataImage
from replog.backoff import Backoff
from replog.config import BrokerConfig, TopicConfig, parse_address, topic_config
from replog.errors import ErrorCode, ReplogError
from replog.log.directories import LogDirectories
from replog.rpc import methods
from replog.rpc.transport import Transport
from replog.rpc.v1 import metadata_pb2
from replog.topic import TopicPartition

log = structlog.get_logger()

METADATA_TIMEOUT_S = 60.0
CONTROLLED_SHUTDOWN_TIMEOUT_S = 20.0
GOODBYE_TIMEOUT_S = 1.0
SERVER_GRACE_S = 0.1  # streams never end by themselves


class Broker:
    """`start()`, then `wait()` until it has failed or `stop()` was called."""

    def __init__(
        self, config: BrokerConfig, transport: Transport, clock: Clock, chance: random.Random, cleaning: CleaningWorker
    ) -> None:
        self.config = config
        self._cleaning = cleaning
        self.address = ""
        self._transport = transport
        self._clock = clock
        self._chance = chance
        self._image = MetadataImage()
        self._logs: LogDirectories | None = None
        self._roles: RoleChanges | None = None
        self._fetchers = FetcherManager(self._new_fetcher)
        self._tasks: list[asyncio.Task[None]] = []
        self._failure: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._controller = transport.connect(config.controller_listener)
        self._alter_partition = AlterPartitionSender(
            config.node_id,
            self._controller,
            lambda tp: self.manager.hosted[tp].topic_id if tp in self.manager.hosted else b"",
            lambda *result: self.manager.on_alter_partition_result(*result),
            config.request_timeout_ms / 1000,
            self._backoff(),
        )
        self.manager = ReplicaManager(config, self._image, clock, self._alter_partition.submit, self._fail)
        incarnation_id = chance.randbytes(16)
        self._watch = MetadataWatch(
            self._controller,
            config.node_id,
            incarnation_id,
            self._image,
            self._on_metadata,
            self._backoff(),
            self._on_controller_heard,
        )
        self._lifecycle = BrokerLifecycle(
            config,
            self._controller,
            incarnation_id,
            lambda: self._image.version,
            self._backoff(),
        )
        self._producer_ids = ProducerIds(config.node_id, self._controller)
        self._server = transport.listen(config.listeners)
        self._server.add(methods.PRESENCE, PresenceService(config.node_id, incarnation_id))
        self._server.add(methods.LOG, LogService(self.manager, self._producer_ids))
        self._server.add(methods.REPLICA, ReplicaService(self.manager))
        self._inspection = InspectionService(self.manager)
        self._server.add(methods.INSPECTION, self._inspection)
        self._log_dirs = LogDirsService(self.manager)
        self._server.add(methods.LOG_DIRS, self._log_dirs)

    def _backoff(self) -> Backoff:
        return Backoff(self._chance, base_ms=50)

    async def start(self) -> None:
        """Serve until told otherwise. Raises ReplogError, with everything released, when it cannot."""
        try:
            await self._start()
        except BaseException:
            await self._release()
            raise

    async def _start(self) -> None:
        config = self.config
        self.address = await self._server.start()
        advertised = config.advertised_listeners or self.address
        self._spawn(self._watch.run())
        await self._watch.wait_for_version(1, METADATA_TIMEOUT_S)
        logs = LogDirectories(
            config.log_dirs,
            cluster_id=self._image.cluster_id,
            node_id=config.node_id,
            randbytes=self._chance.randbytes,
        )
        self._logs = logs
        await in_thread(lambda: logs.load(self._topic_config, lambda line: log.info("loading logs", progress=line)))
        if logs.failed:
            faults = "; ".join(f"{tp}: {error.message}" for tp, error in logs.failed.items())
            raise ReplogError(
                ErrorCode.KAFKA_STORAGE_ERROR,
                f"{len(logs.failed)} replicas cannot be loaded ({faults}); "
                "move such a directory away to have its replica copied afresh",
            )
        broker_epoch = await self._lifecycle.register(self._image.cluster_id, advertised, self._previous_epoch(logs))
        self.manager.hearing.session_ms = self._lifecycle.session_timeout_ms
        self._alter_partition.broker_epoch = self._producer_ids.broker_epoch = broker_epoch
        self._spawn(self._lifecycle.run())
        self._lifecycle.become(BrokerState.RECOVERY)
        await self._watch.wait_for_version(broker_epoch, METADATA_TIMEOUT_S)
        self._roles = RoleChanges(
            self.manager,
            logs,
            self._fetchers,
            broker_epoch,
            lambda: self._lifecycle.state is BrokerState.PENDING_CONTROLLED_SHUTDOWN,
            self._backoff(),
        )
        self.manager.pace.is_urgent = self._is_waited_for
        self._inspection.serve(logs)
        flusher = LogFlusher(self.manager, logs, self._fetchers)
        self._spawn(flusher.run())
        self._spawn(self.manager.cold_reads.run(directory.directory for directory in logs.managers))
        await self._roles.apply_image()
        self._spawn(self._roles.make_coming())
        self._spawn(self._roles.retry())
        moves = ReplicaMoves(self.manager, logs, flusher)
        self._log_dirs.serve(logs, moves)
        self.manager.started = True
        self._spawn(self._alter_partition.run())
        self._spawn(Housekeeping(self.manager, logs, flusher).run())
        self._spawn(LogCleaner(self.manager, logs, self._cleaning).run())
        self._spawn(moves.run())
        self._lifecycle.become(BrokerState.RUNNING)
        await self._server.set_serving(True)
        log.info("serving", broker=config.node_id, address=advertised, epoch=broker_epoch, pid=os.getpid())

    @staticmethod
    def _previous_epoch(logs: LogDirectories) -> int:
        """The epoch that proves a clean stop; -1 also when loading had to drop data (ISR-18)."""
        lost = [str(tp) for tp, found in logs.logs.items() if found.lost_data]
        if lost:
            log.warning("loading dropped unsound data; registering as after an unclean stop", partitions=lost)
        return -1 if lost else logs.previous_broker_epoch

    def _topic_config(self, tp: TopicPartition) -> TopicConfig:
        """Of a topic that is gone the replica is left alone: holes in it are no damage, nothing is too old."""
        topic = self._image.topics.get(tp.topic)
        return topic_config(tp.topic, topic.configs if topic else {"cleanup.policy": "compact"})

    def _new_fetcher(self, address: str) -> Fetcher:
        return Fetcher(
            self.config,
            self._transport.connect(address),
            self._lifecycle.broker_epoch,
            self._clock,
            self._backoff(),
            self.manager.on_followed,
            self.manager.follower_quota,
        )

    async def _on_metadata(self, records: Sequence[metadata_pb2.MetadataRecord]) -> None:
        """A change that cannot be applied will not come again: that is the end, and nothing is built on the rest."""
        if self.failed:
            return
        if self._roles is None:
            for record in records:
                self._image.apply(record)
            return
        try:
            await self._roles.apply(records)
        except Exception as error:  # noqa: BLE001 (whatever it is)
            self._fail(error)

    def _is_waited_for(self) -> bool:
        """Newer metadata than what is being carried out may say who leads."""
        assert self._roles is not None
        return self._watch.has_news or self._roles.is_waited_for

    def _on_controller_heard(self) -> None:
        self.manager.hearing.controller_ms = self._clock.monotonic_ms()

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        task.add_done_callback(self._on_task_done)
        self._tasks.append(task)

    def _on_task_done(self, task: "asyncio.Task[None]") -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            self._fail(error)

    def _fail(self, error: BaseException) -> None:
        """The broker cannot go on: a log directory failed, or it was replaced. It stops without a marker."""
        if not self._failure.done():
            log.error("broker failed", reason=str(error))
            self._failure.set_exception(error)

    async def wait(self) -> None:
        """Until the broker fails; raises what it failed of."""
        await asyncio.shield(self._failure)

    async def stop(self) -> None:
        """Controlled shutdown: leaderships handed over, everything flushed, marker written. At once after a failure."""
        await self._server.set_serving(False)
        if self.failed:
            await self._lifecycle.say_goodbye(GOODBYE_TIMEOUT_S)
        else:
            await self._hand_over()
        self._lifecycle.become(BrokerState.SHUTTING_DOWN)
        await self._release(clean=True)

    async def _hand_over(self) -> None:
        """Wait until the controller lets this broker stop; not if it fails meanwhile, or its id was taken over."""
        agreed = asyncio.create_task(self._lifecycle.controlled_shutdown(CONTROLLED_SHUTDOWN_TIMEOUT_S))
        either: set[asyncio.Future[Any]] = {agreed, self._failure}
        try:
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
            if agreed.done() and not agreed.result():
                log.warning("the controller did not answer the controlled shutdown in time; stopping all the same")
        finally:
            agreed.cancel()

    async def _release(self, *, clean: bool = False) -> None:
        """Let go of everything; the clean marker is written only if nothing failed before (FN-3)."""
        await self._server.stop(SERVER_GRACE_S)  # at first: nobody shall wait for a broker that does nothing more
        for task in self._tasks:  # then the metadata: it would start fetchers anew
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._fetchers.close()
        await self._controller.close()
        try:
            if self._logs is not None:
                if clean and not self._failure.done():
                    log.info("closing logs", count=len(self._logs.logs))
                    await in_thread(partial(self._logs.close, self._lifecycle.broker_epoch))
                else:
                    self._logs.abandon()
        except ReplogError as error:
            self._fail(error)
            raise
        finally:
            if self._failure.done():
                self._failure.exception()  # has been logged; marks it as seen

    @property
    def failed(self) -> bool:
        return self._failure.done()


def check_address(config: BrokerConfig) -> None:
    """A broker that listens on every interface must say under which address the others find it."""
    host, _ = parse_address(config.listeners)
    if host in ("0.0.0.0", "[::]") and not config.advertised_listeners:
        raise ReplogError(
            ErrorCode.INVALID_CONFIG,
            f"listeners={config.listeners} is no address that others can connect to; set advertised.listeners too",
        )
