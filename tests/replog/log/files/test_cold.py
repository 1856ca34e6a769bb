"""Reads that wait for no disk: real files whose bytes the operating system has let go of."""

import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import pytest

from replog.log.errors import OffsetOutOfRange
from replog.log.files import cold
from replog.log.files.cold import ANYTHING, LONG_BYTES, NOTHING, ByteRange, ColdRead, WaitingFor
from replog.log.files.open_files import OpenFile
from replog.log.files.opening import bring
from replog.log.log import Log
from replog.log.offsets import FetchData, Isolation
from tests.replog.log.batches import append, client_batch, open_log
from tests.replog.log.eviction import evict

pytestmark = pytest.mark.usefixtures("evicted_is_cold")

T = TypeVar("T")
VALUE = os.urandom(1000)
BATCHES = 400


@pytest.fixture
def file(tmp_path: Path) -> OpenFile:
    path = tmp_path / "file"
    path.write_bytes(bytes(range(256)) * 4096)
    evict(path)
    return OpenFile(path)


def without_waiting(read: Callable[[], T]) -> T:
    with WaitingFor(NOTHING):
        return read()


def brought(read: Callable[[], T]) -> tuple[T, int]:
    """What it reads once all that it lacks is in memory, and how often something was lacking."""
    byte_range, times = NOTHING, 0
    while True:
        try:
            with WaitingFor(byte_range):
                return read(), times
        except ColdRead as lacking:
            bring(lacking)
            byte_range, times = lacking.byte_range, times + 1


def test_what_is_in_memory_is_read_and_what_is_not_is_named(file):
    with pytest.raises(ColdRead) as raised:
        without_waiting(lambda: file.read(256, 4))
    assert raised.value.path == file.path
    assert raised.value.byte_range == (256, 256 + cold.BROUGHT_BYTES)
    bring(raised.value)
    assert without_waiting(lambda: file.read(256, 4)) == bytes(range(4))
    assert without_waiting(lambda: file.read(500_000, 4)) == bytes(500_000 % 256 + at for at in range(4))


def test_what_was_brought_is_waited_for_and_everything_is_where_nobody_said_otherwise(file):
    with pytest.raises(ColdRead), WaitingFor(ByteRange(1000, 2000)):
        file.read(1998, 4)
    evict(Path(file.path))
    with WaitingFor(ByteRange(1000, 2000)):
        assert file.read(1024, 4) == bytes(range(4))
    evict(Path(file.path))
    assert file.read(0, 4) == bytes(range(4))


def test_what_cannot_be_brought_is_left_to_who_reads(file):
    with pytest.raises(ColdRead) as raised:
        without_waiting(lambda: file.read(0, 4))
    Path(file.path).unlink()
    bring(raised.value)


@pytest.mark.parametrize("is_memory", [True, False])
def test_where_the_file_system_does_not_say_long_reads_are_for_a_thread_unless_it_has_no_disk(is_memory, monkeypatch):
    with tempfile.NamedTemporaryFile(dir="/dev/shm") as there:
        there.write(bytes(LONG_BYTES))
        there.flush()
        try:
            os.preadv(there.fileno(), [bytearray(1)], 0, os.RWF_NOWAIT)
            pytest.skip("this kernel says it of /dev/shm")
        except OSError:
            pass
        if not is_memory:  # as on one of a network
            monkeypatch.setattr(cold, "_is_memory", lambda _: False)
        file = OpenFile(there.name)
        assert without_waiting(lambda: file.read(0, LONG_BYTES - 1)) == bytes(LONG_BYTES - 1)
        assert brought(lambda: file.read(0, LONG_BYTES)) == (bytes(LONG_BYTES), 0 if is_memory else 1)


@pytest.fixture
def cold_log(tmp_path: Path) -> Log:
    """Several segments, all committed; nothing of it is in memory."""
    log = open_log(tmp_path / "t-0", segment_bytes=200_000)
    append(log, *[client_batch(VALUE)] * BATCHES)
    log.update_high_watermark(BATCHES)
    evict(*(path for path in log.directory.iterdir() if path.stat().st_size))
    return log


def read(log: Log, offset: int) -> Callable[[], FetchData]:
    return lambda: log.read(offset, 50_000, Isolation.HIGH_WATERMARK, min_one_message=True)


@pytest.mark.parametrize("offset", [0, 100, BATCHES - 50, BATCHES - 1])
def test_a_log_names_what_it_lacks_step_by_step_and_then_reads_the_same(cold_log, offset):
    data, times = brought(read(cold_log, offset))
    assert data == read(cold_log, offset)()
    assert 1 <= times <= 4, "indexes, headers, batches"
    assert cold_log.failure is None


def test_bytes_that_were_cut_off_or_deleted_while_they_were_brought_are_not_read(cold_log):
    for offset in (300, 100):
        with pytest.raises(ColdRead) as raised:
            without_waiting(read(cold_log, offset))
        if offset == 300:
            cold_log.truncate_to(250)
        else:
            cold_log.maybe_increment_log_start_offset(200)
        bring(raised.value)
        with pytest.raises(OffsetOutOfRange), WaitingFor(raised.value.byte_range):
            read(cold_log, offset)()
    assert cold_log.failure is None


def test_where_a_bound_lies_may_be_known_to_the_disk_alone(cold_log):
    cold_log.update_high_watermark(100)
    bound, times = brought(lambda: cold_log.bound(Isolation.HIGH_WATERMARK))
    assert (bound.offset, bound.segment_base) == (100, 0)
    assert times >= 1


def test_a_look_up_by_time_names_what_it_lacks(cold_log):
    batch, times = brought(lambda: cold_log.batch_for_timestamp(1000, 250))
    assert batch is not None
    assert batch.header.base_offset == 250
    assert times >= 1


def test_what_was_just_appended_is_in_memory(tmp_path):
    log = append(open_log(tmp_path / "t-0"), *[client_batch(VALUE)] * 20)
    with WaitingFor(NOTHING):
        data = log.read(0, 1 << 20, Isolation.LOG_END, min_one_message=True)
    assert len(data.records) == log.size
    assert cold._WAITS_FOR.get() == ANYTHING
