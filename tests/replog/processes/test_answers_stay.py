"""What was answered stays so: one of every call that changes something, and after each kind of answer (of the metadata,
records, a disk's move, log starts) SIGKILL of all processes, and a start.

Every call of the contracts is in a list here, and docs/operations.md says what the answer promises of each that
changes something for clients.
"""

import asyncio
import signal
from dataclasses import dataclass
from pathlib import Path

import pytest

from replog.client import Admin, Consumer, ElectionType, Producer
from replog.common.acl import Acl, AclFilter, Operation, PatternType, Permission, ResourceType
from replog.local_cluster.local_cluster import LocalCluster
from replog.local_cluster.processes import send_signal, wait_until_stopped
from replog.metadata.values import StandingAudit
from replog.rpc import methods
from replog.rpc.limits import LIMITS
from replog.rpc.transports import client_transport
from replog.rpc.v1 import log_pb2
from replog.topic import TopicPartition
from tests.docs.tree import ROOT
from tests.replog.server.broker.conftest import eventually

READS = {
    *("Controller/WatchMetadata", "Controller/DescribeClientQuotas", "Controller/ListPartitionReassignments"),
    *("Controller/DescribePartitionChanges", "Controller/DescribeAcls", "Controller/DescribeAudit"),
    *("Controller/DescribeLogEnds", "Health/Check", "LogDirs/DescribeLogDirs", "Presence/AreYou", "Replica/Fetch"),
    *("Inspection/DescribeReplicas", "Inspection/ReadFile", "Inspection/ReadBatchHeaders", "Log/GetMetadata"),
    *("Log/Fetch", "Log/FetchOnce", "Log/ListOffsets", "Log/OffsetsForLeaderEpoch"),
}
OF_BROKERS = {  # asked by brokers alone, and durable in the same store: tests/replog/server/controller has them
    *("Controller/RegisterBroker", "Controller/Heartbeat", "Controller/AlterPartition"),
    "Controller/AllocateProducerIds",
}
AUTHORIZER = {  # nobody proves who they are here: what no ACL names is everybody's
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
}
TIMEOUT_S = 120.0
LEAVES = 4
ANN = Acl(ResourceType.TOPIC, "guarded", PatternType.LITERAL, "User:ann", "*", Operation.READ, Permission.ALLOW)
EVE = ANN._replace(principal="User:eve")
AUDIT = StandingAudit("CONSISTENT", "deep", 1, ((TopicPartition("t", 0), 7),), 1, (), 0)


CHANGES = {  # made below, each with what is asked after the start
    *("Controller/CreateTopic", "Controller/CreatePartitions", "Controller/DeleteTopic"),
    *("Controller/AlterTopicConfigs", "Controller/AlterBrokerConfigs", "Controller/AlterClientQuotas"),
    *("Controller/CreateAcls", "Controller/DeleteAcls", "Controller/ElectLeaders", "Controller/UnregisterBroker"),
    *("Controller/AlterPartitionReassignments", "Controller/ReportAudit", "Log/Produce", "Log/ProduceOnce"),
    *("Log/InitProducerId", "Log/DeleteRecords", "LogDirs/AlterReplicaLogDirs"),
}
RATE = {"leader.replication.throttled.rate": "7000000"}
QUOTA = {"producer_byte_rate": "8000000"}


def tp(topic: str) -> TopicPartition:
    return TopicPartition(topic, 0)


async def set_up(admin: Admin, bootstrap: str) -> None:
    async def fenced() -> bool:
        return {each.broker_id: each.fenced for each in (await admin.describe_cluster()).brokers}[LEAVES]

    async def none_moves() -> bool:
        return not await admin.list_partition_reassignments()

    await eventually(fenced, TIMEOUT_S, lambda: "the killed broker is fenced")
    for topic, replicas in {"elected": [2, 1, 3], "moved": [1, 2], "changed": [1, 2, 3], "written": [1, 2, 3]}.items():
        await admin.create_topic(topic, assignment=[replicas])
    for topic in ("doomed", "grown", "emptied", "carried"):
        await admin.create_topic(topic, assignment=[[1, 2, 3]])
    await admin.create_acls([EVE])
    async with Producer(bootstrap) as producer:
        await producer.send_many("emptied", [b"x"] * 10)
        await producer.send_many("carried", [b"x"] * 10)
    await admin.alter_partition_reassignments({tp("elected"): [1, 2, 3]})
    await eventually(none_moves, TIMEOUT_S, lambda: "the order of the replicas is changed")


async def take_an_id(bootstrap: str) -> int:
    channel = client_transport().connect(bootstrap.split(",")[0])
    try:
        answer = await channel.call(methods.Log["init_producer_id"], log_pb2.InitProducerIdRequest(), TIMEOUT_S)
    finally:
        await channel.close()
    return int(answer.producer_id)


@dataclass
class Answers:
    """Those that say what cannot be known before."""

    epoch: int  # of the leader that was elected
    stored: dict[int, bytes | None]  # values, by their offsets
    producer_id: int


def kill_all(cluster: LocalCluster) -> None:
    processes = [member.process for member in cluster.state.members if member.process is not None]  # 4 has ended
    for process in processes:
        send_signal(process, signal.SIGKILL)
    assert not wait_until_stopped(processes, TIMEOUT_S)


