"""The way from queues to brokers: routing by leader, retries with backoff, and every batch's deadline."""

import asyncio
import contextlib
import logging
from collections.abc import Iterable
from dataclasses import dataclass

from replog.client.lifetime import LONG_S
from replog.client.metadata import Leader, Metadata
from replog.client.producing.accumulator import Accumulator, PartitionQueue, ProducerBatch
from replog.client.producing.deliveries import DeliveryFailed
from replog.client.producing.idempotence import Identity, ProducerId
from replog.client.producing.produce_stream import Flight, ProduceStream
from replog.common.backoff import Backoff
from replog.errors import DENIALS, ErrorCode, ReplogError, codes
from replog.rpc.methods import Log
from replog.rpc.tasks import for_good
from replog.rpc.v1 import log_pb2

logger = logging.getLogger(__name__)

METADATA_MAX_AGE_S = 300.0  # Kafka's metadata.max.age.ms: new partitions are noticed at the latest then
SILENCE_S = 1.0  # a leader that does not answer for so long may have lost its leadership
DRAIN_TIMEOUT_S = 5.0  # how long closing waits until brokers have read the last records of acks=0

TOO_LARGE = frozenset({ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE})
# These say that the batch was surely not appended (PR-12); every other error leaves that open.
DEFINITE = codes(
    "NOT_ENOUGH_REPLICAS UNKNOWN_PRODUCER_ID THROTTLING_QUOTA_EXCEEDED CORRUPT_MESSAGE UNKNOWN_TOPIC_OR_PARTITION "
    "UNKNOWN_TOPIC_ID LEADER_NOT_AVAILABLE MESSAGE_TOO_LARGE RECORD_LIST_TOO_LARGE INVALID_TOPIC_EXCEPTION "
    "INVALID_REQUIRED_ACKS INVALID_TIMESTAMP INVALID_REQUEST INVALID_RECORD OUT_OF_ORDER_SEQUENCE_NUMBER "
    "INVALID_PRODUCER_EPOCH"
)


