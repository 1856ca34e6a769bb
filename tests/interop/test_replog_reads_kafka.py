"""What a Kafka broker wrote, read by replog's tools, its clients' decoder, and as a log of its own."""

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest

from replog.client.records import decode_fetched
from replog.log.formats import batch as batch_format
from replog.log.formats.records import LogRecord
from replog.log.log import Log
from replog.log.offsets import Isolation
from replog.log.producers.snapshot import parse_snapshot
from replog.log_tools.dump import BatchRow, dump_file
from spark_jobs.replicas.directories import DirectoryStore
from spark_jobs.replicas.producers import producer_faults
from tests.damage.vocabulary import Damage, flipped, longer, missing, overwritten, producers, written
from tests.interop.dump import Batch, Dump, abnormal, dump, segment_files
from tests.interop.history import COMPACTED_LINES, PER_CODEC, RECORD_SIZES, TOPICS, TRANSACTIONAL, TRANSACTIONS, History
from tests.interop.our_logs import CODECS, Expected, text
from tests.replog.log.batches import config

pytestmark = pytest.mark.processes

WRITTEN_BY_KAFKA = ("codecs", "compacted", "stamped", "transactions")
END = {"codecs": 5 * PER_CODEC, "stamped": PER_CODEC, "compacted": 2 * COMPACTED_LINES}


def directory(root: Path, topic: str) -> Path:
    return root / f"{topic}-0"


def logs(root: Path, topics: Iterable[str] = WRITTEN_BY_KAFKA) -> list[Path]:
    return [path for topic in topics for path in sorted(directory(root, topic).glob("*.log"))]


@pytest.fixture(scope="module", params=["clean", "crashed"])
def root(request: pytest.FixtureRequest, history: History) -> Path:
    """The broker's directory after a stop in order, and after a crash."""
    path: Path = getattr(history, request.param)
    return path


@pytest.fixture(scope="module")
def by_kafka(history: History, root: Path) -> Dump:
    """What Kafka itself finds there."""
    files = segment_files(directory(root, topic) for topic in WRITTEN_BY_KAFKA)
    if root.name == "crashed":  # the tool takes the first zeros of an index that was made ahead for an entry
        files = [path for path in files if "index" not in path.suffix or not path.read_bytes().endswith(bytes(12))]
    dumped = dump(history.kafka, files, "--print-data-log")
    assert abnormal(dumped) == []
    assert any("followed by" in line for line in dumped.complaints), "Kafka's cleaner left no holes"
    assert any(batch.count == 0 for batches in dumped.batches.values() for batch in batches), "Kafka emptied no batch"
    return dumped


def verify(paths: Iterable[Path], *options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "replog.cli", "log", "verify", "--deep", "--format", "json", *options]
    return subprocess.run([*command, *map(str, paths)], capture_output=True, text=True, timeout=300, check=False)


def test_log_verify_finds_no_fault(root):
    """Nor in Kafka's own topics of metadata and transactions. What the crash left is looked at without the partitions
    that Kafka took over from us."""
    if root.name == "clean":
        done = verify([root])
    else:
        topics = (*WRITTEN_BY_KAFKA, "__cluster_metadata", "__transaction_state")
        done = verify([directory(root, topic) for topic in topics], "--compacted")
    findings = [json.loads(line) for line in done.stdout.splitlines()]
    assert [finding for finding in findings if finding["severity"] == "fault"] == []
    assert done.returncode == 0, done.stderr
    assert {finding["kind"] for finding in findings} <= {"LEFTOVER", "PREALLOCATED"}
    match = re.search(r"records (\d+)", done.stderr)
    assert match is not None
    assert int(match[1]) > END["codecs"] + END["stamped"]


def producer_findings(root: Path) -> list[str]:
    """What level deep of the audit says of transaction indexes and producer snapshots, in all partitions."""
    return [
        f"{fault.file} {fault.detail}"
        for files in DirectoryStore(1, root).partitions(frozenset())
        for segment in files.segments
        for fault in producer_faults(segment, files.log_start, files.high_watermark or 0)
    ]


