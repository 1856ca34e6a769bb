"""The directories of an old Kafka, 3.3.2: its leaders name the record with the timestamp in the time index, where its
followers, and later Kafka, name the last one of the batch."""

import shutil
from dataclasses import dataclass
from pathlib import Path

import pytest

from replog.log.formats.batch import iterate_batches
from replog.log.log import Log
from replog.log.offsets import Isolation
from replog.log_tools.checker.findings import Severity
from replog.log_tools.verify.paths import verify_log_directory
from replog.log_tools.verify.segment import Options, VerifiedTotals
from spark_jobs.audit.audit import audit
from spark_jobs.audit.findings import CONSISTENT
from tests.damage.vocabulary import index_entries
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


def named_within(log: Path) -> bool:
    """Whether a time entry names a record before the last of its batch."""
    headers = [header for _, header in iterate_batches(log.read_bytes())]
    entries = [relative + int(log.stem) for _, relative in index_entries(log.with_suffix(".timeindex"))]
    return any(header.base_offset <= offset < header.last_offset for header in headers for offset in entries)


@pytest.mark.parametrize("level", ["index", "batches", "deep"])
def test_what_an_old_kafka_left_is_consistent(spark, left, level):
    assert any(named_within(log) for directory in left.stopped.values() for log in logs(directory))
    result = audit(spark, left.stopped, list(TOPICS), level)
    assert (result.verdict, result.findings) == (CONSISTENT, [])


def test_log_verify_finds_no_fault_in_it(left):
    for directory in (*left.stopped.values(), left.killed):
        findings = verify_log_directory(directory, Options(deep=True), VerifiedTotals())
        assert [finding for finding in findings if finding.severity is Severity.FAULT] == []


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
