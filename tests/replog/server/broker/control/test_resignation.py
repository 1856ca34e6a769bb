"""A leader whose followers do not reach it, in virtual time, with the default lag limit of thirty seconds (ISR-20)."""

import pytest

from replog.client import Producer
from replog.simulator.network.streams import SimulatedTransport
from replog.simulator.runtime.process import WALL_START_MS
from tests.replog.server.broker.virtual_pair import VirtualPair

EVERYBODY = "broker-1:9092,broker-2:9092,broker-3:9092"
BOUND_S = 3.0


@pytest.fixture
def three(make_pair):
    pair = make_pair(replica_lag_time_max_ms=30_000)
    pair.start(3)
    pair.create_topic(assignment=[(1, 2, 3), (2, 1, 3)], min_insync_replicas="2")
    return pair


def cut_off(pair: VirtualPair, broker_id: int) -> None:
    for other in {1, 2, 3} - {broker_id}:
        pair.cut(f"broker-{broker_id}", f"broker-{other}")


def test_its_producers_and_those_of_its_leaders_wait_three_seconds_at_most_ct_22_ct_23(three):
    async def scenario() -> float:
        transport = SimulatedTransport(three.network, three.client)
        async with Producer(
            EVERYBODY, transport=transport, rng=three.rng.stream("a producer"), wall_clock_ms=lambda: WALL_START_MS
        ) as producer:
            for partition in (0, 1):
                await (await producer.send("t", b"before", partition=partition))
            cut_off(three, 1)
            begun = three.loop.time()
            for sent in [await producer.send("t", b"after", partition=partition) for partition in (0, 1)]:
                await sent
            return three.loop.time() - begun

    assert three.run(scenario()) < BOUND_S
    states = three.controller.state.image.partitions.values()
    assert [(state.leader, state.isr) for state in states] == [(2, (2, 3)), (2, (2, 3))]
