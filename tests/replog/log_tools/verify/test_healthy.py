"""A sound directory of every shape of any writer has no finding, and is left exactly as it was."""

import os
import shutil
from pathlib import Path

import pytest

from replog.log.directories.identity import CLEAN_SHUTDOWN
from replog.log.formats.batch import HEADER_SIZE
from replog.log.formats.checkpoint import CLEANER_CHECKPOINT, OffsetCheckpoint
from replog.log.indexes.transaction_index import TransactionIndex
from replog.log.offsets import AppendOrigin
from replog.log_tools.verify.paths import log_bytes, verify
from replog.log_tools.verify.segment import Options, VerifiedTotals
from replog.topic import TopicPartition
from tests.replog.log.batches import append, client_batch, fixture_t, leader_batch, open_log
from tests.replog.log.compaction.compacting import T, clean, compacted, keyed, sealed
from tests.replog.log.producers.writes import batch, marker
from tests.replog.log_tools.verify.directories import FLIGHTS, broker, faults, file, findings_in, notes, places


def test_a_log_directory_with_everything_in_it_is_clean(data):
    totals = VerifiedTotals()
    done: list[int] = []
    assert list(verify([data], Options(deep=True, on_bytes=done.append), totals)) == []
    assert totals == VerifiedTotals(segments=4, batches=26, records=38, bytes=2055)
    assert sum(done) == log_bytes(data) == 2055


def test_a_path_may_be_a_partition(flights):
    assert findings_in(flights, deep=True) == []


def test_what_is_verified_is_not_written(data):
    """Not even a lock file; content, times, modes and names are as before."""
    (data / ".lock").unlink()
    before = _tree(data)
    findings_in(data, deep=True)
    assert _tree(data) == before


def test_an_empty_log_and_an_empty_directory(tmp_path):
    with broker(tmp_path / "data"):
        pass
    assert findings_in(tmp_path / "data") == []
    (tmp_path / "empty-0").mkdir()
    assert faults(tmp_path / "empty-0") == []


def test_a_log_start_at_the_log_end(data):
    """EP-5: the epoch of the last batch begins there. Kafka knows none after it has opened such a log."""
    with broker(data) as log:
        log.update_high_watermark(38)
        log.maybe_increment_log_start_offset(38)
    with broker(data) as log:
        assert log.epochs.entries == ((4, 38),)
    assert findings_in(data, deep=True) == []
    with broker(data) as log:
        log.epochs.clear()
    assert findings_in(data, deep=True) == []


def test_a_recovery_that_knows_nothing_of_a_transaction_from_before_the_log_start(tmp_path):
    """PS-6: the transaction index is rebuilt, by a state that begins at the log start. Verification reads on before
    that (transactions 111)."""
    with broker(tmp_path) as log:
        for pid in (6, 5):
            append(log, batch(0, 0, pid=pid, transactional=True, timestamp=20_000))
        aborted = marker(5, commit=False)
        log.append_as_leader(aborted, leader_epoch=0, now_ms=0, origin=AppendOrigin.COORDINATOR)
        log.update_high_watermark(log.log_end_offset)
        log.maybe_increment_log_start_offset(1)
    for name in (CLEAN_SHUTDOWN, "recovery-point-offset-checkpoint"):
        (tmp_path / name).unlink()
    with broker(tmp_path) as log:
        index = file(log.directory, 0, "txnindex")
    assert [fields[2:] for fields in TransactionIndex.layout.iter_unpack(index.read_bytes())] == [(1, 2, 3)]
    assert findings_in(tmp_path, deep=True) == []


def test_a_running_broker_is_noted(data):
    with broker(data):
        assert [kind for kind, *_ in notes(data)] == ["IN_USE"]
        assert faults(data) == []
    assert notes(data) == []


