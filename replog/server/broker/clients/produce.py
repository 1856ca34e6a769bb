"""A produce request: append to every partition, then answer or wait for the in-sync replicas (§3). On a stream, batches
are appended as they arrive, and answers of one turn of the event loop share a message."""

import asyncio
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from leader.delayed_produce import DelayedProduce, PendingProduce
from replog.errors import ErrorCode, ReplogError
from replog.log.formats.batch import producer_of
from replog.log.offsets import Buffer
from replog.rpc.codec import WithRecords
from replog.rpc.limits import MAX_BATCHES_PER_REQUEST
from replog.rpc.status import wire_code
from replog.rpc.transport import ServerStream
from replog.rpc.v1 import log_pb2 as pb
from replog.server.authorizer import Permits, refused_topic
from replog.server.broker.clients.quotas import QuotaThrottle
from replog.server.broker.context import PRODUCE
from replog.server.broker.replicas.replica_manager import ReplicaManager
from replog.server.work import SLICE_S
from replog.topic import TopicPartition

VALID_ACKS = (-1, 0, 1)
MAX_PRODUCES_UNDER_WAY = 1000  # per stream, until their answers are sent; further ones wait in the stream
BATCH_BYTES = 2500  # measured memory of a batch that waits for its replicas, without its records
_WHY = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: "broker {broker} knows no {tp}; look at the name, or refresh metadata",
    ErrorCode.NOT_LEADER_OR_FOLLOWER: "broker {broker} does not lead {tp}; refresh metadata",
    ErrorCode.KAFKA_STORAGE_ERROR: "the disk of {tp} on broker {broker} has failed; another one may lead it: "
    "refresh metadata",
    ErrorCode.FENCED_LEADER_EPOCH: "the leader epoch of the request is older than that of {tp} on broker {broker}; "
    "refresh metadata",
    ErrorCode.UNKNOWN_LEADER_EPOCH: "the leader epoch of the request is newer than that of {tp} on broker {broker}, "
    "which will hear of it; try again",
    ErrorCode.INCONSISTENT_TOPIC_ID: "{tp} on broker {broker} is of another topic of this name; refresh metadata",
}


class Produce:
    """A request, from its append to its answer (PR-1..PR-11). It does not keep the records.

    `done` is called once, with one result per batch in `answer`, in their order; offsets are -1 on error."""

    def __init__(self, manager: ReplicaManager, head: pb.ProduceRequest, done: Callable[["Produce"], None]) -> None:
        self.acks = head.acks
        self.answer = pb.ProduceAnswer(correlation_id=head.correlation_id)
        self._manager = manager
        self._context = manager.context
        self._replicas = manager.replicas
        self._timeout_ms = max(0, min(head.timeout_ms, self._context.config.request_timeout_ms))
        self._done = done
        self._held = 0
        self._begun_s = self._context.clock.monotonic_s()

    def append_records(self, batches: Iterable[tuple[TopicPartition, Buffer]], permits: Permits) -> Iterator[None]:
        """Append batches to the topics that `permits` allows, in steps of about SLICE_S."""
        pending, begun_s = dict[int, PendingProduce](), self._begun_s
        for index, (tp, records) in enumerate(batches):
            if self._context.clock.monotonic_s() - begun_s >= SLICE_S:
                yield
                begun_s = self._context.clock.monotonic_s()
            self._context.traffic.produced(tp.topic)
            result = self.answer.partitions.add()
            result.topic, result.partition = tp
            result.base_offset = result.log_append_time_ms = result.log_start_offset = -1
            try:
                if not permits(tp.topic):
                    raise refused_topic(tp.topic)
                if (waits := self._append_to_local_log(tp, records, result)) is not None:
                    pending[index] = waits
            except ReplogError as error:
                self._context.traffic.not_produced(tp.topic, error.code)
                result.error_code = wire_code(error.code)
                result.error_message = error.message
        if not pending:  # PR-8
            self._end()
            return
        self._held = len(self.answer.partitions) * BATCH_BYTES
        self._manager.waiting_produces.add(self._held)
        operation = DelayedProduce(pending, self._replicas.leader, self._timeout_ms, self._settle)
        self._manager.produces.complete_or_watch(operation, [waits.topic_partition for waits in pending.values()])

    def _append_to_local_log(
        self, tp: TopicPartition, records: Buffer, result: pb.ProducePartitionResult
    ) -> PendingProduce | None:
        context = self._context
        if self.acks not in VALID_ACKS:
            raise ErrorCode.INVALID_REQUIRED_ACKS.error(f"acks={self.acks}; it must be 0, 1 or -1 (all)")
        leader = self._replicas.leader(tp)
        if isinstance(leader, ErrorCode):
            raise refusal(leader, tp, context.config.node_id)
        now_ms, producer = context.clock.monotonic_ms(), producer_of(records)
        is_unknown = producer >= context.image.next_producer_id
        if is_unknown and self._replicas.failure_detector.is_up_to_date(now_ms):
            raise ErrorCode.UNKNOWN_PRODUCER_ID.error(
                f"nobody was given producer id {producer}; get one with InitProducerId, or retry if it is that new"
            )
        wall_ms, apart_ms = context.time.of_append(now_ms)
        appended = leader.append_records_to_leader(
            records, acks=self.acks, wall_ms=wall_ms, now_ms=now_ms, apart_ms=apart_ms
        )
        context.throttle.served()
        self._manager.touched(tp, appended.high_watermark_advanced)
        passed = context.traffic.topics[tp.topic]
        passed.bytes_in += len(records)
        passed.messages_in += appended.info.last_offset - appended.info.first_offset + 1
        result.base_offset = appended.info.first_offset
        result.log_append_time_ms = appended.info.log_append_time
        result.log_start_offset = appended.info.log_start_offset
        promised = self.acks == 1 and leader.log.promised_offset >= appended.required_offset
        if promised or self.acks == 0:
            return None
        return PendingProduce(tp, appended.required_offset, appended.leader_epoch, self.acks)

    def _settle(self, errors: dict[int, ErrorCode]) -> None:
        self._manager.waiting_produces.add(-self._held)
        for index, error in errors.items():
            if error is not ErrorCode.NONE:
                result = self.answer.partitions[index]
                tp = TopicPartition(result.topic, result.partition)
                result.error_code, result.base_offset = wire_code(error), -1
                self._context.traffic.not_produced(tp.topic, error)
                result.error_message = f"appended to {tp}, but not known to be safe: it may be there (PR-12)"
        self._end()

    def _end(self) -> None:
        self._context.traffic.answered(PRODUCE, self._begun_s)
        self._done(self)


