"""The benchmark of the storage engine runs, small, and what it reports adds up."""

import pytest

from benchmarks.storage import MIB, MIN_MEBIBYTES, Bench

pytestmark = pytest.mark.processes


def test_every_figure_has_both_sides_and_its_ratio(tmp_path):
    figures = list(Bench(tmp_path, rounds=1, bytes=MIN_MEBIBYTES * MIB, note=lambda _: None).run())
    assert len({figure.name for figure in figures}) == len(figures) == 4
    for figure in figures:
        assert figure.plain > 0, figure
        assert figure.ours > 0, figure
        assert figure.ratio == pytest.approx(figure.ours / figure.plain), figure
    assert not list(tmp_path.iterdir())
