"""Metadata into roles: which replicas this broker hosts, which it leads, which it copies from whom (§2).

Deletions come first, then new leaderships, then new followerships (§2.3); the image was updated before.
"""

from collections.abc import Callable, Iterable

import structlog

from cluster.broker.fetcher_manager import FetcherManager
from cluster.broker.partition import HostedPartition
from cluster.broker.replica_manager import ReplicaManager
from follower.partition import PartitionFollower
from leader.partition import PartitionLeader
from replog.config import TopicConfig
from replog.errors import ErrorCode, ReplogError
from replog.log.directories import LogDirectories
from replog.metadata import NO_LEADER, PartitionState, Topic
from replog.rpc.v1 import controller_pb2 as pb
from replog.topic import TopicPartition

log = structlog.get_logger()


class RoleChanges:
    """Applies the image, whole or change by change, to the hosted partitions."""

    def __init__(
        self,
        manager: ReplicaManager,
        logs: LogDirectories,
        fetchers: FetcherManager,
        broker_epoch: int,
        shutting_down: Callable[[], bool],
    ) -> None:
        self._manager = manager
        self._image = manager.image
        self._broker_id = manager.config.node_id
        self._logs = logs
        self._fetchers = fetchers
        self._broker_epoch = broker_epoch
        self._shutting_down = shutting_down

    def apply_image(self) -> None:
        """Everything at once, at start."""
        self._set_rates()
        self._apply(list(self._image.partitions))
        for tp in self._logs.logs:
            if tp not in self._manager.hosted:
                log.warning("a replica on disk that the cluster does not place here; left alone", partition=str(tp))

    def apply_delta(self, delta: pb.MetadataDelta) -> None:
        """What one delta changed; the image holds it already."""
        changed: dict[TopicPartition, None] = {}
        brokers: list[int] = []
        for record in delta.records:
            kind = record.WhichOneof("value")
            if kind == "partition":
                changed[TopicPartition(record.partition.topic, record.partition.partition)] = None
            elif kind == "topic":  # first of all, so that a new leader goes by them
                self._configure(record.topic.topic)
            elif kind == "broker_config" and record.broker_config.broker_id == self._broker_id:
                self._set_rates()
            elif kind == "broker":
                brokers.append(record.broker.broker_id)
                changed.update(dict.fromkeys(self._followed_from(record.broker.broker_id)))
            elif kind is None and record.key.startswith("partition/"):
                topic, _, partition = record.key.removeprefix("partition/").rpartition("/")
                changed[TopicPartition(topic, int(partition))] = None
        self._apply(changed)
        if brokers:
            self._reconsider(brokers)

    def _reconsider(self, brokers: list[int]) -> None:
        """Brokers came or went: what waited for their replicas may have to wait no longer (HW-3, FT-23)."""
        for tp, hosted in self._manager.hosted.items():
            if hosted.leader is not None and any(broker in hosted.leader.replicas for broker in brokers):
                hosted.leader.advance_high_watermark(self._manager.clock.monotonic_ms())
                self._manager.touched(tp, high_watermark_advanced=True)

    def _configure(self, name: str) -> None:
        """A topic's settings may have changed: what is hosted of it goes by the new ones from now on."""
        topic = self._image.topics.get(name)
        hosted = [hosted for tp, hosted in self._manager.hosted.items() if tp.topic == name]
        if topic is None or not hosted:
            return
        config = _topic_config(topic)
        for partition in hosted:
            if partition.topic_id == topic.topic_id:
                partition.configure(config, self._broker_id)
                if partition.leader is not None:
                    partition.leader.advance_high_watermark(self._manager.clock.monotonic_ms())
                    self._manager.touched(partition.topic_partition, high_watermark_advanced=True)

    def _set_rates(self) -> None:
        dynamic = self._manager.config.dynamic(self._image.broker_configs.get(self._broker_id, {}))
        self._manager.leader_quota.rate = dynamic.leader_replication_throttled_rate
        self._manager.follower_quota.rate = dynamic.follower_replication_throttled_rate

    def _followed_from(self, leader_id: int) -> list[TopicPartition]:
        return [
            tp
            for tp, hosted in self._manager.hosted.items()
            if hosted.follower is not None and hosted.follower.leader_id == leader_id
        ]

    def _apply(self, changed: Iterable[TopicPartition]) -> None:
        leading: list[tuple[TopicPartition, PartitionState]] = []
        following: list[tuple[TopicPartition, PartitionState]] = []
        for tp in changed:
            state = self._image.partitions.get(tp)
            if state is None or self._broker_id not in state.replicas or self._is_other_topic(tp):
                self._stop_hosting(tp)
            if state is not None and self._broker_id in state.replicas:
                (leading if state.leader == self._broker_id else following).append((tp, state))
        for tp, state in leading:
            self._guarded(self._lead, tp, state)
        for tp, state in following:
            self._guarded(self._follow, tp, state)
        self._fetchers.close_idle()

    def _is_other_topic(self, tp: TopicPartition) -> bool:
        """The name was deleted and created again: what is here belongs to a topic that is gone (CT-18)."""
        here = self._logs.topic_id(tp)
        return here is not None and here != self._image.topics[tp.topic].topic_id

    def _guarded(
        self, change: Callable[[TopicPartition, PartitionState], None], tp: TopicPartition, state: PartitionState
    ) -> None:
        try:
            change(tp, state)
        except ReplogError as error:
            if error.code is not ErrorCode.KAFKA_STORAGE_ERROR:
                raise
            self._manager.on_storage_error(error)

    def _stop_hosting(self, tp: TopicPartition) -> None:
        """Stop fetching, forget the partition, answer what waits on it, then delete its log (§2.3 step 2)."""
        self._fetchers.stop(tp)
        if self._manager.hosted.pop(tp, None) is not None:
            self._manager.check_now(tp)
        if self._logs.get(tp) is not None:
            log.info("deleting replica", partition=str(tp))
            self._logs.delete(tp, self._manager.clock.wall_ms())

    def _host(self, tp: TopicPartition) -> HostedPartition:
        hosted = self._manager.hosted.get(tp)
        if hosted is None:
            topic = self._image.topics[tp.topic]
            config = _topic_config(topic)
            found = self._logs.get(tp) or self._logs.create(tp, topic.topic_id, config)
            hosted = self._manager.hosted[tp] = HostedPartition(tp, topic.topic_id, found)
            hosted.configure(config, self._broker_id)
            found.on_failure = lambda error: self._manager.went_offline(tp, error)
        return hosted

    def _lead(self, tp: TopicPartition, state: PartitionState) -> None:
        """makeLeader; no follower append may follow the epoch bump, so the fetch stops first (§2.3 step 3)."""
        hosted = self._host(tp)
        self._fetchers.stop(tp)
        leader = hosted.leader or PartitionLeader(
            tp,
            self._broker_id,
            hosted.log,
            self._image,
            replica_lag_time_max_ms=self._manager.config.replica_lag_time_max_ms,
        )
        old_epoch = leader.leader_epoch
        leader.become_leader(state, self._broker_epoch, self._manager.clock.monotonic_ms())
        hosted.leader, hosted.follower = leader, None  # not before: nobody produces to a leader without its epoch
        if leader.leader_epoch != old_epoch:
            if state.recovering:
                log.warning("elected uncleanly: committed records may be gone", partition=str(tp))
            log.info("leading", partition=str(tp), epoch=state.leader_epoch, from_offset=hosted.log.log_end_offset)
        self._manager.role_changed(tp)
        self._manager.propose(tp, leader)

    def _follow(self, tp: TopicPartition, state: PartitionState) -> None:
        """makeFollower; fetching starts again where the leader epoch rose or the leader's address is new (§2.2)."""
        hosted = self._host(tp)
        was_leader, hosted.leader = hosted.leader is not None, None
        if hosted.follower is None:
            hosted.follower = PartitionFollower(
                tp, hosted.log, backoff_ms=self._manager.config.replica_fetch_backoff_ms
            )
        epoch_rose = hosted.follower.become_follower(state, self._manager.clock.monotonic_ms())
        if epoch_rose:
            log.info("following", partition=str(tp), leader=state.leader, epoch=state.leader_epoch)
        self._place(hosted, state, start_over=epoch_rose)
        if was_leader or epoch_rose:  # consumers wait on followers, too
            self._manager.role_changed(tp)

    def _place(self, hosted: HostedPartition, state: PartitionState, *, start_over: bool) -> None:
        leader = self._image.broker(state.leader) if state.leader != NO_LEADER else None
        leaving = self._shutting_down() and self._broker_id not in state.isr  # §2.3 step 5
        if leader is None or leader.fenced or leaving:
            self._fetchers.stop(hosted.topic_partition)
        elif start_over or not self._fetchers.is_fetching(hosted.topic_partition, leader):
            self._fetchers.fetch(hosted, leader)


def _topic_config(topic: Topic) -> TopicConfig:
    return TopicConfig.parse(dict(topic.configs), f"topic {topic.name}")
