"""What a scenario is about: brokers with their logs, a controller, a clock; and the lines that show them."""

import random
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from follower.partition_follower import FetchState, FollowerProgress
from leader.isr import IsrProposal, Pending
from replog.config.processes import BrokerConfig, ControllerConfig
from replog.config.topic import TopicConfig
from replog.controller import broker_events
from replog.controller.alter_partition import Proposal
from replog.controller.cluster_state import ClusterState
from replog.controller.decision import numbered
from replog.errors import ErrorCode
from replog.log.epochs import LeaderEpochCache
from replog.log.fetch import FetchAnswer, FetchPartition, SessionRequest
from replog.log.log import Log
from replog.metadata.changes import Change
from replog.metadata.image import Batch
from replog.metadata.values import NO_BROKER_EPOCH, Claim, PartitionState, Topic
from replog.metadata.values import BrokerRegistration as Registration
from replog.topic import TopicPartition
from tests.replog.log.batches import config
from tests.scenarios.broker import Broker, Requests, ScenarioClock, Stream
from tests.scenarios.language import ScenarioError
from tests.scenarios.notation import (
    TOPIC,
    TOPIC_ID,
    make_log,
    named,
    show_answer,
    show_entries,
    show_fetch,
    show_log,
    show_partition,
    show_set,
)

Late = tuple[FetchPartition, FetchAnswer]
Decided = dict[TopicPartition, tuple[ErrorCode, PartitionState | None]]