async def change_everything(admin: Admin, cluster: LocalCluster, second_disk: Path) -> Answers:
    await admin.create_topic("made", 2, 3, {"retention.ms": "5000000"})
    await admin.create_partitions("grown", 3)
    await admin.delete_topic("doomed")
    await admin.alter_topic_configs("changed", {"retention.bytes": "123456"})
    await admin.alter_broker_configs(1, RATE)
    await admin.alter_client_quotas("User:ann", QUOTA)
    await admin.create_acls([ANN])
    await admin.delete_acls([AclFilter(principal="User:eve")])
    elected = (await admin.elect_leaders(ElectionType.PREFERRED, [tp("elected")]))[tp("elected")]
    assert (elected.leader, elected.error) == (1, None)
    epoch = (await admin.describe_topic("elected")).partitions[0].leader_epoch
    await admin.report_audit(AUDIT)
    await admin.unregister_broker(LEAVES)
    kill_all(cluster)
    cluster.forget(LEAVES)
    await asyncio.to_thread(cluster.up)
    producer_id, stored = await take_an_id(cluster.bootstrap), dict[int, bytes | None]()
    async with Producer(cluster.bootstrap) as producer:
        for number in range(20):
            stored[(await (await producer.send("written", b"%d" % number))).offset] = b"%d" % number
        kill_all(cluster)
    await asyncio.to_thread(cluster.up)
    assert await admin.alter_partition_reassignments({tp("moved"): [1, 3]}) == {tp("moved"): None}
    assert await admin.alter_replica_log_dirs(1, {tp("carried"): str(second_disk)}) == {tp("carried"): None}
    kill_all(cluster)
    await asyncio.to_thread(cluster.up)
    assert await admin.delete_records({tp("emptied"): 7}) == {tp("emptied"): 7}  # others have checkpoints written
    kill_all(cluster)
    return Answers(epoch, stored, producer_id)


async def check(admin: Admin, bootstrap: str, second_disk: Path, answers: Answers) -> None:
    """Where what was answered takes time, it is waited for."""
    made = await admin.describe_topic("made")
    assert (len(made.partitions), made.configs["retention.ms"]) == (2, "5000000")
    assert len((await admin.describe_topic("grown")).partitions) == 3
    assert "doomed" not in await admin.list_topics()
    assert (await admin.describe_topic("changed")).configs["retention.bytes"] == "123456"
    brokers = {broker.broker_id: broker for broker in (await admin.describe_cluster()).brokers}
    assert LEAVES not in brokers
    assert brokers[1].configs.items() >= RATE.items()
    assert (await admin.describe_client_quotas())["User:ann"] == QUOTA
    assert await admin.describe_acls() == [ANN]
    told = await admin.describe_audit()
    assert told is not None
    assert (told.verdict, told.level, told.verified) == (AUDIT.verdict, AUDIT.level, AUDIT.verified)
    epoch = (await admin.describe_topic("elected")).partitions[0].leader_epoch
    assert epoch >= answers.epoch, "who leads after all brokers were killed is decided again"
    assert await take_an_id(bootstrap) > answers.producer_id
    read: dict[int, bytes | None] = {}
    async with Consumer(bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign([tp("written")])

        async def all_read() -> bool:
            read.update({record.offset: record.value for record in await consumer.fetch(timeout_s=1.0)})
            return len(read) >= len(answers.stored)

        await eventually(all_read, TIMEOUT_S, lambda: f"{sorted(answers.stored)} are read, not only {sorted(read)}")
    assert read == answers.stored

    async def moved() -> bool:
        return set((await admin.describe_topic("moved")).partitions[0].replicas) == {1, 3}

    async def carried() -> bool:
        directories = (await admin.describe_log_dirs([1]))[1]
        (second,) = [each for each in directories if each.log_dir == str(second_disk)]
        return tp("carried") in [partition for partition, replica in second.replicas if not replica.is_future]

    await eventually(moved, TIMEOUT_S, lambda: "the move goes on by itself")
    await eventually(carried, TIMEOUT_S, lambda: "the move between disks goes on by itself")
    earliest = (await admin.list_offsets({tp("emptied"): -2}))[tp("emptied")]
    assert earliest is not None
    assert earliest.offset == 7


def test_every_call_that_changes_something_says_what_its_answer_promises():
    page = (ROOT / "docs/operations.md").read_text()
    table = page.partition("### What an answer promises")[2].partition("\n## ")[0]
    told = {name for name in LIMITS if f"`{name.partition('/')[2]}`" in table}
    assert told == LIMITS.keys() - READS - OF_BROKERS
    assert told == CHANGES


@pytest.mark.processes
@pytest.mark.plaintext("its clients have no certificates")
def test_what_was_answered_holds_after_all_processes_are_killed(tmp_path: Path):
    second_disk = tmp_path / "broker-1/second"
    files = {
        "broker-1/broker.properties": {"log.dirs": f"{tmp_path / 'broker-1/data'},{second_disk}"},
        "controller/controller.properties": AUTHORIZER,
    }
    for name, settings in files.items():
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_text("".join(f"{setting}={value}\n" for setting, value in settings.items()))
    with LocalCluster(tmp_path, brokers=4, broker_settings=AUTHORIZER) as cluster:
        cluster.kill(LEAVES)
        answers = asyncio.run(_change_everything_and_kill(cluster, second_disk))
        cluster.up()
        asyncio.run(_check(cluster, second_disk, answers))


async def _change_everything_and_kill(cluster: LocalCluster, second_disk: Path) -> Answers:
    async with Admin(cluster.bootstrap, timeout_ms=120_000) as admin:
        await set_up(admin, cluster.bootstrap)
        return await change_everything(admin, cluster, second_disk)


async def _check(cluster: LocalCluster, second_disk: Path, answers: Answers) -> None:
    async with Admin(cluster.bootstrap, timeout_ms=120_000) as admin:
        await check(admin, cluster.bootstrap, second_disk, answers)
