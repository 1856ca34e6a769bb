"""From queues to brokers: routing by leader, retries with backoff, and the deadline of every batch."""

import asyncio
import contextlib
import logging

from replog.backoff import Backoff
from replog.client.accumulator import Accumulator, Batch, DeliveryFailed, PartitionQueue
from replog.client.metadata import Leader, Metadata
from replog.client.produce_stream import ProduceStream
from replog.errors import ErrorCode, ReplogError, error_code
from replog.rpc.v1 import log_pb2

logger = logging.getLogger(__name__)

METADATA_MAX_AGE_S = 300.0  # Kafka's metadata.max.age.ms: new partitions are noticed at the latest then
SILENCE_S = 1.0  # a leader that does not answer for so long may be one no more
DRAIN_TIMEOUT_S = 5.0  # what closing allows the brokers to read the last records of acks=0

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
        self._retrying: dict[PartitionQueue, tuple[asyncio.TimerHandle, Leader | None]] = {}  # and who led then
        self._stale = asyncio.Event()  # the metadata is, and should be refreshed
        self._tasks: list[asyncio.Task[None]] = []
        self._stopped = False
        self.accumulator: Accumulator  # set by the producer, which ties the two together

    def start(self) -> None:
        self._tasks = [asyncio.create_task(self._refresh_metadata()), asyncio.create_task(self._watch_deadlines())]
        for task in self._tasks:
            task.add_done_callback(_report_defect)

    async def stop(self) -> None:
        """End every stream; what is still unsettled fails."""
        self._stopped = True
        for timer, _ in self._retrying.values():
            timer.cancel()
        for task in self._tasks:
            task.cancel()
        if self.acks == 0:
            await asyncio.gather(*(stream.drain(DRAIN_TIMEOUT_S) for stream in self._streams.values()))
        streams = [stream.stop() for stream in self._streams.values()]
        await asyncio.gather(*self._tasks, *streams, return_exceptions=True)
        for queue in self.accumulator.queues():
            for index, batch in enumerate(queue.batches):
                may_be_appended = batch.may_be_appended or index < queue.in_flight
                self._fail(queue, batch, ErrorCode.NETWORK_EXCEPTION, "the producer was closed", may_be_appended)

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
        logger.info("produce stream lost: %s", error)

    def answered(self, queue: PartitionQueue, results: list[log_pb2.ProducePartitionResult]) -> None:
        """Settle the queue's batches in flight by their answers; those with an error that may pass are sent again."""
        passing: ReplogError | None = None
        for batch, result in zip(queue.flying, results, strict=True):
            if not result.error_code:
                batch.base_offset = result.base_offset
                batch.append_time_ms = result.log_append_time_ms
                self.accumulator.settle(batch)
                continue
            error = ReplogError(error_code(result.error_code), result.error_message or "refused")
            if error.retriable:
                self._failed_once(batch, error)
                passing = error
            else:
                may_be_appended = batch.may_be_appended or error.code not in DEFINITE
                self._fail(queue, batch, error.code, error.message, may_be_appended)
        self._land(queue, passing)

    def sent_without_answer(self, queue: PartitionQueue) -> None:
        """acks=0: handed over, and that is all that will be known (PR-7)."""
        for batch in queue.flying:
            self.accumulator.settle(batch)
        self.accumulator.land(queue)

    def lost(self, queue: PartitionQueue, error: ReplogError) -> None:
        """The stream that had the queue is gone: once more, after a backoff and with fresh metadata."""
        queue.scheduled = False
        for batch in queue.flying or list(queue.batches)[:1]:
            self._failed_once(batch, error, sent=queue.in_flight > 0)
        self._land(queue, error)

    @staticmethod
    def _failed_once(batch: Batch, error: ReplogError, sent: bool = True) -> None:
        batch.attempts += 1
        batch.last_error = error
        batch.may_be_appended |= sent and error.code not in DEFINITE

    def _land(self, queue: PartitionQueue, error: ReplogError | None) -> None:
        """Nothing is in flight any more; after an error the rest waits for a backoff."""
        queue.retrying = error is not None
        self.accumulator.land(queue)
        if error is not None:
            self._stale.set()
            attempts = queue.batches[0].attempts if queue.batches else 1
            delay_s = self._backoff.delay_s(max(1, attempts))
            timer = asyncio.get_running_loop().call_later(delay_s, self._retry, queue)
            self._retrying[queue] = timer, self.metadata.view.leader(queue.partition)

    def _retry(self, queue: PartitionQueue) -> None:
        del self._retrying[queue]
        queue.retrying = False
        self.accumulator.drop_settled(queue)

    def _fail(self, queue: PartitionQueue, batch: Batch, code: ErrorCode, message: str, may_be_appended: bool) -> None:
        if batch.settled.is_set():
            return
        if batch is queue.open:
            queue.open = None
        batch.error = DeliveryFailed(code, f"{queue.partition}: {message}", may_be_appended)
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
                logger.warning("no metadata: %s", error)
                if self._unrouted:
                    self._stale.set()
            refreshed = loop.time()
            for topic, view in self.metadata.view.topics.items():
                if topic in self.accumulator.topics and view.partitions:
                    self.accumulator.grow(topic, max(view.partitions) + 1)
            self._leave_silent_leaders(loop.time())
            self._retry_at_new_leaders()
            unrouted, self._unrouted = self._unrouted, {}
            for queue in unrouted:
                if queue.batches:
                    self.ready(queue)
                else:
                    queue.scheduled = False

    def _retry_at_new_leaders(self) -> None:
        """The backoff is for the leader that failed; look for another until there is one."""
        for queue, (timer, failed) in list(self._retrying.items()):
            leader = self.metadata.view.leader(queue.partition)
            if leader is not None and leader != failed:
                timer.cancel()
                self._retry(queue)
        if self._retrying:
            self._stale.set()

    def _leave_silent_leaders(self, now: float) -> None:
        """A broker that hangs is left as soon as another leads; waiting for its connection to die takes far longer."""
        for stream in list(self._streams.values()):
            if stream.oldest_s(now) > SILENCE_S:
                leaders = map(self.metadata.view.leader, stream.partitions_in_flight())
                if any(leader is not None and leader.address != stream.address for leader in leaders):
                    stream.cut()

    async def _watch_deadlines(self) -> None:
        loop = asyncio.get_running_loop()
        period_s = max(0.01, min(1.0, self._delivery_timeout_s / 20, self.request_timeout_s / 20))
        while True:
            await asyncio.sleep(period_s)
            now = loop.time()
            for stream in list(self._streams.values()):
                waited_s = stream.oldest_s(now)
                if waited_s > self.request_timeout_s:
                    stream.cut()
                elif waited_s > SILENCE_S:
                    self._stale.set()
            for queue in self.accumulator.queues():
                self._expire(queue, now)

    def _expire(self, queue: PartitionQueue, now: float) -> None:
        """Give up every batch past its deadline; those in flight keep their place until their answer comes."""
        for index, batch in enumerate(queue.batches):
            if now - batch.created < self._delivery_timeout_s:
                break
            reason = f"; last error: {batch.last_error}" if batch.last_error else ""
            message = f"not delivered in {self._delivery_timeout_s:g} s{reason}"
            may_be_appended = batch.may_be_appended or index < queue.in_flight
            self._fail(queue, batch, ErrorCode.REQUEST_TIMED_OUT, message, may_be_appended)
        if not queue.in_flight:
            self.accumulator.drop_settled(queue)


def _report_defect(task: "asyncio.Task[None]") -> None:
    """These tasks end only by being cancelled."""
    if not task.cancelled() and (error := task.exception()) is not None:
        logger.error("the producer no longer works: a defect", exc_info=error)
