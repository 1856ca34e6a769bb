"""Elections on request (CT-11), on the controller's own account (CT-12), and by what replicas say of their logs while
nobody leads (CT-30, CT-31; KIP-966). Pure.

Nothing is copied without a leader, so what a replica said stays true until somebody leads, or its process ends. It is
not stored: a controller that becomes active gets it again."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import NamedTuple

from replog.controller.broker_events import Rules, active_brokers, partition_changes, situation
from replog.controller.decision import Decision, PartitionChanges
from replog.controller.elections import Election, Situation, Strategy, elect
from replog.errors import ErrorCode, ReplogError
from replog.metadata.changes import Change
from replog.metadata.image import MetadataImage
from replog.metadata.log_ends import NO_RECORDS, LogEnd, furthest_of
from replog.metadata.values import MISSING, NO_LEADER, BrokerRegistration, PartitionState
from replog.topic import TopicPartition


class Report(NamedTuple):
    """A replica's report about its log. It holds for one vacancy."""

    topic_id: bytes
    partition: int
    leader_epoch: int  # names the vacancy: the epoch of the partition's record without a leader
    log_end: LogEnd | None  # None: its files have failed


class Answers(NamedTuple):
    """The answers of one partition's replicas."""

    log_ends: Mapping[int, LogEnd] = {}  # said by processes that are still registered
    since_ms: int | None = None  # when the first one answered
    mute: frozenset[int] = frozenset()  # live replicas whose brokers never answer: they run release 0.1.0
    offline: frozenset[int] = frozenset()  # replicas whose files have failed


class KnownLogEnds(NamedTuple):
    """The answers of one partition's replicas, for an administrator."""

    strategy: Strategy
    replicas: Sequence[tuple[int, bool, LogEnd | None]]  # broker, is it live, what it said
    had_everything: Collection[int]  # they were complete until they stopped uncleanly
    mute: frozenset[int]
    offline: frozenset[int]

    @property
    def is_complete(self) -> bool:
        """True if all live replicas have said what they will say."""
        silent = self.mute | self.offline
        return all(end is not None or not live or broker in silent for broker, live, end in self.replicas)


class _Said(NamedTuple):
    broker_epoch: int  # names the process that said it
    log_end: LogEnd | None


@dataclass(slots=True)
class _Vacancy:
    """A time without a leader."""

    topic_id: bytes
    leader_epoch: int
    since_ms: int
    said: dict[int, _Said] = field(default_factory=dict)


class Evidence:
    def __init__(self) -> None:
        self._vacancies: dict[TopicPartition, _Vacancy] = {}
        self._mute: set[int] = set()

    def hear(
        self, image: MetadataImage, broker: BrokerRegistration, reports: Collection[Report] | None, now_ms: int
    ) -> None:
        """Take in the reports of a heartbeat; None comes from a broker that never says anything of its logs. Reports
        that do not fit the metadata are left out: they come again."""
        self._mute.discard(broker.broker_id)
        if reports is None:
            self._mute.add(broker.broker_id)
        names = {topic.topic_id: name for name, topic in image.topics.items()} if reports else {}
        for topic_id, partition, leader_epoch, log_end in reports or ():
            tp = TopicPartition(names.get(topic_id, ""), partition)
            state = image.partitions.get(tp)
            if state is None or state.leader != NO_LEADER or state.leader_epoch != leader_epoch:
                continue
            if broker.broker_id in state.replicas:
                vacancy = self._vacancies.get(tp)
                if vacancy is None or (vacancy.topic_id, vacancy.leader_epoch) != (topic_id, leader_epoch):
                    vacancy = self._vacancies[tp] = _Vacancy(topic_id, leader_epoch, now_ms)
                vacancy.said[broker.broker_id] = _Said(broker.broker_epoch, log_end)

    def mute(self, image: MetadataImage) -> list[int]:
        """Return the brokers that never say anything of their logs: they run release 0.1.0."""
        return sorted(self._mute & image.brokers.keys())

    def answers(self, image: MetadataImage, tp: TopicPartition) -> Answers:
        """Return what the replicas of a partition without a leader said."""
        state, vacancy = image.partitions[tp], self._vacancies.get(tp)
        brokers = [broker for broker in map(image.broker, state.replicas) if broker is not None]
        mute = frozenset(b.broker_id for b in brokers if b.active and b.broker_id in self._mute)
        topic_id = image.topics[tp.topic].topic_id
        if vacancy is None or (vacancy.topic_id, vacancy.leader_epoch) != (topic_id, state.leader_epoch):
            return Answers(mute=mute)
        said = {b.broker_id: vacancy.said.get(b.broker_id) for b in brokers}
        now = {b.broker_id: a.log_end for b in brokers if (a := said[b.broker_id]) and a.broker_epoch == b.broker_epoch}
        log_ends = {broker_id: end for broker_id, end in now.items() if end is not None}
        return Answers(log_ends, vacancy.since_ms, mute, frozenset(now.keys() - log_ends.keys()))

    def forget_led(self, image: MetadataImage) -> None:
        """Forget what was said of partitions that have a leader or are deleted."""
        states = image.partitions
        for tp in [tp for tp in self._vacancies if tp not in states or states[tp].leader != NO_LEADER]:
            del self._vacancies[tp]


