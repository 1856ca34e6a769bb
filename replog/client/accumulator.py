"""Records that wait to be sent: one queue of batches per partition, bounded together by bytes.

At most one run of a partition's batches is in flight, all of it in one request, whose batches the leader appends in
order within one step; what of it is to be sent again goes before anything newer. So a retry never overtakes nor is
overtaken, and order holds without idempotence. (Duplicates are possible: what had its answer lost is sent again.)
Meanwhile the partition's next records fill the next batches, so requests grow with the load.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Generator, Iterable
from itertools import islice
from typing import NamedTuple

from replog.client.records import BatchBuilder, Headers
from replog.errors import ErrorCode, ReplogError
from replog.topic import TopicPartition

BATCH_OVERHEAD = 400  # bytes: a batch header, and its entry in the request with the longest topic name


class RecordMetadata(NamedTuple):
    """Where a record went. `offset` is -1 with acks=0, which is never answered."""

    topic: str
    partition: int
    offset: int
    timestamp: int  # ms: the record's own, or the leader's where the topic stamps LogAppendTime


class DeliveryFailed(ReplogError):
    """A record was given up. `may_be_appended` tells an indeterminate outcome from a definite failure (PR-12)."""

    def __init__(self, code: ErrorCode, message: str, may_be_appended: bool) -> None:
        super().__init__(code, message)
        self.may_be_appended = may_be_appended


class Batch:
    """One batch from its first record to its outcome."""

    __slots__ = (
        "append_time_ms",
        "attempts",
        "base_offset",
        "bytes",
        "created",
        "data",
        "error",
        "last_error",
        "may_be_appended",
        "partition",
        "records",
        "settled",
    )

    def __init__(self, partition: TopicPartition, records: BatchBuilder, created: float) -> None:
        self.partition = partition
        self.records = records
        self.created = created  # loop time, s
        self.bytes = 0
        self.data: bytearray | None = None  # once built
        self.attempts = 0  # sends that failed
        self.may_be_appended = False
        self.last_error: ReplogError | None = None
        self.settled = asyncio.Event()
        self.base_offset = -1
        self.append_time_ms = -1
        self.error: DeliveryFailed | None = None

    def encoded(self) -> bytearray:
        if self.data is None:
            self.data = self.records.build()
        return self.data


class Delivery:
    """The outcome of one record, to be awaited; cheaper than a future and safe to drop."""

    __slots__ = ("_batch", "_index", "_timestamp")

    def __init__(self, batch: Batch, index: int, timestamp: int) -> None:
        self._batch = batch
        self._index = index
        self._timestamp = timestamp

    @property
    def starts_batch(self) -> bool:
        """Whether the record was its batch's first."""
        return self._index == 0

    def done(self) -> bool:
        return self._batch.settled.is_set()

    def result(self) -> RecordMetadata:
        """What awaiting it gives or raises. Raises InvalidStateError while the record is under way."""
        batch = self._batch
        if not batch.settled.is_set():
            raise asyncio.InvalidStateError("the record is not delivered yet; await it")
        if batch.error is not None:
            error = batch.error
            raise DeliveryFailed(error.code, error.message, error.may_be_appended)
        offset = batch.base_offset + self._index if batch.base_offset >= 0 else -1
        timestamp = self._timestamp if batch.append_time_ms < 0 else batch.append_time_ms
        return RecordMetadata(*batch.partition, offset, timestamp)

    def __await__(self) -> Generator[object, None, RecordMetadata]:
        if not self._batch.settled.is_set():
            yield from self._batch.settled.wait().__await__()
        return self.result()


class PartitionQueue:
    """One partition's batches, oldest first. The first `in_flight` of them are in one request; the last may be open."""

    __slots__ = ("batches", "in_flight", "open", "partition", "retrying", "scheduled")

    def __init__(self, partition: TopicPartition) -> None:
        self.partition = partition
        self.batches: deque[Batch] = deque()
        self.open: Batch | None = None  # the last batch, while it takes records
        self.in_flight = 0
        self.retrying = False  # a timer will make it ready again
        self.scheduled = False  # handed to the sender

    @property
    def sendable(self) -> bool:
        return bool(self.batches) and not (self.in_flight or self.retrying or self.scheduled)

    @property
    def flying(self) -> list[Batch]:
        """The batches in flight, in their order."""
        return list(islice(self.batches, self.in_flight))


