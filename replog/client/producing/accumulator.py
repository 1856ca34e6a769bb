"""Records that wait to be sent: one queue of batches per partition, bounded together by bytes.

An idempotent producer numbers a partition's batches when they are first sent, and has up to five of them in flight. A
retry goes before newer batches, under its old number, when nothing else of the partition is in flight. Without numbers
at most one request with batches of a partition is in flight, and the leader appends them in one step. So retries never
change the order; but without numbers, a batch whose answer was lost may be in the log twice."""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import chain, islice, repeat, takewhile

from replog.client.counts import ProducerCounts
from replog.client.producing.deliveries import Delivery, DeliveryFailed, Outcome
from replog.client.producing.idempotence import MAX_OUTSTANDING, Identity, Sequences
from replog.client.records import BatchBuilder, Encoded, Headers
from replog.errors import ErrorCode, ReplogError
from replog.topic import TopicPartition

logger = logging.getLogger(__name__)

BATCH_OVERHEAD = 400  # bytes: a batch's header, and its entry in the request, for the longest topic name


@dataclass(slots=True, eq=False)
class ProducerBatch:
    """A batch from its first record to its outcome."""

    outcome: Outcome
    number: int  # counts the partition's batches, in their order
    records: BatchBuilder
    created: float  # loop time, s
    sequence: int | None = None  # its first record's, once an idempotent producer has sent it
    refused: bool = False  # the last answer was OUT_OF_ORDER_SEQUENCE_NUMBER
    bytes: int = 0
    data: Encoded | None = None  # set when it is built
    attempts: int = 0  # sends that failed
    may_be_appended: bool = False  # then it keeps its number
    last_error: ReplogError | None = None

    def encoded(self) -> Encoded:
        if self.data is None:
            self.data = self.records.build()
        return self.data

    def number_anew(self) -> None:
        """Have it get another number. The answers to the last one do not count for that."""
        self.sequence = None
        self.attempts = 0
        self.refused = False


@dataclass(slots=True, eq=False)
class PartitionQueue:
    """A partition's batches, those in flight and those that wait, each oldest first. The last may be open."""

    partition: TopicPartition
    batch_size: int
    sequences: Sequences | None  # None: not idempotent
    batches: deque[ProducerBatch] = field(default_factory=deque)  # waiting
    flying: list[ProducerBatch] = field(default_factory=list)
    open: ProducerBatch | None = None  # the last batch, while it takes records
    opened: int = 0  # batches so far
    resending: bool = False  # the oldest batch in flight is a retry
    retrying: bool = False  # a timer will make it ready again
    scheduled: bool = False  # the sender has it

    def admits(self, batch: ProducerBatch, oldest: ProducerBatch | None) -> bool:
        """Return True if the batch may be sent while `oldest` and later batches have no outcome yet."""
        if self.sequences is None:
            return not self.flying
        if batch.sequence is not None:
            return oldest is None or (self.resending and self.sequences.known)
        return oldest is None or (batch.number - oldest.number < MAX_OUTSTANDING and self.sequences.continuing)

    def numbered(self) -> list[ProducerBatch]:
        """Return the batches that wait to be sent again under their numbers. They come before all others."""
        if not self.batches:
            return []
        first = takewhile(lambda batch: batch.sequence is not None, self.batches)
        return [batch for batch in first if not batch.outcome.settled]