class World:
    """Events change it; `say` adds a line to what is seen of the present event."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.clock = ScenarioClock()
        self.settings: dict[type, dict[str, Any]] = {
            TopicConfig: {"min_insync_replicas": 1},
            BrokerConfig: {"replica_lag_time_max_ms": 10_000},
            ControllerConfig: {"min_insync_replicas": 1},
        }
        self.brokers: dict[int, Broker] = {}
        self.cache: LeaderEpochCache | None = None
        self.cache_end = 0
        self.late: dict[TopicPartition, dict[int, Late]] = {}
        self.fetching: dict[tuple[int, TopicPartition], object] = {}  # follower's fetches under way
        self.decisions: dict[int, Decided] = {}  # on their way to a leader
        self.streams: list[Stream] = []
        self.produced = 0
        self.incarnations = 0
        self._said: list[str] = []
        self._controller: ClusterState | None = None

    # What is seen

    def say(self, line: str) -> None:
        self._said.append(line)

    def said(self) -> list[str]:
        said, self._said = self._said, []
        return said

    def states(self) -> dict[str, str]:
        """One line for everything that has a state, by its name."""
        states = {}
        partitions = self._controller.image.partitions if self._controller is not None else {}
        for tp, state in partitions.items():
            states[named("controller", tp)] = show_partition(state)
        for broker in self.brokers.values():
            for tp in broker.hosted:
                states[named(str(broker.id), tp)] = self.show_replica(broker, tp)
        if self.cache is not None:
            states["cache"] = show_entries(self.cache.entries)
        return states

    def show_replica(self, broker: Broker, tp: TopicPartition) -> str:
        if not broker.alive:
            return "down"
        hosted = broker.hosted[tp]
        shown = show_log(hosted.log)
        if hosted.leader is not None:
            shown += " isr " + show_set(hosted.leader.state.isr)
            proposed = hosted.leader.state
            if isinstance(proposed, Pending):
                shown += "".join(f" +{member}" for member in sorted(proposed.joining))
                shown += "".join(f" -{member}" for member in sorted(proposed.leaving))
        elif hosted.follower is not None:
            if hosted.follower.fetch_state is not FetchState.FETCHING:
                shown += f", {hosted.follower.fetch_state.value}"
            elif hosted.follower.next_retry_ms is not None:
                shown += ", backs off"
        return shown

    def settle(self) -> None:
        """Whatever the event set off, and what that set off."""
        while any(something.settle() for something in (*self.brokers.values(), *self.streams)):
            pass

    def close(self) -> None:
        for broker in self.brokers.values():
            for hosted in broker.hosted.values():
                hosted.log.abandon()

    # Brokers

    def broker(self, broker_id: int) -> Broker:
        if broker_id not in self.brokers:
            self.brokers[broker_id] = Broker(
                broker_id,
                self.directory,
                self.controller.image,
                self.clock,
                lambda tp, proposal: self._propose(self.brokers[broker_id], tp, proposal),
                **self.settings[BrokerConfig],
            )
            if self.controller.image.broker(broker_id) is None:
                address = f"127.0.0.1:{9000 + broker_id}"
                self.register(Registration(broker_id, 100 + broker_id, b"", address, "", False, False, joined=True))
        return self.brokers[broker_id]

    def add_log(self, broker_id: int, tp: TopicPartition, text: str) -> None:
        broker = self.broker(broker_id)
        if tp in broker.hosted:
            raise ScenarioError(f"{named(str(broker_id), tp)} has a log already")
        directory = self.directory / str(broker_id) / tp.directory_name
        directory.parent.mkdir(exist_ok=True)
        broker.host(tp, make_log(directory, text, **self.settings[TopicConfig]))

    def start(self, broker_id: int, reopened: dict[TopicPartition, Log]) -> None:
        """A new process with these logs, which takes up the roles of the present metadata."""
        del self.brokers[broker_id]
        broker = self.broker(broker_id)
        for tp, log in reopened.items():
            broker.host(tp, log)
            if tp in self.controller.image.partitions:
                broker.apply(tp, self.controller.image.partitions[tp])

    def advance(self, to_ms: int) -> None:
        """Time passes, and deadlines with it, one by one."""
        if to_ms < self.clock.now_ms:
            raise ScenarioError(f"it is {self.clock.now_ms} already")
        base = self.clock.monotonic_ms() - self.clock.now_ms
        while True:
            wakes = [broker.next_wake_ms for broker in self.brokers.values()]
            wakes += [stream.asking.next_wake_ms for stream in self.streams if not stream.silent]
            due_ms = min((wake_ms - base for wake_ms in wakes if wake_ms is not None), default=to_ms + 1)
            if due_ms > to_ms:
                break
            self.clock.now_ms = max(self.clock.now_ms, due_ms)
            for broker in self.brokers.values():
                broker.on_time()
            self.settle()
        self.clock.now_ms = to_ms

    # Fetches of real followers

    def fetch(self, broker: Broker, tp: TopicPartition, fate: str = "") -> bool:
        """One fetch, from asking to acting on the answer, unless that is lost or late. False if it waits."""
        follower = broker.hosted[tp].follower
        if follower is None:
            raise ScenarioError(f"{named(str(broker.id), tp)} is no follower")
        if (broker.id, tp) in self.fetching:
            raise ScenarioError(f"{named(str(broker.id), tp)} still waits for an answer; let time pass, or data come")
        request = follower.next_fetch(self.clock.monotonic_ms(), 1 << 20)
        if request is None:
            self.say("nothing is fetched")
            return True
        leader = self.brokers.get(follower.leader_id)
        if leader is None or not leader.alive:
            self.say(f"{show_fetch(request)} → no connection")
            follower.on_failure(request, self.clock.monotonic_ms())
            return True
        turn = self.fetching[broker.id, tp] = object()

        def respond(answers: dict[TopicPartition, FetchAnswer]) -> None:
            if self.fetching.get((broker.id, tp)) is not turn:
                return  # the follower is gone, or has forgotten that fetch
            del self.fetching[broker.id, tp]
            self.say(f"{show_fetch(request)} → {show_answer(answers[tp])}{fate and ', ' + fate}")
            if fate == "late":
                self.late.setdefault(tp, {})[broker.id] = (request, answers[tp])
            elif not fate:
                self.take(broker, tp, request, answers[tp])

        epoch = self.controller.image.brokers[broker.id].broker_epoch
        if leader.answer_follower(SessionRequest(broker.id, epoch, 500, 1, 10 << 20, {tp: request}), respond):
            self.say(f"{show_fetch(request)} → waits")
            return False
        return True

    def take(self, broker: Broker, tp: TopicPartition, request: FetchPartition, answer: FetchAnswer) -> None:
        follower = broker.hosted[tp].follower
        if follower is None:
            return
        self.progressed(broker, tp, follower.on_answer(request, answer, self.clock.monotonic_ms()))

    def progressed(self, broker: Broker, tp: TopicPartition, progress: FollowerProgress) -> None:
        if progress.note is not None:
            self.say(f"{named(str(broker.id), tp)} warns: {progress.note.partition(':')[0]}")
        if progress.bounds_moved or progress.appended_bytes:
            broker.touched(tp, progress.bounds_moved)

    def open_stream(self, follower: Broker, leader: Broker) -> None:
        epoch = self.controller.image.brokers[follower.id].broker_epoch
        self.streams.append(Stream(follower, leader, epoch, self.say, self.progressed))

    def close_stream(self, stream: Stream) -> None:
        stream.close()
        self.streams.remove(stream)

    def ask(self, replica_id: int, asked: Broker, requests: Requests, broker_epoch: int | None, **options: int) -> None:
        """A follower's fetch that no follower here is behind."""

        def respond(answers: dict[TopicPartition, FetchAnswer]) -> None:
            for tp, answer in answers.items():
                self.say(f"{show_fetch(requests[tp], tp, len(requests))} → {show_answer(answer)}")

        registered = self.controller.image.broker(replica_id)
        known = registered.broker_epoch if registered is not None else NO_BROKER_EPOCH
        epoch = known if broker_epoch is None else broker_epoch
        if asked.answer_follower(SessionRequest(replica_id, epoch, named=requests, **options), respond):
            self.say(f"{', '.join(show_fetch(r, tp, len(requests)) for tp, r in requests.items())} → waits")

    # The controller

    @property
    def controller(self) -> ClusterState:
        if self._controller is None:
            properties = {"metadata_log_dir": "/nowhere", **self.settings[ControllerConfig]}
            self._controller = ClusterState(ControllerConfig.model_validate(properties), random.Random(7))
            self._controller.load([], self.clock.monotonic_ms())
            self.commit([Change("cluster", None, "scenario")])
        return self._controller

    @property
    def rules(self) -> broker_events.Rules:
        return self.controller._rules

    def commit(self, wanted: Iterable[Change | None]) -> None:
        """Make a decision of the controller true, and let the brokers that hear it act on it."""
        changes = [change for change in numbered(wanted, self.controller.image.version) if change is not None]
        self.controller.apply(Batch(self.controller.image, changes), self.clock.monotonic_ms())
        for change in changes:
            if change.kind == "partition":
                self.tell(change.name, change.value, self.brokers.values())

    def tell(self, tp: TopicPartition, state: PartitionState, brokers: Iterable[Broker]) -> None:
        for broker in brokers:
            if not broker.alive or not broker.hears_metadata or tp not in broker.hosted:
                continue
            if broker.id in state.replicas:
                self._forget_fetch(broker, tp, state)
                broker.apply(tp, state)
                for stream in self.streams:
                    if stream.follower is broker:
                        stream.place(tp)
            else:  # CT-17
                del broker.hosted[tp]
                broker.check_now(tp)

    def _forget_fetch(self, broker: Broker, tp: TopicPartition, state: PartitionState) -> None:
        """In a new epoch the fetch of the old one is void (FT-8), and another may go out."""
        if state.leader_epoch > broker.hosted[tp].leader_epoch:
            self.fetching.pop((broker.id, tp), None)

    def register(self, registration: Registration) -> None:
        self.commit([Change("broker", registration.broker_id, registration)])

    def put_partition(self, tp: TopicPartition, state: PartitionState) -> None:
        if TOPIC not in self.controller.image.topics:
            self._put_topic()
        self.commit([Change("partition", tp, state, TOPIC_ID)])

    def _put_topic(self) -> None:
        configs = {name.replace("_", "."): str(value) for name, value in self.settings[TopicConfig].items()}
        self.commit([Change("topic", TOPIC, Topic(TOPIC, TOPIC_ID, configs))])

    def change_setting(self, models: Iterable[type], field: str, value: int) -> None:
        """A topic's settings hold from now on; those of brokers and the controller only if none is there yet."""
        there = {BrokerConfig: bool(self.brokers), ControllerConfig: self._controller is not None, TopicConfig: False}
        if all(there[model] for model in models):
            raise ScenarioError("what brokers and the controller go by stands above all of them")
        for model in models:
            self.settings[model][field] = value
        for broker in self.brokers.values():
            for hosted in broker.hosted.values():
                hosted.log.config = config(**self.settings[TopicConfig])
        if self._controller is not None and TOPIC in self._controller.image.topics:
            self._put_topic()

    def _propose(self, broker: Broker, tp: TopicPartition, proposal: IsrProposal) -> bool:
        if not broker.proposals.submit(tp, proposal):
            return False
        if not self.send_proposals(broker):
            self.say(f"{named(str(broker.id), tp)} will propose isr {self._members(proposal)}")
        return True

    def send_proposals(self, broker: Broker) -> bool:
        """What waits goes out as one request, unless one is on its way."""
        batch = broker.proposals.next_batch()
        if batch is None:
            return False
        broker.sent = batch
        for tp, proposal in batch.items():
            self.say(f"{named(str(broker.id), tp)} proposes isr {self._members(proposal)}")
        return True

    def _members(self, proposal: IsrProposal) -> str:
        """The members, each with its broker epoch where that is not the registered one."""
        shown = []
        for member, epoch in proposal.isr:
            registered = self.controller.image.broker(member)
            same = registered is not None and registered.broker_epoch == epoch
            shown.append(f"{member}" if same else f"{member}#{epoch}")
        return " ".join(shown) or "∅"

    def alter_partition(self, broker: Broker, error: ErrorCode | None, fate: str = "") -> None:
        """The controller decides the request on its way, or answers `error`; `fate`: the answer is `lost` or `late`."""
        if not broker.sent:
            raise ScenarioError(f"{broker.id} has asked the controller for nothing")
        decided: Decided = {}
        changes: Iterable[Change | None] = []
        if error is not None:
            decided = dict.fromkeys(broker.sent, (error, None))
        else:
            known = self.controller.image.brokers[broker.id]
            claim = Claim(broker.id, known.broker_epoch, known.incarnation_id)
            present = self.controller.image.brokers.keys() - {b.id for b in self.brokers.values() if not b.alive}
            decision = self.controller.alter_partition(
                claim, self._proposals(broker), present, self.clock.monotonic_ms()
            )
            changes = decision.changes
            decided = dict(zip(broker.sent, decision.answer, strict=True))
        for tp, (code, _) in decided.items():
            self.say(f"{named('controller', tp)} answers {code.name}{fate and ', ' + fate}")
        self.decisions[broker.id] = decided
        if fate == "lost":
            broker.proposals.on_failure()
            self.send_proposals(broker)
        elif not fate:
            self.take_decisions(broker)
        self.commit(changes)

    def take_decisions(self, broker: Broker) -> None:
        """The controller's answer arrives."""
        decided = self.decisions.pop(broker.id, None)
        if decided is None:
            raise ScenarioError(f"no answer to {broker.id} is late")
        broker.sent = None
        for tp, proposal in broker.proposals.on_answer(decided).items():
            broker.on_alter_partition_result(tp, proposal, *decided[tp])
        self.send_proposals(broker)

    def _proposals(self, broker: Broker) -> list[Proposal]:
        return [
            Proposal(
                topic_partition=tp,
                topic_id=self.controller.image.topics[tp.topic].topic_id,
                sender=broker.id,
                leader_epoch=proposal.leader_epoch,
                partition_epoch=proposal.partition_epoch,
                isr=proposal.isr,
                recovering=False,
            )
            for tp, proposal in broker.sent.items()
        ]
