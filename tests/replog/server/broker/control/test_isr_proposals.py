"""ISR proposals on their way to the controller and back (ISR-8, ISR-9); leaders whose followers are silent (ISR-5), or
that nobody reaches (ISR-20)."""

import asyncio
import random
from typing import Any

import pytest

from leader.isr import IsrProposal
from replog.client import Producer
from replog.common.backoff import Backoff
from replog.errors import ErrorCode
from replog.metadata.values import PartitionState
from replog.rpc.methods import Method
from replog.rpc.status import wire_code
from replog.rpc.v1 import controller_pb2 as pb
from replog.rpc.v1.metadata_pb2 import RECOVERED
from replog.server.broker.control.isr_proposals import AlterPartitionSender, OnResult
from replog.server.broker.control.newest_metadata import NewestMetadata
from replog.server.broker.identity import Identity
from replog.simulator.network.streams import SimulatedTransport
from replog.simulator.runtime.process import WALL_START_MS
from replog.topic import TopicPartition
from tests.replog.client.network import VirtualLoop
from tests.replog.server.broker.conftest import batch, eventually
from tests.replog.server.broker.virtual_pair import VirtualPair

TP = TopicPartition("t", 0)


class StaleController:
    """A channel to a controller that is behind: it decides nothing (rows 2 and 3 of §6.4), or leaves the item out."""

    address = "test"

    def __init__(self, *, leaves_out: bool) -> None:
        self.asked = 0
        self.items: list[pb.AlterPartitionItem] = []
        self._leaves_out = leaves_out

    async def call(self, method: Method, request: Any, timeout_s: float) -> pb.AlterPartitionResponse:
        self.asked += 1
        self.items += request.partitions
        await asyncio.sleep(0)
        result = pb.AlterPartitionResult(topic="t", partition=0, error_code=wire_code(ErrorCode.NOT_CONTROLLER))
        return pb.AlterPartitionResponse(partitions=[] if self._leaves_out else [result])


def backoff() -> Backoff:
    return Backoff(random.Random(1), base_ms=50)


def sent_for(seconds: float, sender: AlterPartitionSender, on_result: OnResult) -> None:
    """What the sender does of itself in so much virtual time."""

    async def run() -> None:
        sender.submit(TP, IsrProposal(0, 0, ((1, -1),)))
        running = asyncio.create_task(sender.run(on_result))
        await asyncio.sleep(seconds)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        runner.run(run())


def unknown() -> NewestMetadata:
    return NewestMetadata((), backoff(), lambda _: None)


@pytest.mark.parametrize("leaves_out", [False, True])
def test_a_proposal_that_nobody_decided_is_sent_again_after_a_pause(leaves_out):
    controller = StaleController(leaves_out=leaves_out)

    def resubmit(tp: TopicPartition, proposal: IsrProposal, error: ErrorCode, state: PartitionState | None) -> None:
        sender.submit(tp, proposal)

    sender = AlterPartitionSender(Identity(1, b"i" * 16), controller, lambda _: b"", unknown(), 1.0, backoff())  # type: ignore[arg-type]
    sent_for(10.0, sender, resubmit)
    assert 10 <= controller.asked <= 20, "five times in the first second and a half, then once a second"
    assert {item.recovery_state for item in controller.items} == {RECOVERED}, "no leader has to recover (ST-15)"


def test_a_proposal_keeps_the_topic_it_was_made_for():
    """ISR-8: it stays queued though the topic is deleted; a new one of that name may have the same epochs."""
    controller = StaleController(leaves_out=True)
    ids = [b"new", b"old"]
    sender = AlterPartitionSender(Identity(1, b"i" * 16), controller, lambda _: ids.pop(), unknown(), 1.0, backoff())  # type: ignore[arg-type]
    sent_for(0.2, sender, lambda *_: None)
    assert controller.asked >= 2
    assert {item.topic_id for item in controller.items} == {b"old"}


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


async def test_isr_5_a_follower_that_falls_silent_while_all_is_level_leaves_once_it_lacks_a_record(cluster):
    await cluster.begin(2, brokers={"replica_lag_time_max_ms": 1000})
    await cluster.led(TP)
    leader = cluster.brokers[cluster.leader(TP)]
    (follower,) = (broker for broker in cluster.brokers.values() if broker is not leader)
    assert (await cluster.produce(TP, batch(b"x")))[0] is ErrorCode.NONE
    await eventually(lambda: TP not in leader.manager._lagging, what=lambda: leader.replicas.hosted[TP].leader.replicas)
    follower._fetchers.stop(TP)
    await cluster.produce(TP, batch(b"y"), acks=1)
    # The metadata that drop it make it fetch again: it may be back before anybody looks.
    await eventually(lambda: leader.context.traffic.isr_shrinks == 1, what=lambda: leader.context.traffic)
