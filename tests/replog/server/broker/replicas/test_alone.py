"""A leader that hears neither controller nor followers, and its readers, in virtual time (divergence 29)."""

import pytest

from replog.client import Consumer, Producer
from replog.errors import ReplogError
from replog.simulator.network.streams import SimulatedTransport
from replog.simulator.runtime.process import WALL_START_MS
from tests.replog.server.broker.virtual_pair import TP, VirtualPair

EVERYBODY = "broker-1:9092,broker-2:9092"
SOON_S = 20.0  # its session, and an election; a consumer's metadata is good for 300 s


@pytest.fixture
def pair(pair):
    pair.create_topic(min_insync_replicas="1")
    return pair


def consumer(pair: VirtualPair) -> Consumer:
    transport = SimulatedTransport(pair.network, pair.client)
    return Consumer(EVERYBODY, auto_offset_reset="earliest", transport=transport, rng=pair.rng.stream("a consumer"))


def alone(pair: VirtualPair) -> bool:
    leader = pair.hosted(1).leader
    return leader is not None and pair.brokers[1].manager.replicas.is_alone(leader)


def test_its_readers_find_the_next_leader(pair):
    async def scenario() -> float:
        transport = SimulatedTransport(pair.network, pair.client)
        producer = Producer(
            EVERYBODY, transport=transport, rng=pair.rng.stream("a producer"), wall_clock_ms=lambda: WALL_START_MS
        )
        async with consumer(pair) as reader, producer:
            reader.assign([TP])
            await (await producer.send("t", b"before"))
            assert [record.value for record in await reader.fetch(10)] == [b"before"]
            pair.cut("broker-1", "controller")
            pair.cut("broker-1", "broker-2")
            await (await producer.send("t", b"after"))
            acknowledged = pair.loop.time()
            assert pair.isr == {2}
            assert [record.value for record in await reader.fetch(300)] == [b"after"]
            return pair.loop.time() - acknowledged

    assert pair.run(scenario()) < SOON_S


def test_what_it_has_can_be_read_and_where_it_ends_it_does_not_say(pair):
    """Here there is no other: what was committed is still there for who wants it."""
    pair.produce(10)
    pair.cut("broker-1", "controller")
    pair.cut("broker-1", "broker-2")
    pair.until(lambda: alone(pair), SOON_S)
    pair.kill(2)

    async def scenario() -> None:
        async with consumer(pair) as reader:
            reader.assign([TP])
            assert [record.offset for record in await reader.fetch(10)] == [0]
            with pytest.raises(ReplogError, match="OFFSET_NOT_AVAILABLE: "):
                await reader.end_offsets([TP], timeout_s=5)

    pair.run(scenario())


@pytest.mark.parametrize(
    "links",
    [["broker-1 broker-2"], ["broker-1 controller", "broker-2 controller"]],
    ids=["the controller", "a follower"],
)
def test_whoever_hears_somebody_is_not_alone(pair, links):
    for link in links:
        pair.cut(*link.split())
    assert not pair.loop.run_until(lambda: alone(pair), pair.loop.time() + SOON_S)
