"""One broker: starts in a safe order, serves, and stops so that the next start need not recover.

Start (CT-2): listen → get the metadata → load the logs, recovering after an unclean stop → register → take up roles →
ask to be unfenced. Stop (CT-13): hand over leaderships → stop serving and fetching → flush, checkpoint, marker."""

import asyncio
import os
import random
from collections.abc import Coroutine, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

import structlog
from prometheus_client.core import Metric

from replog.common.acl import Operation
from replog.common.backoff import Backoff
from replog.config.processes import BrokerConfig
from replog.config.topic import TopicConfig, topic_config
from replog.errors import ReplogError
from replog.log.directories.identity import CleanStop
from replog.log.directories.log_manager import LogManager
from replog.log.directories.replica import Placed
from replog.log.errors import LogStorageError, is_of_the_disk
from replog.metadata.image import MetadataImage
from replog.metadata.values import INCARNATION_ID_SIZE
from replog.rpc import methods
from replog.rpc.peer import Peer
from replog.rpc.serving import READY
from replog.rpc.tasks import end, may_fail_unheard
from replog.rpc.tls import Tls
from replog.rpc.transport import Transport
from replog.rpc.v1 import metadata_pb2
from replog.server.broker.cleaning.log_cleaner import CleaningWorker, LogCleaner
from replog.server.broker.clients.log_service import LogService
from replog.server.broker.clients.quotas import ClientQuotas
from replog.server.broker.context import RECOVERY, BrokerContext
from replog.server.broker.control.controller_link import ControllerLink
from replog.server.broker.control.isr_proposals import AlterPartitionSender
from replog.server.broker.control.lifecycle import BrokerLifecycle, BrokerState
from replog.server.broker.control.metadata_watch import MetadataWatch
from replog.server.broker.control.newest_metadata import NewestMetadata
from replog.server.broker.control.odd_settings import read_record
from replog.server.broker.control.producer_id_blocks import ProducerIds
from replog.server.broker.control.role_changes import RoleChanges
from replog.server.broker.disks.housekeeping import Housekeeping
from replog.server.broker.disks.inspection_service import InspectionService
from replog.server.broker.disks.log_dirs_service import LogDirsService
from replog.server.broker.disks.log_flusher import LogFlusher
from replog.server.broker.disks.moves import ReplicaMoves
from replog.server.broker.disks.reopening import FIRST_MS, LAST_MS, Reopening, check_known, missing_replicas
from replog.server.broker.identity import Identity, PresenceService
from replog.server.broker.kafka.service import KafkaService
from replog.server.broker.listening import Listening
from replog.server.broker.metrics import broker_metrics, directory_metrics
from replog.server.broker.replicas.hosted_replicas import HostedReplicas
from replog.server.broker.replicas.look_ups import LookUps
from replog.server.broker.replicas.replica_manager import ReplicaManager
from replog.server.broker.replication.replica_fetcher import FetcherManager, ReplicaFetcher
from replog.server.broker.replication.replica_service import ReplicaService
from replog.server.clock import Clock
from replog.server.logging import log_each
from replog.server.metrics.process import Room
from replog.server.work import in_thread
from replog.topic import TopicPartition

log = structlog.get_logger()

METADATA_TIMEOUT_S = 60.0
CONTROLLED_SHUTDOWN_TIMEOUT_S = 20.0
GOODBYE_TIMEOUT_S = 1.0
SERVER_GRACE_S = 0.1  # a longer wait would be in vain: streams never end by themselves


