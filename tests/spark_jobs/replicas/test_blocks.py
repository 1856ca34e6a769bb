"""Blocks: which way through a segment is taken, none leaving out a byte. `tests/audit` shows that they add up."""

import random

from replog.log.files.names import LOG_SUFFIX
from replog.log.formats.batch import HEADER_SIZE, iterate_batches
from spark_jobs.replicas import blocks
from spark_jobs.replicas.blocks import Cells, block_span, check_blocks
from spark_jobs.replicas.checks import Ranges
from spark_jobs.replicas.faults import FileFault
from tests.damage.vocabulary import flip
from tests.replog.log.batches import append, client_batch, open_log
from tests.spark_jobs.log_directories import Cluster, path_of, segments

EVERYTHING = Cells(8, (), 2**62)


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
    assert [item[:2] for item in check_blocks(segment, 0, Cells(1, (), 2**62), crc=True)] == [(n, 0) for n in range(5)]
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


def test_a_batch_is_wanted_if_it_has_an_offset_of_any_range():
    rng = random.Random(5)
    for _ in range(300):
        ranges = [(first, first + rng.randrange(6)) for first in rng.choices(range(40), k=rng.randrange(8))]
        asked = Ranges(ranges)
        for first in range(50):
            for last in range(first, first + 4):
                expected = any(first <= end and last >= begin for begin, end in ranges)
                assert asked.overlap(first, last) == expected, (ranges, first, last)
