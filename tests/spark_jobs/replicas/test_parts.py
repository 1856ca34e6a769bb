"""A segment that is checked in parts: every batch and every fault once, as of the whole, wherever it is cut."""

import random
import shutil
import struct
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from crc32c import crc32c

from replog.log.batch import CRC_START, HEADER_SIZE, iterate_batches
from replog.log.checkpoint import write_entries
from spark_jobs.replicas import parts
from spark_jobs.replicas.directories import DirectoryStore
from spark_jobs.replicas.faults import Fault
from spark_jobs.replicas.files import Segment
from spark_jobs.replicas.parts import Part, check_part, parts_of
from spark_jobs.replicas.segment_check import Batch, check_segment
from tests.replog.log.batches import append, client_batch, open_log

SIZES = [400, 700, 1100, 3000]
COUNT = 60


def build(directory: Path, chance: random.Random, interval: int = 150) -> Path:
    """One segment of some 7 KiB, of batches of some sizes, timestamps that mostly grow, and a few leader epochs."""
    log = open_log(directory / "t-0", segment_bytes=1 << 20, index_interval_bytes=interval)
    now = 1000
    for number in range(COUNT):
        now += chance.choice([1, 1, 1, 5, 0, -3])
        value = bytes(chance.choice([1, 10, 30, 60]))
        append(log, client_batch(value, b"second", timestamps=[now, now]), epoch=number // 20)
    log.close()
    return directory / "t-0"


def segment_of(directory: Path) -> Segment:
    (files,) = DirectoryStore(1, directory).partitions(frozenset())
    assert files.error is None
    (segment,) = files.segments
    return segment


def whole(segment: Segment, *, crc: bool = True) -> Counter[Batch | Fault]:
    return Counter(check_segment(segment, 0, crc=crc))


def together(segment: Segment, size: int, *, crc: bool = True) -> Counter[Batch | Fault]:
    found: Counter[Batch | Fault] = Counter()
    for part in parts_of(segment, size):
        found.update(check_part(segment, 0, part, crc=crc))
    return found


def positions(directory: Path) -> list[int]:
    return [position for position, _ in iterate_batches((directory / f"{0:020d}.log").read_bytes())]


def patched(suffix: str, chance: random.Random, directory: Path, data: bytes, at: int | None = None) -> None:
    path = directory / f"{0:020d}{suffix}"
    content = bytearray(path.read_bytes())
    place = chance.randrange(len(content) - len(data)) if at is None else at
    content[place : place + len(data)] = data
    path.write_bytes(content)


def header_field(chance: random.Random, directory: Path, at: int, data: bytes) -> None:
    patched(".log", chance, directory, data, chance.choice(positions(directory)) + at)


def cut_out(chance: random.Random, directory: Path) -> None:
    path = directory / f"{0:020d}.log"
    content, begins = path.read_bytes(), positions(directory)
    first = chance.randrange(1, len(begins) - 3)
    path.write_bytes(content[: begins[first]] + content[begins[first + chance.choice([1, 2])] :])


def doubled(chance: random.Random, directory: Path) -> None:
    path = directory / f"{0:020d}.log"
    content, begins = path.read_bytes(), positions(directory)
    first = chance.randrange(1, len(begins) - 3)
    path.write_bytes(content[: begins[first + 1]] + content[begins[first] :])


def shortened(suffix: str, chance: random.Random, directory: Path) -> None:
    path = directory / f"{0:020d}{suffix}"
    path.write_bytes(path.read_bytes()[: chance.randrange(path.stat().st_size)])


def entry_off(suffix: str, entry: int, field: int, code: str, chance: random.Random, directory: Path) -> None:
    raw = (directory / f"{0:020d}{suffix}").read_bytes()
    at = chance.randrange(len(raw) // entry) * entry + field
    (value,) = struct.unpack_from(code, raw, at)
    changed = (value + chance.choice([1, 2, 40, 300, 5000])) % 2**31
    patched(suffix, chance, directory, struct.pack(code, changed), at)


def zeros(chance: random.Random, directory: Path) -> None:
    patched(".log", chance, directory, bytes(chance.choice([10, 100, 700])))


FAULTS: dict[str, Callable[[random.Random, Path], None]] = {
    "sound": lambda chance, directory: None,
    "payload": lambda chance, directory: header_field(chance, directory, HEADER_SIZE + 3, b"\xff\x00\xff"),
    "crc": lambda chance, directory: header_field(chance, directory, 17, chance.randbytes(4)),
    "length": lambda chance, directory: header_field(
        chance, directory, 8, struct.pack(">i", chance.choice([-1, 49, 70, 150, 1000, 5000, 1 << 30]))
    ),
    "base": lambda chance, directory: header_field(
        chance, directory, 0, struct.pack(">q", chance.choice([0, 7, 111, 77777]))
    ),
    "delta": lambda chance, directory: header_field(
        chance, directory, 23, struct.pack(">i", chance.choice([0, 2, 50]))
    ),
    "epoch": lambda chance, directory: header_field(chance, directory, 12, struct.pack(">i", chance.choice([0, 2, 9]))),
    "timestamp": lambda chance, directory: header_field(chance, directory, 35, struct.pack(">q", 5000)),
    "bytes": lambda chance, directory: patched(".log", chance, directory, chance.randbytes(8)),
    "zeros": zeros,
    "cut out": cut_out,
    "doubled": doubled,
    "torn": lambda chance, directory: shortened(".log", chance, directory),
    "index gone": lambda chance, directory: (directory / f"{0:020d}.index").unlink(),
    "digest gone": lambda chance, directory: (directory / f"{0:020d}.digest").unlink(),
    "index short": lambda chance, directory: shortened(".index", chance, directory),
    "times short": lambda chance, directory: shortened(".timeindex", chance, directory),
    "digest short": lambda chance, directory: shortened(".digest", chance, directory),
    "index offset": lambda chance, directory: entry_off(".index", 8, 0, ">i", chance, directory),
    "index position": lambda chance, directory: entry_off(".index", 8, 4, ">i", chance, directory),
    "time offset": lambda chance, directory: entry_off(".timeindex", 12, 8, ">i", chance, directory),
    "time": lambda chance, directory: entry_off(".timeindex", 12, 4, ">I", chance, directory),
    "digest": lambda chance, directory: entry_off(".digest", 12, 8, ">I", chance, directory),
    "digest offset": lambda chance, directory: entry_off(".digest", 12, 0, ">I", chance, directory),
    "index noise": lambda chance, directory: patched(".index", chance, directory, chance.randbytes(8)),
    "epoch lie": lambda chance, directory: write_entries(
        directory / "leader-epoch-checkpoint", [(0, 0), (1, chance.randrange(30, 50)), (2, 80)]
    ),
}


def compare(segment: Segment, told: str) -> None:
    for crc in (True, False):
        expected = whole(segment, crc=crc)
        for size in SIZES if crc else SIZES[:2]:
            found = together(segment, size, crc=crc)
            missing, surplus = expected - found, found - expected
            assert not missing + surplus, f"{told}, parts of {size}, crc={crc}: not {missing}, but {surplus}"


@pytest.mark.parametrize("fault", FAULTS)
def test_parts_say_what_the_whole_says_of_every_fault_at_random_places(fault: str, tmp_path: Path) -> None:
    for seed in range(2):
        chance = random.Random(f"{fault} {seed}")
        directory = build(tmp_path / str(seed), chance)
        FAULTS[fault](chance, directory)
        compare(segment_of(tmp_path / str(seed)), f"{fault}, seed {seed}")


def test_parts_say_what_the_whole_says_of_faults_that_meet(tmp_path: Path) -> None:
    for seed in range(6):
        chance = random.Random(seed)
        directory = build(tmp_path / str(seed), chance)
        chosen = chance.sample([fault for fault in FAULTS if "gone" not in fault], 3)
        for fault in chosen:
            FAULTS[fault](chance, directory)
        compare(segment_of(tmp_path / str(seed)), f"{chosen}, seed {seed}")
        shutil.rmtree(directory)


def test_a_sound_segment_is_really_read_in_parts(tmp_path: Path) -> None:
    build(tmp_path, random.Random(1))
    segment = segment_of(tmp_path)
    split = [sum(1 for _ in check_part(segment, 0, part, crc=True)) for part in parts_of(segment, 1000)]
    assert len(split) >= 5
    assert all(split), split
    assert sum(split) == COUNT


def test_entries_per_append_as_older_kafka_writes_them_are_borders_too(tmp_path: Path) -> None:
    """SG-2: the last offset of an append of several batches, with the position of its first; no digests."""
    directory = build(tmp_path, random.Random(2))
    begins = list(iterate_batches((directory / f"{0:020d}.log").read_bytes()))
    entries = [(begins[n + 2][1].last_offset, begins[n][0]) for n in range(3, COUNT - 3, 3)]
    (directory / f"{0:020d}.index").write_bytes(b"".join(struct.pack(">ii", *entry) for entry in entries))
    (directory / f"{0:020d}.digest").unlink()
    (directory / f"{0:020d}.timeindex").unlink()
    segment = segment_of(tmp_path)
    compare(segment, "per append")
    split = [sum(1 for _ in check_part(segment, 0, part, crc=True)) for part in parts_of(segment, 1000)]
    assert sum(map(bool, split)) >= 4, split


def test_the_last_part_has_what_is_appended_meanwhile(tmp_path: Path) -> None:
    build(tmp_path, random.Random(3))
    segment = segment_of(tmp_path)
    log = open_log(tmp_path / "t-0", segment_bytes=1 << 20, index_interval_bytes=150)
    append(log, client_batch(b"late"), epoch=9)
    log.close()
    assert together(segment, 1000) == whole(segment)
    last = list(check_part(segment, 0, parts_of(segment, 1000)[-1], crc=True))
    assert isinstance(last[-1], Batch)
    assert last[-1].base_offset == 2 * COUNT


def test_epochs_that_disagree_are_told_once_where_hidden_batches_follow(tmp_path: Path) -> None:
    """A batch below the log start ends a run of those that disagree, wherever a part begins."""
    directory = build(tmp_path, random.Random(5))
    header_at, end = positions(directory)[20:22]
    patched(".log", random.Random(5), directory, struct.pack(">i", 1 << 20), header_at + 23)  # it ends far behind
    checked = (directory / f"{0:020d}.log").read_bytes()[header_at + CRC_START : end]
    patched(".log", random.Random(5), directory, struct.pack(">I", crc32c(checked)), header_at + CRC_START - 4)
    segment = segment_of(tmp_path)
    expected = Counter(check_segment(segment, 2 * COUNT, crc=False))
    assert "EPOCH_CACHE_LIE" in {item.fault for item in expected if isinstance(item, Fault)}
    for size in SIZES:
        found = [item for part in parts_of(segment, size) for item in check_part(segment, 2 * COUNT, part, crc=False)]
        assert Counter(found) == expected, size


def test_a_part_is_never_shorter_than_its_size(tmp_path: Path) -> None:
    build(tmp_path, random.Random(4))
    segment = segment_of(tmp_path)
    assert parts_of(segment, segment.size + 1) == [Part(0, 1, segment.size + 1)]
    assert len(parts_of(segment, segment.size // 2 - 1)) == 2
    assert parts.PART_BYTES < 1 << 30
