"""What a broker and a controller show to Prometheus: the values move when the thing happens."""

from dataclasses import replace

import pytest
from prometheus_client.core import Metric

from replog.client import Consumer
from replog.errors import ErrorCode
from replog.metadata.standing_audit import StandingAudit
from replog.rpc.peer import anonymous
from replog.server.controller.metrics import controller_metrics
from replog.topic import TopicPartition
from tests.replog.server.broker.conftest import InProcessCluster, batch, eventually

TP = TopicPartition("t", 0)
PREFIX = "kafka_server_"


def values(families: list[Metric]) -> dict[str, float]:
    """By name, with labels behind it."""
    return {
        sample.name + "".join(f",{name}={value}" for name, value in sorted(sample.labels.items())): sample.value
        for family in families
        for sample in family.samples
    }


async def shown(cluster: InProcessCluster, broker_id: int) -> dict[str, float]:
    return values(await cluster.brokers[broker_id].metrics(anonymous("127.0.0.1")))


async def test_what_producers_send_is_counted_by_topic_and_in_all(cluster):
    await cluster.begin(2)
    records = batch(b"one", b"two")
    assert (await cluster.produce(TP, records))[0] is ErrorCode.NONE
    now = await shown(cluster, cluster.leader(TP))
    for labels in ("", ",topic=t"):
        assert now[f"{PREFIX}brokertopicmetrics_messagesin_total{labels}"] == 2
        assert now[f"{PREFIX}brokertopicmetrics_bytesin_total{labels}"] == len(records)
        assert now[f"{PREFIX}brokertopicmetrics_replicationbytesout_total{labels}"] == len(records)
    assert now["kafka_network_requestmetrics_totaltimems_count,request=Produce"] == 1
    assert now["kafka_network_requestmetrics_totaltimems,quantile=0.5,request=Produce"] > 0
    follower = await shown(cluster, 3 - cluster.leader(TP))
    assert follower[f"{PREFIX}brokertopicmetrics_replicationbytesin_total"] == len(records)
    assert follower[f"{PREFIX}brokertopicmetrics_bytesin_total"] == 0


async def test_what_consumers_take_and_what_is_refused_is_counted(cluster):
    await cluster.begin(1)
    await cluster.produce(TP, batch(b"x"))
    assert (await cluster.produce(TP, b"no batch"))[0] is not ErrorCode.NONE
    async with Consumer(cluster.brokers[1].address) as consumer:
        consumer.assign([TP])
        consumer.seek(TP, 0)
        await consumer.fetch()
    now = await shown(cluster, 1)
    assert now[f"{PREFIX}brokertopicmetrics_bytesout_total"] == len(batch(b"x"))
    assert now[f"{PREFIX}brokertopicmetrics_failedproducerequests_total"] == 1
    assert now["kafka_network_requestmetrics_totaltimems_count,request=FetchConsumer"] >= 1


async def test_a_dead_follower_makes_partitions_under_replicated_and_its_return_heals_them(cluster):
    await cluster.begin(2, brokers={"replica_lag_time_max_ms": 500}, **{"min.insync.replicas": "2"})
    now = await shown(cluster, cluster.leader(TP))
    assert now[f"{PREFIX}replicamanager_underreplicatedpartitions"] == 0
    assert now[f"{PREFIX}replicamanager_atminisrpartitioncount"] == 1
    assert now[f"{PREFIX}replicamanager_leadercount"] == now[f"{PREFIX}replicamanager_partitioncount"] == 1
    leader = cluster.leader(TP)
    await cluster.crash_broker(3 - leader)
    await eventually(lambda: len(cluster.isr(TP)) == 1)
    await eventually(lambda: len(cluster.brokers[leader].manager.hosted[TP].leader.isr) == 1)
    now = await shown(cluster, leader)
    assert now[f"{PREFIX}replicamanager_underreplicatedpartitions"] == 1
    assert now[f"{PREFIX}replicamanager_underminisrpartitioncount"] == 1
    assert now["kafka_cluster_partition_underreplicated,partition=0,topic=t"] == 1
    await cluster.start_broker(3 - leader)
    await eventually(lambda: len(cluster.brokers[leader].manager.hosted[TP].leader.isr) == 2)
    now = await shown(cluster, leader)
    assert now[f"{PREFIX}replicamanager_underreplicatedpartitions"] == 0
    assert now[f"{PREFIX}replicamanager_isrexpands_total"] == 1


