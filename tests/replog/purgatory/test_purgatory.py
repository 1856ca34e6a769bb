"""Delayed operations complete once, through an event or their deadline, and leave nothing behind."""

import random
from collections.abc import Callable, Collection

import pytest

from replog.purgatory.purgatory import DelayedOperation, Purgatory


class Waits(DelayedOperation[str]):
    """Complete once `ready`; counts what is called."""

    def __init__(self, timeout_ms: int = 100, *, ready: bool = False) -> None:
        super().__init__(timeout_ms)
        self.ready = ready
        self.checks = self.completions = 0
        self.moved: list[list[str]] = []
        self.on_check: Callable[[], None] = lambda: None

    def try_complete(self, moved: Collection[str]) -> bool:
        self.checks += 1
        self.moved.append(list(moved))
        satisfied = self.ready
        self.on_check()
        return satisfied and self.force_complete()

    def on_complete(self) -> None:
        self.completions += 1


class Fails(Waits):
    def on_complete(self) -> None:
        super().on_complete()
        raise ValueError("the response cannot be written")


@pytest.fixture
def purgatory() -> Purgatory[str]:
    return Purgatory()


def test_an_operation_completed_through_one_key_leaves_the_others(purgatory):
    """R-W-G1, where Kafka's stays (PG-10, divergence 28); the size counts entries, two for an
    operation on two keys (PG-13)."""
    operation, other = Waits(), Waits()
    assert not purgatory.complete_or_watch(operation, ["a", "b"], 0)
    assert not purgatory.complete_or_watch(other, ["b"], 0)
    assert (purgatory.size, purgatory.delayed) == (3, 2)
    operation.ready = True
    assert purgatory.check(["a"]) == 1
    assert (purgatory.size, purgatory.delayed) == (1, 1)
    assert (operation.completions, other.completed) == (1, False)


@pytest.mark.parametrize("how", ["check", "expire", "force"])
def test_a_thousand_that_came_and_went_leave_nothing_behind(purgatory, how):
    """R-W-G2: there is nothing to sweep (PG-11, divergence 28), neither under their keys nor among the deadlines."""
    for number in range(1000):
        operation = Waits(timeout_ms=number)
        purgatory.complete_or_watch(operation, ["busy", "idle", f"own {number}"], 0)
        operation.ready = True
        if how == "check":
            assert purgatory.check(["busy"]) == 1
        elif how == "expire":
            assert purgatory.expire(number) == 1
        else:
            assert operation.force_complete()
    assert (purgatory.size, purgatory.delayed, purgatory.next_deadline_ms()) == (0, 0, None)
    assert not purgatory._watchers, "an emptied list is not kept"


def test_an_operation_is_checked_once_whatever_number_of_its_keys_moved(purgatory):
    """PG-9; it is told which of them did."""
    both, second = Waits(), Waits()
    purgatory.complete_or_watch(both, ["a", "b", "c"], 0)
    purgatory.complete_or_watch(second, ["b"], 0)
    assert purgatory.check(["a", "b", "nobody's"]) == 0
    assert both.moved == [["a", "b", "c"], ["a", "b"]]
    assert second.moved == [["b"], ["b"]]


def test_an_event_between_the_check_and_the_watching_is_not_lost(purgatory):
    """R-W-G3: there is nothing between them, as the operation is watched first (PG-5, PG-6, divergence 28)."""
    operation = Waits()

    def happen() -> None:
        operation.ready = True
        operation.on_check = lambda: None
        assert purgatory.check(["key"]) == 1

    operation.on_check = happen
    assert purgatory.complete_or_watch(operation, ["key"], 0)
    assert (operation.checks, operation.completions, purgatory.delayed) == (2, 1, 0)


def test_completing_may_check_the_same_key_again_and_still_runs_once(purgatory):
    """R-W-G4, of which one event loop leaves this: a check may set off another one of the very operation (PG-4)."""
    operations = [Waits() for _ in range(3)]
    for operation in operations:
        operation.on_check = lambda: None
        purgatory.complete_or_watch(operation, ["key"], 0)
    for operation in operations:
        operation.ready = True
    counts: list[int] = []
    first = operations[0]

    def check_again() -> None:
        first.on_check = lambda: None
        counts.append(purgatory.check(["key"]))

    first.on_check = check_again
    counts.append(purgatory.check(["key"]))
    assert sum(counts) == 3
    assert [operation.completions for operation in operations] == [1, 1, 1]
    assert purgatory.size == 0


@pytest.mark.parametrize(("event_first", "expirations"), [(True, 0), (False, 1)])
def test_either_the_event_or_the_deadline_wins(purgatory, event_first, expirations):
    """R-W-G5: the other one finds nothing to do (PG-1, PG-2, PG-3)."""
    operation = Waits(timeout_ms=100)
    purgatory.complete_or_watch(operation, ["key"], 1000)
    operation.ready = True
    if event_first:
        assert purgatory.check(["key"]) == 1
    assert purgatory.expire(1100) == expirations
    assert (purgatory.check(["key"]), operation.force_complete(), purgatory.delayed) == (0, False, 0)
    assert operation.completions == 1


def test_an_answer_that_completes_its_own_operation_is_given_once(purgatory):
    """R-W-G4, PG-1: a response may cause the next request, and that the same event."""

    class AnswersAgain(Waits):
        def on_complete(self) -> None:
            super().on_complete()
            assert not self.force_complete()

    operation = AnswersAgain(ready=True)
    assert purgatory.complete_or_watch(operation, ["key"], 0)
    assert operation.completions == 1


