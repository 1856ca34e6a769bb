"""Metadata into roles: which replicas this broker hosts, which it leads, which it copies from whom (§2).

A change of the metadata has two phases, so that nothing here waits for a disk on the event loop:

1. *Prepare*: what the change needs of the disks is worked out from it. Replicas that go are given up, and whatever
   waits on them is answered; those that are about to lead are copied from nobody any more, and take no records: where
   their epoch begins is noted in memory (divergence 26). Then a thread makes it all durable: directories renamed and
   made, epochs.
2. *Commit*, in one step: the image, and with it the roles; new leaderships, then new followerships (§2.3).

Changes are carried out one after the other. A replica for which there was no room, or no descriptor, plays the role
that it had, or none, until a later try finds some; any other failure of a disk ends the broker.
"""

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType

import structlog

from cluster.broker.fetcher_manager import FetcherManager
from cluster.broker.partition import HostedPartition
from cluster.broker.replica_manager import ReplicaManager
from cluster.broker.threads import in_thread
from cluster.metadata_image import MetadataImage
from follower.partition import PartitionFollower
from leader.partition import PartitionLeader
from replog.backoff import Backoff
from replog.config import TopicConfig
from replog.errors import ErrorCode, ReplogError
from replog.log.changes import LogChange, NewReplica, is_passing
from replog.log.directories import LogDirectories
from replog.metadata import NO_LEADER, PartitionState, Topic
from replog.rpc.v1.metadata_pb2 import MetadataRecord
from replog.topic import TopicPartition

log = structlog.get_logger()

Placed = Mapping[TopicPartition, PartitionState | None]  # None of what is not there any more