async def test_a_replica_that_a_move_is_adding_makes_nothing_under_replicated(cluster):
    await cluster.begin(2)
    await cluster.start_broker(3)
    await cluster.crash_broker(3)
    async with cluster.admin() as admin:
        await admin.alter_partition_reassignments({TP: [1, 2, 3]})
    leader = cluster.leader(TP)
    await eventually(lambda: len(cluster.brokers[leader].manager.hosted[TP].leader.replicas) == 2)
    now = await shown(cluster, leader)
    assert now[f"{PREFIX}replicamanager_reassigningpartitions"] == 1
    assert now[f"{PREFIX}replicamanager_underreplicatedpartitions"] == 0
    assert now["kafka_cluster_partition_underreplicated,partition=0,topic=t"] == 0
    assert now["kafka_cluster_partition_replicascount,partition=0,topic=t"] == 2


async def test_counters_of_a_deleted_topic_go_on_in_the_sum(cluster):
    await cluster.begin(1)
    await cluster.produce(TP, batch(b"x"))
    async with cluster.admin() as admin:
        await admin.delete_topic("t")
    await eventually(lambda: "t" not in cluster.brokers[1].manager.image.topics)
    now = await shown(cluster, 1)
    assert now[f"{PREFIX}brokertopicmetrics_messagesin_total"] == 1
    assert f"{PREFIX}brokertopicmetrics_messagesin_total,topic=t" not in now


async def test_a_controller_shows_the_cluster(cluster):
    await cluster.begin(2)
    prefix = "kafka_controller_kafkacontroller_"

    async def of_controller() -> dict[str, float]:
        return values(await controller_metrics(cluster.controller, decides=True))

    now = await of_controller()
    assert now[f"{prefix}activecontrollercount"] == now[f"{prefix}globaltopiccount"] == 1
    assert now[f"{prefix}activebrokercount"] == 2
    assert now[f"{prefix}offlinepartitionscount"] == now[f"{prefix}fencedbrokercount"] == 0
    for broker_id in (1, 2):
        await cluster.crash_broker(broker_id)
    await eventually(lambda: not any(b.active for b in cluster.controller.state.image.brokers.values()))
    now = await of_controller()
    assert now[f"{prefix}offlinepartitionscount"] == 1
    assert now[f"{prefix}fencedbrokercount"] == 2


async def test_a_controller_shows_what_an_audit_said_last(cluster):
    await cluster.begin(1)
    assert not any("audit" in name for name in values(await controller_metrics(cluster.controller, decides=True)))
    audit = StandingAudit("CONSISTENT", "deep", 5_000, (), 3, (), 0)
    async with cluster.admin() as admin:
        await admin.report_audit(audit)
        await admin.report_audit(
            replace(audit, verdict="DIVERGED", at_ms=9_000, diverged=("t-0",), diverged_partitions=1)
        )
    now = values(await controller_metrics(cluster.controller, decides=True))
    assert {name: value for name, value in now.items() if "audit" in name} == {
        "replog_audit_last_verdict,verdict=CONSISTENT": 0,
        "replog_audit_last_verdict,verdict=DIVERGED": 1,
        "replog_audit_last_verdict,verdict=INCONCLUSIVE": 0,
        "replog_audit_last_success_timestamp_seconds": 5,
        "replog_audit_last_timestamp_seconds": 9,
        "replog_audit_diverged_partitions": 1,
        "replog_audit_compared_partitions": 3,
    }


@pytest.mark.parametrize("name", ["log_size", "log_logstartoffset", "log_logendoffset"])
async def test_each_replica_has_its_size_and_its_ends(cluster, name):
    await cluster.begin(1)
    await cluster.produce(TP, batch(b"x"))
    now = await shown(cluster, 1)
    log = cluster.log(1, TP)
    expected = {
        "log_size": log.size,
        "log_logstartoffset": 0,
        "log_logendoffset": 1,
    }[name]
    assert now[f"kafka_log_{name},partition=0,topic=t"] == expected


async def test_flushes_are_timed(cluster):
    await cluster.begin(1, **{"flush.messages": "1"})
    await cluster.produce(TP, batch(b"x"))
    now = await shown(cluster, 1)
    assert now["kafka_log_logflushstats_logflushrateandtimems_count"] >= 1
    assert now["kafka_log_logflushstats_logflushrateandtimems,quantile=0.99"] > 0
    assert 0 < now["replog_open_log_files"] <= now["replog_open_log_files_limit"]
