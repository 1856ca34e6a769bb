"""A broker's life as the controller sees it."""

import asyncio

import pytest

from cluster.broker.lifecycle import BrokerLifecycle, BrokerState
from cluster.controller.controller import Controller
from replog.errors import ErrorCode, ReplogError

from .conftest import InProcessCluster


async def test_ct_2_a_broker_registers_recovers_runs_and_stops_in_that_order(
    cluster: InProcessCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """CT-2, CT-13: it is registered before it recovers, unfenced once it runs, and stops after leave was given."""
    seen: list[tuple[BrokerState, bool, bool]] = []
    become = BrokerLifecycle.become

    def noted(self: BrokerLifecycle, state: BrokerState) -> None:
        broker = cluster.controller.state.image.brokers[1]
        seen.append((state, broker.fenced, broker.in_controlled_shutdown))
        become(self, state)

    monkeypatch.setattr(BrokerLifecycle, "become", noted)
    broker = await cluster.start_broker(1)
    await cluster.create_topic("t", replication_factor=1)
    assert broker._lifecycle.state is BrokerState.RUNNING
    await cluster.stop_broker(1)
    assert seen == [
        (BrokerState.RECOVERY, True, False),
        (BrokerState.RUNNING, True, False),
        (BrokerState.PENDING_CONTROLLED_SHUTDOWN, False, False),
        (BrokerState.SHUTTING_DOWN, True, False),
    ]


async def test_ct_21_a_broker_that_fails_says_so_before_it_goes_and_may_register_again_at_once(
    cluster: InProcessCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """CT-21: not only by the connections that it loses."""
    monkeypatch.setattr(Controller, "_on_lost", lambda *_: None)
    broker = await cluster.start_broker(1)
    epoch = cluster.controller.state.image.brokers[1].broker_epoch
    broker._fail(ReplogError(ErrorCode.KAFKA_STORAGE_ERROR, "the disk is gone"))
    await cluster.stop_broker(1)
    assert broker.failed
    assert cluster.controller.state.image.brokers[1].fenced
    again = await asyncio.wait_for(cluster.start_broker(1), 60)
    assert again._lifecycle.broker_epoch > epoch
    assert cluster.controller.state.image.brokers[1].broker_epoch == again._lifecycle.broker_epoch
