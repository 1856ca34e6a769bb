"""One long-lived Produce stream to one broker: everything ready for it goes out in as few requests as fit.

A request costs every process on its way the same CPU, whatever it holds. So while the last one has no answer, batches
are collected for the next one, until they are enough to make up for that. A partition with slow replicas delays the
others once, for a moment.
"""

import asyncio
import contextlib
from collections.abc import Iterator
from itertools import islice
from typing import Protocol

from replog.client.metadata import Metadata
from replog.client.producing.accumulator import BATCH_OVERHEAD, Accumulator, PartitionQueue, ProducerBatch
from replog.client.producing.idempotence import MAX_OUTSTANDING
from replog.errors import ErrorCode, ReplogError
from replog.log.offsets import Buffer
from replog.rpc.codec import WithRecords
from replog.rpc.methods import Log
from replog.rpc.transport import Stream
from replog.rpc.v1 import log_pb2
from replog.topic import TopicPartition

MAX_IN_FLIGHT = 5  # requests per stream, Kafka's max.in.flight.requests.per.connection
GATHER_S = 0.02  # at most
ENOUGH_BYTES = 192 << 10  # in full batches: of a larger request the bytes cost more than the request

Flight = tuple[PartitionQueue, list[ProducerBatch]]  # one partition's part of a request


class StreamOwner(Protocol):
    """The sender, which gets the outcome of each batch that a stream took."""

    metadata: Metadata
    acks: int
    max_request_bytes: int
    request_timeout_s: float
    accumulator: Accumulator

    def stream_lost(self, stream: "ProduceStream", error: ReplogError) -> None: ...

    def answered(
        self,
        stream: "ProduceStream",
        queue: PartitionQueue,
        batches: list[ProducerBatch],
        results: list[log_pb2.ProducePartitionResult],
    ) -> None: ...

    def sent_without_answer(self, queue: PartitionQueue, batches: list[ProducerBatch]) -> None: ...

    def lost(self, queue: PartitionQueue, batches: list[ProducerBatch], error: ReplogError) -> None: ...

    def not_sent(self, queue: PartitionQueue, error: ReplogError) -> None: ...


