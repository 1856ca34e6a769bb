"""The timer's promises (PG-15 to PG-19)."""

import random

import pytest

from replog.purgatory.timer import Timer


@pytest.mark.parametrize("delay_ms", [0, 19, 20, 399, 450, 8437, 30000])
def test_nothing_runs_early_and_nothing_late_pg_15_pg_16_pg_19(delay_ms):
    """The delays lie on both sides of where a hierarchy of wheels changes levels (PG-17)."""
    timer: Timer[str] = Timer()
    timer.add(delay_ms, "item")
    for now_ms in range(0, delay_ms, 7):
        assert list(timer.due(now_ms)) == []
    assert not delay_ms or list(timer.due(delay_ms - 1)) == []
    assert list(timer.due(delay_ms)) == ["item"]
    assert list(timer.due(100_000)) == []


@pytest.mark.parametrize("seed", range(5))
def test_a_random_history_hands_out_what_was_not_cancelled_in_order_pg_17(seed):
    rng = random.Random(seed)
    timer: Timer[int] = Timer()
    pending: dict[int, tuple[int, object]] = {}
    now_ms = number = 0
    while number < 2000 or pending:
        if number < 2000:
            deadline_ms = now_ms + rng.choice([0, 1, rng.randrange(600), rng.randrange(40_000)])
            pending[number] = deadline_ms, timer.add(deadline_ms, number)
            number += 1
        for cancelled in rng.sample(sorted(pending), min(len(pending), rng.randrange(2))):
            pending.pop(cancelled)[1].cancel()  # type: ignore[attr-defined]
        assert len(timer) == len(pending)
        if rng.random() < 0.2:
            now_ms += rng.choice([1, 30, 500, 9000])
            due = list(timer.due(now_ms))
            deadlines = [pending.pop(item)[0] for item in due]
            assert deadlines == sorted(deadlines)
            assert all(deadline_ms <= now_ms for deadline_ms in deadlines)
            assert all(deadline_ms > now_ms for deadline_ms, _ in pending.values())


def test_equal_deadlines_are_handed_out_in_the_order_of_their_adding():
    timer: Timer[int] = Timer()
    for number in range(10):
        timer.add(5, number)
    assert list(timer.due(5)) == list(range(10))


def test_what_is_cancelled_never_runs_even_when_it_is_due_already_pg_16():
    timer: Timer[int] = Timer()
    entries = [timer.add(5, number) for number in range(3)]
    taken = []
    for item in timer.due(5):
        taken.append(item)
        entries[1].cancel()
        entries[0].cancel()  # too late, and harmless
    assert taken == [0, 2]
    assert (len(timer), timer.next_deadline_ms()) == (0, None)


def test_what_is_added_while_the_due_is_taken_out_has_its_turn_pg_16():
    timer: Timer[int] = Timer()
    timer.add(5, 0)
    taken = []
    for item in timer.due(9):
        taken.append(item)
        if item < 3:
            timer.add(5 + item, item + 1)
            timer.add(10, -1)
    assert taken == [0, 1, 2, 3]
    assert (len(timer), timer.next_deadline_ms()) == (3, 10)


def test_cancelled_deadlines_do_not_pile_up_pg_18():
    timer: Timer[int] = Timer()
    keep = timer.add(10_000, -1)
    for number in range(10_000):
        timer.add(20_000 + number, number).cancel()
        timer.add(30_000, number).cancel()
    assert (len(timer._buckets), len(timer._deadlines) < 200) == (1, True)
    assert (len(timer), timer.next_deadline_ms()) == (1, 10_000)
    assert list(timer.due(10_000)) == [-1]
    keep.cancel()  # too late, and harmless
    assert (len(timer), timer.next_deadline_ms(), list(timer.due(99_999))) == (0, None, [])


def test_what_is_queued_grows_with_the_milliseconds_and_not_with_the_operations_pg_18():
    timer: Timer[int] = Timer()
    entries = [timer.add(number % 500, number) for number in range(20_000)]
    assert (len(timer), len(timer._deadlines)) == (20_000, 500)
    for entry in entries:
        entry.cancel()
    assert (len(timer), len(timer._buckets), timer.next_deadline_ms()) == (0, 0, None)