def test_kafkas_way_with_indexes(tmp_path):
    """S-W-S1: entries per append, here of 4 batches; S-W-I8: preallocated; IX-14; no digests."""
    directory = tmp_path / "kafka-0"
    log = open_log(directory, index_interval_bytes=100)
    for number in range(20):
        append(log, client_batch(b"test", timestamps=[1000 + number]))
    log.close()
    file(directory, 0, "digest").unlink()
    entries = b"".join(last.to_bytes(4, "big") + (72 * (last - 3)).to_bytes(4, "big") for last in (7, 11, 15, 19))
    file(directory, 0, "index").write_bytes(entries + bytes(80))
    times = b"".join((1000 + last).to_bytes(8, "big") + last.to_bytes(4, "big") for last in (7, 11, 15, 19))
    file(directory, 0, "timeindex").write_bytes(times + bytes(60))
    assert faults(directory) == []
    assert [kind for kind, *_ in notes(directory)] == ["NO_TOPIC_ID", "PREALLOCATED", "PREALLOCATED"]


def test_compacted_by_the_cleaner(tmp_path):
    """CL-7, CL-8: batches without records, holes in batches, between batches and between segments."""
    directory = tmp_path / "compacted-0"
    log = fixture_t(directory)
    log.close()
    content = file(directory, 6, "log").read_bytes()
    file(directory, 6, "log").write_bytes(content[78:])  # batch 6-7 has gone
    for suffix in ("index", "timeindex", "digest"):
        file(directory, 6, suffix).unlink()
    assert faults(directory, compacted=True, deep=True) == []
    assert faults(directory) == [("HOLE", f"{6:020d}.log", 0, 6)]
    assert len(content) - 78 > HEADER_SIZE


def test_a_replica_that_was_copied_from_a_cleaned_one(tmp_path):
    """CL-8: it was never cleaned itself. That the topic is compacted shows where another of its partitions was."""
    with broker(tmp_path, cleanup_policy="compact") as log:
        for base in (0, 5):
            log.append_as_follower(leader_batch(base, 0, (b"k", b"v")))
    (finding,) = findings_in(tmp_path)
    assert finding.kind.name == "HOLE"
    assert "verify it with --compacted" in finding.kind.meaning
    assert findings_in(tmp_path, compacted=True) == []
    for topic, kinds in (("other", ["HOLE"]), (FLIGHTS.topic, [])):
        OffsetCheckpoint(tmp_path / CLEANER_CHECKPOINT).write({TopicPartition(topic, 7): 100})
        assert [kind for kind, *_ in faults(tmp_path)] == kinds


def test_after_cleanings(tmp_path):
    """CL-6, CL-7: emptied batches, delete horizons, and a producer's last sequence in a bare header."""
    directory = tmp_path / "cleaned-0"
    log = compacted(directory, index_interval_bytes=100, segment_bytes=2000, delete_retention_ms=500)
    for number in range(6):
        plain = [keyed("a", f"k{number}", "b", time=T + number), keyed("b", value=None, time=T)]
        sealed(log, *plain, keyed("p", producer_id=3, producer_epoch=0, base_sequence=number))
        clean(log, T + 300 * number)
    log.close()
    assert findings_in(directory, deep=True) != []
    assert {kind for kind, *_ in places(findings_in(directory, deep=True, compacted=True))} <= {
        "LEFTOVER",
        "NO_TOPIC_ID",
    }


@pytest.mark.parametrize("suffix", ["index", "timeindex", "digest"])
def test_a_missing_index_is_a_note_at_most(data, flights, suffix):
    """S-W-D8, S-W-D9: lookups do without."""
    file(flights, 14, suffix).unlink()
    assert faults(data) == []
    expected = [] if suffix == "digest" else [("MISSING_INDEX", f"{14:020d}.{suffix}", None, None)]
    assert notes(data) == expected


def test_several_directories_at_once(data, tmp_path):
    other = shutil.copytree(data, tmp_path / "other")
    file(other / FLIGHTS.directory_name, 0, "log").write_bytes(b"")
    assert faults(data) == []
    findings = findings_in(data, other)
    assert findings
    assert all(finding.file.is_relative_to(other) for finding in findings), places(findings)


def _tree(directory: Path) -> dict[str, tuple[int, int, int, bytes]]:
    """Everything that a write would change."""
    by_path = {}
    for path in [directory, *sorted(directory.rglob("*"))]:
        status = os.stat(path)
        content = path.read_bytes() if path.is_file() else b""
        by_path[str(path)] = status.st_mtime_ns, status.st_ctime_ns, status.st_mode, content
    return by_path
