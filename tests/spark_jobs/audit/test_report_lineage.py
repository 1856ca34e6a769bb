"""Where the leader epochs of replicas part, and how plots choose what they show. Pure."""

import pytest

from spark_jobs.audit.lineage import FIRST, LATER, SAME, TAIL, EpochHistory, lineage
from spark_jobs.audit.pictures import Lane, Mark, close_up, ticks

Entries = tuple[tuple[int, int], ...]


def states(*histories: tuple[Entries, int, int], mark: int = 100) -> dict[int, str]:
    """Of (entries, log start, log end)."""
    given = [EpochHistory(n, start, end, mark, entries) for n, (entries, start, end) in enumerate(histories, 1)]
    return {row.epoch: row.state for row in lineage(given).rows}


LEADER: Entries = ((1, 0), (4, 20), (5, 35))


@pytest.mark.parametrize(
    "other",
    [
        (LEADER, 0, 100),
        (((1, 0), (4, 20)), 0, 35),  # it lags, and ends where epoch 5 starts
        (((4, 25), (5, 35)), 25, 100),  # retention cut within epoch 4 (EP-5, R-W-E10)
        (((5, 60),), 60, 100),
        ((), 100, 100),  # it has nothing left
    ],
    ids=["equal", "lag", "retention", "late retention", "empty"],
)
def test_logs_that_begin_later_or_end_earlier_do_not_differ(other):
    assert set(states((LEADER, 0, 100), other).values()) == {SAME}


@pytest.mark.parametrize(
    ("other", "expected"),
    [
        ((((1, 0), (3, 20), (5, 35)), 0, 100), {1: SAME, 3: FIRST, 4: LATER, 5: SAME}),
        ((((1, 0), (4, 22), (5, 35)), 0, 100), {1: SAME, 4: FIRST, 5: SAME}),
        ((((1, 0), (5, 35)), 0, 100), {1: SAME, 4: FIRST, 5: SAME}),
        ((((1, 0), (4, 20)), 0, 100), {1: SAME, 4: SAME, 5: FIRST}),
        ((((4, 15), (5, 35)), 15, 100), {1: FIRST, 4: LATER, 5: SAME}),  # begins where it is still epoch 1
    ],
    ids=["other epoch", "other start", "one missing", "end missing", "too early"],
)
def test_the_first_difference_is_marked_and_those_that_follow(other, expected):
    assert states((LEADER, 0, 100), other) == expected


def test_what_differs_above_a_high_watermark_is_allowed():
    other: Entries = ((1, 0), (4, 20), (6, 35))
    assert states((LEADER, 0, 100), (other, 0, 40), mark=35) == {1: SAME, 4: SAME, 5: TAIL, 6: TAIL}


def test_long_lineages_are_shown_around_the_first_difference():
    long: Entries = tuple((epoch, 10 * epoch) for epoch in range(200))
    other = tuple((epoch, start + (epoch == 120)) for epoch, start in long)
    compared = lineage(
        [EpochHistory(1, 0, 2000, 2000, long), EpochHistory(2, 0, 2000, 2000, other), EpochHistory(3, 0, 0, 0, None)]
    )
    assert compared.first is not None
    assert (compared.first.epoch, compared.first.starts) == (120, (1200, 1201))
    assert (compared.earlier, len(compared.rows), compared.after) == (116, 24, 60)
    assert (compared.replicas, compared.unknown) == ((1, 2), (3,))


@pytest.mark.parametrize("span", [(0, 1), (0, 7), (3, 11), (0, 1_482_310), (10**12, 10**12 + 3)])
def test_axes_have_a_few_round_ticks(span):
    places = ticks(*span)
    assert 1 <= len(places) <= 9
    assert span[0] <= places[0] <= places[-1] <= span[1]


def test_a_close_up_is_shown_only_of_what_would_be_a_line():
    def lane(first: int, last: int) -> Lane:
        return Lane(1, 0, 1_000_000, 1_000_000, (), (Mark(1, "GAP", first, last, True),))

    assert close_up([lane(500_000, 500_019)]) == (499_990, 500_030)
    assert close_up([lane(0, 800_000)]) is None
    assert close_up([Lane(1, 0, 10, 10, (), ())]) is None
