"""What a broker and a controller show to Prometheus: the values move when the thing happens."""

import asyncio
import shutil
from dataclasses import replace

from prometheus_client.core import Metric

from replog.client import Consumer
from replog.errors import ErrorCode
from replog.log.errors import LogStorageError
from replog.metadata.values import StandingAudit
from replog.rpc.peer import anonymous
from replog.server.broker.context import DAMAGE
from replog.server.controller.metrics import controller_metrics
from replog.topic import TopicPartition
from tests.damage.vocabulary import flip
from tests.replog.server.broker.conftest import InProcessCluster, batch, eventually

TP, NO_TOPIC = TopicPartition("t", 0), TopicPartition("none", 0)
PREFIX = "kafka_server_"
ERRORS = "kafka_network_requestmetrics_errors_total"


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
    await cluster.begin(2, **{"flush.messages": "1"})
    records = batch(b"one", b"two")
    assert (await cluster.produce(TP, records))[0] is ErrorCode.NONE
    now = await shown(cluster, cluster.leader(TP))
    for labels in ("", ",topic=t"):
        assert now[f"{PREFIX}brokertopicmetrics_messagesin_total{labels}"] == 2
        assert now[f"{PREFIX}brokertopicmetrics_bytesin_total{labels}"] == len(records)
        assert now[f"{PREFIX}brokertopicmetrics_replicationbytesout_total{labels}"] == len(records)
    assert now[f"{PREFIX}brokertopicmetrics_totalproducerequests_total,topic=t"] == 1
    assert now[f"{PREFIX}brokertopicmetrics_totalfetchrequests_total,topic=t"] >= 1
    assert now["kafka_network_requestmetrics_totaltimems_count,request=Produce"] == 1
    assert now["kafka_network_requestmetrics_totaltimems,quantile=0.5,request=Produce"] > 0
    assert now["kafka_log_logflushstats_logflushrateandtimems_count"] >= 1
    assert now["kafka_log_logflushstats_logflushrateandtimems,quantile=0.99"] > 0
    assert 0 < now["replog_open_log_files"] <= now["replog_open_log_files_limit"]
    log = cluster.log(cluster.leader(TP), TP)
    for name, value in {"log_size": log.size, "log_logstartoffset": 0, "log_logendoffset": 2}.items():
        assert now[f"kafka_log_{name},partition=0,topic=t"] == value
    follower = await shown(cluster, 3 - cluster.leader(TP))
    assert follower[f"{PREFIX}brokertopicmetrics_replicationbytesin_total"] == len(records)
    assert follower[f"{PREFIX}brokertopicmetrics_bytesin_total"] == 0
    leader = cluster.leader(TP)
    await cluster.delete_topic("t")
    await eventually(lambda: "t" not in cluster.brokers[leader].manager.context.image.topics)
    now = await shown(cluster, leader)
    assert now[f"{PREFIX}brokertopicmetrics_messagesin_total"] == 2, "the sum keeps what a deleted topic had"
    assert f"{PREFIX}brokertopicmetrics_messagesin_total,topic=t" not in now


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
    assert now[f"{PREFIX}brokertopicmetrics_totalproducerequests_total"] == 2
    assert now[f"{PREFIX}brokertopicmetrics_failedfetchrequests_total"] == 0
    assert now[f"{ERRORS},error=CORRUPT_MESSAGE,request=Produce"] == 1
    assert now["kafka_network_requestmetrics_totaltimems_count,request=FetchConsumer"] >= 1


async def test_a_produce_that_cannot_be_known_to_be_safe_in_time_has_failed(cluster):
    await cluster.begin(2, brokers={"replica_lag_time_max_ms": 60_000})
    cluster.brokers[3 - cluster.leader(TP)]._fetchers.stop(TP)
    assert (await cluster.produce(TP, batch(b"x"), timeout_ms=1))[0] is ErrorCode.REQUEST_TIMED_OUT
    now = await shown(cluster, cluster.leader(TP))
    assert now[f"{PREFIX}brokertopicmetrics_failedproducerequests_total,topic=t"] == 1
    assert now[f"{ERRORS},error=REQUEST_TIMED_OUT,request=Produce"] == 1


async def test_errors_of_fetches_are_counted_and_topics_that_there_are_not_take_no_memory(cluster):
    await cluster.begin(1)
    for tp, error in ((TP, ErrorCode.OFFSET_OUT_OF_RANGE), (NO_TOPIC, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)):
        answer, _ = await cluster.fetch(tp, 7, cluster.any_channel())
        assert ErrorCode(answer.error_code) is error
    now = await shown(cluster, 1)
    assert now[f"{PREFIX}brokertopicmetrics_failedfetchrequests_total,topic=t"] == 1
    for error in ("OFFSET_OUT_OF_RANGE", "UNKNOWN_TOPIC_OR_PARTITION"):
        assert now[f"{ERRORS},error={error},request=FetchConsumer"] == 1
    assert NO_TOPIC.topic not in cluster.brokers[1].manager.context.traffic.topics


async def test_fetches_that_wait_are_in_the_purgatory(cluster):
    await cluster.begin(1)
    waits = asyncio.create_task(cluster.fetch(TP, 0, max_wait_ms=20_000))

    async def waiting(count: int) -> bool:
        now = await shown(cluster, 1)
        return now[f"{PREFIX}delayedoperationpurgatory_purgatorysize,delayedOperation=Fetch"] == count

    await eventually(lambda: waiting(1))
    await cluster.produce(TP, batch(b"x"))
    await waits
    assert await waiting(0)


