"""One broker of a small model: the shipped log, roles, replica manager and role changes, put together as its shells do.

Each public method is a step. What it says to others is in `said`, as plain values.
"""

import copy
import os
import shutil
from functools import cache, partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

from leader.delayed_produce import DelayedProduce, PendingProduce
from leader.follower_state import FetchContext, FollowerState
from leader.isr import AlterPartitionQueue, IsrProposal
from replog.config.processes import BrokerConfig
from replog.config.topic import topic_config
from replog.controller.evidence import Report
from replog.errors import ErrorCode, ReplogError
from replog.log.fetch import FetchAnswer, FetchPartition, Reading
from replog.log.formats.batch import iterate_batches
from replog.log.log import Log
from replog.log.offsets import Isolation
from replog.metadata.changes import Change
from replog.metadata.image import MetadataImage
from replog.metadata.log_ends import LogEnd
from replog.metadata.values import NO_BROKER_EPOCH, Topic
from replog.server.broker.context import BrokerContext
from replog.server.broker.control.lifecycle import LogEnds
from replog.server.broker.control.role_changes import RoleChanges
from replog.server.broker.replicas.hosted_replicas import HostedReplicas
from replog.server.broker.replicas.replica_manager import ReplicaManager
from replog.simulator.checks.chain import KnownBatch, all_headers, headers_of
from replog.simulator.checks.seen_replica import SeenReplica
from replog.simulator.invariants import Violation
from replog.simulator.runtime.process import DEAD, RUNNING, RunState, SimulatedProcess
from replog.topic import TopicPartition
from tests.leader.replicas import ONE_MIB, TP
from tests.replog.log.batches import client_batch
from tests.replog.simulator.variants import elections, replication, truncation
from tests.scenarios.broker import ScenarioClock

TOPIC = Topic(TP.topic, b"0123456789abcdef", {"min.insync.replicas": "2"})
HOW = Reading(ONE_MIB, min_one=True)
EVERYTHING = 1 << 62
REMEMBERED_BY_VARIANTS = [  # of roles and logs: two states that differ in it are two
    memory
    for module in (truncation, replication, elections)
    for memory in vars(module).values()
    if isinstance(memory, WeakKeyDictionary)
]


@cache
def config_of(broker_id: int) -> BrokerConfig:
    return BrokerConfig.parse({"node.id": broker_id, "log.dirs": f"/broker-{broker_id}"}, "model")


@cache
def process_of(broker_id: int, broker_epoch: int, state: RunState) -> SimulatedProcess:
    process = SimulatedProcess(f"broker {broker_id} of broker epoch {broker_epoch}")
    process.state = state
    return process


class Manager(ReplicaManager):
    """What follows from a step is done at its end."""

    def _follow_up_soon(self) -> None:
        pass

    def follow_up(self) -> None:
        while self._woken:
            self._follow_up()


class Fetching:
    """Whom this broker copies: connections are messages of the model."""

    def __init__(self) -> None:
        self.leader: int | None = None

    def stop(self, _: TopicPartition) -> None:
        self.leader = None

    def fetch(self, _: Any, leader: Any) -> None:
        self.leader = leader.broker_id

    def is_fetching(self, _: TopicPartition, leader: Any) -> bool:
        return self.leader == leader.broker_id


