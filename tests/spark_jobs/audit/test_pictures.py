"""How plots choose what they show. Pure."""

import pytest

from spark_jobs.audit.pictures import Lane, Mark, Plot, plots
from spark_jobs.replicas.describe import Replica


def replica(end: int) -> Replica:
    return Replica(1, "t", 0, 0, end, end, 1000, 1)


@pytest.mark.parametrize("span", [(0, 1), (0, 7), (3, 11), (0, 1_482_310), (10**12, 10**12 + 3)])
def test_axes_have_a_few_round_ticks(span):
    places = Plot("t-0", (), *span).ticks()
    assert 1 <= len(places) <= 9
    assert span[0] <= places[0] <= places[-1] <= span[1]


@pytest.mark.parametrize(
    ("marks", "shown"),
    [
        ([(500_000, 500_019)], [(0, 1_000_000), (499_990, 500_030)]),
        ([(0, 800_000)], [(0, 1_000_000)]),
        ([], [(0, 1_000_000)]),
    ],
)
def test_a_close_up_is_shown_only_of_what_would_be_a_line(marks, shown):
    found = tuple(Mark(1, "GAP", first, last, True) for first, last in marks)
    lane = Lane(1, replica(1_000_000), (), found)
    assert [(plot.low, plot.high) for plot in plots("t-0", [lane])] == shown


def test_boxes_that_would_hide_each_other_are_one_that_leads_to_who_is_blamed():
    marks = (Mark(1, "GAP", 100, 109, False), Mark(2, "BIT_ROT", 112, 113, True), Mark(3, "GAP", 900, 909, True))
    lane = Lane(1, replica(1000), ((3, 500),), marks)
    (plot, *_) = plots("t-0", [lane])
    assert [(box.first, box.last, box.lead.number) for box in plot.boxes(lane)] == [(100, 113, 2), (900, 909, 3)]
    assert list(plot.epochs(lane)) == [(None, 0, 500), (3, 500, 1000)]
