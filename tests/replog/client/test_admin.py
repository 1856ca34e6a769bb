"""The admin client against a real controller."""

import asyncio
from collections.abc import Sequence

import pytest

from replog.client import Admin, TopicDescription
from replog.client.offsets import EARLIEST, LATEST
from replog.errors import ErrorCode, ReplogError
from replog.rpc.methods import Controller
from replog.rpc.v1.metadata_pb2 import MetadataRecord
from replog.server.broker.control.role_changes import RoleChanges
from tests.replog.client.conftest import TP, bootstrap
from tests.replog.client.losing import loses_first
from tests.replog.server.broker.conftest import batch, eventually


async def test_names_are_listed_however_long_the_settings_of_topics_are(cluster, monkeypatch):
    """All settings together once did not fit, and nobody could find which to undo."""
    await cluster.start_broker(1)
    listed = ",".join(f"{partition}:1" for partition in range(700))
    for name in ("t", "u"):
        await cluster.create_topic(name, replication_factor=1, leader_replication_throttled_replicas=listed)
    monkeypatch.setattr("replog.client.metadata.MAX_ANSWER_BYTES", 400)
    async with cluster.admin() as admin:
        assert await admin.list_topics() == ["t", "u"]


async def test_a_created_topic_is_there_with_its_leaders_and_configs(cluster):
    await cluster.start_brokers(1, 2, 3)
    async with Admin(bootstrap(cluster)) as admin:
        await admin.create_topic("t", partitions=2, configs={"segment.bytes": "4096"})
        description = await admin.describe_topic("t")
        assert [partition.partition for partition in description.partitions] == [0, 1]
        for partition in description.partitions:
            assert partition.leader in (1, 2, 3)
            assert sorted(partition.replicas) == sorted(partition.isr) == [1, 2, 3]
        assert description.configs["segment.bytes"] == "4096"
        assert await admin.list_topics() == ["t"]


async def test_what_cannot_be_created_is_refused_at_once(cluster):
    await cluster.start_broker(1)
    async with Admin(bootstrap(cluster)) as admin:
        await admin.create_topic("t", replication_factor=1)
        for arguments, code in (
            ({"topic": "t", "replication_factor": 1}, ErrorCode.TOPIC_ALREADY_EXISTS),
            ({"topic": "u", "replication_factor": 3}, ErrorCode.INVALID_REPLICATION_FACTOR),
            ({"topic": "u", "replication_factor": 1, "configs": {"no.such": "1"}}, ErrorCode.INVALID_CONFIG),
            ({"topic": "no/name", "replication_factor": 1}, ErrorCode.INVALID_TOPIC_EXCEPTION),
        ):
            with pytest.raises(ReplogError) as refused:
                await admin.create_topic(**arguments)  # type: ignore[arg-type]
            assert refused.value.code is code, arguments
        await admin.create_topic("only-checked", replication_factor=1, validate_only=True)
        assert await admin.list_topics() == ["t"]


async def test_a_topic_that_brokers_do_not_know_in_time_is_said_to_be_created(cluster, monkeypatch):
    """Who reads that there is no such topic would create it again."""
    await cluster.start_broker(1)
    held = asyncio.Event()

    async def busy(self: RoleChanges, records: Sequence[MetadataRecord]) -> None:
        await held.wait()

    monkeypatch.setattr(RoleChanges, "_change", busy)
    async with Admin(bootstrap(cluster), timeout_ms=1000) as admin:
        with pytest.raises(ReplogError, match="is created, but the brokers know of leaders of only 0 of its 2") as late:
            await admin.create_topic("t", partitions=2, replication_factor=1)
    assert late.value.code is ErrorCode.LEADER_NOT_AVAILABLE
    held.set()