class Replica:
    def __init__(self, broker_id: int, directory: Path) -> None:
        self.broker_id = broker_id
        self.directory = directory
        self.clock = ScenarioClock()
        self.config = config_of(broker_id)
        self.broker_epoch = NO_BROKER_EPOCH
        self.high_watermark = 0  # of the checkpoint
        self.up = False
        self.lost_below = 0
        self.said: list[Any] = []
        self.log: Log

    # steps

    def start(self, broker_epoch: int, lost: int, changes: tuple[Change, ...]) -> None:
        """Registered, with all metadata. `lost`: so many of the last records were on no disk; EVERYTHING: it is empty,
        and the checkpoint of the high watermark, too."""
        end = self.log.log_end_offset if self.broker_epoch != NO_BROKER_EPOCH else 0
        if lost == EVERYTHING:
            shutil.rmtree(self.directory, ignore_errors=True)
        elif lost:
            _cut(self.log, end - lost)
        self.high_watermark = 0 if lost else self.high_watermark
        self.directory.mkdir(exist_ok=True)
        self.log = Log.open(
            self.directory, topic_config(TOPIC.name, TOPIC.configs), clean=False, high_watermark=self.high_watermark
        )
        self.lost_below = end if lost else self.lost_below
        self.up, self.broker_epoch = True, broker_epoch
        self.image, self.fetching, self.queue = MetadataImage(), Fetching(), AlterPartitionQueue()
        context = BrokerContext(self.config, self.image, self.clock, self._fail)
        self.replicas = HostedReplicas(context)
        self.manager = Manager(context, self.replicas, self.queue.submit)
        self.roles = roles = object.__new__(RoleChanges)
        roles._manager, roles._context, roles._replicas = self.manager, context, self.replicas
        roles._image, roles._broker_id = self.image, self.broker_id
        roles._logs = SimpleNamespace(get=lambda _: self.log)
        roles._fetchers, roles._shutting_down = self.fetching, lambda: False
        roles._identity = SimpleNamespace(broker_epoch=broker_epoch)
        self.registered: dict[int, tuple[int, int]] = {}
        self.elected_with: dict[int, FollowerState] = {}
        self.image.put(Change("topic", TOPIC.name, TOPIC, version=1))
        self.hear(changes)

    def hear(self, changes: tuple[Change, ...]) -> None:
        """Apply metadata, as `RoleChanges.apply_changes` does."""
        kinds = {change.kind for change in changes}
        for change in changes:
            self.image.put(change)
            if change.kind == "broker" and self.registered.get(change.name, (0, 0))[0] != change.value.broker_epoch:
                self.registered[change.name] = change.value.broker_epoch, self.clock.monotonic_ms()
        state = self.image.partitions[TP]
        leader = self._leader()
        epoch = leader.leader_epoch if leader is not None else -1
        if state.leader == self.broker_id:
            if "partition" in kinds:
                self.roles._lead(TP, state)
        else:
            self.roles._follow(TP, state)
        leader = self._leader()
        if leader is not None and leader.leader_epoch != epoch:
            self.elected_with = dict(leader.replicas)
        if leader is not None and "broker" in kinds and leader.advance_high_watermark(self.clock.monotonic_ms()):
            self.manager.touched(TP, high_watermark_advanced=True)

    def append(self) -> None:
        """acks=all, or if too few are in sync, acks=1."""
        leader = self.replicas.leader(TP)
        if isinstance(leader, ErrorCode):
            return
        offset, epoch = self.log.log_end_offset, leader.leader_epoch
        batch = client_batch(f"{self.broker_id} {epoch} {offset}".encode())
        acks = -1
        try:
            done = leader.append_records_to_leader(batch, acks=acks, wall_ms=0, now_ms=self.clock.monotonic_ms())
        except ReplogError as error:
            if error.code is not ErrorCode.NOT_ENOUGH_REPLICAS:
                raise
            acks = 1
            done = leader.append_records_to_leader(batch, acks=acks, wall_ms=0, now_ms=self.clock.monotonic_ms())
        self.manager.touched(TP, done.high_watermark_advanced)
        if acks == -1:
            pending = {0: PendingProduce(TP, done.required_offset, epoch)}
            settle = partial(self._settle, offset=offset, epoch=epoch)
            waits = DelayedProduce(pending, self.replicas.leader, EVERYTHING, settle)
            self.manager.produces.purgatory.complete_or_watch(waits, [TP], self.clock.monotonic_ms())

    def ask(self) -> None:
        """The next fetch, whatever delay there is."""
        follower = self.replicas.hosted[TP].follower
        if follower is not None and self.fetching.leader is not None:
            now_ms = max(self.clock.monotonic_ms(), follower.next_retry_ms or 0)
            request = follower.next_fetch(now_ms, ONE_MIB, TOPIC.topic_id)
            if request is not None:
                self.said.append(("fetch", self.fetching.leader, self.broker_epoch, request))

    def serve(self, replica_id: int, broker_epoch: int, request: FetchPartition) -> None:
        leader = self.replicas.leader_for_fetch(TP, request)
        if isinstance(leader, ErrorCode):
            self.said.append(FetchAnswer(leader))
            return
        context = FetchContext(replica_id, broker_epoch)
        answer = leader.fetch_as_follower(context, request, HOW)
        moved = leader.on_fetched(context, request, answer, self.clock.monotonic_ms())
        context.asked_ms = self.clock.monotonic_ms()
        self.manager.on_fetched(TP, leader, moved=moved)
        self.said.append(answer._replace(records=bytes(answer.records), place=None))

    def take(self, request: FetchPartition, answer: FetchAnswer) -> None:
        follower = self.replicas.hosted[TP].follower
        if follower is not None:
            now_ms = max(self.clock.monotonic_ms(), follower.next_retry_ms or 0)
            progress = follower.on_answer(request, answer, now_ms)
            self.manager.on_followed(TP, progress.bounds_moved or progress.appended_bytes > 0)

    def take_push(self, leader_epoch: int, high_watermark: int) -> None:
        follower = self.replicas.hosted[TP].follower
        if follower is not None:
            self.manager.on_followed(TP, follower.on_high_watermark(leader_epoch, high_watermark))

    def lag(self) -> None:
        """Time passes, in which nobody fetched."""
        self.clock.now_ms += 2 * self.config.replica_lag_time_max_ms
        self.manager.check_isrs()

    def resign(self) -> None:
        leader = self._leader()
        if leader is not None:
            leader.resign()
            self.manager.propose(TP, leader)

    def retain(self) -> None:
        """Retention deletes all, if all is committed."""
        if self.log.size and self.log.high_watermark == self.log.log_end_offset:
            self.log.roll()
            self.log.remove_first(len(self.log.segments) - 1)

    def take_verdict(self, error: ErrorCode, state: Any) -> None:
        for tp, proposal in self.queue.on_answer([TP]).items():
            self.manager.on_alter_partition_result(tp, proposal, error, state)

    def miss_verdict(self) -> None:
        self.queue.on_failure()

    def tell_ends(self) -> None:
        for row in LogEnds(self.image, self.replicas).next()[0]:
            end = LogEnd(row.last_epoch, row.end_offset)
            self.said.append(Report(row.topic_id, row.partition, row.leader_epoch, end))

    def kill(self) -> None:
        self.high_watermark = self.log.high_watermark
        self.up = False
        self.log.abandon()

    def run(self, event: str, arguments: tuple[Any, ...]) -> tuple[Any, ...]:
        """Do a step and all that follows from it; what was said."""
        self.said = []
        self.clock.now_ms += 1
        getattr(self, event)(*arguments)
        if self.up:
            self.manager.follow_up()
            batch = self.queue.next_batch()
            if batch is not None:
                proposal = batch[TP]
                self.said.append(("alter", proposal.leader_epoch, proposal.partition_epoch, proposal.isr))
        if self.log.log_end_offset >= self.lost_below:
            self.lost_below = 0
        return tuple(self.said)

    def close(self) -> None:
        if self.up:
            self.log.abandon()
        shutil.rmtree(self.directory, ignore_errors=True)

    def _leader(self) -> Any:
        hosted = self.replicas.hosted.get(TP)
        return hosted.leader if hosted is not None else None

    def _settle(self, results: dict[int, ErrorCode], offset: int, epoch: int) -> None:
        if results[0] is ErrorCode.NONE:
            self.said.append(("acknowledged", offset, epoch))

    def _fail(self, error: ReplogError) -> None:
        raise error

    # what it holds

    def digest(self) -> tuple[Any, ...]:
        """All on which its next steps depend. Times count as recent, or older than the lag limit."""
        log = self.log
        held = (tuple(_prefix(log)[-1:]), log.log_start_offset, tuple(log.epochs.entries))
        if not self.up:
            return self.broker_epoch, held, self.high_watermark, self.lost_below
        hosted = self.replicas.hosted[TP]
        role = hosted.leader or hosted.follower
        return (
            self.broker_epoch,
            held,
            log.high_watermark,
            self.lost_below,
            self.image.version,
            tuple(self.image.brokers.values()),
            self.image.partitions[TP],
            self.fetching.leader,
            type(role),
            tuple(self._frozen(name, value) for name, value in sorted(vars(role).items()) if name not in LEFT_OUT),
            self._frozen("", self.queue._queued.get(TP)),
            self.queue._in_flight is None,
            getattr(getattr(role, "state", None), "proposal", 0) is self.queue._queued.get(TP),
            _waiting(self.manager),
            tuple(self._frozen("", memory.get(each)) for memory in REMEMBERED_BY_VARIANTS for each in (role, log)),
        )

    def _frozen(self, name: str, value: Any) -> Any:
        if isinstance(value, FollowerState):
            known, old_ms = value.settled(), self.clock.monotonic_ms() - self.config.replica_lag_time_max_ms
            caught_up: Any = "lately"
            if known.last_caught_up_ms < old_ms:  # the last fetch may say that it was, once the next has come
                caught_up = known.last_fetch_leader_end_offset if known.last_fetch_ms >= old_ms else "long ago"
            return known.log_start_offset, known.log_end_offset, caught_up, known.broker_epoch
        if isinstance(value, IsrProposal):
            return value.leader_epoch, value.partition_epoch, value.isr
        if isinstance(value, dict):
            return tuple((key, self._frozen("", each)) for key, each in sorted(value.items()))
        if hasattr(value, "maximal_isr"):
            proposal = getattr(value, "proposal", None)
            sets = (value.isr, *(getattr(value, each, frozenset()) for each in ("joining", "leaving")))
            return tuple(tuple(sorted(each)) for each in sets), self._frozen("", proposal)
        return value

    def view(self) -> "View":
        """For the simulator's checks; it does not change any more."""
        process = process_of(self.broker_id, self.broker_epoch, RUNNING if self.up else DEAD)
        log = self.log
        frozen = SimpleNamespace(
            config=log.config,
            high_watermark=log.high_watermark if self.up else self.high_watermark,
            log_end_offset=log.log_end_offset,
            log_start_offset=log.log_start_offset,
            epochs=SimpleNamespace(entries=tuple(log.epochs.entries), latest=log.epochs.latest),
        )
        leader = copy.copy(self._leader()) if self.up else None
        follower = copy.copy(self.replicas.hosted[TP].follower) if self.up else None
        if leader is not None:
            leader.replicas, leader.log = dict(leader.replicas), frozen
        hosted: Any = SimpleNamespace(log=frozen, leader=leader, follower=follower, topic_partition=TP)
        seen = SeenReplica(self.broker_id, process, hosted, dict(self.registered), 0)
        seen.broker_epoch, seen.lost_below = self.broker_epoch, self.lost_below
        for batch in _prefix(log):
            seen.chain.append(batch)
        seen.end, seen.start = frozen.log_end_offset, frozen.log_start_offset
        seen.high_watermark = frozen.high_watermark
        seen.latest, seen.elected_with = frozen.epochs.latest, dict(self.elected_with)
        seen.leader, seen.role = leader, leader or follower
        seen.epoch = seen.role.leader_epoch if seen.role is not None else -1
        seen.state = leader.state if leader is not None else None
        copies = self.fetching.leader if self.up and follower is not None else None
        return View(seen, copies, self.up and _waiting(self.manager), *self._shown())

    def _shown(self) -> tuple[int, int | None]:
        """What consumers can read here, and the end that they are told, if it leads."""
        leader = self._leader() if self.up else None
        if leader is None:
            return 0, None
        records = leader.fetch_as_consumer(FetchPartition(0, ONE_MIB), Isolation.HIGH_WATERMARK, HOW).records
        readable = max((header.next_offset for _, header in iterate_batches(records)), default=0)
        try:
            return readable, leader.list_offset(-1, Isolation.HIGH_WATERMARK, None).offset
        except ReplogError:
            return readable, None


