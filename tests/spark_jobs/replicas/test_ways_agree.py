"""The short ways, the long ways and the parts say the same of whatever is there."""

from pathlib import Path

import pytest

from tests.spark_jobs.replicas.ways import problems


@pytest.mark.parametrize("first", range(0, 40, 8))
def test_all_ways_say_the_same_of_generated_damages(first: int, tmp_path: Path) -> None:
    for seed in range(first, first + 8):
        assert not list(problems(seed, tmp_path / str(seed)))


@pytest.mark.parametrize(
    "seed",
    [
        88,  # a negative position in an offset index
        111,  # an offset that goes back behind the last index entry
        146,  # an entry out of order before all others
        211,  # and no entry that is in order
        252,  # an offset that does not fit 64 bits
        4022844,  # a length that leads beyond the file, in front of batches that are there
        200661,  # a rotten batch that says it ends far behind, before entries of others that lie
    ],
)
def test_all_ways_say_the_same_of_what_they_once_told_differently(seed: int, tmp_path: Path) -> None:
    assert not list(problems(seed, tmp_path))