@dataclass(eq=False)
class ProduceStream:
    _manager: ReplicaManager
    _stream: ServerStream
    _permits: Permits
    _throttle: QuotaThrottle
    _muted: bool = False  # the client has sent too much, and is not read for a while
    _under_way: int = 0
    _answers: list[pb.ProduceAnswer] = field(default_factory=list)  # not sent yet
    _all_answered: asyncio.Future[None] | None = None  # set when the client has finished

    async def run(self) -> None:
        """Serve the stream until the client has finished and has its answers. Raises the first error with acks=0, and
        INVALID_REQUEST."""
        await self._stream.each(self._on_request, self._is_ready)
        if self._under_way:
            self._all_answered = asyncio.get_running_loop().create_future()
            await self._all_answered
        self._send()

    def _is_ready(self) -> bool:
        if self._muted:
            return False
        if wait_ms := self._throttle.wait_ms():
            self._muted = True
            asyncio.get_running_loop().call_later(wait_ms / 1000, self._unmute)
            return False
        waiting = self._manager.waiting_produces
        if not waiting.has_room:
            waiting.when_room(self._stream.go_on)
            return False
        return self._under_way + len(self._answers) < MAX_PRODUCES_UNDER_WAY

    def _unmute(self) -> None:
        self._muted = False
        self._stream.go_on()

    def _on_request(self, request: WithRecords[pb.ProduceRequest]) -> Iterator[None]:
        pieces = batches(request)
        self._throttle.record(sum(map(len, request.records)))
        self._under_way += 1
        return Produce(self._manager, request.head, self._answered).append_records(pieces, self._permits)

    def _answered(self, produced: Produce) -> None:
        self._under_way -= 1
        if produced.acks != 0:
            if not self._answers:
                self._manager.post_soon(self._send)
            self._answers.append(produced.answer)
        elif failed := [result for result in produced.answer.partitions if result.error_code]:
            # Nothing is answered with acks=0: only the end of the stream can tell the client (PR-7).
            raise ReplogError(ErrorCode(failed[0].error_code), f"acks=0: {failed[0].error_message}")
        if self._all_answered is not None and not self._under_way and not self._all_answered.done():
            self._all_answered.set_result(None)

    def _send(self) -> None:
        if self._answers:
            answers, self._answers = self._answers, []
            self._stream.post(pb.ProduceResponse(answers=answers))
            self._stream.go_on()


def batches(request: WithRecords[pb.ProduceRequest]) -> list[tuple[TopicPartition, Buffer]]:
    """Return each partition's piece of the payload. Raises INVALID_REQUEST unless the sizes add up to it."""
    if len(request.head.partitions) > MAX_BATCHES_PER_REQUEST:  # the codec's own limit is a little higher
        raise ErrorCode.INVALID_REQUEST.error(
            f"{len(request.head.partitions)} batches in one request; at most {MAX_BATCHES_PER_REQUEST}"
        )
    payload = memoryview(request.records[0] if request.records else b"")
    sizes = [partition.records_size for partition in request.head.partitions]
    if min(sizes, default=0) < 0 or sum(sizes) != len(payload):
        raise ErrorCode.INVALID_REQUEST.error(
            f"records_size of the partitions add up to {sum(sizes)} bytes, but the message carries {len(payload)}"
        )
    pieces: list[tuple[TopicPartition, Buffer]] = []
    end = 0
    for partition, size in zip(request.head.partitions, sizes, strict=True):
        begin, end = end, end + size
        pieces.append((TopicPartition(partition.topic, partition.partition), payload[begin:end]))
    return pieces


def refusal(code: ErrorCode, tp: TopicPartition, broker_id: int) -> ReplogError:
    if code is ErrorCode.TOPIC_AUTHORIZATION_FAILED:
        return refused_topic(tp.topic)
    why = _WHY.get(code, "broker {broker} does not serve {tp}; refresh metadata, and try again")
    return ReplogError(code, why.format(broker=broker_id, tp=str(tp)[:300]))
