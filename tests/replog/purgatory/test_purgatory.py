"""Delayed operations complete once, through an event or their deadline, and leave nothing behind."""

from collections.abc import Callable

import pytest

from replog.purgatory.operation import DelayedOperation
from replog.purgatory.purgatory import Purgatory
from replog.purgatory.timer import Timer


class Waits(DelayedOperation):
    """Complete once `ready`; counts what is called."""

    def __init__(self, timeout_ms: int = 100, *, ready: bool = False) -> None:
        super().__init__(timeout_ms)
        self.ready = ready
        self.checks = self.completions = self.expirations = 0
        self.on_check: Callable[[], None] = lambda: None

    def try_complete(self) -> bool:
        self.checks += 1
        satisfied = self.ready
        self.on_check()
        return satisfied and self.force_complete()

    def on_complete(self) -> None:
        self.completions += 1

    def on_expiration(self) -> None:
        self.expirations += 1


class Fails(Waits):
    def on_complete(self) -> None:
        super().on_complete()
        raise ValueError("the response cannot be written")


def test_an_operation_completed_through_one_key_stays_in_the_other_until_it_is_checked_w_g1() -> None:
    purgatory: Purgatory[str] = Purgatory()
    operation = Waits()
    assert not purgatory.try_complete_else_watch(operation, ["a", "b"], 0)
    assert (purgatory.size, purgatory.delayed) == (2, 1)
    operation.ready = True
    assert purgatory.check_and_complete("a") == 1
    assert (purgatory.size, purgatory.delayed) == (1, 0)
    assert purgatory.check_and_complete("b") == 0
    assert purgatory.size == 0
    assert operation.completions == 1


def test_lingering_completed_operations_are_swept_w_g2() -> None:
    purgatory: Purgatory[str] = Purgatory(purge_interval=1)
    operations = [Waits() for _ in range(4)]
    for number, operation in enumerate(operations):
        purgatory.try_complete_else_watch(operation, ["shared", f"own {number}"], 0)
    for number in (0, 1):
        operations[number].ready = True
        assert purgatory.check_and_complete(f"own {number}") == 1
    assert purgatory.size == 6  # two own lists are gone, the shared one holds all four
    purgatory.expire(1)
    assert purgatory.size == 4


def test_garbage_is_bounded_without_any_expiry_pg_11() -> None:
    purgatory: Purgatory[str] = Purgatory(purge_interval=10)
    for _ in range(1000):
        operation = Waits()
        purgatory.try_complete_else_watch(operation, ["busy", "idle"], 0)
        operation.ready = True
        purgatory.check_and_complete("busy")
    assert purgatory.size <= 12
    assert purgatory.delayed == 0


def test_an_event_between_the_first_check_and_the_registration_is_not_lost_w_g3() -> None:
    purgatory: Purgatory[str] = Purgatory()
    operation = Waits()

    def happen() -> None:
        operation.ready = True
        assert purgatory.check_and_complete("key") == 0, "nobody is registered yet"
        operation.on_check = lambda: None

    operation.on_check = happen
    assert purgatory.try_complete_else_watch(operation, ["key"], 0)
    assert (operation.checks, operation.completions, purgatory.delayed) == (2, 1, 0)


def test_completing_may_check_the_same_key_again_and_still_runs_once_w_g4() -> None:
    purgatory: Purgatory[str] = Purgatory()
    operations = [Waits() for _ in range(3)]
    for operation in operations:
        operation.on_check = lambda: None
        purgatory.try_complete_else_watch(operation, ["key"], 0)
    for operation in operations:
        operation.ready = True
    counts: list[int] = []
    first = operations[0]

    def check_again() -> None:
        first.on_check = lambda: None
        counts.append(purgatory.check_and_complete("key"))

    first.on_check = check_again
    counts.append(purgatory.check_and_complete("key"))
    assert sum(counts) == 3
    assert [operation.completions for operation in operations] == [1, 1, 1]
    assert purgatory.size == 0


@pytest.mark.parametrize(("event_first", "expirations"), [(True, 0), (False, 1)])
def test_either_the_event_or_the_deadline_wins_w_g5(event_first: bool, expirations: int) -> None:
    purgatory: Purgatory[str] = Purgatory()
    operation = Waits(timeout_ms=100)
    purgatory.try_complete_else_watch(operation, ["key"], 1000)
    operation.ready = True
    if event_first:
        assert purgatory.check_and_complete("key") == 1
    assert purgatory.expire(1100) == expirations
    assert purgatory.check_and_complete("key") == 0
    assert (operation.completions, operation.expirations) == (1, expirations)


def test_a_satisfied_operation_is_never_registered_w_g6() -> None:
    purgatory: Purgatory[str] = Purgatory()
    operation = Waits(ready=True)
    assert purgatory.try_complete_else_watch(operation, ["key"], 0)
    assert (purgatory.size, purgatory.delayed, purgatory.next_deadline_ms()) == (0, 0, None)


def test_nothing_expires_early_and_deadlines_come_in_order_pg_19() -> None:
    purgatory: Purgatory[str] = Purgatory()
    late, early = Waits(500), Waits(200)
    purgatory.try_complete_else_watch(late, ["key"], 1000)
    purgatory.try_complete_else_watch(early, ["key"], 1000)
    assert purgatory.next_deadline_ms() == 1200
    assert purgatory.expire(1199) == 0
    assert purgatory.expire(1200) == 1
    assert (early.completions, late.completions, purgatory.next_deadline_ms()) == (1, 0, 1500)


@pytest.mark.parametrize("how", ["check", "expire"])
def test_one_failing_operation_does_not_keep_the_others_from_completing(how: str) -> None:
    purgatory: Purgatory[str] = Purgatory()
    operations = [Waits(), Fails(), Waits(), Fails()]
    for operation in operations:
        purgatory.try_complete_else_watch(operation, ["key"], 0)
        operation.ready = True
    with pytest.raises(ExceptionGroup) as failure:
        if how == "check":
            purgatory.check_and_complete("key")
        else:
            purgatory.expire(100)
    assert len(failure.value.exceptions) == 2
    assert [operation.completions for operation in operations] == [1, 1, 1, 1]
    assert (purgatory.check_and_complete("key"), purgatory.size, purgatory.delayed) == (0, 0, 0)


def test_the_operations_of_a_key_that_disappears_are_handed_back_pg_12() -> None:
    purgatory: Purgatory[str] = Purgatory()
    waiting, done = Waits(), Waits()
    for operation in (waiting, done):
        purgatory.try_complete_else_watch(operation, ["gone", "other"], 0)
    done.ready = True
    purgatory.check_and_complete("other")
    assert purgatory.cancel_for_key("gone") == [waiting]
    assert not waiting.completed
    assert (purgatory.delayed, purgatory.expire(1000)) == (0, 0)
    assert purgatory.cancel_for_key("gone") == []


def test_an_operation_under_a_key_named_twice_is_watched_once() -> None:
    purgatory: Purgatory[str] = Purgatory()
    purgatory.try_complete_else_watch(Waits(), ["key", "key"], 0)
    assert purgatory.size == 1


def test_cancelled_deadlines_do_not_pile_up() -> None:
    timer: Timer[int] = Timer()
    keep = timer.add(10_000, -1)
    for number in range(10_000):
        timer.add(20_000 + number, number).cancel()
    assert len(timer._heap) < 200
    assert (len(timer), timer.next_deadline_ms()) == (1, 10_000)
    assert timer.pop_due(10_000) == -1
    keep.cancel()  # too late, and harmless
    assert (len(timer), timer.next_deadline_ms(), timer.pop_due(99_999)) == (0, None, None)
