"""A small model: three brokers, one partition, a controller, and every order of a bounded number of steps.

A state is one state of each part, what is under way between them, what was ever committed, and which troubles may still
come. `enabled` says which steps may be next, `do` does one and checks the simulator's invariants.
"""

import copy
from collections import OrderedDict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from leader.isr import Committed
from replog.metadata.changes import Change
from replog.metadata.values import NO_LEADER
from replog.simulator.checks.partition_ledger import PartitionLedger
from replog.simulator.invariants import Violation
from replog.simulator.runtime.process import DEAD
from tests.replog.models.deciding import BEGINNING, BROKERS, Deciding
from tests.replog.models.moment import BOUNDED, Bounds, Moment, State, Step
from tests.replog.models.replica import EVERYTHING, TP, Replica, View

CALM = Bounds(*[0] * len(Bounds._fields))
BY_EPOCH = "leaders", "recorded_leaders", "committed_at_election", "highest_of_epoch", "unclean"  # of a ledger


class Model:
    def __init__(
        self, directory: Path, bounds: Bounds, beginning: tuple[Step, ...] = (), *, eligible_leaders: bool = True
    ) -> None:
        """`beginning`: what has happened already. `eligible_leaders`: whether there may be any (ISR-15, ISR-19)."""
        self.eligible_leaders = eligible_leaders
        self.brokers = {b: Memory(lambda b=b: self._replica(b)) for b in BROKERS}
        self.controller = Memory(lambda: Deciding(eligible_leaders=eligible_leaders))
        self._directory = directory
        self._logs = 0
        self._restful: set[int] = set()
        self._ledgers: list[PartitionLedger] = []
        self._ledger_ids: dict[Any, int] = {}
        self.checked: dict[Any, int] = {}  # what was checked already: the ledger after it
        self.commits: list[tuple[Change, ...]] = []
        self._commit_ids: dict[tuple[Change, ...], int] = {}
        started = [("start", (1 + b, 0, BEGINNING[1:])) for b in BROKERS]
        self.root = State(
            tuple(self.brokers[b].begin(started[b - 1]) for b in BROKERS),
            self.controller.begin(("fail_over", ())),
            (5, 5, 5),
            (),
            (None, None, None),
            (),
            self.keep(self._first_ledger()),
            Bounds(*[len(beginning)] * len(bounds)),
        )
        for step in beginning:
            assert step in list(self.enabled(self.root)), f"{step} of {beginning}"
            self.root = self.do(self.root, step)
        self.root = self.root._replace(left=bounds)

    def _replica(self, broker_id: int) -> Replica:
        self._logs += 1
        return Replica(broker_id, self._directory / f"{self._logs}")

    def close(self) -> None:
        for memory in self.brokers.values():
            memory.close()

    def view(self, state: State, broker_id: int) -> View:
        return self.brokers[broker_id].views[state.replicas[broker_id - 1]]

    # where it ends

    def rest(self, state: State, way: list[Step]) -> None:
        """INV-21: without more troubles, whatever happens leads to where nothing happens any more, and then all brokers
        are in sync and have the same, and nobody waits. `way` is one way there."""
        state = state._replace(left=CALM)
        while hash(state) not in self._restful:
            self._restful.add(hash(state))
            for step in self.enabled(state):
                after = self.do(state, step)
                if after != state:
                    way.append(step)
                    state = after
                    break
            else:
                self._check_rest(state)

    def _check_rest(self, state: State) -> None:
        seen = {b: self.view(state, b).seen for b in BROKERS}
        waiting = [self.view(state, b).waiting for b in BROKERS]
        decided = self.controller.views[state.controller].partition
        lasts = {each.chain.last for each in seen.values() if each.start < each.end}  # the others begin at their end
        held = {(each.epoch, each.end, each.high_watermark) for each in seen.values()}
        led = [(each.leader.partition_epoch, each.state) for each in seen.values() if each.leader is not None]
        is_settled = len(held) == 1 and len(lasts) < 2 and seen[1].high_watermark == seen[1].end and not any(waiting)
        if not is_settled or led != [(decided.partition_epoch, Committed(frozenset(BROKERS)))]:
            ledger = self.ledger(state.ledger)
            ledger.replicas = seen
            ledger.fail("INV-21", f"nothing happens any more; produces that wait: {waiting}")

    # which steps

    def enabled(self, state: State) -> Iterator[Step]:
        left = state.left
        decided = self.controller.views[state.controller]
        views = {b: self.view(state, b) for b in BROKERS}
        down = {b for b in BROKERS if views[b].seen.process.state is DEAD}
        fenced = {b for b in BROKERS if decided.brokers[b].fenced}
        for b, view in views.items():
            if b in down:
                yield "start", b, 0
                if left.losses:
                    yield "start", b, EVERYTHING
                    yield from (("start", b, lost) for lost in {1, view.seen.end} if 0 < lost <= view.seen.end)
                if b not in fenced:
                    yield "expire", (b,)
                continue
            waiting = sum(self.version(commit) > state.heard[b - 1] for commit in state.commits)
            if waiting:
                yield "hear", b
            if waiting > 1:
                yield "catch_up", b
            if view.copies is not None and view.copies not in down:
                yield "fetch", b
                if left.delays and len(state.late) < 2:
                    yield "ask", b
            yield from self._of_proposals(state, b)
            if b in fenced or decided.partition.leader == NO_LEADER:
                yield "beat", b
            leader = view.seen.leader
            if leader is not None:
                if left.pushes:
                    yield from (("push", b, other) for other in BROKERS if other != b and other not in down)
                yield from ((name, b) for name in ("append", "lag", "resign", "retain") if getattr(left, BOUNDED[name]))
            if left.crashes:
                yield "kill", b
            if left.suspicions and b not in fenced:
                yield "expire", (b,)
        for pair in ((1, 2), (1, 3), (2, 3)):
            if fenced.isdisjoint(pair) and len(down.intersection(pair)) + left.suspicions >= 2:
                yield "expire", pair
        yield from (("deliver", place) for place in range(len(state.late)))
        if left.failovers:
            yield ("fail_over",)

    def _of_proposals(self, state: State, b: int) -> Iterator[Step]:
        under_way = state.altering[b - 1]
        if under_way is None:
            return
        if under_way[0] == "answer":
            yield "hear_verdict", b
            return
        yield "decide", b
        if state.left.delays:
            yield "decide_slowly", b
            yield "decide_in_vain", b
            if len(state.late) < 2:
                yield "repeat", b

    # doing one

    def do(self, state: State, step: Step) -> State:
        return Moment(self, state).do(*step)

    def commit(self, changes: tuple[Change, ...]) -> int:
        number = self._commit_ids.setdefault(changes, len(self.commits))
        if number == len(self.commits):
            self.commits.append(changes)
        return number

    def version(self, commit: int) -> int:
        return self.commits[commit][-1].version

    # what was ever committed

    def ledger(self, number: int) -> PartitionLedger:
        """A copy that may be changed."""
        ledger = copy.copy(self._ledgers[number])
        for name in BY_EPOCH:
            setattr(ledger, name, dict(getattr(ledger, name)))
        committed, ledger.committed = ledger.committed, type(ledger.committed)()
        for batch in committed.batches:
            ledger.committed.append(batch)
        return ledger

    def keep(self, ledger: PartitionLedger) -> int:
        ledger.replicas = {}
        acting = {epoch: (broker, process.name) for epoch, (broker, process) in ledger.leaders.items()}
        known = acting, *(getattr(ledger, name) for name in BY_EPOCH[1:])
        digest = ledger.committed_end, ledger.committed.last, ledger.highest, ledger.state
        digest += tuple(tuple(sorted(each.items())) for each in known)
        number = self._ledger_ids.setdefault(digest, len(self._ledgers))
        if number == len(self._ledgers):
            self._ledgers.append(ledger)
        return number

    def _first_ledger(self) -> PartitionLedger:
        ledger = PartitionLedger(TP)
        ledger.state = BEGINNING[-1].value
        ledger.recorded_leaders = {0: 1}
        return ledger