class RoleChanges:
    """Applies the image, whole or change by change, to the hosted partitions."""

    def __init__(
        self,
        manager: ReplicaManager,
        logs: LogDirectories,
        fetchers: FetcherManager,
        broker_epoch: int,
        shutting_down: Callable[[], bool],
        backoff: Backoff,
    ) -> None:
        self._manager = manager
        self._image = manager.image
        self._broker_id = manager.config.node_id
        self._logs = logs
        self._fetchers = fetchers
        self._broker_epoch = broker_epoch
        self._shutting_down = shutting_down
        self._backoff = backoff
        self._turn = asyncio.Lock()
        self._refused: dict[TopicPartition, None] = {}  # replicas that are to be tried again
        self._any_refused = asyncio.Event()

    async def apply_image(self) -> None:
        """Everything at once, at start."""
        async with self._turn:
            self._set_rates()
            await self._change([], self._image.partitions)
        for tp in self._logs.logs:
            if tp not in self._manager.hosted:
                log.warning("a replica on disk that the cluster does not place here; left alone", partition=str(tp))

    async def apply(self, records: Sequence[MetadataRecord]) -> None:
        """One change of the metadata, whole: first what it needs of the disks, then the image and the roles."""
        async with self._turn:
            await self._change([record for record in records if record.version > self._image.version])

    async def retry(self) -> None:
        """Try again what was refused, until cancelled."""
        while True:
            await self._any_refused.wait()
            await asyncio.sleep(self._backoff.next_s())
            async with self._turn:
                await self._change([], {tp: self._image.partitions.get(tp) for tp in self._refused})
            if not self._refused:
                self._any_refused.clear()
                self._backoff.reset()

    async def _change(self, records: Sequence[MetadataRecord], besides: Placed = MappingProxyType({})) -> None:
        """What the records say, and `besides` as the image is."""
        coming = MetadataImage()
        for record in records:
            coming.apply(record)
        placed = {**besides, **coming.partitions, **dict.fromkeys(_removed(records))}
        change = self._prepare(placed, self._image.topics | coming.topics)
        if change:
            try:
                await in_thread(change.run)
            except asyncio.CancelledError:
                change.abandon()
                raise
            self._logs.commit(change, self._manager.clock.wall_ms())
        self._note_failures(placed, change)
        for record in records:
            self._image.apply(record)
        self._commit(records, placed)

    # -- prepare

    def _prepare(self, placed: Placed, topics: Mapping[str, Topic]) -> LogChange:
        gone: list[TopicPartition] = []
        new: dict[TopicPartition, NewReplica] = {}
        leading: dict[TopicPartition, int] = {}
        for tp, state in placed.items():
            topic, here = topics.get(tp.topic), self._logs.topic_id(tp)
            if state is None or topic is None or self._broker_id not in state.replicas:
                if tp in self._manager.hosted or here is not None:
                    gone.append(tp)
                continue
            if here is not None and here != topic.topic_id:  # the name was deleted and created again (CT-18)
                gone.append(tp)
                is_new = True
            else:  # one that is hosted, and not here, stopped in the middle of a move: the next start finishes that
                is_new = here is None and tp not in self._manager.hosted
            leads = state.leader == self._broker_id
            if is_new:
                new[tp] = NewReplica(topic.topic_id, _topic_config(topic), state.leader_epoch if leads else None)
            elif leads and state.leader_epoch > self._led_epoch(tp):
                leading[tp] = state.leader_epoch
        for tp in gone:
            self._stop_hosting(tp)
        for tp in leading:
            self._fetchers.stop(tp)  # no follower append may follow the epoch's start (§2.3 step 3)
        return self._logs.plan(gone, new, leading)

    def _led_epoch(self, tp: TopicPartition) -> int:
        hosted = self._manager.hosted.get(tp)
        return hosted.leader.leader_epoch if hosted is not None and hosted.leader is not None else -1

    def _stop_hosting(self, tp: TopicPartition) -> None:
        """Stop fetching, forget the partition, answer what waits on it; its log goes next (§2.3 step 2)."""
        self._fetchers.stop(tp)
        if self._manager.hosted.pop(tp, None) is not None:
            self._manager.check_now(tp)
        log.info("deleting replica", partition=str(tp))

    def _note_failures(self, placed: Placed, change: LogChange) -> None:
        for tp in placed:
            self._refused.pop(tp, None)
        for tp, error in change.failures.items():
            if not is_passing(error):
                self._manager.on_storage_error(error)
                if self._logs.get(tp) is not None:
                    continue  # it fails again when it is to lead, and is offline then
            log.error("replica refused, to be tried again", partition=str(tp), reason=error.message)
            self._refused[tp] = None
            self._any_refused.set()

    # -- commit

    def _commit(self, records: Sequence[MetadataRecord], placed: Placed) -> None:
        changed: dict[TopicPartition, None] = dict.fromkeys(placed)
        brokers: list[int] = []
        for record in records:
            kind = record.WhichOneof("value")
            if kind == "topic":  # first of all, so that a new leader goes by them
                self._configure(record.topic.topic)
            elif kind == "broker_config" and record.broker_config.broker_id == self._broker_id:
                self._set_rates()
            elif kind == "broker":
                brokers.append(record.broker.broker_id)
                changed.update(dict.fromkeys(self._followed_from(record.broker.broker_id)))
        self._take_up(changed)
        if brokers:
            self._reconsider(brokers)

    def _reconsider(self, brokers: list[int]) -> None:
        """Brokers came or went: what waited for their replicas may have to wait no longer (HW-3, FT-23)."""
        theirs = {tp: None for broker_id in brokers for tp in self._image.index.on_broker(broker_id)}
        for tp in theirs:
            hosted = self._manager.hosted.get(tp)
            leader = hosted.leader if hosted is not None else None
            if leader is not None and leader.advance_high_watermark(self._manager.clock.monotonic_ms()):
                self._manager.touched(tp, high_watermark_advanced=True)
        self._manager.check_record_deletions(theirs)

    def _configure(self, name: str) -> None:
        """A topic's settings may have changed: what is hosted of it goes by the new ones from now on."""
        topic = self._image.topics.get(name)
        names = (TopicPartition(name, partition) for partition in self._image.index.of_topic(name))
        hosted = [self._manager.hosted[tp] for tp in names if tp in self._manager.hosted]
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
        return [tp for tp in self._image.index.led_by(leader_id) if tp in self._manager.hosted]

    def _take_up(self, changed: Iterable[TopicPartition]) -> None:
        leading: list[tuple[TopicPartition, PartitionState]] = []
        following: list[tuple[TopicPartition, PartitionState]] = []
        for tp in changed:
            state = self._image.partitions.get(tp)
            if state is not None and self._broker_id in state.replicas and tp not in self._refused:
                (leading if state.leader == self._broker_id else following).append((tp, state))
        for tp, state in leading:
            self._guarded(self._lead, tp, state)
        for tp, state in following:
            self._guarded(self._follow, tp, state)
        self._fetchers.close_idle()

    def _guarded(
        self, change: Callable[[TopicPartition, PartitionState], None], tp: TopicPartition, state: PartitionState
    ) -> None:
        try:
            change(tp, state)
        except ReplogError as error:
            if error.code is not ErrorCode.KAFKA_STORAGE_ERROR:
                raise
            self._manager.on_storage_error(error)

    def _host(self, tp: TopicPartition) -> HostedPartition:
        hosted = self._manager.hosted.get(tp)
        if hosted is None:
            topic, found = self._image.topics[tp.topic], self._logs.get(tp)
            assert found is not None, f"{tp} was not prepared"
            hosted = self._manager.hosted[tp] = HostedPartition(tp, topic.topic_id, found)
            hosted.configure(_topic_config(topic), self._broker_id)
            found.on_failure = lambda error: self._manager.went_offline(tp, error)
        return hosted

    def _lead(self, tp: TopicPartition, state: PartitionState) -> None:
        """makeLeader; the epoch's start is durable already."""
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


def _removed(records: Iterable[MetadataRecord]) -> Iterator[TopicPartition]:
    """The partitions that are not there any more."""
    for record in records:
        if record.WhichOneof("value") is None and record.key.startswith("partition/"):
            topic, _, partition = record.key.removeprefix("partition/").rpartition("/")
            yield TopicPartition(topic, int(partition))


def _topic_config(topic: Topic) -> TopicConfig:
    return TopicConfig.parse(dict(topic.configs), f"topic {topic.name}")