class Accumulator:
    """All queues, and the bytes they hold. `ready` is told of each queue whose first batch should go out."""

    def __init__(
        self,
        *,
        batch_size: int,
        codec_number: int,
        buffer_memory: int,
        linger_s: float,
        clock: Callable[[], float],
        ready: Callable[[PartitionQueue], None],
        later: Callable[[float, Callable[[], None]], object],
    ) -> None:
        self.topics: dict[str, list[PartitionQueue]] = {}
        self.used_bytes = 0
        self.flushing = 0  # flushes under way: nothing lingers meanwhile
        self._batch_size = batch_size
        self._codec = codec_number
        self._buffer_memory = buffer_memory
        self._linger_s = linger_s
        self._clock = clock
        self._ready = ready
        self._later = later
        self._waiters: deque[asyncio.Future[None]] = deque()

    def grow(self, topic: str, partitions: int) -> list[PartitionQueue]:
        """The topic's queues, at least one per partition."""
        queues = self.topics.setdefault(topic, [])
        queues.extend(PartitionQueue(TopicPartition(topic, number)) for number in range(len(queues), partitions))
        return queues

    def has_room(self, size: int) -> bool:
        return not self._waiters and self.used_bytes + size <= self._buffer_memory

    async def wait_for_room(self, size: int, timeout_s: float) -> None:
        """Wait, first come first served, until `size` more bytes fit. Raises REQUEST_TIMED_OUT, naming the buffer."""
        waiter = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        try:
            async with asyncio.timeout(timeout_s):
                while self._waiters[0] is not waiter or self.used_bytes + size > self._buffer_memory:
                    self.send_open_batches()
                    await waiter
                    waiter = self._waiters[0] = asyncio.get_running_loop().create_future()
        except TimeoutError:
            raise ReplogError(
                ErrorCode.REQUEST_TIMED_OUT,
                f"the producer's buffer of {self._buffer_memory} bytes stayed full for {timeout_s:g} s; "
                "the brokers are too slow or away, or raise buffer_memory",
            ) from None
        finally:
            self._waiters.remove(waiter)
            self._wake_waiter()

    def append_to_open(
        self, queue: PartitionQueue, timestamp_ms: int, key: bytes | None, value: bytes | None, headers: Headers
    ) -> Delivery | None:
        """Add a record to the queue's open batch; None when there is none, or none with room."""
        batch = queue.open
        if batch is None:
            return None
        size = batch.records.append(timestamp_ms, key, value, headers)
        if size == 0:
            return None
        batch.bytes += size
        self.used_bytes += size
        return Delivery(batch, batch.records.count - 1, timestamp_ms)

    def append(
        self, queue: PartitionQueue, timestamp_ms: int, key: bytes | None, value: bytes | None, headers: Headers
    ) -> Delivery:
        """Add a record to the queue's open batch, or else to a new one."""
        delivery = self.append_to_open(queue, timestamp_ms, key, value, headers)
        if delivery is not None:
            return delivery
        batch = Batch(queue.partition, BatchBuilder(self._batch_size, self._codec), self._clock())
        batch.bytes = batch.records.append(timestamp_ms, key, value, headers)
        self.used_bytes += batch.bytes
        queue.batches.append(batch)
        queue.open = batch
        if self._due(queue, queue.batches[0]):
            self._offer(queue)
        if self._linger_s > 0:
            self._later(self._linger_s, lambda: self._offer(queue))
        return Delivery(batch, 0, timestamp_ms)

    def settle(self, batch: Batch) -> None:
        """The batch has its outcome, which is set on it; its bytes are free and whoever waits is told."""
        if batch.settled.is_set():
            return
        batch.settled.set()
        self.used_bytes -= batch.bytes
        self._wake_waiter()

    def take(self, queue: PartitionQueue, room: int) -> list[Batch]:
        """The queue's oldest batches that are due, within `room` bytes but at least one; now closed and in flight."""
        assert not queue.in_flight, f"{queue.partition}: two requests at a time would break the order"
        taken: list[Batch] = []
        size = 0
        for batch in queue.batches:
            size += batch.bytes + BATCH_OVERHEAD
            if taken and (size > room or not self._due(queue, batch)):
                break
            taken.append(batch)
        if taken[-1] is queue.open:
            queue.open = None
        queue.in_flight = len(taken)
        queue.scheduled = False
        return taken

    def land(self, queue: PartitionQueue) -> None:
        """Nothing of the queue is in flight any more: what is settled leaves it, the rest keeps its order."""
        landed = [queue.batches.popleft() for _ in range(queue.in_flight)]
        queue.in_flight = 0
        queue.batches.extendleft(batch for batch in reversed(landed) if not batch.settled.is_set())
        self.drop_settled(queue)

    def drop_settled(self, queue: PartitionQueue) -> None:
        """Take settled batches off the front of a queue with nothing in flight, and offer it if the next is due."""
        while queue.batches and queue.batches[0].settled.is_set():
            queue.batches.popleft()
        if queue.batches and self._due(queue, queue.batches[0]):
            self._offer(queue)

    def unsettled(self) -> list[Batch]:
        return [batch for queue in self.queues() for batch in queue.batches if not batch.settled.is_set()]

    def queues(self) -> Iterable[PartitionQueue]:
        return (queue for queues in self.topics.values() for queue in queues)

    def send_open_batches(self) -> None:
        """Offer everything, lingering or not."""
        for queue in self.queues():
            self._offer(queue)

    def _due(self, queue: PartitionQueue, batch: Batch) -> bool:
        if batch is not queue.open or self.flushing or self._linger_s <= 0:
            return True
        return self._clock() - batch.created >= self._linger_s

    def _offer(self, queue: PartitionQueue) -> None:
        if queue.sendable:
            queue.scheduled = True
            self._ready(queue)

    def _wake_waiter(self) -> None:
        if self._waiters and not self._waiters[0].done():
            self._waiters[0].set_result(None)