def test_the_audit_finds_kafkas_transaction_indexes_and_snapshots_right_and_changed_ones_wrong(root, tmp_path):
    assert producer_findings(root) == []
    partition = directory(root, "transactions")
    index = next(path for path in sorted(partition.glob("*.txnindex")) if path.stat().st_size)
    snapshot = max(path for path in partition.glob("*.snapshot") if len(path.read_bytes()) > 10)
    last = parse_snapshot(snapshot.read_bytes())[-1]
    planted: list[tuple[Damage, str]] = [
        (missing(index.name), "no entry for the transaction"),
        (written(index.name), "no entry for the transaction"),
        (overwritten(index.name, 9, b"\x7f"), "no abort marker of that producer"),
        (longer(index.name, index.read_bytes()[-34:]), "comes behind offset"),
        (flipped(snapshot.name, -1), "the CRC of the producer snapshot"),
        (producers(snapshot.name, last.producer_id, epoch=last.epoch + 7), "epoch is"),
    ]
    for number, (damage, told) in enumerate(planted):
        copy = tmp_path / str(number)
        shutil.copytree(partition, copy / partition.name)
        for path in root.glob("*checkpoint"):
            shutil.copy(path, copy)
        damage(copy / partition.name)
        assert any(told in finding for finding in producer_findings(copy)), (number, producer_findings(copy))


def test_every_batch_and_record_reads_as_kafka_reads_it(root, by_kafka):
    """RB-1, RB-3, RB-4, 2.4: headers field by field; offsets, timestamps, keys, values and headers of the records."""
    for path in logs(root):
        rows = list(dump_file(path, records=True))
        assert [_batch(row) for row in rows if isinstance(row, BatchRow)] == by_kafka.batches[path]
        assert all(row.crc_valid for row in rows if isinstance(row, BatchRow))
        assert [_record(row) for row in _data(rows)] == by_kafka.records[path]


def _data(rows: Iterable[object]) -> Iterable[LogRecord]:
    control = False
    for row in rows:
        if isinstance(row, BatchRow):
            control = bool(row.header.attributes & batch_format.CONTROL)
        elif isinstance(row, LogRecord) and not control:
            yield row


def _batch(row: BatchRow) -> Batch:
    header = row.header
    return Batch(
        header.base_offset,
        header.last_offset,
        header.records_count,
        header.leader_epoch,
        header.producer_id,
        header.producer_epoch,
        header.base_sequence,
        bool(header.attributes & batch_format.TRANSACTIONAL),
        bool(header.attributes & batch_format.CONTROL),
        header.base_timestamp if header.attributes & batch_format.DELETE_HORIZON else -1,
        row.position,
        header.max_timestamp,
        header.size,
        CODECS[header.attributes & batch_format.CODEC_MASK],
        header.crc,
    )


def _record(record: LogRecord) -> Expected:
    names = ",".join(name for name, _ in record.headers)
    return Expected(record.timestamp, record.offset, names, text(record.key), text(record.value))


def test_the_clients_decoder_reads_what_kafkas_producers_sent(history):
    """2.4: the framings of Kafka's Java libraries, told apart by the sizes of their records."""
    sizes: dict[int, int] = {}
    for path in logs(history.clean, ["codecs"]):
        for record in decode_fetched(path.read_bytes(), "codecs", 0, 0).records:
            assert record.value is not None
            assert re.fullmatch(rb"[A-Z]+", record.value)
            sizes[len(record.value)] = sizes.get(len(record.value), 0) + 1
    assert sizes == dict.fromkeys(RECORD_SIZES.values(), PER_CODEC)