def test_the_check_of_one_operation_may_check_others_pg_7(purgatory):
    """Kafka's would each hold a lock that the other's check wants; here there is none to hold."""
    first, second = Waits(), Waits()
    purgatory.complete_or_watch(first, ["a"], 0)
    purgatory.complete_or_watch(second, ["b"], 0)
    first.ready = second.ready = True

    def check(operation: Waits, key: str) -> None:
        operation.on_check = lambda: None
        purgatory.check([key])

    first.on_check = lambda: check(first, "b")
    second.on_check = lambda: check(second, "a")
    purgatory.check(["a"])
    assert (first.completions, second.completions, purgatory.size) == (1, 1, 0)


def test_a_deadline_may_come_in_the_middle_of_a_check_pg_8(purgatory):
    """What the check has found by then does not answer a second time (KAFKA-19312)."""
    operation = Waits()
    purgatory.complete_or_watch(operation, ["key"], 0)
    operation.ready = True

    def expire() -> None:
        assert purgatory.expire(100) == 1

    operation.on_check = expire
    assert purgatory.check(["key"]) == 0
    assert (operation.completions, purgatory.size) == (1, 0)


def test_purgatories_of_different_kinds_do_not_know_each_other():
    """PG-14."""
    produces, fetches = Purgatory[str](), Purgatory[str]()
    produce, fetch = Waits(), Waits()
    produces.complete_or_watch(produce, ["t-0"], 0)
    fetches.complete_or_watch(fetch, ["t-0"], 0)
    produce.ready = fetch.ready = True
    assert fetches.check(["t-0"]) == 1
    assert (produce.completed, fetch.completed) == (False, True)


@pytest.mark.parametrize("delay_ms", [0, 19, 20, 399, 450, 8437, 30000])
def test_nothing_runs_early_and_nothing_late_pg_15_pg_16_pg_19(purgatory, delay_ms):
    """PG-15, PG-16, PG-19. The delays lie on both sides of where a hierarchy of wheels changes levels (PG-17)."""
    operation = Waits(delay_ms)
    purgatory.complete_or_watch(operation, ["key"], 0)
    for now_ms in [*range(0, delay_ms, 7), delay_ms - 1]:
        assert purgatory.expire(now_ms) == 0
    assert purgatory.expire(delay_ms) == 1
    assert (purgatory.expire(100_000), operation.completions) == (0, 1)


@pytest.mark.parametrize("seed", range(5))
def test_a_random_history_expires_what_is_not_completed_in_order_pg_17(purgatory, seed):
    """PG-18: nor do deadlines of completed operations pile up."""
    rng = random.Random(seed)
    pending: dict[int, tuple[int, Waits]] = {}
    expired: list[int] = []
    now_ms = number = 0
    while number < 2000 or pending:
        if number < 2000:
            operation = Waits(rng.choice([0, 1, rng.randrange(600), rng.randrange(40_000)]))
            operation.on_complete = lambda number=number: expired.append(number)
            purgatory.complete_or_watch(operation, ["key"], now_ms)
            pending[number] = now_ms + operation.timeout_ms, operation
            number += 1
        for completed in rng.sample(sorted(pending), min(len(pending), rng.randrange(2))):
            pending.pop(completed)[1].force_complete()
        expired.clear()
        assert purgatory.delayed == len(pending)
        assert len(purgatory._deadlines) <= 2 * len(pending) + 64
        if rng.random() < 0.2:
            now_ms += rng.choice([1, 30, 500, 9000])
            assert purgatory.expire(now_ms) == len(expired)
            due = [(pending.pop(each)[0], each) for each in expired]
            assert due == sorted(due), "equal deadlines expire in the order of their adding"
            assert all(deadline_ms > now_ms for deadline_ms, _ in pending.values())


def test_what_completes_or_is_added_while_others_expire_pg_16(purgatory):
    first, second, later = Waits(5), Waits(5), Waits(0)

    def expired() -> None:
        second.force_complete()
        purgatory.complete_or_watch(later, ["key"], 5)

    first.on_complete = expired
    for operation in (first, second):
        purgatory.complete_or_watch(operation, ["key"], 0)
    assert purgatory.expire(5) == 2
    assert (second.completions, later.completions, purgatory.delayed) == (1, 1, 0)


@pytest.mark.parametrize("how", ["check", "expire"])
def test_one_failing_operation_does_not_keep_the_others_from_completing(purgatory, how):
    operations = [Waits(), Fails(), Waits(), Fails()]
    for operation in operations:
        purgatory.complete_or_watch(operation, ["key"], 0)
        operation.ready = True
    with pytest.raises(ExceptionGroup) as failure:
        if how == "check":
            purgatory.check(["key"])
        else:
            purgatory.expire(100)
    assert len(failure.value.exceptions) == 2
    assert [operation.completions for operation in operations] == [1, 1, 1, 1]
    assert (purgatory.check(["key"]), purgatory.size, purgatory.delayed) == (0, 0, 0)


def test_an_operation_under_a_key_named_twice_is_watched_once(purgatory):
    purgatory.complete_or_watch(Waits(), ["key", "key"], 0)
    assert purgatory.size == 1
