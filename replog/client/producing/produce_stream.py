"""A long-lived Produce stream to a broker: it sends all that is ready in as few requests as possible.

A request costs every process on its way the same CPU, however small. So while the last one has no answer, batches are
collected for the next one, until they are worth a request. A partition with slow replicas delays the others once, for a
moment."""

import asyncio
import contextlib
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Protocol

from replog.client.metadata import Metadata
from replog.client.producing.accumulator import BATCH_OVERHEAD, Accumulator, PartitionQueue, ProducerBatch
from replog.client.producing.idempotence import MAX_OUTSTANDING
from replog.errors import ErrorCode, ReplogError
from replog.log.offsets import Buffer
from replog.rpc.codec import WithRecords
from replog.rpc.limits import MAX_BATCHES_PER_REQUEST
from replog.rpc.methods import Log
from replog.rpc.transport import Stream
from replog.rpc.v1 import log_pb2
from replog.topic import TopicPartition

MAX_IN_FLIGHT = 5  # requests per stream, Kafka's max.in.flight.requests.per.connection
GATHER_S = 0.02  # the longest time that batches are collected
ENOUGH_BYTES = 192 << 10  # full batches of this size cost more CPU than the request itself

_HANDED_OVER = log_pb2.ProducePartitionResult(base_offset=-1, log_append_time_ms=-1)

Flight = tuple[PartitionQueue, list[ProducerBatch]]  # one partition's part of a request


class StreamOwner(Protocol):
    """The sender, which gets the outcome of each batch that a stream took."""

    metadata: Metadata
    acks: int
    max_request_bytes: int
    request_timeout_s: float
    accumulator: Accumulator

    def answered(
        self, stream: "ProduceStream", flight: Flight, results: list[log_pb2.ProducePartitionResult]
    ) -> None: ...

    def lost(
        self, stream: "ProduceStream", error: ReplogError, in_flight: list[Flight], ready: Iterable[PartitionQueue]
    ) -> None:
        """Take everything back that the stream held: batches without an answer, and queues with batches to send."""


