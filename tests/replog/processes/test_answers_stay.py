"""What was answered stays so: one of every call that changes something, then SIGKILL of all processes, and a start.

Every call of the contracts is in a list here, and docs/operations.md says what the answer promises of each that
changes something for clients.
"""

import asyncio
import signal
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

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
from replog.server.controller.sqlite_store import SqliteStore
from replog.topic import TopicPartition
from tests.docs.tree import ROOT

READS = {
    "Controller/WatchMetadata",
    "Controller/DescribeClientQuotas",
    "Controller/ListPartitionReassignments",
    "Controller/DescribePartitionChanges",
    "Controller/DescribeAcls",
    "Controller/DescribeAudit",
    "Controller/DescribeLogEnds",
    "Health/Check",
    "Health/List",
    "Health/Watch",
    "Inspection/DescribeReplicas",
    "Inspection/ReadFile",
    "Inspection/ReadBatchHeaders",
    "Log/Fetch",
    "Log/FetchOnce",
    "Log/ListOffsets",
    "Log/OffsetsForLeaderEpoch",
    "Log/GetMetadata",
    "LogDirs/DescribeLogDirs",
    "Presence/AreYou",
    "Replica/Fetch",
    "ServerReflection/ServerReflectionInfo",
}
OF_BROKERS = {  # asked by brokers alone, and durable in the same store: tests/replog/server/controller has them
    "Controller/RegisterBroker",
    "Controller/Heartbeat",
    "Controller/AlterPartition",
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


@dataclass
class World:
    cluster: LocalCluster
    admin: Admin
    second_disk: Path


@dataclass
class Promise:
    """`holds` raises unless what `change` answered is so; where that takes time, it waits."""

    calls: set[str]
    change: Callable[[World], Awaitable[Any]]
    holds: Callable[[World, Any], Awaitable[None]]


async def eventually(true: Callable[[], Awaitable[bool]], what: str) -> None:
    try:
        async with asyncio.timeout(TIMEOUT_S):
            while not await true():
                await asyncio.sleep(0.1)
    except TimeoutError:
        raise AssertionError(f"not within {TIMEOUT_S:g} s: {what}") from None


def tp(topic: str) -> TopicPartition:
    return TopicPartition(topic, 0)


async def set_up(world: World) -> None:
    admin = world.admin
    await eventually(lambda: is_in_state(admin, LEAVES, "fenced"), "the killed broker is fenced")
    for topic, replicas in {"elected": [2, 1, 3], "moved": [1, 2], "changed": [1, 2, 3], "written": [1, 2, 3]}.items():
        await admin.create_topic(topic, assignment=[replicas])
    for topic in ("doomed", "grown", "emptied", "carried"):
        await admin.create_topic(topic, assignment=[[1, 2, 3]])
    await admin.create_acls([EVE])
    async with Producer(world.cluster.bootstrap) as producer:
        await producer.send_many("emptied", [b"x"] * 10)
        await producer.send_many("carried", [b"x"] * 10)
    await admin.alter_partition_reassignments({tp("elected"): [1, 2, 3]})
    await eventually(lambda: none_moves(admin), "the order of the replicas is changed")


async def is_in_state(admin: Admin, broker_id: int, state: str) -> bool:
    return {broker.broker_id: broker.state for broker in (await admin.describe_cluster()).brokers}[broker_id] == state


async def none_moves(admin: Admin) -> bool:
    return not await admin.list_partition_reassignments()


async def create_topic(world: World) -> None:
    await world.admin.create_topic("made", 2, 3, {"retention.ms": "5000000"})


async def topic_is_there(world: World, _: None) -> None:
    made = await world.admin.describe_topic("made")
    assert (len(made.partitions), made.configs["retention.ms"]) == (2, "5000000")


async def create_partitions(world: World) -> None:
    await world.admin.create_partitions("grown", 3)


async def topic_has_grown(world: World, _: None) -> None:
    assert len((await world.admin.describe_topic("grown")).partitions) == 3


async def delete_topic(world: World) -> None:
    await world.admin.delete_topic("doomed")


async def topic_is_gone(world: World, _: None) -> None:
    assert "doomed" not in await world.admin.list_topics()


async def alter_settings(world: World) -> None:
    await world.admin.alter_topic_configs("changed", {"retention.bytes": "123456"})
    await world.admin.alter_broker_configs(1, {"leader.replication.throttled.rate": "7000000"})
    await world.admin.alter_client_quotas("User:ann", {"producer_byte_rate": "8000000"})


async def settings_are_altered(world: World, _: None) -> None:
    assert (await world.admin.describe_topic("changed")).configs["retention.bytes"] == "123456"
    brokers = {broker.broker_id: broker for broker in (await world.admin.describe_cluster()).brokers}
    assert brokers[1].configs["leader.replication.throttled.rate"] == "7000000"
    assert (await world.admin.describe_client_quotas())["User:ann"] == {"producer_byte_rate": "8000000"}


async def alter_acls(world: World) -> None:
    await world.admin.create_acls([ANN])
    await world.admin.delete_acls([AclFilter(principal="User:eve")])


async def acls_are_altered(world: World, _: None) -> None:
    assert await world.admin.describe_acls() == [ANN]


async def elect(world: World) -> int:
    answer = (await world.admin.elect_leaders(ElectionType.PREFERRED, [tp("elected")]))[tp("elected")]
    assert (answer.leader, answer.error) == (1, None)
    return (await world.admin.describe_topic("elected")).partitions[0].leader_epoch


async def election_was_held(world: World, epoch: int) -> None:
    """Who leads after all brokers were killed is decided again."""
    assert (await world.admin.describe_topic("elected")).partitions[0].leader_epoch >= epoch


async def move(world: World) -> None:
    assert await world.admin.alter_partition_reassignments({tp("moved"): [1, 3]}) == {tp("moved"): None}


async def replicas_are_moved(world: World, _: None) -> None:
    async def done() -> bool:
        return set((await world.admin.describe_topic("moved")).partitions[0].replicas) == {1, 3}

    await eventually(done, "the move goes on by itself")


async def forget_a_broker(world: World) -> None:
    await world.admin.unregister_broker(LEAVES)


async def broker_is_forgotten(world: World, _: None) -> None:
    """Asked of the store, since a start of the whole cluster registers that broker again."""


async def report(world: World) -> None:
    await world.admin.report_audit(AUDIT)


async def report_is_there(world: World, _: None) -> None:
    told = await world.admin.describe_audit()
    assert told is not None
    assert (told.verdict, told.level, told.verified) == (AUDIT.verdict, AUDIT.level, AUDIT.verified)


async def write(world: World) -> dict[int, bytes | None]:
    stored: dict[int, bytes | None] = {}
    async with Producer(world.cluster.bootstrap) as producer:
        for number in range(20):
            stored[(await (await producer.send("written", b"%d" % number))).offset] = b"%d" % number
    return stored


async def records_are_there(world: World, stored: dict[int, bytes | None]) -> None:
    async with Consumer(world.cluster.bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign([tp("written")])
        read: dict[int, bytes | None] = {}

        async def all_read() -> bool:
            read.update({record.offset: record.value for record in await consumer.fetch(timeout_s=1.0)})
            return len(read) >= len(stored)

        await eventually(all_read, f"{sorted(stored)} are read, not only {sorted(read)}")
    assert read == stored


async def take_an_id(world: World) -> int:
    transport = client_transport()
    channel = transport.connect(world.cluster.bootstrap.split(",")[0])
    try:
        answer = await channel.call(methods.Log["init_producer_id"], log_pb2.InitProducerIdRequest(), TIMEOUT_S)
    finally:
        await channel.close()
    return int(answer.producer_id)


async def no_id_is_given_twice(world: World, given: int) -> None:
    assert await take_an_id(world) > given


async def delete_records(world: World) -> None:
    assert await world.admin.delete_records({tp("emptied"): 7}) == {tp("emptied"): 7}


async def records_stay_deleted(world: World, _: None) -> None:
    earliest = (await world.admin.list_offsets({tp("emptied"): -2}))[tp("emptied")]
    assert earliest is not None
    assert earliest.offset == 7


async def carry(world: World) -> None:
    wanted = {tp("carried"): str(world.second_disk)}
    assert await world.admin.alter_replica_log_dirs(1, wanted) == {tp("carried"): None}


async def replica_is_carried(world: World, _: None) -> None:
    async def there() -> bool:
        directories = (await world.admin.describe_log_dirs([1]))[1]
        (second,) = [each for each in directories if each.log_dir == str(world.second_disk)]
        return tp("carried") in [partition for partition, replica in second.replicas if not replica.is_future]

    await eventually(there, "the move between disks goes on by itself")


PROMISES = [
    Promise({"Controller/CreateTopic"}, create_topic, topic_is_there),
    Promise({"Controller/CreatePartitions"}, create_partitions, topic_has_grown),
    Promise({"Controller/DeleteTopic"}, delete_topic, topic_is_gone),
    Promise(
        {"Controller/AlterTopicConfigs", "Controller/AlterBrokerConfigs", "Controller/AlterClientQuotas"},
        alter_settings,
        settings_are_altered,
    ),
    Promise({"Controller/CreateAcls", "Controller/DeleteAcls"}, alter_acls, acls_are_altered),
    Promise({"Controller/ElectLeaders"}, elect, election_was_held),
    Promise({"Controller/AlterPartitionReassignments"}, move, replicas_are_moved),
    Promise({"Controller/UnregisterBroker"}, forget_a_broker, broker_is_forgotten),
    Promise({"Controller/ReportAudit"}, report, report_is_there),
    Promise({"Log/Produce", "Log/ProduceOnce"}, write, records_are_there),
    Promise({"Log/InitProducerId"}, take_an_id, no_id_is_given_twice),
    Promise({"LogDirs/AlterReplicaLogDirs"}, carry, replica_is_carried),
    Promise({"Log/DeleteRecords"}, delete_records, records_stay_deleted),  # last: others have checkpoints written
]


def test_every_call_that_changes_something_says_what_its_answer_promises():
    page = (ROOT / "docs/operations.md").read_text()
    table = page.partition("### What an answer promises")[2].partition("\n## ")[0]
    told = {name for name in LIMITS if f"`{name.partition('/')[2]}`" in table}
    assert told == LIMITS.keys() - READS - OF_BROKERS
    assert {call for promise in PROMISES for call in promise.calls} == told


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
        store = SqliteStore(tmp_path / "controller" / "data", read_only=True)
        try:
            registered = {record.broker.broker_id for record in store.load() if record.HasField("broker")}
        finally:
            store.close()
        assert registered == {1, 2, 3}
        cluster.up()
        asyncio.run(_check(cluster, second_disk, answers))


async def _change_everything_and_kill(cluster: LocalCluster, second_disk: Path) -> list[Any]:
    async with Admin(cluster.bootstrap, timeout_ms=120_000) as admin:
        world = World(cluster, admin, second_disk)
        await set_up(world)
        *others, last = PROMISES
        answers = await asyncio.gather(*(promise.change(world) for promise in others))
        answers.append(await last.change(world))
        processes = [member.process for member in cluster.state.members if member.process is not None]  # 4 has ended
        for process in processes:
            send_signal(process, signal.SIGKILL)
    assert not wait_until_stopped(processes, TIMEOUT_S)
    return answers


async def _check(cluster: LocalCluster, second_disk: Path, answers: list[Any]) -> None:
    broken = []
    async with Admin(cluster.bootstrap, timeout_ms=120_000) as admin:
        for promise, answer in zip(PROMISES, answers, strict=True):
            try:
                await promise.holds(World(cluster, admin, second_disk), answer)
            except AssertionError as error:
                broken.append(f"{promise.change.__name__}: {error}")
    assert not broken, "\n".join(broken)
