"""Generated segments and damages; what the short ways, the long ways and the parts say of them must be the same.

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

from crc32c import crc32c

from replog.log.batch import CRC_START, BatchHeader, iterate_batches
from replog.log.checkpoint import CLEANER_CHECKPOINT, OffsetCheckpoint, write_entries
from replog.log.errors import CorruptRecord
from replog.topic import TopicPartition
from spark_jobs.replicas import blocks, index_blocks
from spark_jobs.replicas.blocks import Block, Cells
from spark_jobs.replicas.digests import digest_points
from spark_jobs.replicas.directories import DirectoryStore
from spark_jobs.replicas.faults import Fault
from spark_jobs.replicas.files import Segment
from spark_jobs.replicas.index_check import Point
from spark_jobs.replicas.parts import check_part, parts_of
from spark_jobs.replicas.segment_check import Batch, check_segment
from spark_jobs.replicas.sound import NotSound
from tests.audit.replica_files import name_records
from tests.replog.log.batches import append, client_batch, open_log
from tests.replog.log.compaction.compacting import clean

PART_SIZES = (150, 300, 500, 900, 1500, 3000)
SIZES = {".log": 1, ".index": 8, ".timeindex": 12, ".digest": 12}  # of an entry
FIELDS = {  # offset and type of those that a damage may hit
    ".log": ((0, ">q"), (8, ">i"), (12, ">i"), (16, ">b"), (17, ">I"), (23, ">i"), (35, ">q"), (57, ">i")),
    ".index": ((0, ">i"), (4, ">i")),
    ".timeindex": ((0, ">q"), (8, ">i")),
    ".digest": ((0, ">I"), (4, ">Q")),
}
DAMAGES = (
    "flip",
    "overwrite",
    "zeros",
    "cut",
    "insert",
    "append",
    "gone",
    "epochs",
    "drop",
    "double",
    "near",
    *["field"] * 4,
)

Item = Batch | Block | Point | Fault


def build(root: Path, chance: random.Random, *, compacted: bool) -> Path:
    """Some segments of batches of some sizes, with timestamps that mostly grow, in some leader epochs."""
    log = open_log(
        root / "t-0",
        cleanup_policy="compact" if compacted else "delete",
        segment_bytes=chance.choice([700, 1500, 4000, 1 << 20]),
        index_interval_bytes=chance.choice([1, 80, 150, 300, 1000]),
        log_start_offset=chance.choice([0, 0, 5, 1000, 2**31 + 7]),
    )
    now = 1000
    for number in range(chance.choice([1, 2, 5, 20, 40, 60])):
        now += chance.choice([1, 1, 1, 5, 0, -3])
        values = [bytes(chance.choice([0, 1, 10, 30, 60])) for _ in range(chance.choice([1, 2, 2, 3]))]
        records = [(b"%d" % chance.randrange(6), value) for value in values] if compacted else values
        append(log, client_batch(*records, timestamps=[now] * len(values)), epoch=number // 15)
        if compacted and chance.random() < 0.1:
            log.update_high_watermark(log.log_end_offset)
            log.roll()
            OffsetCheckpoint(root / CLEANER_CHECKPOINT).write({TopicPartition("t", 0): clean(log)})
    log.close()
    if chance.random() < 0.15:
        for path in sorted((root / "t-0").glob("*.log")):
            _index_appends(path, chance)
    return root / "t-0"


def _index_appends(log: Path, chance: random.Random) -> None:
    """SG-2: the last offset of an append of several batches, with the position of its first. Times name any record."""
    batches, base = _batches(log), int(log.stem)
    entries, first = b"", 1
    while first + 3 < len(batches):
        last = first + chance.choice([0, 1, 2])
        entries += struct.pack(">ii", batches[last][1].last_offset - base, batches[first][0])
        first = last + chance.choice([1, 2])
    log.with_suffix(".index").write_bytes(entries)
    if chance.random() < 0.5:
        log.with_suffix(".digest").unlink()
        name_records(log, chance)


def _batches(log: Path) -> list[tuple[int, BatchHeader]]:
    found: list[tuple[int, BatchHeader]] = []
    try:
        found.extend(iterate_batches(log.read_bytes()))
    except CorruptRecord:
        pass
    return found


def damage(directory: Path, chance: random.Random) -> str:
    """One damage, told."""
    files = [path for path in sorted(directory.iterdir()) if path.suffix in SIZES and path.stat().st_size]
    if not files:
        return "nothing left"
    path, kind = chance.choice(files), chance.choice(DAMAGES)
    raw = bytearray(path.read_bytes())
    at = chance.randrange(len(raw))
    length = min(chance.choice([1, 4, 8, 12, 100]), len(raw) - at)
    if kind == "flip":
        raw[at] ^= 1 << chance.randrange(8)
    elif kind == "overwrite":
        noise = chance.choice([chance.randbytes(length), b"\xff" * length, (b"\x7f" + b"\xff" * 99)[:length]])
        raw[at : at + length] = noise
    elif kind == "zeros":
        raw[at : at + length] = bytes(length)
    elif kind == "cut":
        del raw[at:]
    elif kind == "insert":
        raw[at:at] = chance.randbytes(length)
    elif kind == "append":
        raw += chance.choice([bytes, chance.randbytes])(chance.choice([1, 8, 12, 61, 500]))
    elif kind == "gone":
        path.unlink()
        return f"{path.name} gone"
    elif kind == "epochs":
        starts = sorted(chance.sample(range(60), chance.randrange(5)))
        write_entries(directory / "leader-epoch-checkpoint", enumerate(starts))
        return f"epochs from {starts}"
    elif kind == "near":
        path = chance.choice(sorted(directory.glob("*.index")) or [path])
        raw = bytearray(path.read_bytes())
        _point_near(path, raw, chance)
    else:
        _damage_entry(path, raw, kind, chance)
    path.write_bytes(raw)
    return f"{kind} {path.name} at {at}"


def _point_near(path: Path, raw: bytearray, chance: random.Random) -> None:
    """Let an entry of the offset index point at another batch, with its offset or with that of the batch."""
    log = path.with_suffix(".log")
    batches = _batches(log) if log.exists() else []
    if path.suffix != ".index" or len(raw) < 8 or not batches:
        return
    at = 8 * chance.randrange(len(raw) // 8)
    offset, position = struct.unpack_from(">ii", raw, at)
    near = [batch for batch in batches if abs(batch[0] - position) < 300]
    position, header = chance.choice(near or batches)
    struct.pack_into(">ii", raw, at, chance.choice([offset, header.last_offset - int(log.stem)]), position)


def _damage_entry(path: Path, raw: bytearray, kind: str, chance: random.Random) -> None:
    """Of an entry of an index, or a batch: one field, or the whole of it."""
    size = SIZES[path.suffix]
    places = [(at, header.size) for at, header in _batches(path)] if size == 1 else []
    places = places or [(at, size) for at in range(0, len(raw) - size + 1, size) if size > 1]
    if not places:
        return
    at, size = chance.choice(places)
    if kind == "drop":
        del raw[at : at + size]
    elif kind == "double":
        raw[at:at] = raw[at : at + size]
    else:
        offset, code = chance.choice(FIELDS[path.suffix])
        bits = 8 * struct.calcsize(code)
        low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if code[1].islower() else (0, (1 << bits) - 1)
        (value,) = struct.unpack_from(code, raw, at + offset)
        by = chance.choice([1, -1, 2, chance.randrange(1, 200), -chance.randrange(1, 200)])
        changed = chance.choice([value + by, value + by, 0, low, high, chance.randrange(low, high)])
        struct.pack_into(code, raw, at + offset, max(low, min(high, changed)))


def seal(directory: Path) -> None:
    """Right CRCs for all batches that can be read, whatever they say: as if a broker had written just that."""
    for path in sorted(directory.glob("*.log")):
        raw = bytearray(path.read_bytes())
        for at, header in _batches(path):
            struct.pack_into(">I", raw, at + 17, crc32c(raw[at + CRC_START : at + header.size]))
        path.write_bytes(raw)


def problems(seed: int, root: Path) -> Iterator[str]:
    """What is not the same, told; nothing if all is well. Whatever else is raised than OSError is a problem too."""
    chance = random.Random(seed)
    directory = build(root, chance, compacted=seed % 10 == 7)
    told = [damage(directory, chance) for _ in range(chance.choice([0, 1, 1, 1, 1, 2, 3]))]
    if seed % 5 == 4:
        told.append("sealed")
        seal(directory)
    log_start = chance.choice([0, 0, 0, 20, 45, 1010])
    (files,) = DirectoryStore(1, root).partitions(frozenset())
    for segment in files.segments:
        for crc in (True, False):
            for problem in _batch_problems(segment, log_start, chance, crc):
                yield f"seed {seed}, {told}, segment {segment.base}, log start {log_start}, crc {crc}: {problem}"
        for problem in _index_problems(segment, log_start, chance):
            yield f"seed {seed}, {told}, segment {segment.base}, log start {log_start}: {problem}"


def _batch_problems(segment: Segment, log_start: int, chance: random.Random, crc: bool) -> Iterator[str]:
    whole = list(check_segment(segment, log_start, crc=crc))
    for size in chance.sample(PART_SIZES, 3):
        parts = [item for part in parts_of(segment, size) for item in check_part(segment, log_start, part, crc=crc)]
        yield from _difference(f"parts of {size}", whole, parts)
    cells = _cells(segment, chance)
    if not _faults(whole) and chance.random() < 0.5:  # where faults begin late is not told exactly
        cells = replace(cells, begin=segment.base + chance.randrange(60))
    short = list(blocks.check_blocks(segment, log_start, cells, crc=crc))
    with mock.patch.object(blocks, "_Sound", side_effect=NotSound):
        long = list(blocks.check_blocks(segment, log_start, cells, crc=crc))
    yield from _difference("the short way", long, short)
    yield from _difference("faults of blocks", _faults(whole), _faults(short))


def _index_problems(segment: Segment, log_start: int, chance: random.Random) -> Iterator[str]:
    cells = _cells(segment, chance)
    short = list(index_blocks.index_blocks(segment, log_start, cells))
    with mock.patch.object(index_blocks, "_Sound", side_effect=NotSound):
        long = list(index_blocks.index_blocks(segment, log_start, cells))
    yield from _difference("the short way through indexes", long, short)
    list(digest_points(segment, list(cells.cuts), entries=True))


def _cells(segment: Segment, chance: random.Random) -> Cells:
    cuts = sorted({segment.base + chance.randrange(60) for _ in range(chance.randrange(3))})
    return Cells(chance.choice([1, 4, 64]), tuple(cuts), 2**62, cleaned_to=segment.cleaned_to)


def _faults(items: Iterable[Item]) -> list[Item]:
    return [item for item in items if isinstance(item, Fault)]


def _difference(told: str, expected: Iterable[Item], found: Iterable[Item]) -> Iterator[str]:
    missing, surplus = Counter(expected) - Counter(found), Counter(found) - Counter(expected)
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
