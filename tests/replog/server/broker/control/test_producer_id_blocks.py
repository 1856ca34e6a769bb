"""InitProducerId over real gRPC: ids from blocks of the controller's, each handed out once."""

import asyncio
import time

import pytest

from replog.client import Producer
from replog.controller.cluster_state import ClusterState
from replog.errors import ErrorCode, ReplogError
from replog.metadata.values import Claim
from replog.rpc import methods
from replog.rpc.v1 import log_pb2
from tests.replog.log.producers.writes import batch
from tests.replog.server.broker.conftest import TP, InProcessCluster


async def ids(cluster: InProcessCluster, broker_id: int, count: int) -> list[int]:
    """As many clients as that ask the broker at the same time."""
    channel = cluster.channel(cluster.brokers[broker_id].address)
    calls = (channel.call(methods.Log["init_producer_id"], log_pb2.InitProducerIdRequest(), 10) for _ in range(count))
    answers = await asyncio.gather(*calls)
    assert {answer.producer_epoch for answer in answers} == {0}
    return [answer.producer_id for answer in answers]


async def test_every_client_gets_an_id_of_its_own_and_all_who_wait_share_a_block(cluster, monkeypatch):
    blocks: list[int] = []
    allocate = ClusterState.allocate_producer_ids

    def counted(self: ClusterState, sender: Claim) -> object:
        decision = allocate(self, sender)
        blocks.append(decision.answer)
        return decision

    monkeypatch.setattr(ClusterState, "allocate_producer_ids", counted)
    await cluster.start_brokers(1, 2)
    assert not blocks, "nobody has asked yet"
    given = await ids(cluster, 1, 50) + await ids(cluster, 2, 50)
    assert blocks == [0, 1000]
    assert sorted(given) == [*range(50), *range(1000, 1050)]


async def test_an_id_is_handed_out_once_this_broker_knows_that_it_was_given(cluster):
    """Before, the first records of most producers from a new block were refused, and waited for a backoff."""
    await cluster.start_broker(1)
    image = cluster.brokers[1].manager.context.image
    for block in range(1, 5):
        assert await ids(cluster, 1, 1) == [(block - 1) * 1000]
        assert image.next_producer_id == block * 1000
        cluster.brokers[1]._producer_ids._block = range(0)


async def test_a_broker_whose_metadata_come_late_hands_the_id_out_all_the_same(cluster, monkeypatch):
    await cluster.start_broker(1)

    async def late(_: object) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(cluster.brokers[1]._watch, "wait_until", late)
    assert await ids(cluster, 1, 1) == [0]


async def test_when_a_block_runs_out_the_next_one_is_fetched(cluster):
    await cluster.start_broker(1)
    given = [number for _ in range(21) for number in await ids(cluster, 1, 50)]
    assert sorted(given) == list(range(1050))
    assert cluster.controller.state.image.next_producer_id == 2000


async def test_without_a_controller_the_error_names_it_and_may_pass(cluster):
    await cluster.start_broker(1)
    await cluster._server.stop(0)
    asked = time.monotonic()
    with pytest.raises(ReplogError, match=f"controller at {cluster.controller_address}.*try again") as refused:
        await ids(cluster, 1, 20)
    assert refused.value.code is ErrorCode.BROKER_NOT_AVAILABLE
    assert refused.value.retriable
    assert time.monotonic() - asked < 30
    await cluster.crash_broker(1)  # nobody would answer its controlled shutdown


async def test_an_id_that_nobody_was_given_is_refused(cluster):
    """Divergence 37: a later producer that is given it would be taken for the one that made it up."""
    await cluster.begin(1)
    await cluster.allocate_producer_ids()
    assert await cluster.produce(TP, batch(0, 0, pid=999)) == (ErrorCode.NONE, 0, "")
    error, _, message = await cluster.produce(TP, batch(0, 0, pid=1000))
    assert error is ErrorCode.UNKNOWN_PRODUCER_ID
    assert "nobody was given producer id 1000" in message
    assert cluster.log(1, TP).log_end_offset == 1


async def test_a_leader_that_may_not_have_heard_of_an_id_takes_it(cluster):
    """Divergence 37: another broker may have given it away meanwhile. Without a controller it stays so."""
    await cluster.begin(1)
    await cluster._server.stop(0)
    refused = [await cluster.produce(TP, batch(0, 0, pid=5000))]
    while refused[-1][0] is ErrorCode.UNKNOWN_PRODUCER_ID:
        assert len(refused) < 600
        await asyncio.sleep(0.05)
        refused.append(await cluster.produce(TP, batch(0, 0, pid=5000)))
    assert refused[-1] == (ErrorCode.NONE, 0, "")
    await cluster.crash_broker(1)  # nobody would answer its controlled shutdown


async def test_a_producer_whose_leader_has_yet_to_hear_of_its_id_goes_on_as_soon_as_it_has(cluster):
    """Divergence 37: the refusal may pass, and says that nothing was appended."""
    await cluster.begin(1)
    image = cluster.brokers[1].manager.context.image
    async with Producer(cluster.brokers[1].address) as producer:
        await (await producer.send("t", b"first"))
        known, image.next_producer_id = image.next_producer_id, 0
        late = await producer.send("t", b"second")
        await asyncio.sleep(0.3)
        assert cluster.log(1, TP).log_end_offset == 1
        image.next_producer_id = known
        assert (await late).offset == 1
