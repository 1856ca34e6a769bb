"""Each record once, in order, against real brokers: answers lost, batches refused, restarts (§7). What is given up, and
epochs that end, are in `test_idempotent_faults`."""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from leader.partition_leader import LeaderAppend, PartitionLeader
from replog.client import DeliveryFailed, Producer
from replog.client.producing.idempotence import ProducerId
from replog.client.records import BatchBuilder
from replog.errors import ErrorCode, ReplogError
from replog.log.formats.batch import BatchHeader, iterate_batches
from replog.log.offsets import Buffer, Isolation
from replog.rpc.methods import Log
from replog.topic import TopicPartition
from tests.replog.client.decoding import decode
from tests.replog.client.losing import LosingTransport, loses_acknowledgements
from tests.replog.server.broker.conftest import TP, InProcessCluster, eventually


class Refusals:
    """An error for what `refuse` picks of what leaders are asked to append, or `leave_open` once it is appended."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.refuse: Callable[[list[bytes | None]], ErrorCode | None] = lambda values: None
        self.leave_open = self.refuse
        self.refused: list[ErrorCode] = []
        append = PartitionLeader.append_records_to_leader

        def appended(leader: PartitionLeader, records: Buffer, **options: Any) -> LeaderAppend:
            values = [record.value for record in decode(records)]
            try:
                if (code := self.refuse(values)) is not None:
                    raise ReplogError(code, "refused by the test")
                done = append(leader, records, **options)
                if (code := self.leave_open(values)) is not None:
                    raise ReplogError(code, "left open by the test")
                return done
            except ReplogError as error:
                self.refused.append(error.code)
                raise

        monkeypatch.setattr(PartitionLeader, "append_records_to_leader", appended)


@pytest.fixture(autouse=True)
def _nothing_is_gathered(monkeypatch: pytest.MonkeyPatch) -> None:
    """A full batch goes out at once, while others are under way."""
    monkeypatch.setattr("replog.client.producing.produce_stream.ENOUGH_BYTES", 1)


@pytest.fixture
def leaders(monkeypatch: pytest.MonkeyPatch) -> Refusals:
    return Refusals(monkeypatch)


@pytest.fixture
async def producer(one_broker: str) -> AsyncIterator[Producer]:
    """It has written a first record."""
    async with Producer(one_broker) as producer:
        await (await producer.send("t", b"first"))
        yield producer


def in_log(cluster: InProcessCluster, tp: TopicPartition = TP) -> list[bytes | None]:
    """The values in the leader's log, in order."""
    return [record.value for records, _ in batches(cluster, tp) for record in decode(records)]


def batches(cluster: InProcessCluster, tp: TopicPartition = TP) -> list[tuple[bytes, BatchHeader]]:
    log = cluster.log(cluster.leader(tp), tp)
    records = bytes(log.read(0, 1 << 30, Isolation.LOG_END, min_one_message=True).records)
    return [(records[at : at + header.size], header) for at, header in iterate_batches(records)]


def producers(cluster: InProcessCluster) -> list[tuple[int, int]]:
    """Producer epoch and base sequence of each batch."""
    return [(header.producer_epoch, header.base_sequence) for _, header in batches(cluster)]


async def five_under_way(producer: Producer, *values: bytes) -> list[Any]:
    """Each in a batch of its own; all go out one after the other."""
    deliveries = []
    for value in values:
        deliveries.append(await producer.send("t", value, partition=0))
        queue = producer._accumulator.topics["t"][0]
        queue.open = None
        producer._accumulator.go_on(queue)
        await asyncio.sleep(0)
    return deliveries


def five_in_one_request(producer: Producer, *values: bytes) -> list[Any]:
    """Each in a batch of its own."""
    accumulator = producer._accumulator
    queue = accumulator.topics["t"][0]
    deliveries = []
    for value in values:
        deliveries.append(accumulator.append(queue, 1000, None, value, ()))
        queue.open = None
    return deliveries


@pytest.mark.parametrize("options", [{"enable_idempotence": False}, {"acks": 1}, {"acks": 0}])
async def test_without_idempotence_batches_have_no_producer(cluster, one_broker, options):
    async with Producer(one_broker, **options) as producer:
        await (await producer.send("t", b"x"))
    await eventually(lambda: in_log(cluster) == [b"x"])
    ((_, header),) = batches(cluster)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (-1, -1, -1)
    assert cluster.controller.state.image.next_producer_id == 0, "nobody asked for an id"


async def test_a_batch_whose_answer_is_lost_again_and_again_is_in_the_log_once(cluster, one_broker):
    """S-W-P2 from the outside."""
    losses = iter([True] * 3)
    transport = loses_acknowledgements(lambda: next(losses, False))
    async with Producer(one_broker, transport=transport) as producer:
        assert (await (await producer.send("t", b"once"))).offset == 0
        assert (await (await producer.send("t", b"next"))).offset == 1
    assert transport.lost == 3
    assert in_log(cluster) == [b"once", b"next"]
    assert producers(cluster) == [(0, 0), (0, 1)]