class Broker:
    """A broker. Call `start()`, then `wait()` until it fails, and `stop()`."""

    def __init__(
        self,
        config: BrokerConfig,
        transport: Transport,
        clock: Clock,
        rng: random.Random,
        cleaning: CleaningWorker,
        tls: Tls | None = None,
        others: Mapping[str, Transport] = MappingProxyType({}),
    ) -> None:
        """`tls` has this process's certificate. `transport` is for other brokers; `others` has, by protocol, those of
        listeners for clients."""
        self.config = config
        self._cleaning = cleaning
        self._tls = tls
        self._transport = transport
        self._clock = clock
        self._rng = rng
        self._image = MetadataImage()
        self.logs: LogManager | None = None
        self._roles: RoleChanges | None = None
        self._fetchers = FetcherManager(self._new_fetcher)
        self._tasks: list[asyncio.Task[None]] = []
        self._failure: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._controller = ControllerLink(transport, config.controller_listener)
        self._identity = Identity(config.node_id, rng.randbytes(INCARNATION_ID_SIZE))
        self._known = NewestMetadata(config.log_dirs, self._backoff(), self._on_storage_error)
        self.context = BrokerContext(config, self._image, clock, self._on_storage_error)
        self.replicas = HostedReplicas(self.context)
        self._alter_partition = AlterPartitionSender(
            self._identity,
            self._controller,
            self.replicas.topic_id,
            self._known,
            config.request_timeout_ms / 1000,
            self._backoff(),
        )
        self.manager = ReplicaManager(self.context, self.replicas, self._alter_partition.submit)
        self._watch = MetadataWatch(
            self._controller,
            self._identity,
            self._image,
            self._known,
            self._on_metadata,
            self._backoff(),
            self._on_controller_heard,
        )
        self._lifecycle = BrokerLifecycle(
            self.context, self._controller, self._identity, self._known, self._backoff(), self.replicas
        )
        self._producer_ids = ProducerIds(
            self._identity,
            self._controller,
            lambda given: self._watch.wait_until(lambda: self._image.next_producer_id > given),
        )
        self._listening = Listening(config, lambda listener: others.get(listener.protocol, transport))
        quotas = ClientQuotas(self._image.client_quotas, clock)
        self.inspection = InspectionService(self.context, self.replicas, quotas)
        self._log_dirs = LogDirsService(self.context, self.replicas)
        self._room = Room()
        self._look_ups = LookUps()
        add = partial(self._listening.add, authorizer=self.context.authorizer)
        add(methods.PRESENCE, lambda _: PresenceService(self._identity))
        add(methods.LOG, lambda name: LogService(self.manager, self._producer_ids, quotas, self._look_ups, name))
        add(methods.REPLICA, lambda _: ReplicaService(self.manager))
        add(methods.INSPECTION, lambda _: self.inspection)
        add(methods.LOG_DIRS, lambda _: self._log_dirs)
        kafka = KafkaService(
            manager=self.manager,
            producer_ids=self._producer_ids,
            quotas=quotas,
            look_ups=self._look_ups,
            log_dirs=self._log_dirs,
            controller=self._controller,
            transport=transport,
            until=self._watch.wait_until,
            randbytes=rng.randbytes,
        )
        self._listening.serve_kafka(lambda name: replace(kafka, listener=name))

    def _backoff(self) -> Backoff:
        return Backoff(self._rng, base_ms=50)

    async def start(self) -> None:
        """Serve until `stop`. Raises ReplogError, with everything released, if it cannot."""
        try:
            await self._start()
        except BaseException:
            await self._release()
            raise

    async def _start(self) -> None:
        config = self.config
        await self._listening.start()
        self._spawn(self._watch.run())
        loop = asyncio.get_running_loop()
        patience_s, began = config.initial_broker_registration_timeout_ms / 1000, loop.time()
        await self._watch.wait_for_version(1, patience_s)
        patience_s -= loop.time() - began  # loading the logs may take longer
        if self._tls is not None:
            self._tls.check_cluster(self._image.cluster_id)
        placed = list(self._image.index.on_broker(config.node_id))
        check_known(config.log_dirs, placed, required=config.log_dirs_require_known)
        logs = LogManager(
            config.log_dirs, cluster_id=self._image.cluster_id, node_id=config.node_id, randbytes=self._rng.randbytes
        )
        self.logs = logs
        await in_thread(lambda: logs.load(self._topic_config, _report, self._placed))
        for path, error in logs.offline.items():
            _log_offline(path, error)
        failed = [{"partition": str(tp), "reason": error.message} for tp, error in logs.failed.items()]
        log_each(log.error, "replica offline, to be tried again", failed)
        broker_epoch = await self._lifecycle.register(
            self._image.cluster_id,
            self._listening.address,
            self._listening.endpoints,
            self._previous_stop(logs),
            patience_s,
            missing_replicas(self._image, config.node_id, logs),
        )
        self.replicas.failure_detector.session_ms = self._lifecycle.session_timeout_ms
        self._spawn(self._lifecycle.run())
        self._lifecycle.become(BrokerState.RECOVERY)
        await self._watch.wait_for_version(broker_epoch, METADATA_TIMEOUT_S)
        roles = self._roles = RoleChanges(
            self.manager,
            logs,
            self._fetchers,
            self._identity,
            self._known,
            lambda: self._lifecycle.standing.want_shutdown,
            self._backoff(),
        )
        self.context.throttle.is_urgent = lambda: self._watch.has_news or roles.waiting > 0  # they may say who leads
        self.inspection.logs = logs
        flusher = LogFlusher(self.manager, logs, self._fetchers)
        self._spawn(flusher.run())
        self._spawn(self.manager.sessions.cold_reads.run(directory.path for directory in logs.directories))
        await roles.apply_image()
        self._spawn(roles.make_coming())
        self._spawn(roles.retry())
        moves = ReplicaMoves(self.manager, logs, flusher)
        self._log_dirs.logs, self._log_dirs.moves = logs, moves
        self.replicas.started = True
        self._spawn(self._alter_partition.run(self.manager.on_alter_partition_result))
        self._spawn(Housekeeping(self.manager, logs, flusher).run())
        self._spawn(LogCleaner(self.manager, logs, self._cleaning).run())
        self._spawn(moves.run())
        again = Backoff(self._rng, FIRST_MS, LAST_MS)
        self._spawn(Reopening(self._image, self.replicas, logs, roles, self._placed, again).run())
        self._lifecycle.become(BrokerState.RUNNING)
        await self._listening.set_serving(True)
        await self._report_ready()
        log.info(
            "serving",
            broker=config.node_id,
            address=self._listening.address,
            **({"others": self._listening.endpoints} if self._listening.endpoints else {}),
            epoch=broker_epoch,
            pid=os.getpid(),
        )

    def _previous_stop(self, logs: LogManager) -> CleanStop:
        """Return the proof of a clean stop; an empty one if there was none, or if loading dropped data (ISR-18)."""
        lost = [str(tp) for tp, loaded in logs.logs.items() if loaded.lost_data]
        if lost:
            self.context.traffic.damage[RECOVERY] += len(lost)
            log.warning("loading dropped unsound data; registering as after an unclean stop", partitions=lost)
        return CleanStop() if lost else logs.previous_stop

    def _topic_config(self, tp: TopicPartition) -> TopicConfig:
        """Return the topic's settings. Those of a deleted topic are such that loading deletes nothing: it counts as
        compacted."""
        topic = self._image.topics.get(tp.topic)
        return topic_config(tp.topic, topic.configs if topic else {"cleanup.policy": "compact"})

    def _placed(self, tp: TopicPartition, known: int) -> Placed | None:
        """Return the replica that a broker with metadata up to version `known` should have. None: its topic may have
        been made later, under the name of another one."""
        topic, state = self._image.topics.get(tp.topic), self._image.partitions.get(tp)
        if topic is None or state is None or self.config.node_id not in state.replicas:
            return None
        return Placed(topic.topic_id, state.leader_epoch) if self._image.topic_versions[tp.topic] <= known else None

    def _new_fetcher(self, address: str) -> ReplicaFetcher:
        channel, throttles = self._transport.connect(address), self.replicas.copying
        followed = self.manager.on_followed
        return ReplicaFetcher(self.context, channel, self._identity, self._backoff(), followed, throttles)

    async def _on_metadata(self, records: Sequence[metadata_pb2.MetadataRecord], is_all: bool) -> None:
        """Apply changes. If that fails the broker fails and applies no later ones, since these do not come again."""
        if self.failed:
            return
        try:
            if self._roles is None:
                for record in records:
                    self._image.put(read_record(record))
                return
            await self._roles.apply(records, is_all=is_all)
            if any(record.WhichOneof("value") == "partition" and record.partition.leader < 0 for record in records):
                self._lifecycle.report_soon()  # the election may wait for the log ends here
            await self._report_ready()
        except Exception as error:  # noqa: BLE001 (whatever has failed, the change does not come again)
            self._fail(error)

    async def _report_ready(self) -> None:
        """Tell health checks whether another broker may be restarted, as far as this one is concerned."""
        running = self._lifecycle.standing.state is BrokerState.RUNNING
        await self._listening.set_serving(running and not self._image.index.behind_on(self.config.node_id), READY)

    def _on_controller_heard(self) -> None:
        self.replicas.failure_detector.controller_ms = self._clock.monotonic_ms()

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        task.add_done_callback(self._on_task_done)
        self._tasks.append(task)

    def _on_task_done(self, task: "asyncio.Task[None]") -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            self._fail(error)

    def _on_storage_error(self, error: ReplogError) -> None:
        """Take the log directory of a failed disk offline, and tell the controller (CT-27). With the last one, or
        before everything is loaded, the broker fails. Any other failure is one replica's, or that of a file which its
        user tries again (D57)."""
        logs, path = self.logs, error.path if isinstance(error, LogStorageError) else None
        failed = logs.directory_of(path) if logs is not None else None
        if logs is not None and not is_of_the_disk(error) and not (failed is not None and failed.is_gone):
            self._lose_one(logs.partition_at(path), logs, error)
            return
        if failed is not None and failed.offline is not None:
            return
        if logs is None or failed is None or logs.working == [failed] or not self.replicas.started:
            self._fail(error)
        elif isinstance(error, LogStorageError):
            _log_offline(failed.path, error, replicas=len(failed.logs))
            failed.take_offline(error)
            for tp in failed.logs:
                self._fetchers.stop(tp)
            self._lifecycle.report_soon()

    def _lose_one(self, tp: TopicPartition | None, logs: LogManager, error: ReplogError) -> None:
        lost = logs.get(tp) if tp is not None else None
        if tp is None or lost is None:
            log.error("a file failed, to be tried again", reason=error.message)
        elif lost.failure is None and isinstance(error, LogStorageError):
            lost.work.fail(error)  # reports the error here once more
        else:
            self._fetchers.stop(tp)
            self._lifecycle.report_soon()

    def _fail(self, error: BaseException) -> None:
        """Note that the broker cannot go on: its log directories failed, or a new process took its id. It then stops
        without a marker."""
        if not self._failure.done():
            log.error("broker failed", reason=str(error))
            self._failure.set_exception(error)

    async def wait(self) -> None:
        """Wait until the broker fails, and raise the cause."""
        await asyncio.shield(self._failure)

    async def stop(self) -> None:
        """Hand over leaderships, flush everything, write the marker, and stop. After a failure stop at once."""
        await self._listening.set_serving(False)
        await self._listening.set_serving(False, READY)
        if self.failed:
            await self._lifecycle.say_goodbye(GOODBYE_TIMEOUT_S)
        else:
            await self._hand_over()
        self._lifecycle.become(BrokerState.SHUTTING_DOWN)
        await self._release(clean=True)

    async def _hand_over(self) -> None:
        """Wait until the controller lets this broker stop, the broker fails, or its id is taken over."""
        agreed = may_fail_unheard(self._lifecycle.controlled_shutdown(CONTROLLED_SHUTDOWN_TIMEOUT_S))
        either: set[asyncio.Future[Any]] = {agreed, self._failure}
        try:
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
            if agreed.done() and not agreed.result():
                log.warning("the controller did not answer the controlled shutdown in time; stopping all the same")
        finally:
            agreed.cancel()

    async def _release(self, *, clean: bool = False) -> None:
        """Release everything. The clean marker is written only if nothing has failed (FN-3)."""
        await self._listening.stop(SERVER_GRACE_S)  # otherwise clients would wait for a broker that does nothing
        await end(*self._tasks)  # they must end before the fetchers: new metadata would start others
        await self._fetchers.close()
        await self._controller.close()
        try:
            if self.logs is not None:
                if clean and not self._failure.done():
                    log.info("closing logs", count=len(self.logs.logs))
                    me = self._identity
                    await in_thread(partial(self.logs.close, me.broker_epoch, me.incarnation_id))
                else:
                    self.logs.abandon()
        except ReplogError as error:
            self._fail(error)
            raise
        finally:
            if self._failure.done():
                self._failure.exception()  # otherwise asyncio would log it once more

    async def metrics(self, asks: Peer) -> list[Metric]:
        """Return metrics for `/metrics`. Raises CLUSTER_AUTHORIZATION_FAILED if the peer may not describe the
        cluster."""
        self.context.authorizer.check_cluster(asks, Operation.DESCRIBE, "/metrics")
        return [
            *await broker_metrics(self.manager, self._lifecycle.standing.state),
            *directory_metrics(self.logs.directories if self.logs is not None else (), self.context.traffic),
            *await self._room.families(self.config.log_dirs),
            self._listening.connections(),
        ]

    @property
    def address(self) -> str:
        return next(iter(self._listening.bound.values()), "")

    @property
    def failed(self) -> bool:
        return self._failure.done()


def _report(line: str) -> None:
    log.info("loading logs", progress=line)


def _log_offline(directory: Path, error: LogStorageError, **figures: int) -> None:
    log.error(
        "log directory offline",
        directory=str(directory),
        **figures,
        reason=error.message,
        remedy="other brokers lead its partitions; repair the disk or replace it, then restart this broker",
    )
