"""One step of a small model, and the simulator's checks of what it changed."""

import copy
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from replog.metadata.changes import Change
from replog.simulator.checks.broker_check import _check_leader
from replog.simulator.checks.commitment import follow_high_watermark, take_leadership
from replog.simulator.checks.in_sync import check_in_sync
from replog.simulator.checks.log_checks import _check_bounds, _check_cache
from replog.simulator.checks.metadata_records import check_active, follow_record
from replog.simulator.checks.partition_ledger import PartitionLedger
from replog.simulator.checks.roles import check_log_epochs, check_zombies, follow_role
from replog.simulator.checks.seen_replica import SeenReplica
from replog.simulator.runtime.process import DEAD
from tests.replog.models.deciding import BROKERS, Committed, Decided
from tests.replog.models.replica import EVERYTHING, TOPIC, TP, View

Step = tuple[Any, ...]  # its name, and of whom


class Bounds(NamedTuple):
    """How often each may happen."""

    appends: int = 2
    crashes: int = 0  # a process is killed
    losses: int = 0  # a start finds less on its disk than was written
    suspicions: int = 0  # the session of a broker ends that lives
    lags: int = 0  # a lag limit passes at a leader
    delays: int = 0  # a message is overtaken by others, or lost, or sent again
    pushes: int = 0  # a leader tells its high watermark at once
    resignations: int = 0
    deletions: int = 0  # by retention
    failovers: int = 0  # of the controller


BOUNDED = {"append": "appends", "lag": "lags", "resign": "resignations", "kill": "crashes", "retain": "deletions"}


class State(NamedTuple):
    replicas: tuple[int, ...]
    controller: int
    heard: tuple[int, ...]  # up to which version of the metadata
    commits: tuple[int, ...]  # that somebody has not heard
    altering: tuple[Any, ...]  # by broker: its proposal under way, or the answer
    late: tuple[Any, ...]  # other messages that are under way
    ledger: int
    left: Bounds


