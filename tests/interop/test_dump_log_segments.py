"""What replog writes, read by Kafka's own DumpLogSegments: no complaint, and the same records."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from replog.client.sync import SyncAdmin, SyncProducer
from replog.local_cluster.local_cluster import LocalCluster
from replog.log.formats.batch import iterate_batches
from tests.damage.vocabulary import flip
from tests.interop.dump import SUFFIXES, abnormal, dump, segment_files
from tests.interop.our_logs import CODECS, write_all

pytestmark = pytest.mark.processes


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Every kind of directory that `our_logs` knows."""
    return write_all(tmp_path_factory.mktemp("ours"))


def test_nothing_that_replog_writes_is_complained_of(kafka, ours):
    """Every byte of every kind of file; all records of all codecs decoded."""
    files = segment_files(ours)
    assert {path.suffix for path in files} == set(SUFFIXES)
    dumped = dump(kafka, files, "--print-data-log")
    assert abnormal(dumped) == []
    for path in files:
        if path.suffix == ".log":
            headers = [header for _, header in iterate_batches(path.read_bytes())]
            assert [(batch.base_offset, batch.last_offset, batch.count, batch.leader_epoch, batch.crc, batch.size)
                    for batch in dumped.batches[path]] == [
                (header.base_offset, header.last_offset, header.records_count, header.leader_epoch, header.crc,
                 header.size) for header in headers]  # fmt: skip
    everything = [batch for batches in dumped.batches.values() for batch in batches]
    assert {batch.codec for batch in everything} == {"none", "gzip", "snappy", "lz4", "zstd"}
    assert {batch.leader_epoch for batch in everything} == {0, 1, 2, 3, 4}
    assert any(batch.delete_horizon >= 0 for batch in everything)
    assert any(batch.control and batch.transactional for batch in everything)
    assert any("followed by" in line for line in dumped.complaints), "the compacted log has no holes"


@pytest.mark.parametrize("option", ["--index-sanity-check", "--verify-index-only"])
def test_indexes_are_as_kafka_checks_them(kafka, ours, option):
    directories = [directory for directory in ours if directory.name != "compacted-0"]
    files = [path for path in segment_files(directories) if path.suffix in (".index", ".timeindex")]
    assert len(files) > 100
    assert dump(kafka, files, option).complaints == []


def test_every_replica_of_a_cluster_is_read_without_complaint(kafka, tmp_path):
    """One broker crashed on the way and caught up. All codecs of our producer, idempotence, several leader epochs; the
    same records on all replicas, in order."""
    records = 2000  # with each codec
    with LocalCluster(tmp_path / "cluster", brokers=3).up() as cluster:
        with SyncAdmin(cluster.bootstrap) as admin:
            configs = {"segment.bytes": "40000", "index.interval.bytes": "500"}
            admin.create_topic("numbers", partitions=1, configs=configs)
        for number, codec in enumerate(CODECS):
            if number == 2:
                cluster.kill(3)
            if number == 4:
                cluster.start(3)
            with SyncProducer(cluster.bootstrap, compression=codec, batch_size=3000) as producer:
                producer.send_many("numbers", [b"%s number %d" % (codec.encode(), n) for n in range(records)], b"key")
        cluster.wait_for_full_isr("numbers")
        replicas = [cluster.data_directory(broker) / "numbers-0" for broker in (1, 2, 3)]
        assert cluster.down() == []
    files = segment_files(replicas)
    assert {path.suffix for path in files} == set(SUFFIXES) - {".txnindex"}
    dumped = dump(kafka, files, "--print-data-log")
    assert dumped.complaints == []
    sent = [f"{codec} number {number}" for codec in CODECS for number in range(records)]
    for replica in replicas:
        logs = sorted(replica.glob("*.log"))
        assert len(logs) > 2
        assert [record.value for log in logs for record in dumped.records[log]] == sent
        batches = [batch for log in logs for batch in dumped.batches[log]]
        assert {batch.codec for batch in batches} == set(CODECS)
        assert all(batch.producer_id >= 0 for batch in batches)
    sanity = [path for path in files if path.suffix in (".index", ".timeindex")]
    assert dump(kafka, sanity, "--index-sanity-check").complaints == []


# -- the proof that a complaint would have been heard


def take_out_a_batch(path: Path) -> None:
    data = path.read_bytes()
    position, header = list(iterate_batches(data))[4]
    path.write_bytes(data[:position] + data[position + header.size :])


DAMAGES: dict[str, tuple[str, str, Callable[[Path], object], str]] = {
    "a bit of a payload": ("codecs-0", ".log", lambda path: flip(path, path.stat().st_size - 5), "isvalid: false"),
    "a batch that is missing": ("codecs-0", ".log", take_out_a_batch, "Non-consecutive offsets in"),
    "an offset index that lies": ("codecs-0", ".index", lambda path: flip(path, 3), "Mismatches in"),
    "a time index that lies": ("codecs-0", ".timeindex", lambda path: flip(path, 7), "Found timestamp mismatch in"),
    "a snapshot with a flipped bit": ("transactions-0", ".snapshot", lambda path: flip(path, 20), "corrupt"),
    "a version unknown in a transaction index": ("transactions-0", ".txnindex", lambda path: flip(path, 0), "version"),
    "an offset index with half an entry": (
        "codecs-0", ".index", lambda path: path.write_bytes(path.read_bytes()[:-3]), "CorruptIndexException",
    ),
    "a time index with half an entry": (
        "codecs-0", ".timeindex", lambda path: path.write_bytes(path.read_bytes()[:-3]), "CorruptIndexException",
    ),
}  # fmt: skip


@pytest.mark.parametrize("damage", DAMAGES)
def test_damage_is_complained_of(kafka, ours, tmp_path, damage):
    name, suffix, change, complaint = DAMAGES[damage]
    (original,) = (directory for directory in ours if directory.name == name)
    copy = shutil.copytree(original, tmp_path / name)
    victim = next(path for path in segment_files([copy]) if path.suffix == suffix and path.stat().st_size > 40)
    options = ["--index-sanity-check"] if "half" in damage else ["--deep-iteration"]
    change(victim)
    complaints = dump(kafka, [victim], *options).complaints
    assert complaint in "\n".join(complaints), complaints
