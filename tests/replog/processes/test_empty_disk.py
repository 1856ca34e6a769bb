"""All brokers are killed, and the disk of the one that led last comes back empty: nothing is lost (CT-29, CT-30)."""

import shutil

import pytest

from replog.client import SyncAdmin, SyncConsumer, SyncProducer
from replog.local_cluster.local_cluster import LocalCluster
from tests.replog.waiting import until

pytestmark = pytest.mark.processes

RECORDS = 200


def test_an_empty_disk_waits_for_the_others_and_all_records_are_there(tmp_path, replog):
    with LocalCluster(tmp_path, brokers=3) as cluster:
        with SyncAdmin(cluster.bootstrap) as admin:
            admin.create_topic("t", assignment=[[1, 2, 3]])
        with SyncProducer(cluster.bootstrap) as producer:
            producer.send_many("t", [b"acknowledged"] * RECORDS)
        with SyncAdmin(cluster.state.brokers[0].address) as admin:
            for broker, left in ((2, (1, 3)), (3, (1,))):
                cluster.kill(broker)
                until(lambda left=left: admin.describe_topic("t").partitions[0].isr == left, f"broker {broker} left")
        cluster.kill(1)
        shutil.rmtree(cluster.data_directory(1))
        cluster.data_directory(1).mkdir()
        cluster.start(1)
        cluster.start(2)
        bootstrap = ["--bootstrap-server", cluster.state.brokers[0].address]
        if cluster.tls is not None:
            bootstrap += ["--command-config", str(cluster.client_config)]
        unclean = replog("partition", "elect", "--topic", "t", "--election-type", "unclean", *bootstrap)
        assert "broker 1: has no records" in unclean.stderr, unclean
        assert f"broker 2: up to offset {RECORDS}" in unclean.stderr, unclean
        assert "broker 3, not alive: has not said how far it goes" in unclean.stderr, unclean
        assert "broker 2 would be elected" in unclean.stderr, unclean
        cluster.start(3)
        cluster.wait_for_full_isr()
        with SyncConsumer(cluster.bootstrap, auto_offset_reset="earliest") as consumer:
            consumer.assign([("t", 0)])
            got = []
            while len(got) < RECORDS and (records := consumer.fetch(timeout_s=60)):
                got += records
        assert len(got) == RECORDS
        log = cluster.log_file(cluster.state.controller).read_text()
        assert "unclean leader elections" in log, "the log says that it was an election by evidence"