@dataclass(eq=False)
class Sender:
    """Runs from `start` to `stop`. Every batch that it takes gets its outcome, at the latest from `stop`."""

    metadata: Metadata
    backoff: Backoff
    acks: int
    max_request_bytes: int
    request_timeout_s: float
    delivery_timeout_s: float
    identity: Identity | None  # None: not idempotent

    def __post_init__(self) -> None:
        self._streams: dict[str, ProduceStream] = {}  # keys are broker addresses
        self._nameless: dict[PartitionQueue, None] = {}  # queues that wait for a producer id
        self._id_wanted = asyncio.Event()
        self._unrouted: dict[PartitionQueue, None] = {}
        self._retrying: dict[PartitionQueue, tuple[asyncio.TimerHandle, Leader | None]] = {}  # the leader that failed
        self._stale = asyncio.Event()  # the metadata should be refreshed
        self._tasks: list[asyncio.Task[None]] = []
        self._stopped = False
        self._reported = False  # the log says already that records wait
        self.accumulator: Accumulator  # the producer sets it: each needs the other

    def start(self) -> None:
        for work in (self._refresh_metadata(), self._watch_deadlines(), self._keep_named()):
            self._tasks.append(for_good(work, "the producer"))

    async def stop(self) -> None:
        """End every stream. Batches without an outcome fail."""
        self._stopped = True
        for timer, _ in self._retrying.values():
            timer.cancel()
        for task in self._tasks:
            task.cancel()
        if self.acks == 0:
            await asyncio.gather(*(stream.drain(DRAIN_TIMEOUT_S) for stream in self._streams.values()))
        streams = [stream.stop() for stream in self._streams.values()]
        await asyncio.gather(*self._tasks, *streams, return_exceptions=True)
        for queue in self.accumulator.busy():
            for batch in (*queue.flying, *queue.batches):
                self._fail(queue, batch, ErrorCode.NETWORK_EXCEPTION, "the producer was closed", batch in queue.flying)

    def ready(self, queue: PartitionQueue) -> None:
        """Give a queue with a batch to send to its leader's stream, or hold it until there is a leader."""
        if self._stopped:
            return
        if self.identity is not None and self.identity.current is None:
            self._nameless[queue] = None
            self._id_wanted.set()
            return
        leader = self.metadata.view.leader(queue.partition)
        if leader is None:
            self._unrouted[queue] = None
            self._stale.set()
            return
        stream = self._streams.get(leader.address)
        if stream is None:
            stream = self._streams[leader.address] = ProduceStream(self, leader.address)
        if queue.sequences is not None:
            queue.sequences.lead_to(stream)
        stream.offer(queue)

    def answered(self, stream: ProduceStream, flight: Flight, results: list[log_pb2.ProducePartitionResult]) -> None:
        """Settle the batches by their answers. Those with a retriable error are sent again."""
        (queue, batches), passing = flight, False
        for batch, result in zip(batches, results, strict=True):
            if not result.error_code:  # a duplicate has none, either: it was appended before
                batch.outcome.base_offset = result.base_offset
                batch.outcome.append_time_ms = result.log_append_time_ms
                self.accumulator.settle(batch)
                if queue.sequences is not None:
                    queue.sequences.known_by(stream)
                    queue.sequences.acknowledged = max(queue.sequences.acknowledged, batch.number)
                continue
            error = ReplogError(ErrorCode(result.error_code), result.error_message or "refused")
            self._failed_once(batch, error)
            if error.code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER and queue.sequences is not None:
                queue.sequences.known_by(stream)
                passing = True
            elif error.retriable:
                passing = True
            else:
                if error.code is ErrorCode.INVALID_PRODUCER_EPOCH and queue.sequences is not None:
                    queue.sequences.lose_name()
                if error.code in TOO_LARGE:
                    self._stale.set()  # the topic's limit may be lower now; otherwise the next batches would fail, too
                self._fail(queue, batch, error.code, error.message, in_flight=False)
        self.accumulator.land(queue, batches)
        (self._go_on_later if passing else self.accumulator.go_on)(queue)

    def lost(
        self, stream: ProduceStream, error: ReplogError, in_flight: list[Flight], ready: Iterable[PartitionQueue]
    ) -> None:
        """Forget a stream that has ended. Its batches go to another after a backoff, with fresh metadata."""
        if self._streams.get(stream.address) is stream:
            del self._streams[stream.address]
        if not self._stopped:
            logger.info("produce stream lost: %s", error)
        for queue, batches in in_flight:
            for batch in batches:
                self._failed_once(batch, error)
            self.accumulator.land(queue, batches)
            self._go_on_later(queue)
        for queue in ready:
            queue.scheduled = False
            for batch in list(queue.batches)[:1]:
                batch.attempts += 1
                batch.last_error = error
            self._go_on_later(queue)

    @staticmethod
    def _failed_once(batch: ProducerBatch, error: ReplogError) -> None:
        batch.attempts += 1
        batch.last_error = error
        batch.refused = error.code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        batch.may_be_appended |= error.code not in DEFINITE

    def _go_on_later(self, queue: PartitionQueue) -> None:
        """Have the queue's next batches wait for a backoff, after an error."""
        if queue.retrying:
            self.accumulator.go_on(queue)
            return
        self._stale.set()
        queue.retrying = True
        self.accumulator.go_on(queue)
        attempts = queue.batches[0].attempts if queue.batches else 1
        delay_s = self.backoff.delay_s(max(1, attempts))
        timer = asyncio.get_running_loop().call_later(delay_s, self._retry, queue)
        self._retrying[queue] = timer, self.metadata.view.leader(queue.partition)

    def _retry(self, queue: PartitionQueue) -> None:
        del self._retrying[queue]
        queue.retrying = False
        self.accumulator.go_on(queue)

    def _fail(
        self, queue: PartitionQueue, batch: ProducerBatch, code: ErrorCode, message: str, in_flight: bool
    ) -> None:
        """Give the batch up. If its answer is still to come (`in_flight`), it may be in the log."""
        if batch.outcome.settled:
            return
        if batch is queue.open:
            queue.open = None
        if queue.sequences is not None and batch.sequence is not None:
            queue.sequences.broken = True
        batch.outcome.error = DeliveryFailed(code, f"{queue.partition}: {message}", batch.may_be_appended or in_flight)
        self.accumulator.settle(batch)

    async def _keep_named(self) -> None:
        """Ask for a producer id when there is none, then send what waited for it."""
        failures = 0
        while True:
            await self._id_wanted.wait()
            self._id_wanted.clear()
            assert self.identity is not None
            try:
                response = await self.metadata.ask_any(Log["init_producer_id"], log_pb2.InitProducerIdRequest())
            except ReplogError as error:
                if not failures & (failures - 1):  # the first tries, and then less and less often
                    logger.warning("no producer id: %s", error)
                if error.code in DENIALS:
                    nameless, self._nameless = self._nameless, {}
                    for queue in nameless:
                        for batch in list(queue.batches):
                            self._fail(queue, batch, error.code, error.message, in_flight=False)
                        queue.scheduled = False
                        self.accumulator.go_on(queue)
                else:
                    for queue in self._nameless:
                        for batch in list(queue.batches)[:1]:
                            batch.last_error = error
                    self._id_wanted.set()
                failures += 1
                await asyncio.sleep(self.backoff.delay_s(failures))
                continue
            failures = 0
            self.identity.current = ProducerId(response.producer_id, response.producer_epoch)
            self._id_wanted.clear()
            nameless, self._nameless = self._nameless, {}
            self._offer_again(nameless)

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
                self.metadata.report(error)
                if self._unrouted:
                    self._stale.set()
            refreshed = loop.time()
            for topic, view in self.metadata.view.topics.items():
                if topic in self.accumulator.topics and view.partitions:
                    self.accumulator.grow(topic, max(view.partitions) + 1, view.max_batch_bytes, view.topic_id)
            self._leave_silent_leaders(loop.time())
            self._retry_at_new_leaders()
            unrouted, self._unrouted = self._unrouted, {}
            self._offer_again(unrouted)

    def _offer_again(self, held: Iterable[PartitionQueue]) -> None:
        for queue in held:
            if queue.batches:
                self.ready(queue)
            else:
                queue.scheduled = False

    def _retry_at_new_leaders(self) -> None:
        """Retry at once where another broker leads: the backoff is for the leader that failed."""
        for queue, (timer, failed) in list(self._retrying.items()):
            leader = self.metadata.view.leader(queue.partition)
            if leader is not None and leader != failed:
                timer.cancel()
                self._retry(queue)
        if self._retrying:
            self._stale.set()

    def _leave_silent_leaders(self, now: float) -> None:
        """Leave a broker that hangs as soon as another leads: its connection takes far longer to die."""
        for stream in list(self._streams.values()):
            if stream.oldest_s(now) > SILENCE_S:
                leaders = map(self.metadata.view.leader, stream.partitions_in_flight())
                if any(leader is not None and leader.address != stream.address for leader in leaders):
                    stream.cut()

    async def _watch_deadlines(self) -> None:
        loop = asyncio.get_running_loop()
        period_s = max(0.01, min(1.0, self.delivery_timeout_s / 10, self.request_timeout_s / 10))
        while True:
            await asyncio.sleep(period_s)
            now = loop.time()
            for stream in list(self._streams.values()):
                waited_s = stream.oldest_s(now)
                if waited_s > self.request_timeout_s:
                    stream.cut()
                elif waited_s > SILENCE_S:
                    self.metadata.avoid(stream.address)
                    self._stale.set()
            for queue in self.accumulator.busy():
                self._expire(queue, now)
            self._report_long_waits(now)

    def _report_long_waits(self, now: float) -> None:
        """Log what a batch waits for, once until none waits for long: every look would say the same."""
        was_reported, self._reported = self._reported, False
        for queue in self.accumulator.busy():
            batches = queue.flying or queue.batches
            if batches and now - batches[0].created > LONG_S and (why := self._obstacle(queue, batches[0])):
                if not was_reported:
                    logger.warning("%s: records wait, %g s at most%s", queue.partition, self.delivery_timeout_s, why)
                self._reported = True
                break

    def _obstacle(self, queue: PartitionQueue, batch: ProducerBatch) -> str:
        """Return why the batch is not delivered yet, as far as it is known."""
        why = f"; last error: {batch.last_error}" if batch.last_error else ""
        if queue.partition.topic in self.metadata.view.topics and self.metadata.view.leader(queue.partition) is None:
            why = f"; it has no leader: none of its replicas that are in sync is up{why}"
        return why

    def _expire(self, queue: PartitionQueue, now: float) -> None:
        """Give up every batch past its deadline. Those in flight keep their place until their answer comes."""
        waiting = queue.batches[0] if queue.batches else None
        for batches in (queue.flying, queue.batches):
            for batch in batches:
                if now - batch.created < self.delivery_timeout_s:
                    break
                message = f"not delivered in {self.delivery_timeout_s:g} s{self._obstacle(queue, batch)}"
                self._fail(queue, batch, ErrorCode.REQUEST_TIMED_OUT, message, batches is queue.flying)
        if queue.retrying and waiting is not None and waiting.outcome.settled:
            self._retrying[queue][0].cancel()  # otherwise the next batch would wait for the backoff of this one
            self._retry(queue)
        self.accumulator.go_on(queue)
