"""Damage to what is derived from the batches: indexes, epochs, producer snapshots. No record is lost by it (LD-3)."""

import random
from collections.abc import Callable

import pytest

from leader.list_offsets import offset_for_timestamp
from replog.log.offsets import Isolation, TimestampAndOffset
from tests.damage.samples import BATCH, CLEAN, END, EPOCHS, INDEXES, assert_as_if_never_damaged, put_back, reopen
from tests.damage.vocabulary import Damage, changed, missing, segment_file, sparse, written

NOISE = random.Random(7).randbytes(97)


def with_bits(data: bytes, at: int, bits: int = 1) -> bytes:
    return data[:at] + bytes([data[at] ^ bits]) + data[at + 1 :]


Edit = Callable[[bytes, int, int], bytes]  # of the entries, their size and where in one the offset ends

# The files have four entries, or one.
AT_THE_END: dict[str, Edit] = {
    "empty": lambda data, size, offset: b"",
    "a byte short": lambda data, size, offset: data[:-1],
    "an entry short": lambda data, size, offset: data[:-size],
    "three bytes more": lambda data, size, offset: data + b"abc",
    "an entry of zeros more": lambda data, size, offset: data + bytes(size),
    "preallocated zeros": lambda data, size, offset: data + bytes(4800),
    "the last entry twice": lambda data, size, offset: data + data[-size:],
    "zeros": lambda data, size, offset: bytes(len(data)),
    "garbage": lambda data, size, offset: NOISE[: len(data)],
    "garbage of odd length": lambda data, size, offset: NOISE,
    "the last two swapped": lambda data, size, offset: data[: -2 * size] + data[-size:] + data[-2 * size : -size],
    "the last entry off by one": lambda data, size, offset: with_bits(data, len(data) - 1),
    "the last offset off by one": lambda data, size, offset: with_bits(data, len(data) - size + offset),
    "the last entry of another time": lambda data, size, offset: with_bits(data, len(data) - size + 7),
    "the last entry of another place": lambda data, size, offset: with_bits(data, len(data) - size + 4),
}
IN_FRONT: dict[str, Edit] = {
    "the first entry missing": lambda data, size, offset: data[size:],
    "the first two swapped": lambda data, size, offset: data[size : 2 * size] + data[:size] + data[2 * size :],
    "the first entry wrong": lambda data, size, offset: with_bits(data, 0, 0x40),
    "the second offset off by one": lambda data, size, offset: with_bits(data, size + 3),
    "the second entry far away": lambda data, size, offset: with_bits(data, 2 * size - 4, 0x80),
    "the second entry elsewhere": lambda data, size, offset: with_bits(data, 2 * size - 1),
}


def edited(name: str, edit: Edit) -> Damage:
    size = 8 if name.endswith(".index") else 12
    return changed(name, lambda data: edit(data, size, 11 if name.endswith(".timeindex") else 3))


@pytest.mark.parametrize("stop", [CLEAN, 0, 20])
@pytest.mark.parametrize("base", [0, 20, 30])
@pytest.mark.parametrize("kind", INDEXES)
def test_an_index_with_a_damaged_end_is_rebuilt_after_any_stop(memory, files, kind, base, stop):
    """S-W-D8, S-W-D9, S-W-D10, IX-13, IX-16: below the recovery point and above, sealed and active; no record goes."""
    name = segment_file(base, kind)
    for edit in [*AT_THE_END, "missing", "a gigabyte of nothing more"]:
        if base == 30 and edit == "the last two swapped":
            continue  # it has one entry
        put_back(memory, files)
        special = {"missing": missing(name), "a gigabyte of nothing more": sparse(name, 1 << 30)}
        (special.get(edit) or edited(name, AT_THE_END[edit]))(memory)
        said: list[str] = []
        log = reopen(memory, stop, said)
        assert (log.log_end_offset, log.lost_data, log.epochs.entries) == (END, False, EPOCHS), (edit, said)
        assert any(f"recovering {memory / segment_file(base, 'log')}: " in line for line in said), (edit, said)
        assert_as_if_never_damaged(log, files, END)


@pytest.mark.parametrize("edit", IN_FRONT)
@pytest.mark.parametrize("kind", INDEXES)
def test_an_index_that_lies_in_front_misleads_no_reader(memory, files, kind, edit):
    """A clean start looks at the ends of indexes alone (LD-7), so look-ups ask the batches; a recovery repairs it."""
    put_back(memory, files)
    edited(segment_file(10, kind), IN_FRONT[edit])(memory)
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
        (b"0\n4\n0 0\n1 12\n3 24\n7 50\n", None),
        (b"0\n3\n0 0\n1 12\n3 2", "does not follow"),
        (b"0\n3\n0 0\n3 24\n1 12\n", "does not follow"),
        (b"0\n3\n0 0\n1 14\n3 24\n", "rebuilding"),
        (b"0\n3\n0 0\n1 10\n3 24\n", "rebuilding"),
        (b"0\n3\n0 0\n2 12\n3 24\n", "rebuilding"),
        (b"0\n2\n0 0\n1 12\n", "rebuilding"),
        (b"0\n2\n1 12\n3 24\n", "rebuilding"),
        (b"0\n2\n0 0\n3 24\n", "rebuilding"),
        (NOISE, "is not UTF-8 text"),
        (b"0\n" * (33 << 20), "is larger than 67108864 bytes"),
    ],
    ids=lambda value: None if value is None else repr(value[:40]),
)
def test_a_damaged_or_lost_epoch_file_is_rebuilt(memory, files, content, said, stop):
    """S-W-D16, S-W-D17, LD-10, LD-13: what is wrong with it is said; Kafka rebuilds only what it recovers."""
    put_back(memory, files)
    (missing(EPOCH_FILE) if content is None else written(EPOCH_FILE, content))(memory)
    lines: list[str] = []
    log = reopen(memory, stop, lines)
    assert said is None or any(EPOCH_FILE in line and said in line for line in lines), lines
    assert (log.epochs.entries, log.lost_data) == (EPOCHS, False)
    assert (memory / EPOCH_FILE).read_bytes() == files[EPOCH_FILE]
    assert_as_if_never_damaged(log, files, END)
