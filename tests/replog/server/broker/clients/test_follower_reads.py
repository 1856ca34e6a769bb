"""Consumers that read from the replica in their rack (KIP-392: FE-19 to FE-21), over real gRPC."""

import asyncio
from collections import Counter
from typing import Any

import pytest

from replog.client import Consumer, Record
from replog.client.consuming import fetcher
from replog.errors import ErrorCode
from replog.log.fetch import SessionRequest, size_of
from replog.rpc import methods
from replog.server.broker.clients.consume import ConsumerStream
from replog.server.broker.replicas.byte_pool import Lease
from tests.replog.server.broker.conftest import CALL_S, TP, InProcessCluster, batch, eventually, fetch_request

RACKS = {1: "a", 2: "b", 3: "c"}
SELECTOR = "org.apache.kafka.common.replica.RackAwareReplicaSelector"


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> Counter[int]:
    """Bytes of records that each broker gave to consumers."""
    bytes_by_broker: Counter[int] = Counter()

    answer = ConsumerStream.answer

    async def counted(self: ConsumerStream, request: SessionRequest, share: Lease, *, goes_on: bool) -> Any:
        rows = await answer(self, request, share, goes_on=goes_on)
        bytes_by_broker[self._context.config.node_id] += size_of(rows)
        return rows

    monkeypatch.setattr(ConsumerStream, "answer", counted)
    return bytes_by_broker


async def racks(cluster: InProcessCluster, **settings: Any) -> int:
    """Three brokers in three racks with a topic on all of them; a follower's id."""
    for broker_id, rack in RACKS.items():
        await cluster.start_broker(broker_id, broker_rack=rack, **{"replica_selector_class": SELECTOR, **settings})
    await cluster.create_topic("t")
    return next(broker_id for broker_id in RACKS if broker_id != cluster.leader(TP))


def consumer_in(cluster: InProcessCluster, rack: str) -> Consumer:
    """From the first record on; any reset of its position is an error."""
    bootstrap = ",".join(broker.address for broker in cluster.brokers.values())
    consumer = Consumer(bootstrap, client_rack=rack, auto_offset_reset="error", fetch_max_wait_ms=120_000)
    consumer.assign([TP])
    consumer.seek(TP, 0)
    return consumer


async def produce(cluster: InProcessCluster, first: int, count: int) -> int:
    """`count` records, one a batch; their bytes."""
    size = 0
    for number in range(first, first + count):
        records = batch(b"%d" % number)
        assert await cluster.produce(TP, records) == (ErrorCode.NONE, number, "")
        size += len(records)
    return size


async def read(consumer: Consumer, count: int) -> list[bytes | None]:
    records: list[Record] = []
    async with asyncio.timeout(60):
        while len(records) < count:
            records += await consumer.fetch()
    return [record.value for record in records]


def values(first: int, count: int) -> list[bytes | None]:
    return [b"%d" % number for number in range(first, first + count)]


async def fetch_from(
    cluster: InProcessCluster, broker_id: int, offset: int, epoch: int | None = None, **fields: Any
) -> Any:
    """The answer of one broker to one fetch, from a consumer that may be served by followers."""
    request = fetch_request(TP, offset, **{"rack_id": "z", **fields})
    if epoch is not None:
        request.partitions[0].current_leader_epoch = epoch
    channel = cluster.channel(cluster.brokers[broker_id].address)
    response = await channel.call(methods.Log["fetch_once"], request, CALL_S)
    return response.head.partitions[0]


async def test_a_consumer_reads_from_the_follower_in_its_rack(cluster, served):
    """FE-19, FE-20; and FE-14: it waits on the follower, and is woken by the follower's own high watermark."""
    follower = await racks(cluster)
    size = await produce(cluster, 0, 20)
    async with consumer_in(cluster, RACKS[follower]) as consumer:
        assert await read(consumer, 20) == values(0, 20)
        await asyncio.sleep(0.1)  # so that it waits
        size += await produce(cluster, 20, 5)
        assert await read(consumer, 5) == values(20, 5)
    assert +served == Counter({follower: size})


async def test_without_a_selector_all_read_from_the_leader(cluster, served):
    follower = await racks(cluster, replica_selector_class="")
    size = await produce(cluster, 0, 3)
    async with consumer_in(cluster, RACKS[follower]) as consumer:
        assert await read(consumer, 3) == values(0, 3)
    assert +served == Counter({cluster.leader(TP): size})


