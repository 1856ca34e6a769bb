"""Metadata into roles: which replicas this broker hosts, which it leads, which it copies from whom (§2).

A change of the metadata is noted first (`newest_metadata.py`). Then it has two phases, and nothing waits for a disk on
the event loop:

1. *Prepare*: the loop works out which files must change. Deleted replicas are given up. Replicas that are about to lead
   take no records: the start of their epoch is noted in memory (divergence 26). A thread makes all of it durable.
2. *Commit*: first the image, in one step, so that half a topic is never visible; then the roles, new leaders before
   new followers (§2.3).

Thousands of partitions are prepared, and take up their roles, some at a time. A request in between sees a partition
before or after the change, as it would on brokers that learn of it at different times.

Changes are carried out one after the other. Very many new replicas are made in waves, with later changes in between;
while clients are served the waves are smaller, with rests. Other changes, such as those after a crash, do not rest.

A replica for which there is no room or no descriptor keeps its role, or has none, until a later try succeeds. One whose
record contradicts itself does so until the next record. A failed disk takes its directory offline (CT-27)."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import structlog

from follower.partition_follower import PartitionFollower
from leader.partition_leader import PartitionLeader
from replog.common.backoff import Backoff
from replog.config.topic import topic_config
from replog.errors import ErrorCode, ReplogError
from replog.log.directories.changes import LogChange, NewReplica
from replog.log.directories.log_manager import LogManager
from replog.log.errors import RetriableLogError, is_of_the_disk
from replog.metadata.changes import Change
from replog.metadata.image import Batch
from replog.metadata.values import NO_LEADER, PartitionState, Topic
from replog.rpc.v1.metadata_pb2 import MetadataRecord
from replog.server.broker.control.newest_metadata import NewestMetadata
from replog.server.broker.control.odd_settings import in_image, log_odd_settings, read_record
from replog.server.broker.control.replica_plan import Present, ReplicaPlan, plan_replica
from replog.server.broker.identity import Identity
from replog.server.broker.replicas.hosted_replicas import HostedPartition
from replog.server.broker.replicas.replica_manager import ReplicaManager
from replog.server.broker.replication.replica_fetcher import FetcherManager
from replog.server.logging import log_each
from replog.server.work import in_slices, in_thread
from replog.topic import TopicPartition

log = structlog.get_logger()

WAVE = 300  # new replicas that are made durable together, and have roles before the next are begun
LARGE_WAVE = 5000  # if no clients are served; a follower that is a wave ahead of its leader would ask in vain

CONTRADICTION = (
    "the metadata contradict themselves about a partition; no role changes here until an election mends them"
)

LogLine = Mapping[str, object]  # tells of a role in a new epoch
Slices = Callable[[Iterable[Any]], AsyncIterator[Any]]
Placed = Mapping[TopicPartition, PartitionState | None]  # None: the partition is deleted
Topics = Mapping[str, Topic | None]  # changes that are not in the image yet; None: the topic is deleted


@dataclass(eq=False)
class RoleChanges:
    """Applies the image, whole or change by change, to the hosted partitions."""

    _manager: ReplicaManager
    _logs: LogManager
    _fetchers: FetcherManager
    _identity: Identity
    _known: NewestMetadata
    _shutting_down: Callable[[], bool]
    _backoff: Backoff
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)  # held while a change is carried out
    waiting: int = 0  # changes of the metadata that wait for another one, or a wave, to end
    _coming: dict[TopicPartition, None] = field(default_factory=dict)  # new replicas for later waves
    _any_coming: asyncio.Event = field(default_factory=asyncio.Event)
    _refused: dict[TopicPartition, ReplogError] = field(default_factory=dict)  # replicas to try again
    _any_refused: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        self._context, self._replicas = self._manager.context, self._manager.replicas
        self._image, self._broker_id = self._context.image, self._context.config.node_id

    async def apply_image(self) -> None:
        """Apply the whole image, at start."""
        async with self.turn:
            self._replicas.set_rates()
            log_odd_settings(in_image(self._image))
            await self._known.note(self._image.position)
            self._replicas.note_unreachable(self._logs)
            await self._change([], self._image.partitions, is_all=True)
            while self._coming:
                await self.again(islice(self._coming, self._most))
        for tp in self._logs.logs:
            if tp not in self._replicas.hosted:
                log.warning("a replica on disk that the cluster does not place here; left alone", partition=str(tp))

    async def apply(self, records: Sequence[MetadataRecord], *, is_all: bool = False) -> None:
        """Apply a change of the metadata: first on the disks, then in the image and the roles.

        `is_all`: these are all metadata, and deletions among them are guesses."""
        self.waiting += 1
        async with self.turn:
            self.waiting -= 1
            await self._change([r for r in records if r.version > self._image.version], {}, is_all=is_all)

    async def make_coming(self) -> None:
        """Create the replicas that are still to come, wave after wave, until cancelled."""
        while True:
            await self._any_coming.wait()
            self._any_coming.clear()
            while self._coming:
                async with self.turn:
                    await self.again(islice(self._coming, self._most))

    async def again(self, partitions: Iterable[TopicPartition]) -> None:
        """Do for these partitions what the image says. The caller holds `turn`."""
        await self._change([], {tp: self._image.partitions.get(tp) for tp in partitions})

    @property
    def _most(self) -> int:
        """The number of replicas that one change may create."""
        return WAVE if self._context.throttle.serves else LARGE_WAVE

    async def retry(self) -> None:
        """Try refused replicas again, until cancelled."""
        while True:
            await self._any_refused.wait()
            await asyncio.sleep(self._backoff.next_s())
            async with self.turn:
                await self.again(self._refused)
            if not self._refused:
                self._any_refused.clear()
                self._backoff.reset()

    async def _change(self, records: Sequence[MetadataRecord], besides: Placed, *, is_all: bool = False) -> None:
        """Apply records, and the states `besides` that the image has already. `is_all` as in `apply`."""
        batch = Batch(self._image)
        async for record in in_slices(records):
            batch.add(read_record(record))
        changes = batch.changes
        if changes:  # first, otherwise an older copy could give an epoch that has begun here to another (CT-24)
            await self._known.note(self._image.position_after(changes))
        topics = _of_kind(changes, "topic")
        placed = {**besides, **self._placed(changes, topics)}
        partly_kept = any(
            state is not None and tp in self._replicas.hosted and self._broker_id in state.replicas
            for tp, state in placed.items()
        )
        slices = in_slices if partly_kept else self._context.throttle.in_slices  # otherwise its clients wait for rests
        change = await self._prepare(placed, topics, slices, is_all=is_all)
        if change:
            try:
                await self._carry_out(change, slices)
            except asyncio.CancelledError:
                change.abandon()
                raise
            self._logs.commit(change, self._context.clock.monotonic_ms())
            await asyncio.sleep(0)
        self._note_failures(placed, change)
        batch.put()
        log_odd_settings(changes)
        await self._commit(changes, placed, slices)

    def _placed(self, changes: Iterable[Change], coming: Topics) -> Placed:
        """Return the new states of changed partitions; None for those of a topic that is deleted or made again."""
        placed: dict[TopicPartition, PartitionState | None] = {}
        for name, topic in coming.items():
            if topic is None or topic.topic_id != self._image.index.topic_id(name):
                placed |= dict.fromkeys(self._image.index.of_topic(name))
        for change in changes:
            if change.kind == "partition":
                topic = self._topic(change.name, coming)
                is_of_it = topic is not None and topic.topic_id == change.topic_id
                placed[change.name] = change.value if is_of_it else None
        return placed

    def _topic(self, tp: TopicPartition, coming: Topics) -> Topic | None:
        return coming[tp.topic] if tp.topic in coming else self._image.topics.get(tp.topic)

    async def _carry_out(self, change: LogChange, slices: Slices) -> None:
        steps, done = change.steps(), False

        def until_done() -> Iterator[None]:
            while not done:
                yield

        async for _ in slices(until_done()):
            done = await in_thread(lambda: next(steps, steps)) is steps

    # -- prepare

    async def _prepare(self, placed: Placed, coming: Topics, slices: Slices, *, is_all: bool) -> LogChange:
        change, created, most = LogChange(), 0, self._most
        gone, kept = list[LogLine](), list[LogLine]()
        async for tp, state in slices(placed.items()):
            self._coming.pop(tp, None)
            self._replicas.try_again(tp)
            self._replicas.missing.discard(tp)
            topic = self._topic(tp, coming)
            plan = plan_replica(self._broker_id, state, topic, self._present(tp))
            if plan in (ReplicaPlan.DELETE, ReplicaPlan.REPLACE):
                keep = is_all or plan is ReplicaPlan.REPLACE
                (kept if keep else gone).append({"partition": str(tp)})
                self._delete(tp, change, keep=keep)
            if plan in (ReplicaPlan.KEEP, ReplicaPlan.DELETE):
                continue
            assert state is not None
            assert topic is not None
            if state.leader == NO_LEADER:  # the next start would take it for one that never had a record (CT-30)
                self._replicas.missing.add(tp)
            elif plan is ReplicaPlan.LEAD:
                self._fetchers.stop(tp)  # otherwise a follower append could come after the epoch's start (§2.3 step 3)
                self._logs.plan_leadership(tp, state.leader_epoch, change)
            elif created == most:
                self._coming[tp] = None
                self._any_coming.set()
            else:
                created += 1
                config = topic_config(topic.name, topic.configs)
                leads_in = state.leader_epoch if state.leader == self._broker_id else None
                self._logs.plan_creation(tp, NewReplica(topic.topic_id, config, leads_in), change)
        log_each(log.info, "deleting replica", gone)
        log_each(log.warning, "replica set aside: it is not the one that the cluster places here", kept)
        return change

    def _delete(self, tp: TopicPartition, change: LogChange, *, keep: bool) -> None:
        """Stop fetching, forget the partition, answer requests that wait on it, and plan its log's deletion (§2.3 step
        2). `keep` sets the log aside if its deletion is a guess: an older copy of the metadata may not know it
        (CT-26)."""
        self._fetchers.stop(tp)
        self._replicas.unreachable.pop(tp, None)
        self._replicas.gone.discard(tp)
        if self._replicas.hosted.pop(tp, None) is not None:
            self._manager.check_now(tp)
        self._logs.plan_deletion(tp, change, keep=keep)

    def _present(self, tp: TopicPartition) -> Present:
        hosted = self._replicas.hosted.get(tp)
        leader = hosted.leader if hosted is not None else None
        topic_id = self._logs.topic_id(tp) or self._replicas.unreachable.get(tp)
        return Present(topic_id, hosted is not None, leader.leader_epoch if leader is not None else -1)

    def _note_failures(self, placed: Placed, change: LogChange) -> None:
        before = {tp: self._refused.pop(tp, None) for tp in placed}
        refused = []
        for broken in change.broken:
            self._context.on_storage_error(broken)
        for tp, error in change.failures.items():
            if not isinstance(error, RetriableLogError):
                if is_of_the_disk(error):
                    self._context.on_storage_error(error)
                if tp in self._replicas.hosted:
                    continue  # it will fail again when it leads, and then be offline
            self._refuse(tp, error)
            if type(error) is not type(before.get(tp)):  # otherwise each try would say it again
                refused.append({"partition": str(tp), "reason": error.message})
        log_each(log.error, "replica refused, to be tried again", refused)
        for part in change.directories.values():
            self._replicas.note_unmade({tp: new.topic_id for tp, new in part.new.items() if tp in change.failures})

    # -- commit

    async def _commit(self, changes: Sequence[Change], placed: Placed, slices: Slices) -> None:
        for topic in filter(None, _of_kind(changes, "topic").values()):
            await self._configure(topic)  # first, otherwise a new leader would use old settings
        if self._broker_id in _of_kind(changes, "broker_config"):
            self._replicas.set_rates()
        brokers = [broker_id for broker_id, broker in _of_kind(changes, "broker").items() if broker is not None]
        led = (tp for broker_id in brokers for tp in list(self._image.index.led_by(broker_id)))
        followed = (tp for tp in led if tp in self._replicas.hosted)
        there = (tp for tp, state in placed.items() if state is not None)
        await self._take_up(dict.fromkeys((*there, *followed)), slices)
        if brokers:
            await self._reconsider(brokers)

    async def _reconsider(self, brokers: list[int]) -> None:
        """Complete requests that waited for replicas of brokers that came or went (HW-3, FT-23)."""
        theirs = {tp: None for broker_id in brokers for tp in self._image.index.on_broker(broker_id)}
        async for tp in in_slices(theirs):
            hosted = self._replicas.hosted.get(tp)
            leader = hosted.leader if hosted is not None else None
            if leader is not None and leader.advance_high_watermark(self._context.clock.monotonic_ms()):
                self._manager.touched(tp, high_watermark_advanced=True)
        self._manager.check_record_deletions(theirs)

    async def _configure(self, topic: Topic) -> None:
        """Apply a topic's settings to its hosted partitions."""
        config = topic_config(topic.name, topic.configs)
        names = self._image.index.of_topic(topic.name)
        async for tp in in_slices([tp for tp in names if tp in self._replicas.hosted]):
            partition = self._replicas.hosted[tp]
            if partition.topic_id == topic.topic_id:
                partition.configure(config)
                self._replicas.throttle(partition)
                self._manager.dirty[partition.topic_partition] = None
                if partition.leader is not None:
                    partition.leader.advance_high_watermark(self._context.clock.monotonic_ms())
                    self._manager.touched(tp, high_watermark_advanced=True)

    async def _take_up(self, changed: Iterable[TopicPartition], slices: Slices) -> None:
        leading: list[tuple[TopicPartition, PartitionState]] = []
        following: list[tuple[TopicPartition, PartitionState]] = []
        refused: list[LogLine] = []
        async for tp in in_slices(changed):
            state = self._image.partitions.get(tp)
            hosted = self._replicas.hosted.get(tp)
            loaded = hosted.log if hosted is not None else self._logs.get(tp)
            is_offline = tp in self._replicas.unreachable or (loaded is not None and loaded.failure is not None)
            is_here = tp not in self._refused and tp not in self._coming and not is_offline
            is_here &= tp.topic in self._image.topics  # a damaged store may have lost it
            is_here &= tp not in self._replicas.missing
            if state is None or self._broker_id not in state.replicas or not is_here:
                continue
            epoch = hosted.leader_epoch if hosted is not None else 0
            if state.contradicts_itself or state.leader_epoch < epoch:  # otherwise a role's assertion ends the broker
                record = f"leader {state.leader} in epoch {state.leader_epoch}, in sync {list(state.isr)}"
                refused.append({"partition": str(tp), "record": record, "epoch_here": epoch})
            else:
                (leading if state.leader == self._broker_id else following).append((tp, state))
        log_each(log.error, CONTRADICTION, refused)
        for role, take_up, partitions in ("leading", self._lead, leading), ("following", self._follow, following):
            begun = [self._guarded(take_up, tp, state) async for tp, state in slices(partitions)]
            log_each(log.info, role, [each for each in begun if each is not None])
        self._fetchers.go()
        self._fetchers.close_idle()

    def _guarded(
        self, take_up: Callable[..., LogLine | None], tp: TopicPartition, state: PartitionState
    ) -> LogLine | None:
        try:
            return take_up(tp, state)
        except ReplogError as error:
            if isinstance(error, RetriableLogError):
                self._refuse(tp, error)
            elif error.code is ErrorCode.KAFKA_STORAGE_ERROR:
                self._context.on_storage_error(error)
            else:
                raise
            return None

    def _refuse(self, tp: TopicPartition, error: ReplogError) -> None:
        self._refused[tp] = error
        self._any_refused.set()

    def _host(self, tp: TopicPartition) -> HostedPartition:
        hosted = self._replicas.hosted.get(tp)
        if hosted is None:
            topic, loaded = self._image.topics[tp.topic], self._logs.get(tp)
            assert loaded is not None, f"{tp} was not prepared"
            hosted = self._replicas.hosted[tp] = HostedPartition(tp, topic.topic_id, loaded)
            hosted.configure(topic_config(topic.name, topic.configs))
            loaded.on_failure = lambda error: self._manager.went_offline(tp, error)
        self._replicas.throttle(hosted)
        return hosted

    def _lead(self, tp: TopicPartition, state: PartitionState) -> LogLine | None:
        """Take up leadership (makeLeader). The epoch's start is durable already."""
        hosted = self._host(tp)
        self._fetchers.stop(tp)
        lag_ms = self._context.config.replica_lag_time_max_ms
        leader = hosted.leader or PartitionLeader(
            tp, self._broker_id, hosted.log, self._image, replica_lag_time_max_ms=lag_ms
        )
        old_epoch = leader.leader_epoch
        leader.become_leader(state, self._identity.broker_epoch, self._context.clock.monotonic_ms())
        hosted.leader, hosted.follower = leader, None  # earlier, producers could reach a leader without its epoch
        self._manager.role_changed(tp)
        self._manager.propose(tp, leader)
        if leader.leader_epoch == old_epoch:
            return None
        if state.recovering:
            log.warning("elected uncleanly: committed records may be gone", partition=str(tp))
        begin, ends = leader.leader_epoch_start_offset, leader.log_ends
        return {"partition": str(tp), "epoch": state.leader_epoch, "from_offset": begin, "log_ends": ends}

    def _follow(self, tp: TopicPartition, state: PartitionState) -> LogLine | None:
        """Follow (makeFollower). Fetching starts again if the leader epoch rose or the leader's address is new
        (§2.2)."""
        hosted = self._host(tp)
        was_leader, hosted.leader = hosted.leader is not None, None
        if hosted.follower is None:
            backoff_ms = self._context.config.replica_fetch_backoff_ms
            hosted.follower = PartitionFollower(tp, hosted.log, backoff_ms=backoff_ms)
        epoch_rose = hosted.follower.become_follower(state, self._context.clock.monotonic_ms())
        self._place(hosted, state, start_over=epoch_rose)
        if was_leader or epoch_rose:  # otherwise consumers that wait here would not learn of it
            self._manager.role_changed(tp)
        return {"partition": str(tp), "leader": state.leader, "epoch": state.leader_epoch} if epoch_rose else None

    def _place(self, hosted: HostedPartition, state: PartitionState, *, start_over: bool) -> None:
        leader = self._image.broker(state.leader) if state.leader != NO_LEADER else None
        leaving = self._shutting_down() and self._broker_id not in state.isr  # §2.3 step 5
        if leader is None or leader.fenced or leaving:
            self._fetchers.stop(hosted.topic_partition)
        elif start_over or not self._fetchers.is_fetching(hosted.topic_partition, leader):
            self._fetchers.fetch(hosted, leader)


def _of_kind(changes: Iterable[Change], kind: str) -> dict[Any, Any]:
    """Return the new value of each name of a kind; None if it is deleted."""
    return {change.name: change.value for change in changes if change.kind == kind}
