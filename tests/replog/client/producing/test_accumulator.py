"""Queues of batches: what is sent when, in what order, within how many bytes. Time is a variable here."""

import asyncio
import gc
import tracemalloc
from collections.abc import Callable

import pytest

from replog.client.producing.accumulator import Accumulator, PartitionQueue, ProducerBatch
from replog.client.producing.deliveries import Delivery, DeliveryFailed
from replog.client.producing.idempotence import Identity, ProducerId
from replog.errors import ErrorCode, ReplogError
from tests.replog.client.decoding import decode


class Harness:
    """An accumulator, the queues it offered, and a clock that runs the timers it asked for."""

    def __init__(
        self,
        *,
        linger_s: float = 0,
        batch_size: int = 1000,
        buffer_memory: int = 10_000,
        identity: Identity | None = None,
    ) -> None:
        self.now = 0.0
        self.offered: list[PartitionQueue] = []
        self.timers: list[tuple[float, Callable[[], None]]] = []
        self.accumulator = Accumulator(
            batch_size=batch_size,
            codec_number=0,
            buffer_memory=buffer_memory,
            linger_s=linger_s,
            clock=lambda: self.now,
            ready=self.offered.append,
            later=lambda delay, call: self.timers.append((self.now + delay, call)),
            identity=identity,
        )
        (self.queue,) = self.accumulator.grow("t", 1, 1 << 20)

    def advance(self, seconds: float) -> None:
        self.now += seconds
        due = [timer for timer in self.timers if timer[0] <= self.now]
        self.timers = [timer for timer in self.timers if timer[0] > self.now]
        for _, call in due:
            call()

    def take(self, room: int = 10_000, most: int = 100) -> list[ProducerBatch]:
        """As a stream does: the offered queue's batches, in flight."""
        return self.accumulator.take(self.offered.pop(0), room, most)

    def answer(self, batches: list[ProducerBatch], base_offset: int) -> None:
        """All are appended."""
        for batch in batches:
            batch.outcome.base_offset = base_offset
            base_offset += batch.records.count
            self.accumulator.settle(batch)
        self.land(batches)

    def land(self, batches: list[ProducerBatch]) -> None:
        self.accumulator.land(self.queue, batches)
        self.accumulator.go_on(self.queue)


@pytest.fixture
def harness() -> Harness:
    return Harness()


def values(batches: list[ProducerBatch]) -> list[bytes | None]:
    return [record.value for batch in batches for record in decode(b"".join(batch.encoded()))]


async def awaited(delivery: Delivery) -> object:
    return await delivery


def append(harness: Harness, value: bytes) -> Delivery:
    return harness.accumulator.append(harness.queue, 5, None, value, ())


def test_a_full_batch_closes_and_the_next_one_follows_it_in_order():
    harness = Harness(batch_size=200)
    for i in range(5):
        append(harness, bytes([i]) * 80)
    sent = []
    while harness.offered:
        batches = harness.take(room=1000)
        sent.append([value[0] for value in values(batches) if value])
        harness.answer(batches, 0)
    assert sent == [[0, 1], [2, 3], [4]]


def test_at_least_one_batch_is_taken_however_small_the_room(harness):
    append(harness, b"x" * 500)
    assert values(harness.take(room=10)) == [b"x" * 500]


async def test_what_was_not_appended_goes_again_before_anything_newer():
    harness = Harness(batch_size=150)
    deliveries = [harness.accumulator.append(harness.queue, 5, None, bytes([i]) * 80, ()) for i in range(4)]
    first, second, third, fourth = harness.take()
    append(harness, b"newer")
    for batch in (first, third):
        batch.outcome.base_offset = 7
        harness.accumulator.settle(batch)
    harness.land([first, second, third, fourth])
    assert [delivery.done() for delivery in deliveries] == [True, False, True, False]
    again = harness.take()
    assert again[:2] == [second, fourth]
    assert values(again[2:]) == [b"newer"]


def test_requests_that_are_lost_with_their_stream_go_again_in_their_order():
    identity, stream = Identity(), object()
    identity.current = ProducerId(7, 0)
    harness = Harness(batch_size=100, identity=identity)
    queue, accumulator = harness.queue, harness.accumulator
    assert queue.sequences is not None
    queue.sequences.lead_to(stream)
    under_way: list[list[ProducerBatch]] = []
    for _ in range(4):
        accumulator.append(queue, 0, None, b"x" * 80, ())
        queue.open = None
        under_way.append(accumulator.take(queue, 10_000, 1))
        queue.sequences.known_by(stream)
    for batches in under_way:
        accumulator.land(queue, batches)
    assert [(batch.number, batch.sequence) for batch in queue.batches] == [(0, 0), (1, 1), (2, 2), (3, 3)]


def test_a_lingering_batch_is_offered_when_its_time_has_come():
    harness = Harness(linger_s=10)
    append(harness, b"a")
    harness.advance(9)
    append(harness, b"b")
    assert harness.offered == []
    harness.advance(1)
    assert values(harness.take()) == [b"a", b"b"]


def test_a_batch_that_began_while_another_was_in_flight_lingers_from_its_own_first_record():
    harness = Harness(linger_s=10)
    append(harness, b"a")
    harness.advance(10)
    first = harness.take()
    harness.advance(20)
    append(harness, b"b")
    harness.answer(first, 0)
    assert harness.offered == []
    harness.advance(10)
    assert values(harness.take()) == [b"b"]


def test_a_batch_that_had_no_room_for_a_record_does_not_linger_though_that_record_went_elsewhere():
    harness = Harness(linger_s=10, batch_size=200)
    append(harness, b"x" * 100)
    assert harness.accumulator.append_to_open(harness.queue, 5, None, b"y" * 100, ()) is None
    assert values(harness.take()) == [b"x" * 100]