def furthest(state: PartitionState, log_ends: Mapping[int, LogEnd]) -> int:
    """Return the replica that goes furthest, or NO_LEADER."""
    in_order = {replica: log_ends[replica] for replica in state.replicas if replica in log_ends}
    return furthest_of(in_order, state.last_known_elr, state.adding)


def leader_by_evidence(
    state: PartitionState, situation: Situation, answers: Answers, now_ms: int, patience_ms: int
) -> int:
    """Return the leader if no replica known to be complete can lead; NO_LEADER: wait (CT-30, CT-31).

    BALANCED waits until all `awaited` replicas have answered, or one that is in sync or eligible comes; and until so
    few of them are missing that others have what was committed. AGGRESSIVE waits so for `patience_ms` from the first
    answer on."""
    aggressive = situation.strategy is Strategy.AGGRESSIVE
    certain = bool(state.isr or state.elr)
    if situation.strategy is Strategy.NONE or (certain and not aggressive):
        return NO_LEADER
    if answers.mute:
        return _as_in_0_1_0(state, situation, aggressive=aggressive)
    live = _live(situation, answers)
    leader = furthest(state, live)
    if leader == NO_LEADER or answers.since_ms is None:
        return NO_LEADER
    best = furthest(state, answers.log_ends)
    needed = awaited(state, situation)
    may_be_lost = max(_enough(state, situation) - 1, live[leader] > NO_RECORDS)  # one, if any has records
    is_known = answers.log_ends.keys() >= needed and len(emptied(state, answers) & needed) <= may_be_lost
    if is_known and live[leader] == answers.log_ends[best]:
        return leader
    return leader if aggressive and now_ms - answers.since_ms >= patience_ms else NO_LEADER


def awaited(state: PartitionState, situation: Situation) -> Set[int]:
    """Return the replicas whose answers are enough: one of them may have lost a committed record (ISR-16), but not
    all. They are those that had everything, or all replicas if too few of those are left."""
    had_all = state.last_known_elr
    is_enough = not state.elr and not state.isr and len(had_all) >= _enough(state, situation)
    return frozenset(had_all if is_enough else state.replicas)


def emptied(state: PartitionState, answers: Answers) -> Set[int]:
    """Return the replicas that may have had records and have none: those that are missing. If none is left that had
    everything, an empty one may have been missing, too, and begun to copy from a leader that has gone since."""
    known = {r: end for r, end in answers.log_ends.items() if r not in state.adding}
    missing = {r for r, end in known.items() if end.last_epoch == MISSING}
    if not missing or (known.keys() - missing) & {*state.last_known_elr}:
        return missing
    return {r for r, end in known.items() if end <= NO_RECORDS}


def _enough(state: PartitionState, situation: Situation) -> int:
    """Return how many replicas have a committed record at least (PR-2)."""
    settled = [r for r in state.replicas if r not in state.adding]  # one that is added may never have had a record
    return min(situation.min_insync_replicas, len(settled))


def leader_on_request(state: PartitionState, situation: Situation, answers: Answers) -> int:
    """Return the leader if an administrator waits no longer (CT-11)."""
    leader = furthest(state, _live(situation, answers))
    return _as_in_0_1_0(state, situation, aggressive=True) if leader == NO_LEADER and answers.mute else leader