async def test_when_the_follower_is_killed_the_leader_is_read(cluster, served):
    """FE-20: at once, although the leader still names the follower that it takes for alive."""
    follower = await racks(cluster)
    await produce(cluster, 0, 3)
    async with consumer_in(cluster, RACKS[follower]) as consumer:
        assert await read(consumer, 3) == values(0, 3)
        leader = cluster.leader(TP)
        assert not served[leader]
        await cluster.crash_broker(follower)
        await produce(cluster, 3, 3)
        assert await read(consumer, 3) == values(3, 3)
        assert served[leader]


async def test_a_follower_that_falls_silent_is_left(cluster, served, monkeypatch):
    """FE-20: it has a connection, but does not answer in the time that it was given."""
    follower = await racks(cluster)
    await produce(cluster, 0, 3)
    async with consumer_in(cluster, RACKS[follower]) as consumer:
        assert await read(consumer, 3) == values(0, 3)
        await asyncio.sleep(0.1)
        await produce(cluster, 3, 1)
        assert await read(consumer, 1) == values(3, 1)
        [stream] = consumer._fetcher._streams.values()
        assert stream.address == cluster.brokers[follower].address
        stream._owner.suspect(stream)
        leader = cluster.leader(TP)
        await eventually(lambda: cluster.brokers[leader].address in consumer._fetcher._streams)
        await produce(cluster, 4, 1)
        assert await read(consumer, 1) == values(4, 1)
        assert served[leader]


async def test_the_leader_is_asked_again_from_time_to_time(cluster, served, monkeypatch):
    """FE-20: here the follower has left the rack meanwhile, as far as the leader knows."""
    follower = await racks(cluster)
    monkeypatch.setattr(fetcher, "METADATA_MAX_AGE_S", 0.3)
    await produce(cluster, 0, 1)
    async with consumer_in(cluster, RACKS[follower]) as consumer:
        assert await read(consumer, 1) == values(0, 1)
        for broker in cluster.brokers.values():
            object.__setattr__(broker.config, "replica_selector_class", "")
        await asyncio.sleep(0.5)
        await produce(cluster, 1, 1)  # answers the fetch that waits on the follower
        assert await read(consumer, 1) == values(1, 1)
        leader = cluster.leader(TP)
        before = served[leader]
        size = await produce(cluster, 2, 3)
        assert await read(consumer, 3) == values(2, 3)
        assert served[leader] - before == size


async def test_a_consumer_out_of_the_followers_range_goes_to_the_leader_and_keeps_its_position(cluster, served):
    """FE-21: as when it read from the leader up to where the follower has not come yet."""
    follower = await racks(cluster, replica_lag_time_max_ms=30_000)
    await produce(cluster, 0, 3)
    async with consumer_in(cluster, RACKS[follower]) as consumer:
        assert await read(consumer, 3) == values(0, 3)
        log = cluster.log(follower, TP)
        await cluster.brokers[follower]._fetchers.close()
        log.truncate_to(1)
        cluster.brokers[follower].manager.touched(TP, high_watermark_advanced=False)
        leader = cluster.log(cluster.leader(TP), TP)
        records = batch(b"3")
        assert (await cluster.produce(TP, records, acks=1))[0] is ErrorCode.NONE
        leader.maybe_increment_high_watermark(4)
        cluster.brokers[cluster.leader(TP)].manager.touched(TP, high_watermark_advanced=True)
        assert await read(consumer, 1) == values(3, 1)
        assert await consumer.position(TP) == 4


@pytest.mark.parametrize("where", ["a payload", "a length"])
async def test_what_is_damaged_on_the_follower_is_read_from_the_leader(cluster, served, where):
    """FE-20, of the second of three batches: neither lost nor twice."""
    follower = await racks(cluster)
    size = await produce(cluster, 0, 3) // 3
    with cluster.log(follower, TP).segments[-1].path.open("r+b") as file:
        file.seek(2 * size - 1 if where == "a payload" else size + 8)
        file.write(b"\xff")
    async with consumer_in(cluster, RACKS[follower]) as consumer:
        assert await read(consumer, 3) == values(0, 3)
        assert await consumer.position(TP) == 3
    assert served[follower]
    assert served[cluster.leader(TP)]


@pytest.mark.parametrize(
    ("changes", "epoch", "expected"),
    [
        pytest.param({}, None, ErrorCode.NONE, id="it may be served by followers"),
        pytest.param({"rack_id": None}, None, ErrorCode.NOT_LEADER_OR_FOLLOWER, id="it may not"),
        pytest.param({}, 7, ErrorCode.UNKNOWN_LEADER_EPOCH, id="a newer epoch"),
    ],
)
async def test_a_follower_serves_only_who_expects_it_fe_20(cluster, changes, epoch, expected):
    follower = await racks(cluster)
    answer = await fetch_from(cluster, follower, 0, epoch, **changes)
    assert ErrorCode(answer.error_code) is expected
