"""Blocks: the short way and the long way through a segment say the same, and blocks add up whatever the segments."""

from collections import defaultdict

import pytest

from replog.log.files.names import LOG_SUFFIX
from replog.log.formats.batch import HEADER_SIZE, iterate_batches
from replog.log.formats.digest import add_digests, batch_digest
from spark_jobs.replicas import blocks
from spark_jobs.replicas.blocks import Block, Cells, block_span, check_blocks
from spark_jobs.replicas.faults import FileFault
from spark_jobs.replicas.files import ReplicaSegment
from tests.damage.vocabulary import flip
from tests.replog.log.batches import append, client_batch, open_log
from tests.spark_jobs.log_directories import Cluster, path_of, segments

EVERYTHING = Cells(8, (), 2**62)


def summed(
    parts: tuple[ReplicaSegment, ...], cells: Cells, *, crc: bool = True
) -> dict[tuple[int, int], tuple[int, ...]]:
    """Batches, bytes and digest of each cell, of all segments together."""
    sums: dict[tuple[int, int], tuple[int, ...]] = defaultdict(lambda: (0, 0, 0))
    for segment in parts:
        for item in check_blocks(segment, 0, cells, crc=crc):
            assert isinstance(item, Block), item
            batches, size, digest = sums[item[:2]]
            added = (batches + item.batches, size + item.size, add_digests(digest, item.digest))
            sums[item[:2]] = added
    return dict(sums)


@pytest.mark.parametrize("crc", [True, False])
def test_a_block_is_the_sum_of_its_batches(cluster, crc):
    (segment, *_) = segments(cluster)
    whole = [item for item in check_blocks(segment, 0, EVERYTHING, crc=crc) if isinstance(item, Block)]
    data = path_of(segment, LOG_SUFFIX).read_bytes()
    headers = [header for _, header in iterate_batches(data)]
    assert sum(block.batches for block in whole) == len(headers)
    assert sum(block.size for block in whole) == len(data)
    assert whole[0].first == 0
    assert whole[-1].last == headers[-1].last_offset
    for block in whole:
        within = [header for header in headers if header.base_offset // 8 == block.number]
        digest = 0
        for header in within:
            digest = add_digests(digest, batch_digest(header))
        assert (block.batches, block.digest) == (len(within), digest)


@pytest.mark.parametrize("crc", [True, False])
def test_blocks_add_up_to_the_same_whatever_the_segments(tmp_path, crc):
    cluster = Cluster(tmp_path)
    for replica, size in ((1, 1000), (2, 700), (3, 100_000)):
        cluster.build(replica, "t", segment_bytes=size)
    cells = Cells(16, (3, 30, 44), 2**62)
    first, second, third = (summed(segments(cluster, replica), cells, crc=crc) for replica in (1, 2, 3))
    assert first == second == third
    assert len(first) == 4 + 3  # every 16 offsets of 60, and three cuts


def test_batches_are_cut_exactly_where_the_cells_are(cluster):
    sums = summed(segments(cluster), Cells(1 << 20, (10, 40), 50))
    assert {cell: batches for (_, cell), (batches, *_) in sums.items()} == {0: 5, 1: 15, 2: 5}


def test_a_block_has_about_the_size_that_it_should():
    assert block_span(1 << 20, 1 << 30) == 1 << 16  # a MiB of offsets in a GiB: 64 MiB have 2^16
    assert block_span(1000, 10) >= 1000
    assert block_span(0, 0) == 1
    assert block_span(2**62, 1) == 2**62  # and fits 64 bits


def test_the_short_way_is_taken_by_sound_segments(cluster, monkeypatch):
    def never(*_: object, **__: object) -> None:
        raise AssertionError("the long way was taken")

    monkeypatch.setattr(blocks, "check_segment", never)
    for segment in segments(cluster):
        for crc in (True, False):
            assert list(check_blocks(segment, 0, EVERYTHING, crc=crc))


def test_batches_larger_than_a_read_are_checked_to_their_last_byte(tmp_path):
    cluster = Cluster(tmp_path)
    cluster.path(1, "t").mkdir()
    log = open_log(cluster.path(1, "t"), segment_bytes=1 << 30, max_message_bytes=1 << 30)
    for size in (3 * blocks.WINDOW, 100, blocks.WINDOW - 30, blocks.WINDOW, 5):
        append(log, client_batch(bytes(size)), epoch=1)
    log.close()
    cluster.write_checkpoints()
    (segment,) = segments(cluster)
    path = path_of(segment, LOG_SUFFIX)
    places = [(position, header.size) for position, header in iterate_batches(path.read_bytes())]
    assert summed((segment,), Cells(1, (), 2**62)).keys() == {(number, 0) for number in range(5)}
    for position, size in places:
        for at in (position + HEADER_SIZE, position + size // 2, position + size - 1):
            flip(path, at)
            faults = [item for item in check_blocks(segment, 0, EVERYTHING, crc=True) if isinstance(item, FileFault)]
            assert [(fault.fault, fault.position) for fault in faults] == [("BIT_ROT", position)]
            flip(path, at)


def test_positions_that_an_index_makes_up_do_no_harm_when_they_are_announced(cluster):
    segment = segments(cluster)[0]
    with segment.open(LOG_SUFFIX) as log:
        before = log.headers(0, 3)
        log.will_read([-(2**31), -1, 0, 2**31 - 1, 2**62])
        assert log.headers(0, 3) == before != []
