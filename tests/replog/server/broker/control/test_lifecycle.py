"""A broker's life as the controller sees it, and health checks: ready means that another one may be restarted."""

import asyncio
from typing import Any

import pytest

from replog.controller import registration
from replog.errors import ErrorCode, ReplogError
from replog.local_cluster.ports import free_port
from replog.local_cluster.probe import is_serving
from replog.rpc import methods
from replog.rpc.health import READY
from replog.rpc.v1 import log_pb2
from replog.server.broker.control.lifecycle import BrokerLifecycle, BrokerStanding, BrokerState
from replog.server.broker.process import serve
from replog.server.controller.active_controller import ActiveController
from tests.replog.metadata.test_records import later
from tests.replog.server.broker.conftest import TP, InProcessCluster, batch, eventually


async def test_ct_2_a_broker_registers_recovers_runs_and_stops_in_that_order(cluster, monkeypatch):
    """CT-2, CT-13: it is registered before it recovers, unfenced once it runs, and stops after leave was given."""
    seen: list[tuple[BrokerState, bool, bool]] = []
    become = BrokerLifecycle.become

    def noted(self: BrokerLifecycle, state: BrokerState) -> None:
        broker = cluster.controller.state.image.brokers[1]
        seen.append((state, broker.fenced, broker.in_controlled_shutdown))
        become(self, state)

    monkeypatch.setattr(BrokerLifecycle, "become", noted)
    broker = await cluster.begin(1)
    assert broker._lifecycle.standing.state is BrokerState.RUNNING
    await cluster.stop_broker(1)
    assert seen == [
        (BrokerState.RECOVERY, True, False),
        (BrokerState.RUNNING, True, False),
        (BrokerState.PENDING_CONTROLLED_SHUTDOWN, False, False),
        (BrokerState.SHUTTING_DOWN, True, False),
    ]


async def test_isr_18_a_broker_that_was_stopped_proves_it_and_one_that_was_killed_does_not(cluster, monkeypatch):
    """ISR-18."""
    proved: list[bool] = []
    stopped_cleanly = registration._stopped_cleanly

    def noted(*arguments: Any) -> bool:
        proved.append(stopped_cleanly(*arguments))
        return proved[-1]

    monkeypatch.setattr(registration, "_stopped_cleanly", noted)
    await cluster.start_broker(1)
    await cluster.stop_broker(1)
    await cluster.start_broker(1)
    await cluster.crash_broker(1)
    await eventually(lambda: cluster.controller.state.image.brokers[1].fenced)
    await cluster.start_broker(1)
    assert proved == [True, False]


async def test_ct_21_a_broker_that_fails_says_so_before_it_goes_and_may_register_again_at_once(cluster, monkeypatch):
    """CT-21: not only by the connections that it loses."""
    monkeypatch.setattr(ActiveController, "_on_lost", lambda *_: None)
    broker = await cluster.start_broker(1)
    epoch = cluster.controller.state.image.brokers[1].broker_epoch
    broker._fail(ReplogError(ErrorCode.KAFKA_STORAGE_ERROR, "the disk is gone"))
    await cluster.stop_broker(1)
    assert broker.failed
    assert cluster.controller.state.image.brokers[1].fenced
    again = await asyncio.wait_for(cluster.start_broker(1), 60)
    assert again._identity.broker_epoch > epoch
    assert cluster.controller.state.image.brokers[1].broker_epoch == again._identity.broker_epoch


async def test_who_asks_a_broker_that_stops_is_refused_at_once_however_long_it_takes(cluster):
    let_go = asyncio.Event()

    async def busy() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await let_go.wait()

    broker = await cluster.start_broker(1)
    broker._spawn(busy())
    await asyncio.sleep(0)
    stopping = asyncio.create_task(cluster.stop_broker(1))
    channel = cluster.channel(broker.address)
    with pytest.raises(ReplogError) as refused:
        async with asyncio.timeout(60):
            while True:
                await channel.call(methods.Log["get_metadata"], log_pb2.GetMetadataRequest(), 30)
    assert refused.value.retriable
    assert refused.value.code is not ErrorCode.REQUEST_TIMED_OUT
    assert not stopping.done()
    let_go.set()
    await stopping


