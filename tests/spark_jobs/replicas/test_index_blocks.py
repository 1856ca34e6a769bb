"""Index entries as blocks: the short way and the long way say the same, and see the same faults."""

import struct

import pytest

from replog.log.files.names import DIGEST_SUFFIX, INDEX_SUFFIX, LOG_SUFFIX
from replog.log.indexes.index import OffsetIndex
from replog.log_tools.checker.indexes import read_index
from spark_jobs.replicas import index_check
from spark_jobs.replicas.blocks import Block, Cells
from spark_jobs.replicas.faults import FileFault
from spark_jobs.replicas.index_check import index_blocks
from spark_jobs.replicas.segment_check import check_segment
from spark_jobs.replicas.sound import SoundIndex
from tests.damage.vocabulary import flip, overwrite
from tests.spark_jobs.log_directories import path_of, segments

CELLS = Cells(8, (10, 30), 2**62)


def test_the_short_way_is_taken_by_sound_segments(cluster, monkeypatch):
    def never(*_: object, **__: object) -> None:
        raise AssertionError("the long way was taken")

    monkeypatch.setattr(index_check, "check_segment", never)
    for segment in segments(cluster):
        assert list(index_blocks(segment, 0, CELLS))


def test_the_short_way_gives_up_where_batches_overlap(cluster):
    segment = segments(cluster)[1]
    (_, before, _), (_, last, position) = list(read_index(segment, INDEX_SUFFIX).rows)[1:3]
    overwrite(path_of(segment, LOG_SUFFIX), position, struct.pack(">q", before))
    overwrite(path_of(segment, LOG_SUFFIX), position + 23, struct.pack(">i", last - before))
    faults = [item for item in index_blocks(segment, 0, CELLS) if isinstance(item, FileFault)]
    assert faults == [item for item in check_segment(segment, 0, crc=False) if isinstance(item, FileFault)] != []


def test_a_single_slot_of_zeros_may_be_unused_and_is_no_lie(cluster):
    """Preallocated (IX-2), or the entry of a batch at the base whose timestamps are 0."""
    segment = segments(cluster)[1]
    path_of(segment, INDEX_SUFFIX).write_bytes(bytes(OffsetIndex.layout.size))
    assert list(read_index(segment, INDEX_SUFFIX).rows) == []
    assert SoundIndex(segment, INDEX_SUFFIX).last_offset == -1


@pytest.mark.parametrize("suffix", [INDEX_SUFFIX, DIGEST_SUFFIX])
def test_every_entry_is_in_a_block(cluster, suffix):
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
