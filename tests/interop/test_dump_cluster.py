"""What a cluster of real replog processes leaves on its disks, read by Kafka's own DumpLogSegments."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from replog.client.sync import SyncAdmin, SyncProducer
from replog.local_cluster.local_cluster import LocalCluster
from tests.interop.dump import SUFFIXES, dump, segment_files
from tests.interop.kafka import Kafka
from tests.interop.our_logs import CODECS

pytestmark = pytest.mark.processes

RECORDS = 2000  # with each codec


@pytest.fixture
def replicas(kafka: Kafka, tmp_path: Path) -> Iterator[list[Path]]:
    """The partition's directory on each of three brokers, stopped; one of them crashed on the way and caught up."""
    with LocalCluster(tmp_path / "cluster", brokers=3).up() as cluster:
        with SyncAdmin(cluster.bootstrap) as admin:
            admin.create_topic(
                "numbers", partitions=1, configs={"segment.bytes": "40000", "index.interval.bytes": "500"}
            )
        for number, codec in enumerate(CODECS):
            if number == 2:
                cluster.kill(3)
            if number == 4:
                cluster.start(3)
            with SyncProducer(cluster.bootstrap, compression=codec, batch_size=3000) as producer:
                producer.send_many("numbers", [b"%s number %d" % (codec.encode(), n) for n in range(RECORDS)], b"key")
        cluster.wait_for_full_isr("numbers")
        directories = [cluster.data_directory(broker) / "numbers-0" for broker in (1, 2, 3)]
        assert cluster.down() == []
        yield directories


def test_every_replica_is_read_without_complaint(kafka, replicas):
    """All codecs of our producer, idempotence, several leader epochs; the same records on all replicas, in order."""
    files = segment_files(replicas)
    assert {path.suffix for path in files} == set(SUFFIXES) - {".txnindex"}
    dumped = dump(kafka, files, "--print-data-log")
    assert dumped.complaints == []
    sent = [f"{codec} number {number}" for codec in CODECS for number in range(RECORDS)]
    for replica in replicas:
        logs = sorted(replica.glob("*.log"))
        assert len(logs) > 2
        assert [record.value for log in logs for record in dumped.records[log]] == sent
        batches = [batch for log in logs for batch in dumped.batches[log]]
        assert {batch.codec for batch in batches} == set(CODECS)
        assert all(batch.producer_id >= 0 for batch in batches)
    sanity = [path for path in files if path.suffix in (".index", ".timeindex")]
    assert dump(kafka, sanity, "--index-sanity-check").complaints == []