def test_many_values_fill_the_open_batch_and_the_first_without_room_comes_back():
    harness = Harness(linger_s=10, batch_size=300)
    first = append(harness, b"first")
    deliveries: list[Delivery] = []
    rest = iter([b"x" * 100, b"y" * 100, b"z" * 100, b"later"])
    assert harness.accumulator.append_many_to_open(harness.queue, 5, None, rest, deliveries) == (b"z" * 100,)
    batches = harness.take()
    assert values(batches) == [b"first", b"x" * 100, b"y" * 100]
    assert harness.accumulator.used_bytes == sum(batch.bytes for batch in batches)
    harness.answer(batches, 7)
    assert [delivery.result().offset for delivery in (first, *deliveries)] == [7, 8, 9]
    assert harness.accumulator.append_many_to_open(harness.queue, 5, None, rest, deliveries) == (b"later",)
    assert harness.accumulator.used_bytes == 0


async def test_each_delivery_knows_its_offset_and_timestamp(harness):
    first = harness.accumulator.append(harness.queue, 5, None, b"a", ())
    second = harness.accumulator.append(harness.queue, 6, None, b"b", ())
    with pytest.raises(asyncio.InvalidStateError):
        first.result()
    harness.answer(harness.take(), 40)
    assert await second == ("t", 0, 41, 6)
    assert await first == first.result() == ("t", 0, 40, 5)


@pytest.mark.parametrize(("batch_size", "most"), [(100_000, 150), (1, 400)], ids=["full batches", "lone records"])
async def test_deliveries_that_are_kept_keep_nothing_of_their_batches(batch_size, most):
    harness = Harness(batch_size=batch_size, buffer_memory=2 << 20)

    async def send(count: int) -> list[Delivery]:
        deliveries = [
            harness.accumulator.append(harness.queue, 2**40 + i, b"%d" % i, bytes(1000), ()) for i in range(count)
        ]
        waiting = asyncio.create_task(awaited(deliveries[-1]))
        await asyncio.sleep(0)
        while harness.offered:
            harness.answer(harness.take(2 << 20), 2**40)
        await waiting
        return deliveries

    await send(1000)
    gc.collect()
    tracemalloc.start()
    try:
        kept = await send(1000)
        gc.collect()
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert [delivery.result().offset - 2**40 for delivery in kept[:2]] == [0, 1]
    assert held / len(kept) < most


async def test_log_append_time_replaces_the_records_own(harness):
    delivery = harness.accumulator.append(harness.queue, 5, None, b"a", ())
    (batch,) = harness.take()
    batch.outcome.append_time_ms = 77
    harness.answer([batch], 0)
    assert (await delivery).timestamp == 77


async def test_a_waiter_that_is_cancelled_disturbs_no_other(harness):
    delivery = harness.accumulator.append(harness.queue, 5, None, b"a", ())

    one, other = asyncio.create_task(awaited(delivery)), asyncio.create_task(awaited(delivery))
    await asyncio.sleep(0)
    one.cancel()
    await asyncio.sleep(0)
    harness.answer(harness.take(), 9)
    assert await other == ("t", 0, 9, 5)
    assert one.cancelled()


async def test_a_failed_batch_raises_from_every_record_as_often_as_it_is_awaited(harness):
    deliveries = [harness.accumulator.append(harness.queue, 5, None, b"a", ()) for _ in range(2)]
    (batch,) = harness.take()
    batch.outcome.error = DeliveryFailed(ErrorCode.MESSAGE_TOO_LARGE, "too large", may_be_appended=False)
    harness.answer([batch], -1)
    for delivery in deliveries * 2:
        with pytest.raises(DeliveryFailed, match="MESSAGE_TOO_LARGE"):
            await delivery


async def test_bytes_are_given_back_once_and_senders_wait_in_order():
    harness = Harness(buffer_memory=300)
    accumulator = harness.accumulator
    append(harness, b"x" * 200)
    assert not accumulator.has_room(150)
    order = []

    async def wait(name: str, size: int) -> None:
        await accumulator.wait_for_room(size, 5)
        order.append(name)

    waiting = [asyncio.create_task(wait("first", 150)), asyncio.create_task(wait("second", 10))]
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert order == []  # the second would fit, but is not let past the first
    (batch,) = harness.take()
    harness.answer([batch], 0)
    accumulator.settle(batch)
    assert accumulator.used_bytes == 0
    await asyncio.gather(*waiting)
    assert order == ["first", "second"]
    assert accumulator.has_room(150)


async def test_a_buffer_that_stays_full_is_a_timeout_that_says_so():
    harness = Harness(buffer_memory=100)
    append(harness, b"x" * 90)
    with pytest.raises(ReplogError, match=r"buffer of 100 bytes stayed full for 0\.01 s") as full:
        await harness.accumulator.wait_for_room(50, 0.01)
    assert full.value.code is ErrorCode.REQUEST_TIMED_OUT
    harness.answer(harness.take(), 0)
    assert harness.accumulator.has_room(50)


def test_a_queue_is_looked_after_only_while_it_holds_something(harness):
    harness.accumulator.grow("t", 5000, 1 << 20)
    assert harness.accumulator.busy() == []
    append(harness, b"a")
    assert harness.accumulator.busy() == [harness.queue]
    taken = harness.take()
    assert harness.accumulator.busy() == [harness.queue], "its deadline has to be watched"
    harness.answer(taken, 0)
    assert harness.accumulator.busy() == []
