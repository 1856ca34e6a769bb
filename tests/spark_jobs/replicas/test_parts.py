"""A segment that is checked in parts: every batch and every fault once, as of the whole; and which rows are wanted."""

import random
import struct
from collections import Counter
from pathlib import Path

from replog.log.formats.batch import iterate_batches
from spark_jobs.replicas import parts
from spark_jobs.replicas.checks import Ranges
from spark_jobs.replicas.directories import DirectoryStore
from spark_jobs.replicas.faults import FileFault
from spark_jobs.replicas.files import ReplicaSegment
from spark_jobs.replicas.parts import Part, parts_of
from spark_jobs.replicas.segment_check import Batch, check_segment
from tests.damage.vocabulary import overwrite, seal
from tests.replog.log.batches import append, client_batch, open_log
from tests.spark_jobs.replicas.ways import differences, in_parts

SIZES = [400, 700, 1100, 3000]
COUNT = 60


def build(directory: Path, rng: random.Random, interval: int = 150) -> Path:
    """One segment of some 7 KiB, of batches of some sizes, timestamps that mostly grow, and a few leader epochs."""
    log = open_log(directory / "t-0", segment_bytes=1 << 20, index_interval_bytes=interval)
    now = 1000
    for number in range(COUNT):
        now += rng.choice([1, 1, 1, 5, 0, -3])
        value = bytes(rng.choice([1, 10, 30, 60]))
        append(log, client_batch(value, b"second", timestamps=[now, now]), epoch=number // 20)
    log.close()
    return directory / "t-0"


def segment_of(directory: Path) -> ReplicaSegment:
    (files,) = DirectoryStore(1, directory).partitions(frozenset())
    assert files.error is None
    (segment,) = files.segments
    return segment


def positions(directory: Path) -> list[int]:
    return [position for position, _ in iterate_batches((directory / f"{0:020d}.log").read_bytes())]


def test_a_sound_segment_is_really_read_in_parts(tmp_path):
    build(tmp_path, random.Random(1))
    segment = segment_of(tmp_path)
    split = [sum(1 for _ in check_segment(segment, 0, crc=True, part=part)) for part in parts_of(segment, 1000)]
    assert len(split) >= 5
    assert all(split), split
    assert sum(split) == COUNT


def test_the_last_part_has_what_is_appended_meanwhile(tmp_path):
    build(tmp_path, random.Random(3))
    segment = segment_of(tmp_path)
    log = open_log(tmp_path / "t-0", segment_bytes=1 << 20, index_interval_bytes=150)
    append(log, client_batch(b"late"), epoch=9)
    log.close()
    assert not list(differences(segment, 0, random.Random(3)))
    last = list(check_segment(segment, 0, crc=True, part=parts_of(segment, 1000)[-1]))
    assert isinstance(last[-1], Batch)
    assert last[-1].base_offset == 2 * COUNT


def test_epochs_that_disagree_are_told_once_where_hidden_batches_follow(tmp_path):
    """A batch below the log start ends a run of those that disagree, wherever a part begins."""
    directory = build(tmp_path, random.Random(5))
    log = directory / f"{0:020d}.log"
    overwrite(log, positions(directory)[20] + 23, struct.pack(">i", 1 << 20))  # it ends far behind
    seal(log)
    segment = segment_of(tmp_path)
    expected = Counter(check_segment(segment, 2 * COUNT, crc=False))
    assert "EPOCH_CACHE_LIE" in {item.fault for item in expected if isinstance(item, FileFault)}
    for size in SIZES:
        assert Counter(in_parts(segment, 2 * COUNT, size, crc=False)) == expected, size


def test_a_part_is_never_shorter_than_its_size(tmp_path):
    build(tmp_path, random.Random(4))
    segment = segment_of(tmp_path)
    assert parts_of(segment, segment.size + 1) == [Part(0, 1, segment.size + 1)]
    assert len(parts_of(segment, segment.size // 2 - 1)) == 2
    assert parts.PART_BYTES < 1 << 30


def test_a_batch_is_wanted_if_it_has_an_offset_of_any_range():
    rng = random.Random(5)
    for _ in range(300):
        ranges = [(first, first + rng.randrange(6)) for first in rng.choices(range(40), k=rng.randrange(8))]
        asked = Ranges(ranges)
        for first in range(50):
            for last in range(first, first + 4):
                expected = any(first <= end and last >= begin for begin, end in ranges)
                assert asked.overlap(first, last) == expected, (ranges, first, last)