@pytest.mark.parametrize(
    ("method", "call", "again"),
    [
        ("create_topic", lambda admin: admin.create_topic("new", assignment=[[1]]), ErrorCode.TOPIC_ALREADY_EXISTS),
        ("delete_topic", lambda admin: admin.delete_topic("t"), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("unregister_broker", lambda admin: admin.unregister_broker(2), ErrorCode.BROKER_ID_NOT_REGISTERED),
    ],
)
async def test_a_call_that_was_answered_to_nobody_is_done_when_it_comes_again(cluster, method, call, again):
    """CT-19: what it finds is what was wanted, and not taken for somebody else's."""
    await cluster.start_brokers(1, 2)
    await cluster.stop_broker(2)
    transport = loses_first(Controller[method])
    async with Admin(bootstrap(cluster), transport=transport) as admin:
        await admin.create_topic("t", assignment=[[1]])
        await call(admin)
        assert transport.lost == 1
        with pytest.raises(ReplogError) as refused:
            await call(admin)
    assert refused.value.code is again


async def test_partitions_are_added_once_though_the_answer_is_lost(cluster, monkeypatch):
    await cluster.start_brokers(1, 2)
    transport = loses_first(Controller["create_partitions"])
    async with Admin(bootstrap(cluster), transport=transport) as admin:
        await admin.create_topic("t", partitions=1, replication_factor=2)
        before, describe = [await admin.describe_topic("t")], admin._describe

        async def late(topic: str) -> TopicDescription:
            """A broker that has not heard of it yet."""
            return before.pop() if before else await describe(topic)

        monkeypatch.setattr(admin, "_describe", late)
        await admin.create_partitions("t", 3)
        assert transport.lost == 1
        partitions = (await admin.describe_topic("t")).partitions
        assert [len(partition.replicas) for partition in partitions] == [2, 2, 2]
        with pytest.raises(ReplogError) as refused:
            await admin.create_partitions("t", 3)
    assert refused.value.code is ErrorCode.INVALID_PARTITIONS
    for number in range(3):
        await cluster.led(TP._replace(partition=number))
        await cluster.hosted(TP._replace(partition=number))


async def test_a_deletion_that_is_sent_again_spares_a_new_topic_of_the_same_name(cluster):
    """CT-19."""
    await cluster.start_broker(1)
    async with Admin(bootstrap(cluster)) as other:

        async def make_it_anew() -> None:
            await other.create_topic("t", partitions=2, replication_factor=1)

        transport = loses_first(Controller["delete_topic"], make_it_anew)
        async with Admin(bootstrap(cluster), transport=transport) as admin:
            await admin.create_topic("t", replication_factor=1)
            await admin.delete_topic("t")
        assert transport.lost == 1
        assert len((await other.describe_topic("t")).partitions) == 2


async def test_a_deleted_topic_is_gone(cluster):
    await cluster.start_broker(1)
    async with Admin(bootstrap(cluster)) as admin:
        await admin.create_topic("t", replication_factor=1)
        await admin.delete_topic("t")
        assert await admin.list_topics() == []
        for call in (admin.describe_topic, admin.delete_topic):
            with pytest.raises(ReplogError, match="UNKNOWN_TOPIC_OR_PARTITION: "):
                await call("t")


async def test_the_cluster_describes_itself(cluster):
    await cluster.start_brokers(1, 2)
    async with Admin(bootstrap(cluster)) as admin, asyncio.timeout(60):
        description = await admin.describe_cluster()
        while any(broker.fenced for broker in description.brokers):  # the one that answers has not heard yet
            await asyncio.sleep(0.01)
            description = await admin.describe_cluster()
    assert description.cluster_id == cluster.controller.state.image.cluster_id
    assert description.controller == cluster.controller_address
    known = [(broker.broker_id, broker.address, broker.fenced) for broker in description.brokers]
    assert known == [(i, cluster.brokers[i].address, False) for i in (1, 2)]


async def test_offsets_are_listed_and_records_deleted(cluster, one_broker):
    for i in range(4):
        await cluster.produce(TP, batch(b"%d" % i))
    async with Admin(one_broker) as admin:
        assert await admin.delete_records({TP: 3}) == {TP: 3}
        bounds = [(await admin.list_offsets({TP: timestamp}))[TP] for timestamp in (EARLIEST, LATEST)]
        assert [bound.offset for bound in bounds if bound] == [3, 4]
        assert await admin.delete_records({TP: -1}) == {TP: 4}
        with pytest.raises(ReplogError) as refused:
            await admin.delete_records({TP: 99})
        assert refused.value.code is ErrorCode.OFFSET_OUT_OF_RANGE
        assert refused.value.message == "t-0: cannot delete records up to 99; the high watermark is 4"


async def test_of_many_brokers_that_are_away_some_are_named():
    bootstraps = [f"127.0.0.1:{port}" for port in range(1, 6)]
    async with Admin(bootstraps, timeout_ms=400) as admin:
        with pytest.raises(ReplogError) as away:
            await admin.list_topics()
    named = "127.0.0.1:1, 127.0.0.1:2, 127.0.0.1:3, and 2 more cannot be reached: Connection refused"
    assert away.value.message.endswith(f"({named})")


@pytest.mark.parametrize("to_controller", [False, True])
async def test_whether_one_runs_whose_name_does_not_resolve_is_not_asked(to_controller):
    async with Admin("no-such.invalid:1", timeout_ms=400, to_controller=to_controller) as admin:
        with pytest.raises(
            ReplogError, match=r"no-such\.invalid:1 cannot be reached: its name does not resolve"
        ) as told:
            await admin.delete_topic("t")
    assert "?" not in told.value.message


async def test_a_controllers_address_in_place_of_a_brokers_is_named_at_once(cluster):
    async with Admin(cluster.controller_address) as admin:
        with pytest.raises(ReplogError, match="wrong server, such as a controller where a broker is wanted") as wrong:
            await admin.list_topics()
    assert wrong.value.code is ErrorCode.INVALID_REQUEST


async def test_names_that_are_like_an_unknown_topic_are_proposed(cluster):
    await cluster.start_broker(1)
    await cluster.create_topic("flights", replication_factor=1)
    async with Admin(bootstrap(cluster)) as admin:
        with pytest.raises(ReplogError, match=r"topic 'flihgts' is not known; did you mean 'flights'\?"):
            await admin.describe_topic("flihgts")
        with pytest.raises(ReplogError, match="topic 'xyz' is not known; replog topic list shows all"):
            await admin.describe_topic("xyz")


async def test_who_does_not_answer_is_named(cluster):
    await cluster.start_brokers(1, 2)
    address = cluster.brokers[1].address
    await cluster.crash_broker(2)
    async with Admin(address, timeout_ms=3000) as admin:
        with pytest.raises(ReplogError, match=r"NETWORK_EXCEPTION: broker 2 does not answer; is it running\? \("):
            await admin.describe_log_dirs([2])


async def test_what_became_of_partitions_is_told_and_replicas_tell_of_themselves(cluster):
    await cluster.begin(2, partitions=1)
    await cluster.produce(TP, batch(b"one", b"two"))
    await cluster.crash_broker(2)
    async with cluster.admin() as admin:
        await eventually(lambda: cluster.isr(TP) == {1})
        told = await admin.describe_partition_changes()
        (change,) = [change for change in told.changes if change.partition == TP]
        assert (change.before.isr, change.after.isr, change.reason) == ((1, 2), (1,), "the process of broker 2 is gone")
        assert told.kept_since_ms <= change.at_ms
        assert (await admin.describe_partition_changes(change.version)).changes == ()
        replica = (await admin.describe_replicas(1)).replicas[TP]
        assert (replica.is_leader, replica.log_end_offset, replica.epochs[-1][1]) == (True, 2, 0)
