"""The short and the long ways say the same of whatever is there."""

import random

import pytest

from replog.log.formats.batch import HEADER_SIZE, iterate_batches
from replog.log.formats.checkpoint import write_entries
from tests.damage.vocabulary import flip
from tests.spark_jobs.log_directories import path_of, segments
from tests.spark_jobs.replicas.ways import differences, problems


@pytest.mark.parametrize("first", range(0, 40, 8))
def test_all_ways_say_the_same_of_generated_damages(first, tmp_path):
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
def test_all_ways_say_the_same_of_what_they_once_told_differently(seed, tmp_path):
    assert not list(problems(seed, tmp_path))


def test_all_ways_say_the_same_of_any_changed_byte(cluster):
    """Of the first header, of one that an entry points at, and of every index."""
    segment, rng = segments(cluster)[1], random.Random(1)
    positions = [position for position, _ in iterate_batches(path_of(segment, ".log").read_bytes())]
    places = [(".log", positions[number] + at) for number in (0, 4) for at in range(HEADER_SIZE + 2)]
    for suffix in (".index", ".timeindex", ".digest"):
        places += [(suffix, at) for at in range(path_of(segment, suffix).stat().st_size)]
    for suffix, at in places:
        mask = rng.randrange(1, 256)
        flip(path_of(segment, suffix), at, mask)
        assert not list(differences(segment, 0, rng)), (suffix, at, mask)
        flip(path_of(segment, suffix), at, mask)


@pytest.mark.parametrize("entries", [[(1, 0)], [(1, 0), (2, 24)], [(1, 0), (2, 25)], [(2, 24)], [(1, 0), (3, 24)], []])
def test_all_ways_say_the_same_where_epochs_disagree(cluster, entries):
    write_entries(cluster.path(1, "t") / "leader-epoch-checkpoint", entries)
    for log_start in (0, 23, 24, 26, 60):
        for segment in segments(cluster):
            assert not list(differences(segment, log_start, random.Random(log_start)))
