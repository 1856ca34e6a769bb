"""From queues to brokers: routing by leader, retries with backoff, and the deadline of every batch."""

import asyncio
import contextlib

import structlog

from replog.client.accumulator import Accumulator, Batch, DeliveryFailed, PartitionQueue
from replog.client.backoff import Backoff
from replog.client.metadata import Metadata
from replog.client.produce_stream import ProduceStream
from replog.errors import ErrorCode, ReplogError, error_code
from replog.rpc.v1 import log_pb2

log = structlog.get_logger()

METADATA_MAX_AGE_S = 300.0  # Kafka's metadata.max.age.ms: new partitions are noticed at the latest then

# The batch was surely not appended (PR-12); every other error leaves that open.
DEFINITE = frozenset(
    {
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.MESSAGE_TOO_LARGE,
        ErrorCode.RECORD_LIST_TOO_LARGE,
        ErrorCode.INVALID_TOPIC_EXCEPTION,
        ErrorCode.INVALID_REQUIRED_ACKS,
        ErrorCode.INVALID_TIMESTAMP,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.INVALID_RECORD,
    }
)


class Sender:
    """Runs between `start` and `stop`. Every batch that it takes is settled, at the latest when it is stopped."""

    def __init__(
        self,
        metadata: Metadata,
        backoff: Backoff,
        *,
        acks: int,
        max_request_bytes: int,
        request_timeout_s: float,
        delivery_timeout_s: float,
    ) -> None:
        self.metadata = metadata
        self.acks = acks
        self.max_request_bytes = max_request_bytes
        self.request_timeout_s = request_timeout_s
        self._backoff = backoff
        self._delivery_timeout_s = delivery_timeout_s
        self._streams: dict[str, ProduceStream] = {}  # by broker address
        self._unrouted: dict[PartitionQueue, None] = {}
        self._stale = asyncio.Event()  # the metadata is, and should be refreshed
        self._tasks: list[asyncio.Task[None]] = []
        self._stopped = False
        self.accumulator: Accumulator  # set by the producer, which ties the two together

    def start(self) -> None:
        self._tasks = [asyncio.create_task(self._refresh_metadata()), asyncio.create_task(self._watch_deadlines())]

    async def stop(self) -> None:
        """End every stream; what is still unsettled fails."""
        self._stopped = True
        for task in self._tasks:
            task.cancel()
        streams = [stream.stop() for stream in self._streams.values()]
        await asyncio.gather(*self._tasks, *streams, return_exceptions=True)
        for queue in self.accumulator.queues():
            for batch in queue.batches:
                self._fail(queue, batch, ErrorCode.NETWORK_EXCEPTION, "the producer was closed before it was delivered")

    def ready(self, queue: PartitionQueue) -> None:
        """Route the queue, which has a batch to send, to its leader's stream; or hold it until there is a leader."""
        if self._stopped:
            return
        leader = self.metadata.view.leader(queue.partition)
        if leader is None:
            self._unrouted[queue] = None
            self._stale.set()
            return
        stream = self._streams.get(leader.address)
        if stream is None:
            stream = self._streams[leader.address] = ProduceStream(self, leader.address)
        stream.offer(queue)

    def stream_lost(self, stream: ProduceStream, error: ReplogError) -> None:
        """The stream has ended; its queues come back through `lost`, and the next batch opens another."""
        if self._streams.get(stream.address) is stream:
            del self._streams[stream.address]
        log.info("produce stream lost", broker=stream.address, error=str(error))

    def answered(self, queue: PartitionQueue, result: log_pb2.ProducePartitionResult) -> None:
        """Settle the queue's batch in flight by its answer, or send it again."""
        batch = queue.batches[0]
        if result.error_code:
            error = ReplogError(error_code(result.error_code), result.error_message or f"refused for {queue.partition}")
            if error.retriable:
                self.lost(queue, error)
            else:
                may_be_appended = batch.may_be_appended or error.code not in DEFINITE
                self._fail(queue, batch, error.code, error.message, may_be_appended)
                self.accumulator.remove(queue, batch)
            return
        batch.base_offset = result.base_offset
        batch.append_time_ms = result.log_append_time_ms
        self.accumulator.settle(batch)
        self.accumulator.remove(queue, batch)

    def sent_without_answer(self, queue: PartitionQueue) -> None:
        """acks=0: handed over, and that is all that will be known (PR-7)."""
        batch = queue.batches[0]
        self.accumulator.settle(batch)
        self.accumulator.remove(queue, batch)

    def lost(self, queue: PartitionQueue, error: ReplogError, sent: bool = True) -> None:
        """The queue's first batch did not get through: once more, after a backoff and with fresh metadata."""
        queue.in_flight = queue.scheduled = False
        batch = queue.batches[0]
        batch.attempts += 1
        batch.last_error = error
        batch.may_be_appended |= sent and error.code not in DEFINITE
        self._stale.set()
        if batch.settled.is_set():  # given up while it was in flight
            self.accumulator.remove(queue, batch)
            return
        queue.retrying = True
        asyncio.get_running_loop().call_later(self._backoff.delay_s(batch.attempts), self._retry, queue)

    def _retry(self, queue: PartitionQueue) -> None:
        queue.retrying = False
        if queue.sendable:
            queue.scheduled = True
            self.ready(queue)

    def _fail(
        self, queue: PartitionQueue, batch: Batch, code: ErrorCode, message: str, may_be_appended: bool | None = None
    ) -> None:
        if batch.settled.is_set():
            return
        in_flight = queue.in_flight and queue.batches[0] is batch
        uncertain = batch.may_be_appended or in_flight if may_be_appended is None else may_be_appended
        batch.error = DeliveryFailed(code, f"{queue.partition}: {message}", uncertain)
        self.accumulator.settle(batch)

    async def _refresh_metadata(self) -> None:
        loop = asyncio.get_running_loop()
        refreshed = loop.time()
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout_at(refreshed + METADATA_MAX_AGE_S):
                    await self._stale.wait()
            self._stale.clear()
            try:
                await self.metadata.refresh()
            except ReplogError as error:
                log.warning("no metadata", error=str(error))
                if self._unrouted:
                    self._stale.set()
            refreshed = loop.time()
            for topic, view in self.metadata.view.topics.items():
                if topic in self.accumulator.topics and view.partitions:
                    self.accumulator.grow(topic, max(view.partitions) + 1)
            unrouted, self._unrouted = self._unrouted, {}
            for queue in unrouted:
                if queue.batches:
                    self.ready(queue)
                else:
                    queue.scheduled = False

    async def _watch_deadlines(self) -> None:
        loop = asyncio.get_running_loop()
        period_s = max(0.01, min(1.0, self._delivery_timeout_s / 20, self.request_timeout_s / 20))
        while True:
            await asyncio.sleep(period_s)
            now = loop.time()
            for stream in list(self._streams.values()):
                stream.check_timeout(now)
            for queue in self.accumulator.queues():
                self._expire(queue, now)

    def _expire(self, queue: PartitionQueue, now: float) -> None:
        """Give up every batch past its deadline; one that is in flight keeps its place until its answer comes."""
        while queue.batches and now - queue.batches[0].created >= self._delivery_timeout_s:
            batch = queue.batches[0]
            reason = f"; last error: {batch.last_error}" if batch.last_error else ""
            message = f"not delivered in {self._delivery_timeout_s:g} s{reason}"
            self._fail(queue, batch, ErrorCode.REQUEST_TIMED_OUT, message)
            if queue.in_flight:
                return
            self.accumulator.remove(queue, batch)
