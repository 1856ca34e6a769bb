"""The directories of an old Kafka, 3.3.2: its leaders name the record with the timestamp in the time index, where its
followers, and later Kafka, name the last one of the batch."""

import itertools
import shutil
from dataclasses import dataclass
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from replog.log.batch import BatchHeader, iterate_batches
from replog.log.log import Log
from replog.log.offsets import Isolation
from replog.log.verify.findings import Severity
from replog.log.verify.log_directory import verify_log_directory
from replog.log.verify.partition import Options
from replog.log.verify.segment import Totals
from spark_jobs.audit.audit import audit
from spark_jobs.audit.findings import CONSISTENT, DIVERGED
from tests.audit.replica_files import index_entries, set_index_entry
from tests.interop.cluster import KILLED, TOPICS, Load, running
from tests.interop.kafka import Kafka
from tests.replog.log.batches import config

pytestmark = [
    pytest.mark.processes,
    pytest.mark.spark,
    pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]

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
    found = []
    batches = headers(log)
    for slot, (timestamp, relative) in enumerate(index_entries(log.with_suffix(".timeindex"))):
        for before, batch in itertools.pairwise(batches):
            if batch.base_offset <= relative + int(log.stem) < batch.last_offset and before.max_timestamp != timestamp:
                found.append((slot, timestamp, before, batch))
    return found


@pytest.mark.parametrize("level", ["index", "batches", "deep"])
def test_what_an_old_kafka_left_is_consistent(spark: SparkSession, left: Left, level: str) -> None:
    assert any(named_within(log) for directory in left.stopped.values() for log in logs(directory))
    result = audit(spark, left.stopped, list(TOPICS), level)
    assert (result.verdict, result.findings) == (CONSISTENT, [])


def test_log_verify_finds_no_fault_in_it(left: Left) -> None:
    for directory in (*left.stopped.values(), left.killed):
        found = list(verify_log_directory(directory, Options(deep=True), Totals()))
        assert [finding for finding in found if finding.severity is Severity.FAULT] == []


@pytest.mark.parametrize("level", ["index", "deep"])
def test_a_time_entry_for_another_batch_is_found(spark: SparkSession, left: Left, tmp_path: Path, level: str) -> None:
    copies = {number: shutil.copytree(path, tmp_path / str(number)) for number, path in left.stopped.items()}
    wrong, log = next((number, log) for number, path in copies.items() for log in logs(path) if named_within(log))
    slot, timestamp, before, _ = named_within(log)[0]
    set_index_entry(log.with_suffix(".timeindex"), slot, (timestamp, before.last_offset - int(log.stem)))
    result = audit(spark, copies, list(TOPICS), level)
    assert result.verdict == DIVERGED
    assert [(one.kind, one.wrong, one.first) for one in result.findings] == [("INDEX_LIE", wrong, before.last_offset)]


def test_its_logs_are_logs_of_ours(left: Left, tmp_path: Path) -> None:
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