def _live(situation: Situation, answers: Answers) -> Mapping[int, LogEnd]:
    return {replica: end for replica, end in answers.log_ends.items() if replica in situation.active}


def _as_in_0_1_0(state: PartitionState, situation: Situation, *, aggressive: bool) -> int:
    """Elects as release 0.1.0 does, while brokers are upgraded: the last leader, else any replica."""
    live = [replica for replica in state.replicas if replica in situation.active]
    if not (state.isr or state.elr) and state.last_known_leader in live:
        return state.last_known_leader
    return min(live, key=lambda r: r in state.adding, default=NO_LEADER) if aggressive else NO_LEADER


class Elected(NamedTuple):
    """The result of an election, and the present leader."""

    error: ReplogError  # NONE: no error
    leader: int


def elect_leaders(
    image: MetadataImage, rules: Rules, evidence: Evidence, election: Election, partitions: Iterable[TopicPartition]
) -> Decision[list[Elected]]:
    """Hold a PREFERRED or UNCLEAN election for each partition. Answers one result each, in their order."""
    active = active_brokers(image)
    changes = PartitionChanges(image)
    results = []
    for tp in partitions:
        error = ErrorCode.NONE.error("")
        leader = NO_LEADER
        try:
            before = changes.get(tp)
            leader = before.leader
            now, by_evidence = situation(image, rules, tp.topic, active), NO_LEADER
            if election is Election.UNCLEAN and before.leader == NO_LEADER:
                by_evidence = leader_on_request(before, now, evidence.answers(image, tp))
            after = elect(before, now, election, by_evidence)
            _check(tp, before, after, election, now)
            changes.put(tp, after)
            leader = after.leader
        except ReplogError as refused:
            error = refused
        results.append(Elected(error, leader))
    return Decision(changes.made, results)


def _check(
    tp: TopicPartition, before: PartitionState, after: PartitionState, election: Election, now: Situation
) -> None:
    """Raises if the election is not needed or elects nobody (CT-11)."""
    if election is Election.PREFERRED and before.leader == before.replicas[0]:
        raise ErrorCode.ELECTION_NOT_NEEDED.error(f"{tp} is led by its preferred replica, {before.leader}")
    if election is Election.UNCLEAN and before.leader != NO_LEADER:
        raise ErrorCode.ELECTION_NOT_NEEDED.error(f"{tp} has a leader, {before.leader}")
    if after.leader == before.leader:
        if election is Election.PREFERRED:
            raise ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE.error(
                f"{tp}'s preferred replica, {before.replicas[0]}, is not alive and in sync "
                f"(in sync: {list(before.isr) or 'none'}); start it, or wait until it has caught up"
            )
        live = [replica for replica in before.replicas if replica in now.active]
        raise ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE.error(
            f"none of {tp}'s live replicas {live} has said how far its log goes; try again, and look for a failed disk"
            if live
            else f"none of {tp}'s replicas {list(before.replicas)} is alive; start one of these brokers"
        )


def rebalance(image: MetadataImage, rules: Rules, limit: int) -> list[Change]:
    """Give leadership back to preferred replicas that can take it, at most `limit` at a time (CT-12)."""
    states = ((tp, image.partitions[tp]) for tp in image.index.displaced)
    candidates = [tp for tp, state in states if state.replicas[0] in state.isr]
    active = active_brokers(image)
    changes = PartitionChanges(image)
    for tp in candidates:
        changes.put(tp, elect(changes.get(tp), situation(image, rules, tp.topic, active), Election.PREFERRED))
        if len(changes.made) == limit:
            break
    return changes.made


def recover(
    image: MetadataImage, rules: Rules, evidence: Evidence, now_ms: int, patience_ms: int
) -> Iterator[Change | None]:
    """Elect by what replicas said, where that is enough (CT-12, CT-30). A change is made when the caller takes it."""

    def change(tp: TopicPartition, state: PartitionState, now: Situation) -> PartitionState:
        leader = leader_by_evidence(state, now, evidence.answers(image, tp), now_ms, patience_ms)
        return elect(state, now, by_evidence=leader)

    return partition_changes(image, rules, active_brokers(image), image.index.led_by(NO_LEADER), change)
