"""Generated segments and damages; what the short and the long ways say of them must be the same.

`python -m tests.spark_jobs.replicas.ways FIRST COUNT` runs as many as one has time for, from a seed on.
"""

import random
import shutil
import struct
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from unittest import mock

from replog.log.formats.checkpoint import CLEANER_CHECKPOINT, OffsetCheckpoint
from replog.topic import TopicPartition
from spark_jobs.replicas import blocks, index_check
from spark_jobs.replicas.blocks import Block, Cells
from spark_jobs.replicas.digests import digest_points
from spark_jobs.replicas.directories import DirectoryStore
from spark_jobs.replicas.faults import FileFault
from spark_jobs.replicas.files import ReplicaSegment
from spark_jobs.replicas.index_check import Point
from spark_jobs.replicas.segment_check import Batch, NotSound, check_segment
from tests.audit.replica_files import name_records
from tests.damage.rng import batches_of, damaged
from tests.damage.vocabulary import seal
from tests.replog.log.batches import append, client_batch, open_log
from tests.replog.log.compaction.compacting import clean

Item = Batch | Block | Point | FileFault


def build(root: Path, rng: random.Random, *, compacted: bool) -> Path:
    """Some segments of batches of some sizes, with timestamps that mostly grow, in some leader epochs."""
    log = open_log(
        root / "t-0",
        cleanup_policy="compact" if compacted else "delete",
        segment_bytes=rng.choice([700, 1500, 4000, 1 << 20]),
        index_interval_bytes=rng.choice([1, 80, 150, 300, 1000]),
        log_start_offset=rng.choice([0, 0, 5, 1000, 2**31 + 7]),
    )
    now = 1000
    for number in range(rng.choice([1, 2, 5, 20, 40, 60])):
        now += rng.choice([1, 1, 1, 5, 0, -3])
        values = [bytes(rng.choice([0, 1, 10, 30, 60])) for _ in range(rng.choice([1, 2, 2, 3]))]
        records = [(b"%d" % rng.randrange(6), value) for value in values] if compacted else values
        append(log, client_batch(*records, timestamps=[now] * len(values)), epoch=number // 15)
        if compacted and rng.random() < 0.1:
            log.update_high_watermark(log.log_end_offset)
            log.roll()
            OffsetCheckpoint(root / CLEANER_CHECKPOINT).write({TopicPartition("t", 0): clean(log)})
    log.close()
    if rng.random() < 0.15:
        for path in sorted((root / "t-0").glob("*.log")):
            _index_appends(path, rng)
    return root / "t-0"


def _index_appends(log: Path, rng: random.Random) -> None:
    """SG-2: the last offset of an append of several batches, with the position of its first. Times name any record."""
    batches, base = batches_of(log), int(log.stem)
    entries, first = b"", 1
    while first + 3 < len(batches):
        last = first + rng.choice([0, 1, 2])
        entries += struct.pack(">ii", batches[last][1].last_offset - base, batches[first][0])
        first = last + rng.choice([1, 2])
    log.with_suffix(".index").write_bytes(entries)
    if rng.random() < 0.5:
        log.with_suffix(".digest").unlink()
        name_records(log, rng)


def problems(seed: int, root: Path) -> Iterator[str]:
    """What is not the same, told; nothing if all is well. Whatever else is raised than OSError is a problem too."""
    rng = random.Random(seed)
    directory = build(root, rng, compacted=seed % 10 == 7)
    told = [damaged(directory, rng) for _ in range(rng.choice([0, 1, 1, 1, 1, 2, 3]))]
    if seed % 5 == 4:
        told.append("sealed")
        for log in directory.glob("*.log"):
            seal(log)
    log_start = rng.choice([0, 0, 0, 20, 45, 1010])
    (files,) = DirectoryStore(1, root).partitions(frozenset())
    for segment in files.segments:
        for problem in differences(segment, log_start, rng):
            yield f"seed {seed}, {told}, segment {segment.base}, log start {log_start}: {problem}"


def differences(segment: ReplicaSegment, log_start: int, rng: random.Random) -> Iterator[str]:
    """What is not the same of one segment."""
    for crc in (True, False):
        for problem in _batch_problems(segment, log_start, rng, crc):
            yield f"crc {crc}: {problem}"
    yield from _index_problems(segment, log_start, rng)


def _batch_problems(segment: ReplicaSegment, log_start: int, rng: random.Random, crc: bool) -> Iterator[str]:
    whole = list(check_segment(segment, log_start, crc=crc))
    cells = _cells(segment, rng)
    if not _faults(whole) and rng.random() < 0.5:  # where faults begin late is not told exactly
        cells = replace(cells, begin=segment.base + rng.randrange(60))
    short = list(blocks.check_blocks(segment, log_start, cells, crc=crc))
    with mock.patch.object(blocks, "_Sound", side_effect=NotSound):
        long = list(blocks.check_blocks(segment, log_start, cells, crc=crc))
    yield from _difference("the short way", long, short)
    yield from _difference("faults of blocks", _faults(whole), _faults(short))


def _index_problems(segment: ReplicaSegment, log_start: int, rng: random.Random) -> Iterator[str]:
    cells = _cells(segment, rng)
    short = list(index_check.index_blocks(segment, log_start, cells))
    with mock.patch.object(index_check, "_Sound", side_effect=NotSound):
        long = list(index_check.index_blocks(segment, log_start, cells))
    if _faults(short) or not _faults(long):  # the short way does not see all that headers show
        yield from _difference("the short way through indexes", long, short)
    yield from _difference("faults of indexes", _faults(check_segment(segment, log_start, crc=False)), _faults(long))
    list(digest_points(segment, list(cells.cuts), entries=True))


def _cells(segment: ReplicaSegment, rng: random.Random) -> Cells:
    cuts = sorted({segment.base + rng.randrange(60) for _ in range(rng.randrange(3))})
    return Cells(rng.choice([1, 4, 64]), tuple(cuts), 2**62, cleaned_to=segment.cleaned_to)


def _faults(items: Iterable[Item]) -> list[Item]:
    return [item for item in items if isinstance(item, FileFault)]


def _difference(told: str, expected: Iterable[Item], actual: Iterable[Item]) -> Iterator[str]:
    missing, surplus = Counter(expected) - Counter(actual), Counter(actual) - Counter(expected)
    if missing or surplus:
        yield f"{told}: not {list(missing)}, but {list(surplus)}"


def main() -> None:
    first, count = map(int, sys.argv[1:])
    for seed in range(first, first + count):
        root = Path(tempfile.mkdtemp(dir="/dev/shm"))
        try:
            for problem in problems(seed, root):
                print(problem, flush=True)
        except Exception as error:
            raise RuntimeError(f"seed {seed}") from error
        finally:
            shutil.rmtree(root)


if __name__ == "__main__":
    main()
