"""Clusters of processes over each kind of gRPC, and of both at once."""

import pytest

from replog.chaos.client import ASSIGNED
from replog.chaos.verdict import require_same_records
from replog.client import SyncAdmin, SyncConsumer, SyncProducer
from replog.config.properties import load_properties
from replog.local_cluster.local_cluster import LocalCluster
from replog.log.files.replacing import write_atomically
from replog.rpc.grpcio.channel import GrpcTransport
from replog.rpc.http2.transport import H2Transport
from replog.rpc.transports import VARIABLE
from replog.topic import TopicPartition
from tests.replog.processes.load import load_on

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


def test_brokers_of_both_kinds_are_killed_and_copy_from_each_other_and_nothing_is_lost(tmp_path):
    """Broker 1 speaks through grpcio, 2 and 3 through h2: each follows the other kind when it is back, and leads it."""
    files = {broker: tmp_path / f"broker-{broker}" / "broker.properties" for broker in (1, 2, 3)}
    for broker, file in files.items():
        file.parent.mkdir()
        write_atomically(file, f"rpc.transport={'grpcio' if broker == 1 else 'h2'}\n".encode())
    with LocalCluster(tmp_path, brokers=3) as cluster:
        assert [load_properties(file)["rpc.transport"] for file in files.values()] == ["grpcio", "h2", "h2"]
        with load_on(cluster, tmp_path) as load:
            for broker in (1, 2):
                cluster.kill(broker)
                load.serves(f"without broker {broker}")
                cluster.start(broker)
                load.goes_on(f"broker {broker} was killed and is back")
            load.ends_honest()
        cluster.wait_for_full_isr()
    homes = [cluster.data_directory(broker) for broker in (1, 2, 3)]
    require_same_records({tp: [home / tp.directory_name for home in homes] for tp in ASSIGNED})