LEFT_OUT = {  # it never changes, is in the digest otherwise, or only says how long to wait
    *("topic_partition", "broker_id", "log", "_brokers", "_max_lag_ms", "_backoff_ms", "_refusals", "next_retry_ms"),
    *("failure", "lag", "_rounds_out_of_range"),
}


class View(NamedTuple):
    """A state of a broker as others see it. It does not change."""

    seen: SeenReplica
    copies: int | None  # the broker that it copies
    waiting: Any  # produces that are not answered
    readable: int  # up to where consumers can read here,
    told: int | None  # and the end that they are told, if it leads


def _waiting(manager: ReplicaManager) -> tuple[Any, ...]:
    pending = (operation._pending.get(TP, {}) for operation in manager.produces.purgatory.waiting)
    return tuple(sorted((one.required_offset, one.leader_epoch) for each in pending for one in each.values()))


_batches: dict[tuple[Any, ...], KnownBatch] = {}


def _prefix(log: Log) -> list[KnownBatch]:
    """Its batches: one object for each that has the same ones before it."""
    chain: list[KnownBatch] = []
    for header in all_headers(log):
        before = chain[-1] if chain else None
        key = before, header.leader_epoch, header.base_offset, header.crc
        if key not in _batches:
            _batches[key] = KnownBatch(header.base_offset, header.next_offset, header.leader_epoch, header.crc, before)
        if before is not None and (header.leader_epoch < before.epoch or header.base_offset != before.next):
            raise Violation("INV-14", f"{_batches[key]} lies behind {before}")
        chain.append(_batches[key])
    return chain


def _cut(log: Log, end: int) -> None:
    """What a loss of power leaves of the file."""
    for segment in log.segments:
        for position, header in headers_of(segment):
            if header.base_offset >= end:
                os.truncate(segment.path, position)
                return
