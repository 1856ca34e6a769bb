"""A broker in whose name somebody else has spoken: it says so, and takes its registration back, or stops (D40)."""

import asyncio
from contextlib import asynccontextmanager
from typing import Any

import pytest
from structlog.testing import capture_logs

from replog.errors import ErrorCode, ReplogError
from replog.rpc import methods
from replog.rpc.transports import H2Transport
from replog.rpc.v1 import controller_pb2 as pb
from replog.server.broker.identity import Identity, PresenceService
from tests.replog.server.broker.conftest import TP, InProcessCluster, batch, eventually

OTHER = b"o" * 16


def lost(logs: Any) -> list[str]:
    """The reasons that were told."""
    return [event["reason"] for event in logs if event["log_level"] == "error" and "lost" in event["event"]]


async def serves(cluster: InProcessCluster, broker_id: int) -> None:
    """It is unfenced and in sync again, and what is acknowledged by acks=all is on its disk."""
    image = cluster.controller.state.image
    await eventually(
        lambda: image.brokers[broker_id].active and broker_id in cluster.isr(TP), what=lambda: str(image.brokers)
    )
    async with asyncio.timeout(60):
        while (answer := await cluster.produce(TP, batch(b"x")))[0] is not ErrorCode.NONE:
            await asyncio.sleep(0.05)
    end = answer[1] + 1
    await eventually(lambda: cluster.log(broker_id, TP).log_end_offset == end)


async def forged(cluster: InProcessCluster, broker_id: int, **fields: Any) -> pb.HeartbeatResponse:
    """A heartbeat in its name of who knows all of its secrets, except `fields`."""
    known = cluster.controller.state.image.brokers[broker_id]
    claim = {"broker_id": broker_id, "broker_epoch": known.broker_epoch, "incarnation_id": known.incarnation_id}
    return await cluster.control("heartbeat", pb.HeartbeatRequest(**(claim | fields)))


async def taken_over(cluster: InProcessCluster, broker_id: int, address: str) -> int:
    """The broker epoch of another process that registers at a moment at which the broker has no session."""
    request = pb.RegisterBrokerRequest(
        broker_id=broker_id, incarnation_id=OTHER, address=address, previous_broker_epoch=-1
    )
    async with asyncio.timeout(60):
        while True:
            cluster.controller.state.sessions.end(broker_id)
            try:
                return int((await cluster.control("register_broker", request)).broker_epoch)
            except ReplogError as error:  # a heartbeat that came first has begun the session again
                if error.code is not ErrorCode.DUPLICATE_BROKER_REGISTRATION:
                    raise


@pytest.mark.parametrize("leads", [True, False])
async def test_a_broker_that_is_told_to_stop_and_did_not_ask_says_so_and_goes_on(cluster, leads):
    """Before, it took leave: it ran, said SERVING, stayed fenced and logged nothing."""
    await cluster.begin(2)
    victim = cluster.leader(TP) if leads else 3 - cluster.leader(TP)
    epoch = cluster.brokers[victim]._identity.broker_epoch
    with capture_logs() as logs:
        await forged(cluster, victim, want_shutdown=True)
        await eventually(lambda: bool(lost(logs)) or cluster.controller.state.image.brokers[victim].active)
        await serves(cluster, victim)
    assert all("which it did not ask for" in reason for reason in lost(logs))
    assert lost(logs) or not leads, "a leader is relieved first, and hears it in answer to its own heartbeat"
    assert cluster.brokers[victim]._identity.broker_epoch == epoch
    assert not cluster.brokers[victim].failed


@pytest.mark.parametrize("wrong", [{"incarnation_id": OTHER}, {"incarnation_id": b""}, {"broker_epoch": 1}], ids=str)
async def test_a_forged_heartbeat_without_the_incarnation_id_changes_nothing(cluster, wrong):
    await cluster.begin(2)
    version = cluster.controller.state.image.version
    with capture_logs() as logs, pytest.raises(ReplogError, match="STALE_BROKER_EPOCH: broker 2 is registered by"):
        await forged(cluster, 2, want_fence=True, want_shutdown=True, **wrong)
    assert cluster.controller.state.image.version == version
    (told,) = [event for event in logs if event["event"] == "denied"]
    assert (told["principal"], told["operation"], told["resource"]) == ("User:ANONYMOUS", "CLUSTER_ACTION", "BROKER:2")
    assert ("the incarnation id" in told["rule"]) is ("broker_epoch" in wrong)
    assert str(cluster.controller.state.image.brokers[2]) in told["rule"]


@pytest.mark.parametrize("victim", [1, 2], ids=["leader", "follower"])
async def test_a_broker_whose_registration_is_gone_registers_again_with_the_same_process(cluster, victim):
    """With a new broker epoch: it fetches under it, joins under it, and leads under it."""
    await cluster.start_brokers(1, 2)
    async with cluster.admin() as admin:
        await admin.create_topic("t", assignment=[(1, 2)])
    await cluster.produce(TP, batch(b"before"))
    controller = cluster.controller
    with capture_logs() as logs:
        epoch = await taken_over(cluster, victim, "127.0.0.1:1")  # where nobody listens
        await serves(cluster, victim)
    assert [reason.split(":")[0] for reason in lost(logs)] == ["STALE_BROKER_EPOCH"]
    known = controller.state.image.brokers[victim]
    assert known.address == cluster.brokers[victim].address
    assert known.broker_epoch == cluster.brokers[victim]._identity.broker_epoch > epoch
    for leader in (1, 2):
        await cluster.control("elect_leaders", pb.ElectLeadersRequest(all_partitions=True))
        await serves(cluster, leader)
    assert cluster.leader(TP) == 1


@asynccontextmanager
async def living(cluster: InProcessCluster, broker_id: int):
    """Another process of this id, which answers who it is."""
    server = H2Transport().listen("127.0.0.1:0")
    server.add(methods.PRESENCE, PresenceService(Identity(broker_id, OTHER)))
    yield await server.start()
    await server.stop(0)


async def test_a_broker_whose_id_another_living_process_has_stops_with_a_clear_error(cluster):
    broker = await cluster.start_broker(1)
    async with living(cluster, 1) as address:
        with capture_logs() as logs, pytest.raises(ReplogError, match=f"DUPLICATE.*at {address}") as failed:
            await taken_over(cluster, 1, address)
            async with asyncio.timeout(60):
                await broker.wait()
        assert "choose another node.id" in str(failed.value)
        assert len(lost(logs)) == 1
        assert cluster.controller.state.image.brokers[1].incarnation_id == OTHER
