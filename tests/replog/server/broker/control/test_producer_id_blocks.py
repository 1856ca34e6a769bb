"""InitProducerId over real gRPC: ids from blocks of the controller's, each handed out once; idempotent producers and
transactions."""

import asyncio
import time

import pytest

from replog.client import Producer
from replog.config.topic import TopicConfig
from replog.controller.cluster_state import ClusterState
from replog.errors import ErrorCode, ReplogError
from replog.log.log import Log
from replog.metadata.values import Claim
from replog.rpc import methods
from replog.rpc.v1 import log_pb2
from tests.replog.log.batches import client_batch
from tests.replog.log.producers.writes import batch, end, produce, transact
from tests.replog.server.broker.conftest import CALL_S, TP, InProcessCluster, eventually


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


SIZE = 69  # of a batch of one record; a marker has 78 bytes


def fill(log: Log) -> None:
    """Producer 1 from 0, aborted at 3; producer 2 from 1, committed at 4; plain at 2; producer 3 from 5, open."""
    transact(log, 1, 0)
    transact(log, 2, 0)
    produce(log, client_batch(b"x"))
    end(log, 1, commit=False)
    end(log, 2, commit=True)
    transact(log, 3, 0)


async def test_a_directory_with_aborted_transactions_is_served_to_committed_readers(cluster):
    """LG-9, PS-5, FE-22: written while the broker is down; it comes from disk."""
    await cluster.begin(1)
    await cluster.stop_broker(1)
    log = Log.open(cluster.directory / "broker-1" / "t-0", TopicConfig(), clean=True)
    fill(log)
    log.close()
    await cluster.start_broker(1)
    await cluster.led(TP)
    await eventually(lambda: cluster.log(1, TP).high_watermark == 6)
    result, data = await cluster.fetch(TP, 0, isolation_level=log_pb2.READ_COMMITTED)
    assert (result.error_code, result.high_watermark, result.last_stable_offset) == (0, 6, 5)
    assert [(aborted.producer_id, aborted.first_offset) for aborted in result.aborted_transactions] == [(1, 0)]
    assert len(data) == 3 * SIZE + 2 * 78
    result, data = await cluster.fetch(TP, 0, isolation_level=log_pb2.READ_UNCOMMITTED)
    assert (result.last_stable_offset, list(result.aborted_transactions)) == (5, [])
    assert len(data) == 4 * SIZE + 2 * 78
    for isolation, latest in ((log_pb2.READ_COMMITTED, 5), (log_pb2.READ_UNCOMMITTED, 6)):
        partition = log_pb2.ListOffsetsPartition(topic="t", partition=0, timestamp=-1)
        request = log_pb2.ListOffsetsRequest(isolation_level=isolation, partitions=[partition])
        response = await cluster.to_leader(TP).call(methods.Log["list_offsets"], request, CALL_S)
        assert response.partitions[0].offset == latest


async def test_transactional_batches_are_refused(cluster):
    """There is no coordinator that could end their transaction."""
    await cluster.begin(1)
    await cluster.allocate_producer_ids()
    error, _, message = await cluster.produce(TP, batch(0, 0, transactional=True))
    assert error is ErrorCode.INVALID_TXN_STATE
    assert "without a transactional id" in message
    assert cluster.log(1, TP).log_end_offset == 0


async def test_idle_producers_are_forgotten(cluster):
    """PS-11: by the broker's clock, however old their records are."""
    soon = {"producer_id_expiration_check_interval_ms": 50, "producer_id_expiration_ms": 600}
    await cluster.begin(1, brokers=soon)
    await cluster.allocate_producer_ids()
    await cluster.produce(TP, batch(0, 0, pid=1, timestamp=1))
    await cluster.produce(TP, batch(0, 0, pid=2, timestamp=1))
    log = cluster.log(1, TP)
    assert [entry.producer_id for entry in log.producers.snapshot_entries()] == [1, 2]
    await eventually(lambda: log.producers.empty)