class ProduceStream:
    """Lives until its first error; then every batch it holds goes back to the sender."""

    def __init__(self, sender: StreamOwner, address: str) -> None:
        self.address = address
        self._sender = sender
        self._stream: Stream = sender.metadata.channel(address).open(Log["produce"])
        self._ready: dict[PartitionQueue, None] = {}
        self._wake = asyncio.Event()
        self._in_flight: dict[int, tuple[float, list[Flight]]] = {}  # sent at, by correlation id
        self._correlation_id = 0
        self._full_bytes = 0  # of the full batches and retries that were ready when they were offered
        self._pressing = False  # what is ready waits for nothing to go with it
        self._alarm: asyncio.TimerHandle | None = None  # wakes the writer when it has gathered long enough
        self._task = asyncio.create_task(self._run())

    def offer(self, queue: PartitionQueue) -> None:
        self._ready[queue] = None
        if self._in_flight:
            first = islice(queue.batches, MAX_OUTSTANDING)
            self._full_bytes += sum(batch.bytes for batch in first if batch is not queue.open)
            self._pressing |= self._full_bytes >= ENOUGH_BYTES
        self._wake.set()

    def oldest_s(self, now: float) -> float:
        """How long the oldest request has waited for its answer; 0 when none waits."""
        return next((now - sent_at for sent_at, _ in self._in_flight.values()), 0.0)

    def partitions_in_flight(self) -> Iterator[TopicPartition]:
        return (queue.partition for _, flights in self._in_flight.values() for queue, _ in flights)

    def cut(self) -> None:
        """End the stream as if it had been lost."""
        self._stream.cancel()

    async def drain(self, timeout_s: float) -> None:
        """Wait until the broker has read everything, which without acks only the end of the stream shows."""
        with contextlib.suppress(ReplogError):
            await self._stream.finish()
        await asyncio.wait([self._task], timeout=timeout_s)

    def stop(self) -> "asyncio.Task[None]":
        """Give the stream up; the task that ends with it."""
        self._stream.cancel()
        self._task.cancel()
        return self._task

    async def _run(self) -> None:
        tasks = [asyncio.create_task(self._write()), asyncio.create_task(self._read())]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._stream.cancel()
            for task in tasks:
                task.cancel()
            outcomes = await asyncio.gather(*tasks, return_exceptions=True)
        errors = [outcome for outcome in outcomes if isinstance(outcome, Exception)]
        wire = [error for error in errors if isinstance(error, ReplogError)]
        error = wire[0] if wire else ReplogError(ErrorCode.UNKNOWN_SERVER_ERROR, f"the stream failed: {errors!r}")
        self._give_back(error)

    def _give_back(self, error: ReplogError) -> None:
        self._sender.stream_lost(self, error)
        in_flight, self._in_flight = self._in_flight, {}
        for _, flights in in_flight.values():
            for queue, batches in flights:
                self._sender.lost(queue, batches, error)
        ready, self._ready = self._ready, {}
        for queue in ready:
            self._sender.not_sent(queue, error)

    async def _write(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await self._wake.wait()
            if len(self._in_flight) >= MAX_IN_FLIGHT or not self._ready:
                self._wake.clear()
                continue
            last = self._in_flight.get(self._correlation_id)
            if last is not None and not self._pressing and (until := last[0] + GATHER_S) > loop.time():
                self._wake.clear()
                if self._alarm is None or self._alarm.when() != until:
                    self._alarm = loop.call_at(until, self._wake.set)
                continue
            request, flights = self._next_request()
            if not flights:
                continue
            self._in_flight[request.head.correlation_id] = (loop.time(), flights)
            await self._stream.send(request)
            if self._sender.acks == 0:
                del self._in_flight[request.head.correlation_id]
                for queue, batches in flights:
                    self._sender.sent_without_answer(queue, batches)

    async def _read(self) -> None:
        while True:
            response: log_pb2.ProduceResponse | None = await self._stream.receive()
            if response is None:
                raise ReplogError(ErrorCode.NETWORK_EXCEPTION, f"{self.address} ended the produce stream")
            for answer in response.answers:
                self._answered(answer)
            self._wake.set()

    def _answered(self, answer: log_pb2.ProduceAnswer) -> None:
        if self._sender.acks == 0:
            return
        known = self._in_flight.get(answer.correlation_id)
        if known is None:
            raise ReplogError(
                ErrorCode.INVALID_REQUEST, f"{self.address} answered request {answer.correlation_id}, not under way"
            )
        flights = known[1]
        answered = [(result.topic, result.partition) for result in answer.partitions]
        if answered != [tuple(queue.partition) for queue, batches in flights for _ in batches]:
            raise ReplogError(
                ErrorCode.INVALID_REQUEST, f"{self.address} answered request {answer.correlation_id} for {answered}"
            )
        del self._in_flight[answer.correlation_id]
        results = iter(answer.partitions)
        for queue, batches in flights:
            self._sender.answered(self, queue, batches, list(islice(results, len(batches))))

    def _next_request(self) -> tuple[WithRecords[log_pb2.ProduceRequest], list[Flight]]:
        """The batches of each ready queue, the queue that waits longest first, as many as fit (at least one)."""
        self._correlation_id += 1
        self._full_bytes, self._pressing = 0, False
        head = log_pb2.ProduceRequest(
            correlation_id=self._correlation_id,
            acks=self._sender.acks,
            timeout_ms=int(self._sender.request_timeout_s * 1000),
        )
        pieces: list[Buffer] = []
        flights: list[Flight] = []
        room = self._sender.max_request_bytes
        for queue in list(self._ready):
            if flights and queue.batches and queue.batches[0].bytes + BATCH_OVERHEAD > room:
                self._pressing = True
                break
            del self._ready[queue]
            batches = self._sender.accumulator.take(queue, room)
            if not batches:  # they have expired meanwhile, or have to wait after all
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