class Moment:
    """A state that is being changed. Other steps than those of `BOUNDED` are methods."""

    def __init__(self, model: Any, state: State) -> None:
        self.model, self.left = model, state.left
        self.controller, self.commits, self.ledger = state.controller, state.commits, state.ledger
        self.replicas, self.heard = list(state.replicas), list(state.heard)
        self.altering, self.late = list(state.altering), list(state.late)

    def state(self) -> State:
        heard = min([self.heard[b - 1] for b in BROKERS if not self._is_down(b)], default=self._decided.version)
        commits = tuple(commit for commit in self.commits if self.model.version(commit) > heard)
        late = tuple(sorted(self.late, key=repr)) if len(self.late) > 1 else tuple(self.late)
        replicas, altering = tuple(self.replicas), tuple(self.altering)
        return State(replicas, self.controller, tuple(self.heard), commits, altering, late, self.ledger, self.left)

    @property
    def _decided(self) -> Decided:
        return self.model.controller.views[self.controller]

    def _view(self, b: int) -> View:
        return self.model.brokers[b].views[self.replicas[b - 1]]

    def _is_down(self, b: int) -> bool:
        return self._view(b).seen.process.state is DEAD

    def _spend(self, name: str, count: int = 1) -> None:
        self.left = self.left._replace(**{name: getattr(self.left, name) - count})

    def do(self, name: str, *of: Any) -> State:
        if name in BOUNDED:
            self._spend(BOUNDED[name])
            self._run(*of, name)
        elif name == "fail_over":
            self._spend("failovers")
            self._decide(name)
        else:
            getattr(self, name)(*of)
        return self.state()

    # steps of brokers

    def hear(self, b: int) -> None:
        commit = next(commit for commit in self.commits if self.model.version(commit) > self.heard[b - 1])
        self.heard[b - 1] = self.model.version(commit)
        self._run(b, "hear", self.model.commits[commit])

    def catch_up(self, b: int) -> None:
        """The newest change of each thing, as a watch sends it to who is behind."""
        commits = (self.model.commits[commit] for commit in self.commits)
        changes = [change for commit in commits for change in commit if change.version > self.heard[b - 1]]
        newest = {change.key: change for change in changes}
        self.heard[b - 1] = changes[-1].version
        self._run(b, "hear", tuple(sorted(newest.values(), key=lambda change: change.version)))

    def fetch(self, b: int) -> None:
        """A fetch, its answer, and what that does."""
        for message in self._run(b, "ask"):
            answer = self._serve(b, *message[1:])
            if answer is not None:
                self._run(b, "take", message[3], answer)

    def ask(self, b: int) -> None:
        """A fetch that is under way for some time."""
        self._spend("delays")
        self.late += [("fetch", b, *message[1:]) for message in self._run(b, "ask")]

    def push(self, b: int, other: int) -> None:
        self._spend("pushes")
        leader = self._view(b).seen
        self._run(other, "take_push", leader.epoch, leader.high_watermark)

    def start(self, b: int, lost: int) -> None:
        if lost:
            self._spend("losses")
        epoch = self._decide("register", b, lost == EVERYTHING)
        decided, self.altering[b - 1] = self._decided, None
        brokers = [Change("broker", each, decided.brokers[each], version=1 + each) for each in BROKERS]
        partition = Change("partition", TP, decided.partition, TOPIC.topic_id, version=decided.version)
        self.heard[b - 1] = decided.version
        self._run(b, "start", epoch, lost, (*brokers, partition))

    def _serve(self, b: int, leader_id: int, broker_epoch: int, request: Any) -> Any:
        if self._is_down(leader_id):
            return None
        (answer,) = self._run(leader_id, "serve", b, broker_epoch, request)
        return answer

    # steps with the controller

    def expire(self, brokers: tuple[int, ...]) -> None:
        """Their sessions end together, and some of them may live."""
        self._spend("suspicions", sum(not self._is_down(b) for b in brokers))
        self._decide("expire", brokers)

    def beat(self, b: int) -> None:
        self._decide("beat", b, self._view(b).seen.broker_epoch, self.heard[b - 1], self._run(b, "tell_ends"))

    def decide(self, b: int) -> None:
        self.decide_slowly(b, spend=0)
        self.hear_verdict(b)

    def decide_slowly(self, b: int, spend: int = 1) -> None:
        """The answer is under way for some time."""
        self._spend("delays", spend)
        verdict = self._decide("alter", *self.altering[b - 1])
        self.altering[b - 1] = ("answer", verdict)

    def decide_in_vain(self, b: int) -> None:
        """The answer is lost, and the request is sent again."""
        self._spend("delays")
        self._decide("alter", *self.altering[b - 1])
        self._run(b, "miss_verdict")

    def repeat(self, b: int) -> None:
        """The request of a proposal is under way for some time, and it is sent again."""
        self._spend("delays")
        self.late.append(("alter", *self.altering[b - 1]))
        self._propose(b, *self.altering[b - 1][3:])

    def hear_verdict(self, b: int) -> None:
        (_, verdict), self.altering[b - 1] = self.altering[b - 1], None
        if verdict is None:
            self._run(b, "miss_verdict")
        else:
            self._run(b, "take_verdict", verdict.error, verdict.state)

    def deliver(self, place: int) -> None:
        kind, b, *rest = self.late.pop(place)
        if kind == "alter":
            self._decide("alter", b, *rest)
        elif kind == "fetch":
            answer = self._serve(b, *rest)
            if answer is not None and not self._is_down(b):
                self.late.append(("answer", b, rest[1], rest[2], answer))
        elif not self._is_down(b) and self._view(b).seen.broker_epoch == rest[0]:
            self._run(b, "take", *rest[1:])

    def _propose(self, b: int, *proposal: Any) -> None:
        """A broker knows at most what the controller has decided: answers to other proposals tell it, too."""
        self.altering[b - 1] = (b, self._view(b).seen.broker_epoch, self._decided.version, *proposal)

    # what follows

    def _decide(self, event: str, *arguments: Any) -> Any:
        """The answer. Everything that was committed is checked."""
        before = self.controller
        self.controller, said = self.model.controller.step(before, event, *arguments)
        answer = None
        for place, each in enumerate(said):
            if isinstance(each, Committed):
                self.commits = (*self.commits, self.model.commit(each.changes))
                self._checked(
                    (before, self.controller, place),
                    partial(_check_commit, each, last_stays=not self.model.eligible_leaders),
                )
            else:
                answer = each
        return answer

    def _checked(self, what: Any, check: Callable[[PartitionLedger], None]) -> None:
        """The same check of the same state is done once."""
        key = self.ledger, *self.replicas, *what
        after = self.model.checked.get(key)
        if after is None:
            ledger = self.model.ledger(self.ledger)
            ledger.replicas = {b: self._view(b).seen for b in BROKERS}
            check(ledger)
            after = self.model.checked[key] = self.model.keep(ledger)
        self.ledger = after

    def _run(self, b: int, event: str, *arguments: Any) -> tuple[Any, ...]:
        """What it says to others. If it is another one after that, it is checked."""
        before, old = self.replicas[b - 1], self._view(b).seen
        after, said = self.model.brokers[b].step(before, event, *arguments)
        self.replicas[b - 1] = after
        if after != before:
            view = self._view(b)
            if view.seen.process.state is not DEAD:
                self._checked((b, before), lambda ledger: self._check(ledger, b, old, view))
        rest = []
        for each in said:
            if isinstance(each, tuple) and each[0] == "alter":
                self._propose(b, *each[1:])
            elif isinstance(each, tuple) and each[0] == "acknowledged":
                self._checked(each, lambda ledger, each=each: _check_acknowledged(ledger, b, *each[1:]))
            else:
                rest.append(each)
        return tuple(rest)

    def _check(self, ledger: PartitionLedger, b: int, old: SeenReplica, view: View) -> None:
        """As the simulator's `BrokerCheck._changed`."""
        new = copy.copy(view.seen)
        first_seen = old.process is not new.process
        new.epoch, new.leader, new.state, new.high_watermark = -1, None, None, -1
        if not first_seen:
            new.leader = new.hosted.leader if old.leader is not None and new.hosted.leader is not None else old.leader
            new.epoch, new.state, new.high_watermark = old.epoch, old.state, old.high_watermark
        ledger.replicas[b] = new
        led_in = new.epoch if old.leader is not None and not first_seen else -1
        _check_bounds(ledger, new)
        _check_cache(ledger, new)
        leads_on, leads_anew = follow_role(ledger, new)
        new.elected_with = view.seen.elected_with
        check_log_epochs(ledger, new)
        check_zombies(ledger, new)
        before = new.high_watermark
        if leads_anew:
            take_leadership(ledger, new)
        if new.log.high_watermark != before or leads_anew:
            follow_high_watermark(ledger, new, leads_on=leads_on, led_in=led_in, first_seen=first_seen)
        if new.leader is not None:
            unchanged = not first_seen and _proposed(old.state) == _proposed(new.state)
            _check_leader(ledger, new, new.state if unchanged else None, before)
            _check_shown(ledger, new, view)
        check_in_sync(ledger)