async def test_when_the_first_of_five_under_way_is_refused_all_come_in_order_and_once(cluster, producer, leaders):
    """S-W-P3: the four behind it are out of order, and go again behind it."""
    passing = iter([ErrorCode.NOT_ENOUGH_REPLICAS])
    leaders.refuse = lambda values: next(passing, None) if values == [b"a"] else None
    deliveries = await five_under_way(producer, b"a", b"b", b"c", b"d", b"e")
    assert [(await delivery).offset for delivery in deliveries] == [1, 2, 3, 4, 5]
    assert leaders.refused[0] is ErrorCode.NOT_ENOUGH_REPLICAS
    assert set(leaders.refused[1:]) == {ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER}
    assert in_log(cluster) == [b"first", b"a", b"b", b"c", b"d", b"e"]
    assert producers(cluster) == [(0, number) for number in range(6)]


async def test_a_refused_batch_is_not_taken_for_delivered_because_a_log_that_forgot_the_producer_took_the_next(
    cluster, producer, leaders
):
    """S-W-P5: such a log takes any sequence, so that of the second proves nothing of the first."""
    cluster.log(1, TP).producers.clear()  # as once it was idle for a day
    passing = iter([ErrorCode.NOT_ENOUGH_REPLICAS])
    leaders.refuse = lambda values: next(passing, None) if values == [b"a"] else None
    deliveries = await five_under_way(producer, b"a", b"b", b"c")
    assert sorted([(await delivery).offset for delivery in deliveries]) == [1, 2, 3]
    assert sorted(value or b"" for value in in_log(cluster)) == [b"a", b"b", b"c", b"first"]


async def test_a_leader_that_restarted_gets_one_batch_alone_first(cluster, one_broker, leaders):
    """S-W-P5: its log may have forgotten the producer, and take the second batch where it refused the first.

    As one does that started over at its leader's log start."""
    await cluster.start_broker(2)  # keeps the cluster known while the leader is away
    async with Producer([broker.address for broker in cluster.brokers.values()]) as producer:
        await (await producer.send("t", b"first"))
        cluster.log(1, TP).maybe_increment_log_start_offset(1)
        await cluster.stop_broker(1)
        await cluster.start_broker(1)
        await cluster.led(TP)
        cluster.log(1, TP).producers.clear()
        passing = iter([ErrorCode.NOT_LEADER_OR_FOLLOWER])
        leaders.refuse = lambda values: next(passing, None) if values == [b"a"] else None
        deliveries = await five_under_way(producer, b"a", b"b", b"c")
        assert [(await delivery).offset for delivery in deliveries] == [1, 2, 3]
    log = cluster.log(1, TP).read(1, 1 << 20, Isolation.LOG_END, min_one_message=True)
    assert [record.value for record in decode(log.records)] == [b"a", b"b", b"c"]


async def test_partitions_that_want_an_id_at_the_same_time_get_one(cluster):
    await cluster.start_broker(1)
    await cluster.create_topic("t", partitions=4, replication_factor=1)
    async with Producer(cluster.brokers[1].address) as producer:
        deliveries = [await producer.send("t", b"x", partition=number) for number in range(4)]
        for delivery in deliveries:
            await delivery
        for delivery in [await producer.send("t", b"y", partition=number) for number in range(4)]:
            await delivery
    ids = {header.producer_id for number in range(4) for _, header in batches(cluster, TopicPartition("t", number))}
    assert ids == {0}


async def test_a_batch_numbered_anew_is_not_taken_for_refused_because_it_was_under_its_old_number(
    cluster, producer, leaders
):
    """Its answer is that it may be in the log, so it goes again under the number that it has."""
    passing = iter([ErrorCode.REQUEST_TIMED_OUT])
    leaders.refuse = lambda values: ErrorCode.MESSAGE_TOO_LARGE if values == [b"a"] else None
    leaders.leave_open = lambda values: next(passing, None) if values == [b"d"] else None
    deliveries = five_in_one_request(producer, b"a", b"b", b"c", b"d")
    with pytest.raises(DeliveryFailed) as failed:
        await deliveries.pop(0)
    assert (failed.value.code, failed.value.may_be_appended) == (ErrorCode.MESSAGE_TOO_LARGE, False)
    assert [(await delivery).offset for delivery in deliveries] == [1, 2, 3]
    assert in_log(cluster) == [b"first", b"b", b"c", b"d"]
    assert producers(cluster) == [(0, 0), (1, 0), (1, 1), (1, 2)]
    assert leaders.refused.count(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER) == 3
    assert leaders.refused[-1] is ErrorCode.REQUEST_TIMED_OUT


