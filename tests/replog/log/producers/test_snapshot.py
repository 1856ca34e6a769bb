"""Producer snapshots as bytes (PS-7)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replog.log.errors import CorruptSnapshot
from replog.log.producers.snapshot import (
    ProducerSnapshotEntry,
    format_snapshot,
    parse_snapshot,
    read_snapshot,
    snapshot_offsets,
)

ENTRY = ProducerSnapshotEntry(1, 2, 7, 42, 3, 1000, 3, 100)
DATA = bytes.fromhex(
    "0001b17cbb9d000000010000000000000001000200000007000000000000002a0000000300000000000003e8000000030000000000000064"
)

int64 = st.integers(-(2**63), 2**63 - 1)
int32 = st.integers(-(2**31), 2**31 - 1)
entries = st.builds(
    ProducerSnapshotEntry, int64, st.integers(-(2**15), 2**15 - 1), int32, int64, int32, int64, int32, int64
)


def test_without_producers():
    """S-W-B8."""
    assert format_snapshot([]).hex() == "000148674bc700000000"
    assert parse_snapshot(bytes.fromhex("000148674bc700000000")) == []


def test_with_one():
    """S-W-B9, PS-7."""
    assert format_snapshot([ENTRY]) == DATA
    assert parse_snapshot(DATA) == [ENTRY]


@given(st.lists(entries, max_size=20))
def test_equal_states_make_equal_files(states):
    assert parse_snapshot(format_snapshot(states)) == sorted(states)
    assert format_snapshot(reversed(states)) == format_snapshot(states)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "of 0 bytes"),
        (DATA[:9], "of 9 bytes"),
        (b"\0\2" + DATA[2:], "version 2, not 1"),
        (DATA[:-1], "55 bytes do not hold the 1 entries"),
        (DATA + b"\0", "57 bytes do not hold the 1 entries"),
        (DATA[:6] + b"\x7f\xff\xff\xff" + DATA[10:], "do not hold the 2147483647"),
        (DATA[:6] + b"\xff\xff\xff\xff" + DATA[10:], "do not hold the -1"),
        (DATA[:2] + b"\0\0\0\0" + DATA[6:], "CRC of the producer snapshot is not 00000000"),
        *[(DATA[:at] + bytes([DATA[at] ^ 1]) + DATA[at + 1 :], "CRC") for at in (2, 5, 10, 30, 55)],
    ],
)
def test_ps_7_damage_is_found_out(data, message):
    """PS-7."""
    with pytest.raises(CorruptSnapshot, match=message):
        parse_snapshot(data)


def test_what_is_too_large_is_not_read(tmp_path):
    path = tmp_path / "00000000000000000005.snapshot"
    with path.open("wb") as file:
        file.truncate((1 << 28) + 1)
    with pytest.raises(CorruptSnapshot, match="larger than"):
        read_snapshot(path)


def test_snapshots_are_known_by_their_names(tmp_path):
    for name in ("00000000000000000012.snapshot", "00000000000000000003.snapshot", "00000000000000000003.log"):
        (tmp_path / name).write_bytes(b"")
    for name in ("3.snapshot", "00000000000000000004.snapshot.deleted", "x.snapshot"):
        (tmp_path / name).write_bytes(b"")
    assert snapshot_offsets(tmp_path) == [3, 12]
