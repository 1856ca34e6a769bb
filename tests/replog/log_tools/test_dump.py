"""Dumps: every row of every file, damage included, and nothing is changed."""

import os
import tracemalloc
from pathlib import Path

import pytest

from replog.errors import ReplogError
from replog.log.formats.records import LogRecord
from replog.log.indexes.index import DigestEntry, OffsetPosition, TimestampOffset
from replog.log.indexes.transaction_index import AbortedTxn
from replog.log.producers.snapshot import ProducerSnapshotEntry
from replog.log_tools.dump import BatchRow, CheckpointRow, EpochRow, TopicIdRow, Unreadable, Unused, dump_file
from replog.log_tools.dump import files_of as files_in
from replog.topic import TopicPartition
from tests.damage.vocabulary import overwrite
from tests.replog.log.batches import append, client_batch, files_of, leader_batch, open_log
from tests.replog.log_tools.verify.directories import file, write_log_directory

BASE = "00000000000000000000"


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    log = open_log(tmp_path, index_interval_bytes=1)
    append(log, client_batch((b"k", b"v"), timestamps=[10]), client_batch(b"a", b"b", timestamps=[20, 30]), epoch=4)
    log.roll()
    log.close()
    return tmp_path


def test_a_log_with_its_records(directory):
    before = files_of(directory)
    first, record, second, *records = dump_file(directory / f"{BASE}.log", records=True)
    assert isinstance(first, BatchRow)
    assert isinstance(second, BatchRow)
    assert (first.position, first.codec, first.timestamp_type, first.crc_valid) == (0, "none", "CreateTime", True)
    assert (first.transactional, first.control) == (False, None)
    assert (second.position, second.header.base_offset, second.header.leader_epoch) == (first.header.size, 1, 4)
    assert record == LogRecord(0, 10, b"k", b"v", ())
    assert records == [LogRecord(1, 20, None, b"a", ()), LogRecord(2, 30, None, b"b", ())]
    assert list(dump_file(directory / f"{BASE}.log")) == [first, second]
    assert files_of(directory) == before


def test_the_indexes_and_the_epochs(directory):
    assert list(dump_file(directory / f"{BASE}.index")) == [OffsetPosition(2, 70)]
    assert list(dump_file(directory / f"{BASE}.timeindex")) == [TimestampOffset(30, 2)]
    (entry,) = dump_file(directory / f"{BASE}.digest")
    assert isinstance(entry, DigestEntry)
    assert entry.offset == 2
    assert list(dump_file(directory / "leader-epoch-checkpoint")) == [EpochRow(4, 0)]


def test_offsets_are_absolute(directory):
    (directory / "00000000000000000100.index").write_bytes(bytes.fromhex("0000000500000010"))
    assert list(dump_file(directory / "00000000000000000100.index")) == [OffsetPosition(105, 16)]


def test_damage_is_shown_where_it_is(directory):
    path = directory / f"{BASE}.log"
    data = bytearray(path.read_bytes())
    data[69] ^= 1
    path.write_bytes(data + b"torn")
    rows = list(dump_file(path))
    assert [row.crc_valid for row in rows if isinstance(row, BatchRow)] == [False, True]
    assert rows[-1] == Unreadable(len(data), 4, "part of a batch: 4 bytes are too few for a batch header")
    path.write_bytes(data + bytes(70))
    assert list(dump_file(path))[-1] == Unreadable(len(data), 70, "batch length 0 is less than the 49 of a header")


def test_surplus_of_an_index_is_shown(directory):
    path = directory / f"{BASE}.index"
    entry = path.read_bytes()
    path.write_bytes(entry + bytes(24))
    assert list(dump_file(path))[1:] == [Unused(8, 24)]
    path.write_bytes(entry + b"abc")
    assert list(dump_file(path))[1:] == [Unreadable(8, 3, "part of an entry")]


@pytest.mark.parametrize("name", ["x.log", f"{BASE}.dat", "meta.properties"])
def test_other_files_are_refused(directory, name):
    with pytest.raises(ReplogError, match="is not <20 digits>"):
        dump_file(directory / name)


def test_control_batches_and_producers(tmp_path):
    """2.3: what kind of marker; 3.5, 7.5: what is remembered of transactions and producers."""
    flights = write_log_directory(tmp_path / "data")
    batches = [row for row in dump_file(file(flights, 22, "log")) if isinstance(row, BatchRow)]
    assert [row.control for row in batches[:5]] == [None, None, "ABORT", "COMMIT", None]
    assert batches[0].transactional
    assert list(dump_file(file(flights, 22, "txnindex"))) == [AbortedTxn(5, 12, 24, 13)]
    snapshot = dump_file(file(flights, 38, "snapshot"))
    assert [(row.producer_id, row.last_sequence) for row in snapshot if isinstance(row, ProducerSnapshotEntry)] == [
        (5, 3),
        (6, 3),
    ]


def test_checkpoints_and_the_topic_id(tmp_path):
    flights = write_log_directory(tmp_path / "data")
    expected = [CheckpointRow(TopicPartition("flights", 0), 38)]
    assert list(dump_file(flights.parent / "recovery-point-offset-checkpoint")) == expected
    assert list(dump_file(flights / "partition.metadata")) == [TopicIdRow("MDEyMzQ1Njc4OWFiY2RlZg")]
    for name in ("leader-epoch-checkpoint", "partition.metadata"):
        (flights / name).write_text("bad")
        (row,) = dump_file(flights / name)
        assert isinstance(row, Unreadable)
        assert str(flights / name) in row.reason


def test_files_that_wait_are_dumped_by_their_kind(directory):
    expected = list(dump_file(directory / f"{BASE}.index"))
    for suffix in ("deleted", "cleaned", "swap"):
        (directory / f"{BASE}.index").rename(directory / f"{BASE}.index.{suffix}")
        assert list(dump_file(directory / f"{BASE}.index.{suffix}")) == expected
        (directory / f"{BASE}.index.{suffix}").rename(directory / f"{BASE}.index")


def test_a_directory_stands_for_its_files_in_order(tmp_path):
    flights = write_log_directory(tmp_path / "data")
    (flights / "notes.txt").write_text("")
    names = [path.name for path in files_in(flights)]
    assert names[:5] == [f"{BASE}.{kind}" for kind in ("log", "index", "timeindex", "digest")] + [f"{14:020d}.log"]
    assert names[-2:] == ["leader-epoch-checkpoint", "partition.metadata"]
    assert [path.name for path in files_in(flights.parent)][3:] == names


def test_a_delete_horizon_is_shown(directory):
    """CL-6"""
    batch = leader_batch(3, 4, b"x", timestamps=[77])
    (directory / f"{BASE}.log").write_bytes(batch[:22] + b"\x40" + batch[23:])
    (row,) = dump_file(directory / f"{BASE}.log")
    assert isinstance(row, BatchRow)
    assert row.delete_horizon == 77


def test_a_damaged_length_costs_no_memory(directory):
    path = directory / f"{BASE}.log"
    overwrite(path, 8, (256 << 20).to_bytes(4, "big"))
    os.truncate(path, (256 << 20) + 12)  # the bytes are there, as a hole in the file
    tracemalloc.start()
    (row,) = dump_file(path, records=False)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert isinstance(row, BatchRow)
    assert not row.crc_valid
    assert peak < 16 << 20
