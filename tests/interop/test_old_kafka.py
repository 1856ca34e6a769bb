"""The directories of an old Kafka, 3.3.2: its leaders name the record with the timestamp in the time index, where its
followers, and later Kafka, name the last one of the batch."""

import itertools
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from replog.log.directories.clean_shutdown import CLEAN_SHUTDOWN
from replog.log.formats.batch import BatchHeader, iterate_batches
from replog.log.formats.checkpoint import LEADER_EPOCH_CHECKPOINT, read_entries, write_entries
from replog.log.log import Log
from replog.log.offsets import Isolation
from replog.log.tools.verify.findings import Finding, Kind, Severity
from replog.log.tools.verify.log_directory import verify_log_directory
from replog.log.tools.verify.partition import Options
from replog.log.tools.verify.segment import VerifiedTotals
from spark_jobs.audit.audit import audit
from spark_jobs.audit.findings import CONSISTENT, DIVERGED
from spark_jobs.replicas.directories import DirectoryStore
from spark_jobs.replicas.faults import FileFault
from spark_jobs.replicas.segment_check import check_segment
from tests.damage.vocabulary import index_entries, set_index_entry
from tests.interop.cluster import KILLED, TOPICS, Load, running
from tests.interop.kafka import Kafka
from tests.replog.log.batches import config

pytestmark = [pytest.mark.processes, pytest.mark.spark]  # all of them: they share a cluster

RECORDS = 400  # in each partition, between one event and the next


@dataclass
class Left:
    """What a cluster has left."""

    stopped: dict[int, Path]  # the brokers' directories, after all have stopped in order
    killed: Path  # a copy of the directory of one that was killed, before it started again


@pytest.fixture(scope="module")
def left(old_kafka: Kafka, tmp_path_factory: pytest.TempPathFactory) -> Left:
    home = tmp_path_factory.mktemp("old-kafka")
    with running(old_kafka, home) as cluster:
        broker = cluster.brokers[KILLED]
        with Load(cluster.addresses) as load:
            load.wait_for(RECORDS)
            broker.kill()
            copy = shutil.copytree(broker.data, home / "killed")
            load.wait_for(RECORDS)
            broker.start()
            load.wait_until(lambda: KILLED in cluster.in_sync(), lambda: f"broker {KILLED} is not in sync again")
        cluster.stop()
        return Left(cluster.directories, copy)


def logs(directory: Path) -> list[Path]:
    return sorted(path for topic in TOPICS for path in directory.glob(f"{topic}-*/*.log"))


def headers(log: Path) -> list[BatchHeader]:
    return [header for _, header in iterate_batches(log.read_bytes())]


def named_within(log: Path) -> list[tuple[int, int, BatchHeader, BatchHeader]]:
    """Time entries that name a record before the last of its batch: slot, timestamp, the batch before and this one.
    Only where the one before has another timestamp."""
    named = []
    batches = headers(log)
    for slot, (timestamp, relative) in enumerate(index_entries(log.with_suffix(".timeindex"))):
        for before, batch in itertools.pairwise(batches):
            if batch.base_offset <= relative + int(log.stem) < batch.last_offset and before.max_timestamp != timestamp:
                named.append((slot, timestamp, before, batch))
    return named


@pytest.mark.parametrize("level", ["index", "batches", "deep"])
def test_what_an_old_kafka_left_is_consistent(spark, left, level):
    assert any(named_within(log) for directory in left.stopped.values() for log in logs(directory))
    result = audit(spark, left.stopped, list(TOPICS), level)
    assert (result.verdict, result.findings) == (CONSISTENT, [])


def test_log_verify_finds_no_fault_in_it(left):
    for directory in (*left.stopped.values(), left.killed):
        assert faults(directory) == []


def faults(directory: Path) -> list[Finding]:
    """What `log verify --deep` calls a fault."""
    findings = verify_log_directory(directory, Options(deep=True), VerifiedTotals())
    return [finding for finding in findings if finding.severity is Severity.FAULT]


@pytest.mark.parametrize("level", ["index", "deep"])
def test_a_time_entry_for_another_batch_is_found(spark, left, tmp_path, level):
    copies = {number: shutil.copytree(path, tmp_path / str(number)) for number, path in left.stopped.items()}
    wrong, log = next((number, log) for number, path in copies.items() for log in logs(path) if named_within(log))
    slot, timestamp, before, _ = named_within(log)[0]
    set_index_entry(log.with_suffix(".timeindex"), slot, (timestamp, before.last_offset - int(log.stem)))
    result = audit(spark, copies, list(TOPICS), level)
    assert result.verdict == DIVERGED
    assert [(one.kind, one.wrong, one.first) for one in result.findings] == [("INDEX_LIE", wrong, before.last_offset)]


@pytest.mark.parametrize("stop", ["in order", "killed"])
def test_a_first_epoch_that_is_missing_is_found(left, tmp_path, stop):
    """EP-5: nothing but the batches tells it from a log start that a killed broker has not noted."""
    number, directory, first, (_, start) = next(begins_within(left))
    copy = shutil.copytree(left.stopped[number], tmp_path / "copy")
    checkpoint = copy / directory.name / LEADER_EPOCH_CHECKPOINT
    write_entries(checkpoint, read_entries(checkpoint, 2)[1:])
    if stop == "killed":
        (copy / CLEAN_SHUTDOWN).unlink()
    (finding,) = faults(copy)
    assert (finding.kind, finding.file) == (Kind.EPOCHS, checkpoint)
    wrong = []
    for files in DirectoryStore(number, copy).partitions(frozenset()):
        for segment in files.segments:
            items = check_segment(segment, files.log_start, crc=True)
            wrong += [(item.fault, item.last, item.epoch) for item in items if isinstance(item, FileFault)]
    assert wrong == [("EPOCH_CACHE_LIE", start - 1, first)]


def begins_within(left: Left) -> Iterator[tuple[int, Path, int, tuple[int, int]]]:
    """Replicas whose second epoch begins within a segment: broker, directory, first epoch, second epoch and start."""
    for number, path in left.stopped.items():
        for directory in sorted({log.parent for log in logs(path)}):
            bases = {int(log.stem) for log in directory.glob("*.log")}
            entries = [(int(epoch), int(at)) for epoch, at in read_entries(directory / LEADER_EPOCH_CHECKPOINT, 2)]
            if len(entries) > 1 and entries[1][1] not in bases:
                yield number, directory, entries[0][0], entries[1]


def test_its_logs_are_logs_of_ours(left, tmp_path):
    for directory in sorted({log.parent for log in logs(left.stopped[1])}):
        copy = shutil.copytree(directory, tmp_path / directory.name)
        log = Log.open(copy, config(segment_bytes=50_000, segment_index_bytes=8192, retention_ms=-1), clean=True)
        log.update_high_watermark(log.log_end_offset)
        offset, served = log.log_start_offset, b""
        while records := bytes(log.read(offset, 100_000, Isolation.HIGH_WATERMARK, min_one_message=True).records):
            served += records
            offset = list(iterate_batches(records))[-1][1].next_offset
        log.close()
        assert served == b"".join(path.read_bytes() for path in logs(left.stopped[1]) if path.parent == directory)