def test_the_latest_values_of_a_compacted_topic(history):
    latest: dict[str, str] = {}
    for path in logs(history.clean, ["compacted"]):
        for record in decode_fetched(path.read_bytes(), "compacted", 0, 0).records:
            assert [name for name, _ in record.headers] == ["number", "nothing"]
            latest[text(record.key)] = text(record.value)
    assert {key: value for key, value in latest.items() if value != "null"} == {
        key: value for key, value in history.latest.items() if value != "null"
    }


def test_kafkas_directory_is_a_log_of_ours(root, by_kafka, tmp_path):
    """Opened as after a crash, and as after an orderly stop if it was one."""
    for clean in [False, True] if root.name == "clean" else [False]:
        copy = shutil.copytree(root, tmp_path / f"{clean}", ignore=shutil.ignore_patterns("__*", "*.deleted"))
        check_logs(copy, root, by_kafka, clean=clean)


def check_logs(copy: Path, root: Path, by_kafka: Dump, *, clean: bool) -> None:
    """Indexes may be rebuilt, where ours are stricter; every byte of the log is there still, and its end, its epochs
    and its last stable offset are Kafka's."""
    for topic in WRITTEN_BY_KAFKA:
        before = b"".join(path.read_bytes() for path in logs(copy, [topic]))
        batches = [batch for path in logs(root, [topic]) for batch in by_kafka.batches[path]]
        log = _open(copy, topic, clean=clean)
        assert (log.log_start_offset, log.log_end_offset) == (0, batches[-1].last_offset + 1)
        assert log.log_end_offset == END.get(topic, log.log_end_offset)
        lines = (directory(root, topic) / "leader-epoch-checkpoint").read_text().splitlines()[2:]
        epochs = [(int(epoch), int(start)) for epoch, start in map(str.split, lines)]
        used = [entry for entry in epochs if entry[1] < log.log_end_offset]
        assert (log.lost_data, list(log.epochs.entries)) == (False, used)
        log.update_high_watermark(log.log_end_offset)
        assert b"".join(_read_all(log)) == before
        opened = batches[-1].base_offset if topic == "transactions" else log.log_end_offset
        assert log.last_stable_offset == opened
        log.close()
    done = verify([directory(copy, topic) for topic in WRITTEN_BY_KAFKA], "--compacted")
    assert done.returncode == 0, done.stdout


def _open(root: Path, topic: str, *, clean: bool) -> Log:
    settings = TOPICS[topic]
    topic_config = config(
        cleanup_policy=settings.get("cleanup.policy", "delete"),
        segment_bytes=settings["internal.segment.bytes"],
        segment_index_bytes=settings["segment.index.bytes"],
        index_interval_bytes=settings.get("index.interval.bytes", 4096),
        retention_ms=-1,
    )
    return Log.open(directory(root, topic), topic_config, clean=clean)


def _read_all(log: Log) -> Iterable[bytes]:
    offset = log.log_start_offset
    while (data := log.read(offset, 100_000, Isolation.HIGH_WATERMARK, min_one_message=True)).records:
        yield bytes(data.records)
        offset = decode_fetched(data.records, log.directory.name, 0, offset).next_offset


def test_committed_records_are_told_from_aborted_ones_by_kafkas_files(history, tmp_path):
    """PS-5, LG-9: the transaction indexes and snapshots are Kafka's."""
    root = shutil.copytree(history.clean, tmp_path / "data")
    log = _open(root, "transactions", clean=True)
    log.update_high_watermark(log.log_end_offset)
    values: list[bytes | None] = []
    offset = 0
    while (data := log.read(offset, 10_000, Isolation.TXN_COMMITTED, min_one_message=True)).records:
        fetched = decode_fetched(data.records, "transactions", 0, offset, data.aborted)
        values += [record.value for record in fetched.records]
        offset = fetched.next_offset
    log.close()
    assert [len(value or b"") for value in values[:TRANSACTIONAL]] == [100] * TRANSACTIONAL
    assert values[TRANSACTIONAL:] == [
        b"%d of %d" % (index, number) for number in range(0, TRANSACTIONS, 2) for index in range(10)
    ]
