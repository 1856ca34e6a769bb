"""Clusters of processes over each kind of gRPC, and of both at once."""

import pytest

from replog.client import SyncAdmin, SyncConsumer, SyncProducer
from replog.local_cluster.local_cluster import LocalCluster
from replog.rpc.grpcio.channel import GrpcTransport
from replog.rpc.http2.transport import H2Transport
from replog.rpc.transports import VARIABLE
from replog.topic import TopicPartition

pytestmark = pytest.mark.processes

RECORDS = 100
LARGE = 900_000


def test_brokers_and_clients_of_both_kinds_make_one_cluster(tmp_path, monkeypatch):
    monkeypatch.setenv(VARIABLE, "h2")
    with LocalCluster(tmp_path, brokers=3) as cluster:
        cluster.kill(2)
        monkeypatch.setenv(VARIABLE, "grpcio")
        cluster.up()
        with SyncAdmin(cluster.bootstrap) as admin:
            admin.create_topic("t", partitions=3, replication_factor=3)
        cluster.wait_for_full_isr("t")
        sent = {}
        for transport in (GrpcTransport(cluster.tls), H2Transport(cluster.tls)):
            with SyncProducer(cluster.bootstrap, transport=transport) as producer:
                values = [b"%s %d" % (type(transport).__name__.encode(), number) for number in range(RECORDS)]
                values.append(values[0][:1] * LARGE)
                for value, placed in zip(values, producer.send_many("t", values), strict=True):
                    sent[placed.partition, placed.offset] = value
        assert len(sent) == 2 * (RECORDS + 1)
        for transport in (GrpcTransport(cluster.tls), H2Transport(cluster.tls)):
            with SyncConsumer(cluster.bootstrap, transport=transport) as consumer:
                partitions = [TopicPartition("t", number) for number in range(3)]
                consumer.assign(partitions)
                for partition in partitions:
                    consumer.seek(partition, 0)
                read = {}
                while len(read) < len(sent):
                    for record in consumer.fetch(timeout_s=60):
                        read[record.partition, record.offset] = record.value
                assert read == sent
