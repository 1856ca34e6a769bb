"""Dumps: every row of every file, damage included, and nothing is changed."""

from pathlib import Path

import pytest

from replog.errors import ReplogError
from replog.log.dump import BatchRow, EpochRow, Unreadable, Unused, dump_file
from replog.log.index import DigestEntry, OffsetPosition, TimestampOffset
from replog.log.records import Record
from tests.replog.log.batches import append, client_batch, files_of, open_log

BASE = "00000000000000000000"


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    log = open_log(tmp_path, index_interval_bytes=1)
    append(log, client_batch((b"k", b"v"), timestamps=[10]), client_batch(b"a", b"b", timestamps=[20, 30]), epoch=4)
    log.roll()
    log.close()
    return tmp_path


def test_a_log_with_its_records(directory: Path) -> None:
    before = files_of(directory)
    first, record, second, *records = dump_file(directory / f"{BASE}.log", records=True)
    assert isinstance(first, BatchRow)
    assert isinstance(second, BatchRow)
    assert (first.position, first.codec, first.timestamp_type, first.crc_valid) == (0, "none", "CreateTime", True)
    assert (first.transactional, first.control) == (False, None)
    assert (second.position, second.header.base_offset, second.header.leader_epoch) == (first.header.size, 1, 4)
    assert record == Record(0, 10, b"k", b"v", ())
    assert records == [Record(1, 20, None, b"a", ()), Record(2, 30, None, b"b", ())]
    assert list(dump_file(directory / f"{BASE}.log")) == [first, second]
    assert files_of(directory) == before


def test_the_indexes_and_the_epochs(directory: Path) -> None:
    assert list(dump_file(directory / f"{BASE}.index")) == [OffsetPosition(2, 70)]
    assert list(dump_file(directory / f"{BASE}.timeindex")) == [TimestampOffset(30, 2)]
    (entry,) = dump_file(directory / f"{BASE}.digest")
    assert isinstance(entry, DigestEntry)
    assert entry.offset == 2
    assert list(dump_file(directory / "leader-epoch-checkpoint")) == [EpochRow(4, 0)]


def test_offsets_are_absolute(directory: Path) -> None:
    (directory / "00000000000000000100.index").write_bytes(bytes.fromhex("0000000500000010"))
    assert list(dump_file(directory / "00000000000000000100.index")) == [OffsetPosition(105, 16)]


def test_damage_is_shown_where_it_is(directory: Path) -> None:
    path = directory / f"{BASE}.log"
    data = bytearray(path.read_bytes())
    data[69] ^= 1
    path.write_bytes(data + b"torn")
    rows = list(dump_file(path))
    assert [row.crc_valid for row in rows if isinstance(row, BatchRow)] == [False, True]
    assert rows[-1] == Unreadable(len(data), 4, "part of a batch: 4 bytes are too few for a batch header")
    path.write_bytes(data + bytes(70))
    assert list(dump_file(path))[-1] == Unreadable(len(data), 70, "batch length 0 is less than the 49 of a header")


def test_surplus_of_an_index_is_shown(directory: Path) -> None:
    path = directory / f"{BASE}.index"
    entry = path.read_bytes()
    path.write_bytes(entry + bytes(24))
    assert list(dump_file(path))[1:] == [Unused(8, 24)]
    path.write_bytes(entry + b"abc")
    assert list(dump_file(path))[1:] == [Unreadable(8, 3, "part of an entry")]


@pytest.mark.parametrize("name", ["x.log", f"{BASE}.dat", "meta.properties"])
def test_other_files_are_refused(directory: Path, name: str) -> None:
    with pytest.raises(ReplogError, match="is not <20 digits>"):
        dump_file(directory / name)