def _proposed(state: Any) -> tuple[Any, ...]:
    """What there is of an ISR state, for those that were made by the same steps again are other objects."""
    if state is None:
        return ()
    proposal = getattr(state, "proposal", None)
    return state.isr, state.maximal_isr, proposal and (proposal.leader_epoch, proposal.partition_epoch, proposal.isr)


def _check_commit(commit: Committed, ledger: PartitionLedger, *, last_stays: bool) -> None:
    for change in commit.changes:
        if change.kind == "partition":
            follow_record(ledger, change.value, commit.then, Counter(), asks_all=True)
            check_in_sync(ledger)
    check_active(ledger, commit.then, last_stays=last_stays)


def _check_shown(ledger: PartitionLedger, new: SeenReplica, view: View) -> None:
    if view.readable > new.high_watermark:
        ledger.fail("INV-17", f"consumers can read up to {view.readable} at broker {new.broker_id}")
    if view.told is None:
        return
    ends = (ledger.bounded(end, epoch) for epoch, end in ledger.highest_of_epoch.items() if epoch <= new.epoch)
    known = max(ends, default=0)
    if view.told > new.high_watermark or view.told < known:
        ledger.fail("INV-18", f"consumers are told the end {view.told} at broker {new.broker_id}, and knew {known}")


def _check_acknowledged(ledger: PartitionLedger, b: int, offset: int, epoch: int) -> None:
    """INV-12, INV-17: the very record that was sent is committed."""
    batch = ledger.committed.at(offset)
    if not ledger.unclean and (batch is None or batch.epoch != epoch):
        ledger.fail("INV-12", f"broker {b} acknowledges offset {offset} of epoch {epoch}; committed is {batch}")