async def test_a_broker_that_cannot_read_the_metadata_ends_at_once_also_while_it_starts(cluster):
    """It waits for a controller, as nobody listens there; a record of a later release comes meanwhile."""
    broker = cluster.new_broker(1, controller_listener=f"127.0.0.1:{free_port(set())}")
    serving = asyncio.create_task(serve(broker, lambda: None, asyncio.Event()))
    await eventually(lambda: broker.address)
    await broker._on_metadata([later("broker/7", 9)], False)
    with pytest.raises(ReplogError, match="'broker/7', of a later release"):
        async with asyncio.timeout(20):
            await serving


LARGE = batch(b"x" * 100_000)


async def says(cluster: InProcessCluster, broker_id: int, service: str) -> bool:
    return await asyncio.to_thread(is_serving, cluster.brokers[broker_id].address, None, service)


async def test_a_broker_is_ready_when_its_replicas_are_in_sync_and_serves_before(cluster: InProcessCluster):
    slow = {"follower_replication_throttled_rate": 1, "replica_fetch_backoff_ms": 50}
    await cluster.begin(2, brokers=slow, min_insync_replicas="1", follower_replication_throttled_replicas="*")
    await eventually(lambda: cluster.controller.state.image.partitions[TP].isr == (1, 2))
    assert [await says(cluster, number, READY) for number in (1, 2)] == [True, True]
    await cluster.stop_broker(2)
    assert await says(cluster, 1, READY), "what others lack is theirs to say"
    for _ in range(20):
        assert (await cluster.produce(TP, LARGE))[0] is ErrorCode.NONE
    await cluster.start_broker(2, **slow)
    await eventually(lambda: TP in cluster.brokers[2].manager.replicas.hosted)
    assert (await says(cluster, 2, ""), await says(cluster, 2, READY)) == (True, False)
    async with cluster.admin() as admin:
        await admin.alter_topic_configs("t", {}, delete=["follower.replication.throttled.replicas"])
    await eventually(lambda: set(cluster.controller.state.image.partitions[TP].isr) == {1, 2})
    async with asyncio.timeout(60):
        while not await says(cluster, 2, READY):
            await asyncio.sleep(0.05)


async def test_a_broker_whose_partitions_have_no_leader_is_ready(cluster: InProcessCluster):
    """Nothing can be caught up with; to wait for it might wait for a broker that is only started after this one."""
    await cluster.begin(2, min_insync_replicas="1")
    await cluster.stop_broker(2)
    await cluster.crash_broker(1)
    await cluster.start_broker(2)
    await eventually(lambda: cluster.controller.state.image.partitions[TP].leader == -1)
    assert await says(cluster, 2, READY)


STARTING, RECOVERY, RUNNING, PENDING, STOPPING = BrokerState


def standing(state: BrokerState) -> BrokerStanding:
    broker = BrokerStanding(2000)
    broker.state = state
    return broker


def test_ct_2_a_broker_wants_to_be_fenced_until_it_runs_and_to_stop_once_it_is_told_to() -> None:
    """CT-2, CT-13."""
    wants = [(standing(state).want_fence, standing(state).want_shutdown) for state in BrokerState]
    assert wants == [(True, False), (True, False), (False, False), (False, True), (False, False)]


@pytest.mark.parametrize(
    ("state", "is_fenced", "is_caught_up", "due_ms"),
    [
        (RUNNING, False, True, 2000),
        (RUNNING, True, True, 10),
        (RUNNING, True, False, 2000),
        (RECOVERY, True, True, 2000),
        (STARTING, True, True, 2000),
        (PENDING, False, True, 50),
        (PENDING, True, True, 50),
        (STOPPING, True, True, 2000),
    ],
)
def test_ct_3_the_next_heartbeat_is_due_early_where_its_answer_lets_the_broker_go_on(
    state: BrokerState, is_fenced: bool, is_caught_up: bool, due_ms: int
) -> None:
    """CT-3."""
    broker = standing(state)
    assert broker.on_answer(is_fenced=is_fenced, is_caught_up=is_caught_up) == due_ms
    assert broker.fenced is is_fenced
