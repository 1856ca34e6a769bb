"""Damage to what is derived from the batches: indexes, epochs, producer snapshots. No record is lost by it (LD-3)."""

import random
from pathlib import Path

import pytest

from replog.log.errors import LogStorageError
from replog.log.offsets import Isolation, TimestampAndOffset
from replog.log.timestamps import offset_for_timestamp
from tests.replog.log.damage import (
    BATCH,
    CLEAN,
    END,
    EPOCHS,
    INDEXES,
    Damage,
    assert_as_if_never_damaged,
    changed,
    directory_instead,
    missing,
    put_back,
    reopen,
    segment_file,
    sparse,
    write_log,
    written,
)

NOISE = random.Random(7).randbytes(97)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    return write_log(tmp_path_factory.mktemp("whole") / "t-0")


def size_of(name: str) -> int:
    """Bytes of an entry."""
    return 8 if name.endswith(".index") else 12


def edited(name: str, edit: str) -> Damage:
    """The index file `name` with its entries (here: four of them, or one) edited."""
    size = size_of(name)

    def change(data: bytes) -> bytes:
        match edit:
            case "empty":
                return b""
            case "a byte short":
                return data[:-1]
            case "an entry short":
                return data[:-size]
            case "three bytes more":
                return data + b"abc"
            case "an entry of zeros more":
                return data + bytes(size)
            case "preallocated zeros":
                return data + bytes(4800)
            case "the last entry twice":
                return data + data[-size:]
            case "zeros":
                return bytes(len(data))
            case "garbage":
                return NOISE[: len(data)]
            case "garbage of odd length":
                return NOISE
            case "the last two swapped":
                return data[: -2 * size] + data[-size:] + data[-2 * size : -size]
            case "the last entry off by one":
                return data[:-1] + bytes([data[-1] ^ 1])
            case "the last offset off by one":
                at = len(data) - size + (11 if name.endswith(".timeindex") else 3)
                return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]
            case "the last entry of another time or place":
                at = len(data) - size + (7 if name.endswith(".timeindex") else 4)
                return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]
            case "the first entry missing":
                return data[size:]
            case "the first two swapped":
                return data[size : 2 * size] + data[:size] + data[2 * size :]
            case "the first entry wrong":
                return bytes([data[0] ^ 0x40]) + data[1:]
        raise AssertionError(edit)

    return changed(name, change)


AT_THE_END = [
    "empty",
    "a byte short",
    "an entry short",
    "three bytes more",
    "an entry of zeros more",
    "preallocated zeros",
    "the last entry twice",
    "zeros",
    "garbage",
    "garbage of odd length",
    "the last two swapped",
    "the last entry off by one",
    "the last offset off by one",
    "the last entry of another time or place",
]
IN_FRONT = ["the first entry missing", "the first two swapped", "the first entry wrong"]


@pytest.mark.parametrize("stop", [CLEAN, 0, 20])
@pytest.mark.parametrize("base", [0, 20, 30])
@pytest.mark.parametrize("kind", INDEXES)
def test_an_index_with_a_damaged_end_is_rebuilt_after_any_stop(
    memory: Path, files: dict[str, bytes], kind: str, base: int, stop: int | None
) -> None:
    """S-W-D8, S-W-D9, S-W-D10, IX-13, IX-16: below the recovery point and above, sealed and active; no record goes."""
    name = segment_file(base, kind)
    for edit in [*AT_THE_END, "missing", "a gigabyte of nothing more"]:
        if base == 30 and edit == "the last two swapped":
            continue  # it has one entry
        put_back(memory, files)
        special = {"missing": missing(name), "a gigabyte of nothing more": sparse(name, 1 << 30)}
        (special.get(edit) or edited(name, edit))(memory)
        said: list[str] = []
        log = reopen(memory, stop, said)
        assert (log.log_end_offset, log.lost_data, log.epochs.entries) == (END, False, EPOCHS), (edit, said)
        assert any(f"recovering {memory / segment_file(base, 'log')}: " in line for line in said), (edit, said)
        assert_as_if_never_damaged(log, files, END)


