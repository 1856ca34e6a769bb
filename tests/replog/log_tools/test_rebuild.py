"""Indexes rebuilt from the `.log`: the very ones that were written, or what Kafka needs in its directories."""

import os
from pathlib import Path

import pytest

from replog.errors import ReplogError
from replog.log.directories.lock import held, is_locked
from replog.log_tools.rebuild import RebuiltIndex, RefusedSegment, rebuild
from tests.damage.vocabulary import flip
from tests.replog.log_tools.verify.directories import broker, faults, file, findings_in, write_log_directory

INTERVAL = 100


@pytest.fixture
def flights(tmp_path: Path) -> Path:
    return write_log_directory(tmp_path / "data")


def content(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(directory.iterdir())}


def test_a_rebuilt_directory_is_byte_for_byte_the_one_that_was_written(flights):
    """SG-8, divergence 1; the newest segment's indexes stay unsealed."""
    before = content(flights)
    assert not any(result.changed for result in rebuild(flights, INTERVAL))
    for path in flights.iterdir():
        if path.suffix in (".index", ".timeindex", ".txnindex"):
            path.unlink()
        elif path.suffix == ".digest":
            path.write_bytes(b"")
    results = list(rebuild(flights.parent, INTERVAL))
    assert content(flights) == before
    assert RebuiltIndex(file(flights, 22, "txnindex"), None, 1, True) in results
    assert RebuiltIndex(file(flights, 22, "index"), None, 3, True) in results
    assert RebuiltIndex(file(flights, 34, "digest"), 0, 0, False) in results


def test_without_digests_the_newest_segment_is_sealed_too(flights):
    """SG-11, SG-12: Kafka's brokers take the greatest timestamp from the last entry."""
    for path in flights.glob("*.digest"):
        path.unlink()
    list(rebuild(flights, INTERVAL))
    assert not list(flights.glob("*.digest"))
    assert file(flights, 34, "timeindex").stat().st_size == 12
    assert faults(flights.parent) == []
    results = list(rebuild(flights, INTERVAL, digest=True))
    assert RebuiltIndex(file(flights, 0, "digest"), None, 4, True) in results
    assert findings_in(flights.parent) == []


def test_one_segment_by_its_log(flights):
    """Which transactions are open where it begins comes from the snapshot there, or from the batches before."""
    txn = file(flights, 22, "txnindex")
    expected = txn.read_bytes()
    for snapshot in (True, False):
        txn.unlink()
        if not snapshot:
            file(flights, 22, "snapshot").unlink()
        results = list(rebuild(file(flights, 22, "log"), INTERVAL))
        assert {result.path.stem for result in results} == {f"{22:020d}"}
        assert txn.read_bytes() == expected


def test_a_dry_run_writes_nothing(flights):
    file(flights, 14, "index").write_bytes(b"12345678")
    before = content(flights)
    stamp = os.stat(flights).st_mtime_ns
    assert [result.path.name for result in rebuild(flights, INTERVAL, dry_run=True) if result.changed] == [
        f"{14:020d}.index"
    ]
    assert (content(flights), os.stat(flights).st_mtime_ns) == (before, stamp)


def test_an_index_of_another_interval(flights):
    """SG-1: by default an entry every 4096 bytes."""
    list(rebuild(flights, 4096))
    assert file(flights, 22, "index").read_bytes() == b""
    assert faults(flights.parent) == []


@pytest.mark.parametrize("damage", ["crc", "header", "torn", "order"])
def test_a_damaged_segment_is_refused_and_left_as_it_is(flights, damage):
    log = file(flights, 14, "log")
    if damage == "crc":
        flip(log, 70)
    elif damage == "header":
        flip(log, 97 + 16)
    elif damage == "torn":
        log.write_bytes(log.read_bytes()[:-1])
    else:
        flip(log, 97 + 7, 8)
    for path in (file(flights, 14, "index"), file(flights, 22, "index")):
        path.write_bytes(b"")
    results = list(rebuild(flights, INTERVAL))
    (refused,) = (result for result in results if isinstance(result, RefusedSegment))
    assert refused.path == log
    assert "replog log verify" in refused.reason
    assert file(flights, 14, "index").read_bytes() == b""
    assert file(flights, 22, "index").stat().st_size == 24  # by its snapshot, the next one can be rebuilt
    assert not (flights / "rebuild.tmp").exists()


def test_without_a_snapshot_what_follows_a_damaged_segment_is_refused_too(flights):
    flip(file(flights, 14, "log"), 70)
    file(flights, 22, "snapshot").unlink()
    refused = [result for result in rebuild(flights, INTERVAL) if isinstance(result, RefusedSegment)]
    assert [result.path for result in refused] == [file(flights, 14, "log"), file(flights, 22, "log")]


def test_what_a_crash_left_of_a_rebuild_is_in_nobodys_way(flights):
    work = flights / "rebuild.tmp"
    work.mkdir()
    (work / f"{0:020d}.index").write_bytes(b"half")
    with broker(flights.parent) as log:
        assert log.log_end_offset == 38
    list(rebuild(flights, INTERVAL))
    assert not work.exists()
    assert findings_in(flights.parent) == []


def test_a_running_broker_keeps_its_directory(flights):
    data = flights.parent
    with broker(data):
        assert is_locked(data)
        with pytest.raises(ReplogError, match="in use by another process; stop the broker"):
            list(rebuild(flights, INTERVAL))
    assert not is_locked(data)
    with held(data):
        assert is_locked(data)


def test_files_belong_to_whom_the_log_belongs(flights):
    file(flights, 0, "log").chmod(0o640)
    file(flights, 0, "index").unlink()
    list(rebuild(flights, INTERVAL))
    assert file(flights, 0, "index").stat().st_mode & 0o777 == 0o640


def test_other_files_are_refused(flights):
    with pytest.raises(ReplogError, match=r"is not a \.log file"):
        list(rebuild(file(flights, 0, "index"), INTERVAL))