@dataclass(eq=False, kw_only=True)
class Accumulator:
    """All queues, and the bytes they hold. `ready` gets each queue whose first batch is to be sent."""

    batch_size: int
    codec_number: int
    buffer_memory: int
    linger_s: float
    clock: Callable[[], float]
    ready: Callable[[PartitionQueue], None]
    later: Callable[[float, Callable[[], None]], object]
    identity: Identity | None = None  # None: not idempotent

    def __post_init__(self) -> None:
        self.topics: dict[str, list[PartitionQueue]] = {}
        self._ids: dict[str, bytes] = {}  # topic ids
        self._busy: dict[PartitionQueue, None] = {}  # queues with batches, waiting or in flight
        self.used_bytes = 0
        self.counts = ProducerCounts()
        self.flushing = 0  # flushes under way: nothing lingers meanwhile
        self._waiting = 0  # senders that wait for room
        self._turn = asyncio.Lock()  # the first of them has it
        self._freed = asyncio.Event()

    def grow(self, topic: str, partitions: int, max_batch_bytes: int, topic_id: bytes = b"") -> list[PartitionQueue]:
        """Return the topic's queues, one or more per partition. Their next batches are no larger than the topic takes.

        A topic that was made again loses the queues of partitions that it no longer has."""
        queues = self.topics.setdefault(topic, [])
        if self._ids.setdefault(topic, topic_id) != topic_id:
            self._ids[topic] = topic_id
            for queue in queues:
                if queue.sequences is not None:
                    queue.sequences.begin_again()
                    self.go_on(queue)
            del queues[partitions:]
        batch_size = min(self.batch_size, max_batch_bytes)
        for queue in queues:
            queue.batch_size = batch_size
        for number in range(len(queues), partitions):
            sequences = None if self.identity is None else Sequences(self.identity)
            queues.append(PartitionQueue(TopicPartition(topic, number), batch_size, sequences))
        return queues

    def has_room(self, size: int) -> bool:
        return not self._waiting and self.used_bytes + size <= self.buffer_memory

    async def wait_for_room(self, size: int, timeout_s: float) -> None:
        """Wait, first come first served, until `size` more bytes fit. Raises REQUEST_TIMED_OUT."""
        self._waiting += 1
        try:
            async with asyncio.timeout(timeout_s), self._turn:
                while self.used_bytes + size > self.buffer_memory:
                    self._freed.clear()
                    self.send_open_batches()
                    await self._freed.wait()
        except TimeoutError:
            raise ErrorCode.REQUEST_TIMED_OUT.error(
                f"the producer's buffer of {self.buffer_memory} bytes stayed full for {timeout_s:g} s; "
                "the brokers are too slow or away, or raise buffer_memory"
            ) from None
        finally:
            self._waiting -= 1

    def append_to_open(
        self, queue: PartitionQueue, timestamp_ms: int, key: bytes | None, value: bytes | None, headers: Headers
    ) -> Delivery | None:
        """Add a record to the queue's open batch. Return None if there is none, or no room in it or in the buffer.

        A batch without room for a record is sent without waiting for more."""
        batch = queue.open
        if batch is None or self._waiting:
            return None
        records = batch.records
        size = records.append(timestamp_ms, key, value, headers, self.buffer_memory - self.used_bytes)
        if not size:
            if records.full:
                queue.open = None
                self._offer_due(queue)
            return None
        batch.bytes += size
        self.used_bytes += size
        return Delivery(batch.outcome, records.count - 1, timestamp_ms)

    def append_many_to_open(
        self,
        queue: PartitionQueue,
        timestamp_ms: int,
        key: bytes | None,
        values: Iterator[bytes | None],
        deliveries: list[Delivery],
    ) -> tuple[bytes | None, ...]:
        """Add values like `append_to_open`, until one finds no room. Return that one; nothing if all are in."""
        batch = queue.open
        if batch is None or self._waiting:
            return tuple(islice(values, 1))
        records, outcome = batch.records, batch.outcome
        first, size = records.count, records.size
        try:
            left = records.append_many(timestamp_ms, key, values, self.buffer_memory - self.used_bytes)
        finally:
            batch.bytes += records.size - size
            self.used_bytes += records.size - size
        deliveries += map(Delivery, repeat(outcome), range(first, records.count), repeat(timestamp_ms))
        if records.full:
            queue.open = None
            self._offer_due(queue)
        return left

    def append(
        self, queue: PartitionQueue, timestamp_ms: int, key: bytes | None, value: bytes | None, headers: Headers
    ) -> Delivery:
        """Add a record to the queue's open batch, else to a new one."""
        if queue.open is not None:
            delivery = self.append_to_open(queue, timestamp_ms, key, value, headers)
            if delivery is not None:
                return delivery
        records = BatchBuilder(queue.batch_size, self.codec_number)
        size = records.append(timestamp_ms, key, value, headers)
        batch = ProducerBatch(Outcome(queue.partition), queue.opened, records, self.clock(), bytes=size)
        queue.opened += 1
        self.used_bytes += size
        queue.batches.append(batch)
        self._busy[queue] = None
        queue.open = batch
        if not queue.scheduled:
            self._offer_due(queue)
        if self.linger_s > 0:
            self.later(self.linger_s, lambda: self._offer(queue))
        return Delivery(batch.outcome, 0, timestamp_ms)

    def settle(self, batch: ProducerBatch) -> None:
        """End a batch whose outcome is set: free its bytes and wake waiters."""
        if batch.outcome.settled:
            return
        batch.outcome.records = batch.records.count
        batch.outcome.settle()
        self.used_bytes -= batch.bytes
        counts, records = self.counts, batch.records.count
        if batch.outcome.error is None:
            counts.sent += records
            counts.batches += 1
            counts.bytes += batch.bytes
        else:
            counts.failed += records
        self._freed.set()

    def take(self, queue: PartitionQueue, room: int, most: int) -> list[ProducerBatch]:
        """Close the queue's oldest batches that may be sent now, and return them as in flight: at most `most` within
        `room` bytes, but at least one.

        Return none if none may be sent yet; the queue is offered again when one may."""
        queue.scheduled = False
        taken: list[ProducerBatch] = []
        size = 0
        oldest = queue.flying[0] if queue.flying else None
        for batch in queue.batches:
            size += batch.bytes + BATCH_OVERHEAD
            full = size > room or len(taken) == most
            if not queue.admits(batch, oldest) or (taken and (full or not self._due(queue, batch))):
                break
            again = batch.sequence is not None
            if oldest is None:
                oldest, queue.resending = batch, again
                if again:
                    for known in queue.numbered():
                        known.refused = False  # another leader may accept it
            if queue.sequences is not None and not again:
                if not queue.sequences.named:
                    break
                producer, batch.sequence = queue.sequences.take(batch.records.count)
                batch.data = batch.records.build(*producer, batch.sequence)
            taken.append(batch)
        for batch in taken:
            queue.batches.popleft()
            if batch is queue.open:
                queue.open = None
            if batch.attempts:
                self.counts.retried += batch.records.count
        queue.flying += taken
        if queue.batches:
            self._offer_due(queue)
        return taken

    def land(self, queue: PartitionQueue, landed: list[ProducerBatch]) -> None:
        """Take batches out of flight. Those without an outcome wait again, in their place. Call `go_on` after it."""
        for batch in landed:
            queue.flying.remove(batch)
        again = [batch for batch in landed if not batch.outcome.settled]
        if again or not queue.flying:
            queue.resending = False
        if again:
            queue.batches = deque(sorted((*again, *queue.batches), key=lambda batch: batch.number))

    def go_on(self, queue: PartitionQueue) -> None:
        """Drop settled batches at the front, and offer the queue if the next one is due."""
        if queue.sequences is not None and not queue.flying:
            self._settle_sequences(queue, queue.sequences)
        while queue.batches and queue.batches[0].outcome.settled:
            queue.batches.popleft()
        if queue.batches:
            self._offer_due(queue)
        elif not queue.flying:
            self._busy.pop(queue, None)

    def _settle_sequences(self, queue: PartitionQueue, sequences: Sequences) -> None:
        """Judge batches by the log's answers about their numbers, which are final with nothing in flight.

        A log that knows a producer knows its last batch, but after a restart none before it (PS-7). So a refused batch
        is in the log if a later one is, unless no try can have brought it there: then the log had forgotten the
        producer. If none is in the log, the batch before them was given up or lost, and they get new numbers. Those
        that an earlier leader may have appended fail: it may lead again, and would have them twice (divergence 21)."""
        numbered = queue.numbered()
        if numbered and numbered[0].refused:
            appended = [batch for batch in numbered if batch.number < sequences.acknowledged and batch.may_be_appended]
            for batch in appended:
                self.settle(batch)
            if not appended and all(batch.refused for batch in numbered):
                logger.warning("%s: the log does not take sequence %s", queue.partition, numbered[0].sequence)
                sequences.broken = True
                for batch in numbered:
                    if batch.may_be_appended:
                        batch.outcome.error = DeliveryFailed(
                            ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                            f"{queue.partition}: records before it are lost, and another replica may have it",
                            True,
                        )
                        self.settle(batch)
                    else:
                        batch.number_anew()
        if sequences.broken and not queue.numbered():
            sequences.mend()

    def unsettled(self) -> list[ProducerBatch]:
        batches = (batch for queue in self._busy for batch in chain(queue.flying, queue.batches))
        return [batch for batch in batches if not batch.outcome.settled]

    def busy(self) -> list[PartitionQueue]:
        """Return the queues that have batches, waiting or in flight."""
        return list(self._busy)

    def send_open_batches(self) -> None:
        """Offer every queue, lingering or not."""
        for queue in self.busy():
            self._offer(queue)

    def _due(self, queue: PartitionQueue, batch: ProducerBatch) -> bool:
        """Return True if the batch has waited long enough for more records."""
        if batch is not queue.open or self.flushing:
            return True
        if self.linger_s <= 0:
            return not queue.flying
        return self.clock() - batch.created >= self.linger_s

    def _offer_due(self, queue: PartitionQueue) -> None:
        """Offer the queue, which has batches, if the first one is due."""
        if self._due(queue, queue.batches[0]):
            self._offer(queue)

    def _offer(self, queue: PartitionQueue) -> None:
        batches, flying = queue.batches, queue.flying
        if not batches or queue.retrying or queue.scheduled:
            return
        if queue.admits(batches[0], flying[0] if flying else None):
            queue.scheduled = True
            self.ready(queue)