async def test_a_refused_batch_that_another_replica_may_have_is_not_numbered_anew(cluster, producer, leaders):
    """Divergence 21: it fails, and those around it get new numbers."""
    answers = {b"a": [ErrorCode.MESSAGE_TOO_LARGE], b"c": [ErrorCode.REQUEST_TIMED_OUT]}
    leaders.refuse = lambda values: (
        answers[value].pop(0) if (value := values[0] or b"") and answers.get(value) else None
    )
    first, *deliveries = five_in_one_request(producer, b"a", b"b", b"c", b"d")
    results = await asyncio.gather(first, *deliveries, return_exceptions=True)
    assert [isinstance(each, DeliveryFailed) and each.may_be_appended for each in results] == [
        False,
        False,
        True,
        False,
    ]
    assert in_log(cluster) == [b"first", b"b", b"d"]


@pytest.mark.parametrize("closes", [False, True])
async def test_a_batch_given_up_while_its_first_answer_is_out_may_be_appended(cluster, one_broker, closes):
    """Nothing has failed yet: only that the answer is out says so."""
    holding, told = False, asyncio.Event()
    transport = LosingTransport(
        lambda method: holding and method is Log["produce"], lambda: asyncio.wait_for(told.wait(), 60)
    )
    async with Producer(one_broker, transport=transport, delivery_timeout_ms=60_000 if closes else 4000) as producer:
        await (await producer.send("t", b"first"))
        holding = True
        (given_up,) = await five_under_way(producer, b"a")
        await eventually(lambda: transport.lost == 1)
        if closes:
            closing = asyncio.create_task(producer.close(timeout_s=0))
            await eventually(lambda: producer._sender._stopped)
            told.set()
            await closing
        with pytest.raises(DeliveryFailed) as failed:
            await given_up
        assert in_log(cluster) == [b"first", b"a"]
        assert failed.value.may_be_appended
        holding = False
        told.set()
        if not closes:
            assert (await (await producer.send("t", b"later"))).offset == 2


async def test_ps_7_after_a_restart_that_forgets_all_but_the_last_batch_nothing_is_doubled(cluster, one_broker):
    """The other broker only keeps the cluster known while the leader is away."""
    await cluster.start_broker(2)
    losing = False
    transport = loses_acknowledgements(lambda: losing)
    addresses = [broker.address for broker in cluster.brokers.values()]
    async with Producer(addresses, transport=transport) as producer:
        await (await producer.send("t", b"first"))
        losing = True
        deliveries = five_in_one_request(producer, b"a", b"b", b"c", b"d", b"e")
        await eventually(lambda: cluster.log(1, TP).log_end_offset == 6)
        await eventually(lambda: transport.lost > 0)
        await cluster.stop_broker(1)
        losing = False
        await cluster.start_broker(1)
        assert [(await delivery).offset for delivery in deliveries] == [-1, -1, -1, -1, 5]
        assert (await (await producer.send("t", b"after"))).offset == 6
    assert in_log(cluster) == [b"first", b"a", b"b", b"c", b"d", b"e", b"after"]


async def test_a_producer_whose_id_another_uses_in_a_later_epoch_fails_a_batch_and_goes_on_under_a_new_id(
    cluster, producer
):
    """S-W-P4. In a later epoch of the same id its batches could be taken for the other's."""
    other = BatchBuilder(1000)
    other.append(1000, None, b"other", ())
    assert (await cluster.produce(TP, b"".join(other.build(*ProducerId(0, 1), 0))))[0] is ErrorCode.NONE
    with pytest.raises(DeliveryFailed) as fenced:
        await (await producer.send("t", b"fenced"))
    assert fenced.value.code is ErrorCode.INVALID_PRODUCER_EPOCH
    assert not fenced.value.may_be_appended
    assert (await (await producer.send("t", b"again"))).offset == 2
    assert in_log(cluster) == [b"first", b"other", b"again"]
    assert [(h.producer_id, h.producer_epoch, h.base_sequence) for _, h in batches(cluster)] == [
        (0, 0, 0),
        (0, 1, 0),
        (1, 0, 0),
    ]


async def test_without_anyone_to_give_an_id_records_wait_and_then_fail_with_the_reason(cluster, one_broker):
    address = one_broker
    await cluster._server.stop(0)
    async with Producer(address, delivery_timeout_ms=3000) as producer:
        with pytest.raises(DeliveryFailed, match=r"last error: .*gets no producer ids from the controller") as failed:
            await (await producer.send("t", b"x"))
    assert failed.value.code is ErrorCode.REQUEST_TIMED_OUT
    assert not failed.value.may_be_appended
    await cluster.crash_broker(1)  # nobody would answer its controlled shutdown