KEPT = 1000  # parts that stay as they are for the next step


class Memory:
    def __init__(self, make: Callable[[], Any]) -> None:
        self.views: list[Any] = []
        self.runs = 0  # of the shipped code
        self._make = make
        self._states: dict[Any, int] = {}
        self._from: list[tuple[int, str, tuple[Any, ...]]] = []
        self._lengths: list[int] = []  # of the ways that lead to them
        self._results: dict[tuple[int, str, tuple[Any, ...]], tuple[int, tuple[Any, ...]]] = {}
        self._parts: OrderedDict[int, Any] = OrderedDict()

    def begin(self, *steps: tuple[str, tuple[Any, ...]]) -> int:
        """The state after these steps."""
        self._from.append((-1, "", ()))
        self._lengths.append(0)
        self.views.append(None)
        state, self._states[None] = 0, 0
        for event, arguments in steps:
            state, _ = self.step(state, event, *arguments)
        return state

    def step(self, state: int, event: str, *arguments: Any) -> tuple[int, tuple[Any, ...]]:
        """The state after it, and what was said."""
        key = state, event, arguments
        result = self._results.get(key)
        if result is None:
            result = self._results[key] = self._run(key)
        return result

    def _run(self, key: tuple[int, str, tuple[Any, ...]]) -> tuple[int, tuple[Any, ...]]:
        state, event, arguments = key
        part = self._parts.pop(state, None) or self._again(state)
        try:
            said = part.run(event, arguments)
            digest = part.digest()
            after = self._states.get(digest)
            length = self._lengths[state] + 1
            if after is None:
                after = self._states[digest] = len(self._from)
                self._from.append(key)
                self._lengths.append(length)
                self.views.append(part.view())
            elif length < self._lengths[after]:
                self._from[after], self._lengths[after] = key, length
        except Violation:
            part.close()
            raise
        except Exception as error:
            part.close()
            raise Violation("defect", f"{event}: {error!r}") from error
        if after in self._parts:
            part.close()
        else:
            self._parts[after] = part
            if len(self._parts) > KEPT:
                self._parts.popitem(last=False)[1].close()
        return after, said

    def _again(self, state: int) -> Any:
        steps = []
        part = None
        while state and part is None:
            state, event, arguments = self._from[state]
            steps.append((event, arguments))
            part = self._parts.pop(state, None)
        part = part or self._make()
        for event, arguments in reversed(steps):
            part.run(event, arguments)
            self.runs += 1
        return part

    def close(self) -> None:
        for part in self._parts.values():
            part.close()