@pytest.mark.parametrize("edit", IN_FRONT)
@pytest.mark.parametrize("kind", INDEXES)
def test_an_index_that_lies_in_front_misleads_no_reader(
    memory: Path, files: dict[str, bytes], kind: str, edit: str
) -> None:
    """A clean start looks at the ends of indexes alone (LD-7), so look-ups ask the batches; a recovery repairs it."""
    put_back(memory, files)
    edited(segment_file(10, kind), edit)(memory)
    log = reopen(memory, CLEAN)
    assert (log.log_end_offset, log.lost_data) == (END, False)
    for offset in range(END):
        data = log.read(offset, 1, Isolation.LOG_END, min_one_message=True)
        assert data.records == files[segment_file(offset // 10 * 10, "log")][offset % 10 // 2 * BATCH :][:BATCH]
    for timestamp in range(0, 2800, 20):
        # Batch i has the timestamps 1000 + 100 i and 1100 + 100 i.
        first = max(0, -(-(timestamp - 1100) // 100))
        offset = 2 * first + (1000 + 100 * first < timestamp)
        stamp = 1000 + 100 * first + 100 * (offset % 2)
        epoch = max(epoch for epoch, start in EPOCHS if start <= offset)
        expected = TimestampAndOffset(stamp, offset, epoch) if first < 17 else None
        assert offset_for_timestamp(log, timestamp) == expected, timestamp
    log.abandon()
    assert_as_if_never_damaged(reopen(memory, 0), files, END)


EPOCH_FILE = "leader-epoch-checkpoint"


@pytest.mark.parametrize("stop", [CLEAN, 0, 20])
@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "rebuilding"),
        (b"", "rebuilding"),
        (b"0\n", "rebuilding"),
        (b"0\n0\n", "rebuilding"),
        (b"1\n3\n0 0\n1 12\n3 24\n", "version '1' is not 0"),
        (b"0\n4\n0 0\n1 12\n3 24\n", "announces 4 entries and has 3"),
        (b"0\n3\n0 0\n1 12\n3 2", "does not follow"),
        (b"0\n3\n0 0\n1 12\n3 x\n", "is not a 64-bit number"),
        (b"0\n3\n0 0\n1 12\n3 99999999999999999999\n", "is not a 64-bit number"),
        (b"0\n3\n0 0\n1 12\n3\n", "has not 2 fields"),
        (b"0\n3\n0 0\n3 24\n1 12\n", "does not follow"),
        (b"0\n3\n0 0\n1 14\n3 24\n", "rebuilding"),
        (b"0\n3\n0 0\n2 12\n3 24\n", "rebuilding"),
        (b"0\n2\n0 0\n1 12\n", "rebuilding"),
        (b"0\n2\n1 12\n3 24\n", "rebuilding"),
        (b"0\n2\n0 0\n3 24\n", "rebuilding"),
        (bytes(18), "version"),
        (NOISE, "is not UTF-8 text"),
        (b"0\n" * (33 << 20), "is larger than 67108864 bytes"),
    ],
    ids=lambda value: None if value is None else repr(value[:40]),
)
def test_a_damaged_or_lost_epoch_file_is_rebuilt(
    memory: Path, files: dict[str, bytes], content: bytes | None, said: str, stop: int | None
) -> None:
    """S-W-D17, LD-13; what is wrong with it is told."""
    put_back(memory, files)
    (missing(EPOCH_FILE) if content is None else written(EPOCH_FILE, content))(memory)
    lines: list[str] = []
    log = reopen(memory, stop, lines)
    assert any(EPOCH_FILE in line and said in line for line in lines), lines
    assert (log.epochs.entries, log.lost_data) == (EPOCHS, False)
    assert (memory / EPOCH_FILE).read_bytes() == files[EPOCH_FILE]
    assert_as_if_never_damaged(log, files, END)


@pytest.mark.parametrize("stop", [CLEAN, 0, 30])
@pytest.mark.parametrize("content", [None, b"", b"\0\1", bytes(10), NOISE], ids=repr)
@pytest.mark.parametrize("offset", [30, 34])
def test_a_damaged_producer_snapshot_is_dropped_for_an_older_one(
    memory: Path, files: dict[str, bytes], offset: int, content: bytes | None, stop: int | None
) -> None:
    """PS-7."""
    put_back(memory, files)
    name = segment_file(offset, "snapshot")
    (missing(name) if content is None else written(name, content))(memory)
    log = reopen(memory, stop)
    assert (log.log_end_offset, log.lost_data) == (END, False)
    assert (memory / segment_file(34, "snapshot")).read_bytes() == files[segment_file(34, "snapshot")]
    assert_as_if_never_damaged(log, files, END)


NAMES = [segment_file(10, "log"), segment_file(30, "log"), *(segment_file(30, kind) for kind in INDEXES), EPOCH_FILE]


@pytest.mark.parametrize("stop", [CLEAN, 0])
@pytest.mark.parametrize("name", [*NAMES, segment_file(77, "index")])
def test_a_directory_in_place_of_a_file_is_an_error_that_names_it(
    memory: Path, files: dict[str, bytes], name: str, stop: int | None
) -> None:
    """1.2: nothing of ours makes one, so somebody has to look; the log is not loaded, and nothing is removed."""
    put_back(memory, files)
    directory_instead(name)(memory)
    with pytest.raises(LogStorageError, match=f"{name}|Is a directory"):
        reopen(memory, stop)
    assert (memory / name).is_dir()
    (memory / name).rmdir()
    if name in files:
        (memory / name).write_bytes(files[name])
    assert_as_if_never_damaged(reopen(memory, stop), files, END)
