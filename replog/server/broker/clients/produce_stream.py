"""Produces over gRPC: what a message asks for, and its answer. On a stream, batches are appended as they arrive,
and answers of one turn of the event loop share a message."""

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from replog.errors import ErrorCode, ReplogError
from replog.log.offsets import Buffer
from replog.rpc.codec import WithRecords
from replog.rpc.limits import MAX_BATCHES_PER_REQUEST
from replog.rpc.status import wire_code
from replog.rpc.transport import ServerStream
from replog.rpc.v1 import log_pb2 as pb
from replog.server.authorizer import Permits
from replog.server.broker.clients.produce import Produce
from replog.server.broker.clients.quotas import QuotaThrottle
from replog.server.broker.replicas.replica_manager import ReplicaManager
from replog.topic import TopicPartition

MAX_PRODUCES_UNDER_WAY = 1000  # per stream, until their answers are sent; further ones wait in the stream


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
        return asked(self._manager, request.head, self._answered).append_records(pieces, self._permits)

    def _answered(self, produced: Produce) -> None:
        self._under_way -= 1
        if produced.acks != 0:
            if not self._answers:
                self._manager.post_soon(self._send)
            self._answers.append(answer(produced))
        elif failed := [result.error for result in produced.results if result.error is not None]:
            # Nothing is answered with acks=0: only the end of the stream can tell the client (PR-7).
            raise ReplogError(failed[0].code, f"acks=0: {failed[0].message}")
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


def asked(manager: ReplicaManager, head: pb.ProduceRequest, done: Callable[[Produce], None]) -> Produce:
    return Produce(manager, head.acks, head.timeout_ms, done, head.correlation_id)


def answer(produced: Produce) -> pb.ProduceAnswer:
    message = pb.ProduceAnswer(correlation_id=produced.correlation_id)
    for (topic, partition), base_offset, log_append_time, log_start_offset, error in produced.results:
        row = message.partitions.add()
        row.topic, row.partition, row.base_offset = topic, partition, base_offset
        row.log_append_time_ms, row.log_start_offset = log_append_time, log_start_offset
        if error is not None:
            row.error_code, row.error_message = wire_code(error.code), error.message
    return message
