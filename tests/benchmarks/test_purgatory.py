"""The benchmark of the purgatory runs, small, and all its figures come out."""

import pytest

from benchmarks.purgatory import run

pytestmark = pytest.mark.processes


def test_every_figure_is_there():
    figures = run(2000, rounds=1, note=lambda _: None)
    assert len(figures) == 8
    assert min(value for name, value in figures.items() if name != "bytes_each") > 0, figures