async def damage(cluster: InProcessCluster, broker_id: int) -> dict[str, float]:
    now = await shown(cluster, broker_id)
    return {name.rpartition("=")[2]: value for name, value in now.items() if name.startswith("replog_damage_total")}


async def test_damage_is_counted_by_where_it_is_met(cluster):
    await cluster.start_brokers(1, 2)
    await cluster.create_topic("t", replication_factor=1)
    for _ in range(6):
        await cluster.produce(TP, batch(b"x" * 5000))
    leader, path, size = (
        cluster.leader(TP),
        cluster.log(cluster.leader(TP), TP).segments[0].path,
        len(batch(b"x" * 5000)),
    )
    assert await damage(cluster, leader) == dict.fromkeys(DAMAGE, 0)
    await cluster.stop_broker(leader)
    flip(path, size + 16)  # the second batch is of no version that there is
    await cluster.start_broker(leader)
    await cluster.led(TP)
    answer, _ = await cluster.fetch(TP, 1)
    assert ErrorCode(answer.error_code) is ErrorCode.CORRUPT_MESSAGE
    assert await damage(cluster, leader) == dict.fromkeys(DAMAGE, 0) | {"read": 1}
    flip(path, size + 16)
    flip(path, size + 500)  # a byte of its record, which leaders do not look at, but followers do
    async with cluster.admin() as admin:
        await admin.alter_partition_reassignments({TP: [leader, 3 - leader]})
    async with asyncio.timeout(60):
        while not (await damage(cluster, 3 - leader))["replication"]:
            await asyncio.sleep(0.01)
    await cluster.stop_broker(leader)
    flip(path, 6 * size - 1)  # the end is looked at by every start
    await cluster.start_broker(leader)
    assert (await damage(cluster, leader))["recovery"] == 1


async def test_log_directories_have_their_room_and_tell_when_they_fail(cluster):
    broker = await cluster.start_broker(1)
    (directory,) = broker.config.log_dirs
    now = await shown(cluster, 1)
    assert now[f"replog_directory_free_bytes,directory={directory}"] > 0
    assert now[f"replog_directory_free_bytes,directory={directory}"] <= shutil.disk_usage(directory).total
    assert now["kafka_log_logmanager_offlinelogdirectorycount"] == 0
    broker.logs.directories[0].take_offline(LogStorageError("a test"))
    now = await shown(cluster, 1)
    assert now["kafka_log_logmanager_offlinelogdirectorycount"] == 1
    assert now[f"kafka_log_logmanager_logdirectoryoffline,logDirectory={directory}"] == 1


async def test_a_dead_follower_makes_partitions_under_replicated_and_its_return_heals_them(cluster):
    await cluster.begin(2, brokers={"replica_lag_time_max_ms": 500}, **{"min.insync.replicas": "2"})
    now = await shown(cluster, cluster.leader(TP))
    assert now[f"{PREFIX}replicamanager_underreplicatedpartitions"] == 0
    assert now[f"{PREFIX}replicamanager_atminisrpartitioncount"] == 1
    assert now[f"{PREFIX}replicamanager_leadercount"] == now[f"{PREFIX}replicamanager_partitioncount"] == 1
    leader = cluster.leader(TP)
    await cluster.crash_broker(3 - leader)
    await eventually(lambda: len(cluster.isr(TP)) == 1)
    await eventually(lambda: len(cluster.brokers[leader].manager.replicas.hosted[TP].leader.state.isr) == 1)
    now = await shown(cluster, leader)
    assert now[f"{PREFIX}replicamanager_underreplicatedpartitions"] == 1
    assert now[f"{PREFIX}replicamanager_underminisrpartitioncount"] == 1
    assert now["kafka_cluster_partition_underreplicated,partition=0,topic=t"] == 1
    await cluster.start_broker(3 - leader)
    await eventually(lambda: len(cluster.brokers[leader].manager.replicas.hosted[TP].leader.state.isr) == 2)
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
    await eventually(lambda: len(cluster.brokers[leader].manager.replicas.hosted[TP].leader.replicas) == 2)
    now = await shown(cluster, leader)
    assert now[f"{PREFIX}replicamanager_reassigningpartitions"] == 1
    assert now[f"{PREFIX}replicamanager_underreplicatedpartitions"] == 0
    assert now["kafka_cluster_partition_underreplicated,partition=0,topic=t"] == 0
    assert now["kafka_cluster_partition_replicascount,partition=0,topic=t"] == 2


async def test_a_controller_shows_the_cluster(cluster):
    await cluster.begin(2)
    prefix = "kafka_controller_kafkacontroller_"

    async def of_controller() -> dict[str, float]:
        return values(await controller_metrics(cluster.controller))

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
    assert not any("audit" in name for name in values(await controller_metrics(cluster.controller)))
    audit = StandingAudit("CONSISTENT", "deep", 5_000, (), 3, (), 0)
    async with cluster.admin() as admin:
        await admin.report_audit(audit)
        await admin.report_audit(
            replace(audit, verdict="DIVERGED", at_ms=9_000, diverged=("t-0",), diverged_partitions=1)
        )
    now = values(await controller_metrics(cluster.controller))
    assert {name: value for name, value in now.items() if "audit" in name} == {
        "replog_audit_last_verdict,verdict=CONSISTENT": 0,
        "replog_audit_last_verdict,verdict=DIVERGED": 1,
        "replog_audit_last_verdict,verdict=INCONCLUSIVE": 0,
        "replog_audit_last_success_timestamp_seconds": 5,
        "replog_audit_last_timestamp_seconds": 9,
        "replog_audit_diverged_partitions": 1,
        "replog_audit_compared_partitions": 3,
    }
