"""Index entries as blocks: the short way and the long way say the same, and see the same faults."""

import random
import struct

import pytest

from replog.log.batch import HEADER_SIZE, iterate_batches
from replog.log.checkpoint import write_entries
from replog.log.files import DIGEST_SUFFIX, INDEX_SUFFIX, LOG_SUFFIX, TIME_INDEX_SUFFIX
from spark_jobs.replicas import index_blocks as module
from spark_jobs.replicas.blocks import Block, Cells
from spark_jobs.replicas.faults import Fault
from spark_jobs.replicas.files import Segment
from spark_jobs.replicas.index_blocks import index_blocks
from spark_jobs.replicas.index_check import Point, index_points
from spark_jobs.replicas.index_files import read_index
from spark_jobs.replicas.sound import NotSound
from tests.audit.replica_files import overwrite
from tests.spark_jobs.log_directories import Cluster, flip, path_of, segments

CELLS = Cells(8, (10, 30), 2**62)


def the_long_way(segment: Segment, log_start: int, monkeypatch: pytest.MonkeyPatch) -> list[Block | Point | Fault]:
    def never(*_: object) -> None:
        raise NotSound

    with monkeypatch.context() as patch:
        patch.setattr(module, "_Sound", never)
        return list(index_blocks(segment, log_start, CELLS))


def test_both_ways_make_the_same_blocks_and_points(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    for segment in segments(cluster):
        short = set(index_blocks(segment, 0, CELLS))
        assert short == set(the_long_way(segment, 0, monkeypatch))
        assert sum(isinstance(item, Block) for item in short) >= 4


def test_the_short_way_is_taken_by_sound_segments(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*_: object) -> None:
        raise AssertionError("the long way was taken")

    monkeypatch.setattr(module, "index_points", never)
    for segment in segments(cluster):
        assert list(index_blocks(segment, 0, CELLS))


def test_the_short_way_gives_up_wherever_the_long_way_finds_a_fault(cluster: Cluster) -> None:
    """Every byte of a header that an entry points at and of every index, one at a time."""
    segment = segments(cluster)[1]
    position = [position for position, _ in iterate_batches(path_of(segment, LOG_SUFFIX).read_bytes())][4]
    places = [(LOG_SUFFIX, at) for at in (*range(HEADER_SIZE), *range(position, position + HEADER_SIZE))]
    for suffix in (INDEX_SUFFIX, TIME_INDEX_SUFFIX, DIGEST_SUFFIX):
        places += [(suffix, at) for at in range(path_of(segment, suffix).stat().st_size)]
    draw = random.Random(1)
    for suffix, at in places:
        mask = draw.randrange(1, 256)
        flip(path_of(segment, suffix), at, mask)
        faults = {item for item in index_points(segment, 0, list(CELLS.cuts)) if isinstance(item, Fault)}
        found = {item for item in index_blocks(segment, 0, CELLS) if isinstance(item, Fault)}
        assert found == faults, (suffix, at, mask)
        flip(path_of(segment, suffix), at, mask)


def test_the_short_way_gives_up_where_batches_overlap(cluster: Cluster) -> None:
    segment = segments(cluster)[1]
    (_, before, _), (_, last, position) = list(read_index(segment, INDEX_SUFFIX).rows)[1:3]
    overwrite(path_of(segment, LOG_SUFFIX), position, struct.pack(">q", before))
    overwrite(path_of(segment, LOG_SUFFIX), position + 23, struct.pack(">i", last - before))
    (fault,) = [item for item in index_blocks(segment, 0, CELLS) if isinstance(item, Fault)]
    assert fault.fault == "INDEX_LIE"
    assert "would run into" in fault.detail


@pytest.mark.parametrize("suffix", [INDEX_SUFFIX, DIGEST_SUFFIX])
def test_every_entry_is_in_a_block(cluster: Cluster, suffix: str) -> None:
    """Where the entries of two replicas differ, so does a block: then all of them are compared."""
    segment = segments(cluster)[1]
    path = path_of(segment, suffix)
    before = set(index_blocks(segment, 0, CELLS))
    for at in range(path.stat().st_size):
        flip(path, at, 1)
        after = set(index_blocks(segment, 0, CELLS))
        assert {item for item in after if isinstance(item, Block)} != {
            item for item in before if isinstance(item, Block)
        }, at
        flip(path, at, 1)


@pytest.mark.parametrize("entries", [[(1, 0), (2, 24)], [(1, 0), (2, 25)], [(2, 24)], [(1, 0), (3, 24)], []])
def test_the_short_way_gives_up_where_epochs_disagree(cluster: Cluster, entries: list[tuple[int, int]]) -> None:
    write_entries(cluster.path(1, "t") / "leader-epoch-checkpoint", entries)
    for log_start in (0, 24, 26):
        for segment in segments(cluster):
            faults = {item for item in index_points(segment, log_start, []) if isinstance(item, Fault)}
            assert {item for item in index_blocks(segment, log_start, CELLS) if isinstance(item, Fault)} == faults