class ProduceStream:
    """Works until its first error; then every batch it holds goes back to the sender."""

    def __init__(self, sender: StreamOwner, address: str) -> None:
        self.address = address
        self._sender = sender
        self._stream: Stream = sender.metadata.channel(address).open(Log["produce"])
        self._most_in_flight = MAX_IN_FLIGHT if sender.acks else 1
        self._ready: dict[PartitionQueue, None] = {}
        self._in_flight: dict[int, tuple[float, list[Flight]]] = {}  # sent at, by correlation id
        self._correlation_id = 0
        self._full_bytes = 0  # size of full batches and retries that became ready while a request was under way
        self._will_write = False  # a call of `_write` is due or runs
        self._alarm: asyncio.TimerHandle | None = None  # ends the collecting
        self._handing_over: asyncio.Task[None] | None = None  # sends a request that gets no answer
        self._loop = asyncio.get_running_loop()
        self._task = self._loop.create_task(self._run())

    def offer(self, queue: PartitionQueue) -> None:
        self._ready[queue] = None
        if self._in_flight:
            first = islice(queue.batches, MAX_OUTSTANDING)
            self._full_bytes += sum(batch.bytes for batch in first if batch is not queue.open)
        if not self._will_write:
            self._will_write = True
            self._loop.call_soon(self._write)  # so all that is sent in this turn shares a request

    def oldest_s(self, now: float) -> float:
        """Return how long the oldest request has waited for its answer; 0 if none waits."""
        return next((now - sent_at for sent_at, _ in self._in_flight.values()), 0.0)

    def partitions_in_flight(self) -> Iterator[TopicPartition]:
        return (queue.partition for _, flights in self._in_flight.values() for queue, _ in flights)

    def cut(self) -> None:
        """End the stream as if it had been lost."""
        self._stream.cancel()

    async def drain(self, timeout_s: float) -> None:
        """Wait until the broker has read everything. With acks=0 only the end of the stream shows it."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):  # also for the opening of the stream
                with contextlib.suppress(ReplogError):  # the task has it, too, and ends
                    await self._stream.finish()
                await asyncio.wait([self._task])

    def stop(self) -> "asyncio.Task[None]":
        """Give the stream up, and return the task that ends with it."""
        self._ready.clear()
        self._in_flight.clear()
        self._stream.cancel()
        return self._task

    async def _run(self) -> None:
        try:
            await self._stream.each(self._take)
            error = ErrorCode.NETWORK_EXCEPTION.error(f"{self.address} ended the produce stream")
        except ReplogError as lost:
            error = lost
        except Exception as defect:  # noqa: BLE001 (the boundary)
            error = ErrorCode.UNKNOWN_SERVER_ERROR.error(f"the stream failed: {defect!r}")
        self._stream.cancel()
        in_flight = [flight for _, flights in self._in_flight.values() for flight in flights]
        ready, self._in_flight, self._ready = self._ready, {}, {}
        self._sender.lost(self, error, in_flight, ready)

    def _write(self) -> None:
        """Send what is ready, as much as may go now. Queues offered meanwhile are sent, too."""
        self._will_write = True
        try:
            while self._ready and len(self._in_flight) < self._most_in_flight and not self._gathers():
                request, flights = self._next_request()
                if flights:
                    self._correlation_id = request.head.correlation_id
                    self._in_flight[self._correlation_id] = self._loop.time(), flights
                    self._hand_over(request)
        finally:
            self._will_write = False

    def _gathers(self) -> bool:
        """Return True if what is ready waits for the answer to the last request."""
        last = self._in_flight.get(self._correlation_id)
        if last is None or self._full_bytes >= ENOUGH_BYTES:
            return False
        until = last[0] + GATHER_S
        if until <= self._loop.time():
            return False
        if self._alarm is None or self._alarm.when() != until:
            self._alarm = self._loop.call_at(until, self._write)
        return True

    def _hand_over(self, request: WithRecords[log_pb2.ProduceRequest]) -> None:
        if self._sender.acks:
            self._stream.post(request)
        else:  # `send` waits until the broker reads, otherwise requests would fill the memory
            self._handing_over = self._loop.create_task(self._stream.send(request))
            self._handing_over.add_done_callback(self._handed_over)

    def _handed_over(self, sending: "asyncio.Task[None]") -> None:
        if sending.cancelled() or sending.exception() is not None or not self._in_flight:
            return  # the stream has ended
        _, flights = self._in_flight.pop(self._correlation_id)
        for flight in flights:  # nobody answers them (PR-7)
            self._sender.answered(self, flight, [_HANDED_OVER] * len(flight[1]))
        self._write()

    def _take(self, response: log_pb2.ProduceResponse) -> None:
        """Take an answer in, and write at once what waited for it."""
        self._will_write = True
        for answer in response.answers:
            self._answered(answer)
        self._write()

    def _answered(self, answer: log_pb2.ProduceAnswer) -> None:
        if self._sender.acks == 0:
            return
        known = self._in_flight.get(answer.correlation_id)
        if known is None:
            raise ErrorCode.INVALID_REQUEST.error(
                f"{self.address} answered request {answer.correlation_id}, not under way"
            )
        flights = known[1]
        answered = [(result.topic, result.partition) for result in answer.partitions]
        if answered != [tuple(queue.partition) for queue, batches in flights for _ in batches]:
            raise ErrorCode.INVALID_REQUEST.error(
                f"{self.address} answered request {answer.correlation_id} for {answered}"
            )
        del self._in_flight[answer.correlation_id]
        self._sender.accumulator.counts.requests.add(self._loop.time() - known[0])
        results = iter(answer.partitions)
        for flight in flights:
            self._sender.answered(self, flight, list(islice(results, len(flight[1]))))

    def _next_request(self) -> tuple[WithRecords[log_pb2.ProduceRequest], list[Flight]]:
        """Return a request with batches of ready queues, the longest waiting first, as many as fit (at least one)."""
        self._full_bytes = 0
        head = log_pb2.ProduceRequest(
            correlation_id=self._correlation_id + 1,
            acks=self._sender.acks,
            timeout_ms=int(self._sender.request_timeout_s * 1000),
        )
        pieces: list[Buffer] = []
        flights: list[Flight] = []
        room = self._sender.max_request_bytes
        for queue in list(self._ready):
            places = MAX_BATCHES_PER_REQUEST - len(head.partitions)
            if not places or (flights and queue.batches and queue.batches[0].bytes + BATCH_OVERHEAD > room):
                self._full_bytes = ENOUGH_BYTES
                break
            del self._ready[queue]
            batches = self._sender.accumulator.take(queue, room, places)
            if not batches:  # they have expired, or must wait
                continue
            flights.append((queue, batches))
            for batch in batches:
                header, records = batch.encoded()
                head.partitions.add(
                    topic=queue.partition.topic,
                    partition=queue.partition.partition,
                    records_size=len(header) + len(records),
                )
                pieces += header, records
                room -= batch.bytes + BATCH_OVERHEAD
        return WithRecords(head, pieces), flights
