"""Produce 3–13: batches are appended as they arrive, and answered once they are safe. 13 names topics by their ids.

Versions 0 to 2 are offered, as Kafka offers them, and refused."""

from collections.abc import Iterator
from functools import partial
from typing import NamedTuple

from replog.common.acl import Operation
from replog.errors import ErrorCode, ReplogError
from replog.kafka import messages
from replog.log.errors import InvalidRecord
from replog.log.formats.batch import CODEC_MASK, HEADER_SIZE, MAGIC, MAX_CODEC
from replog.log.offsets import Buffer
from replog.rpc.limits import MAX_PARTITIONS_PER_REQUEST
from replog.server.broker.clients.produce import Produce, ProduceResult
from replog.server.broker.clients.quotas import PRODUCED
from replog.server.broker.kafka.call import Call
from replog.server.broker.kafka.leaders import MOVED, Leaders
from replog.server.broker.kafka.service import KafkaService
from replog.server.work import SLICE
from replog.topic import TopicPartition

BY_ID = 13
FIRST_WITH_ZSTD = 7
_MAGIC_AT, _CODEC_AT = 16, 22
_SAID_AS = {
    # Kafka's producers take it for a loss of records. Here nothing was appended, and it may pass (D37).
    ErrorCode.UNKNOWN_PRODUCER_ID: ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.THROTTLING_QUOTA_EXCEEDED: ErrorCode.KAFKA_STORAGE_ERROR,  # no producer expects it here, or retries it
}


class _Topic(NamedTuple):
    """A topic as the request names it, without its records, which belong to the log."""

    name: str
    topic_id: bytes
    partitions: int


def serve(service: KafkaService, call: Call) -> Iterator[None]:
    message, throttle = call.message, service.quotas.of(call.asks, PRODUCED)
    batches: list[tuple[TopicPartition, Buffer]] = []
    refused: dict[int, ProduceResult] = {}  # keys are places in the request
    topics: list[_Topic] = []
    count = size = 0
    for topic in message.topic_data:
        topics.append(_Topic(topic.name, topic.topic_id, len(topic.partition_data)))
        name = topic.name if call.version < BY_ID else service.context.image.index.name_of(topic.topic_id)
        for index, records in topic.partition_data:
            tp = TopicPartition(name or "", index)
            if name is None or (call.version >= BY_ID and service.replicas.topic_id(tp) not in (b"", topic.topic_id)):
                refused[count] = ProduceResult(tp, error=_unknown_id(topic.topic_id))
            elif (error := _unfit(records or b"", call.version)) is not None:
                refused[count] = ProduceResult(tp, error=error)
            else:
                batches.append((tp, records))
            count, size = count + 1, size + len(records or b"")
            if not count % SLICE:
                yield
    if count > MAX_PARTITIONS_PER_REQUEST:
        raise ErrorCode.INVALID_REQUEST.error(f"{count} batches in one request; at most {MAX_PARTITIONS_PER_REQUEST}")
    call.message = message._replace(topic_data=())  # otherwise its records stay in memory until the answer
    throttle.record(size)
    call.throttle(throttle.wait_ms())
    produce = Produce(
        service.manager, message.acks, message.timeout_ms, partial(_answer, service, call, topics, refused)
    )
    yield from produce.append_records(batches, call.permits(Operation.WRITE))


def _unknown_id(topic_id: bytes) -> ReplogError:
    return ErrorCode.UNKNOWN_TOPIC_ID.error(f"this broker knows no topic of id {topic_id.hex()}; refresh metadata")


def _unfit(records: Buffer, version: int) -> ReplogError | None:
    """Return why no topic takes these bytes by a request of this version, apart from what every leader looks at."""
    if not records:
        return InvalidRecord("a partition without a batch; send exactly one")
    if len(records) > _MAGIC_AT and records[_MAGIC_AT] != MAGIC:
        return InvalidRecord(f"a batch of magic {records[_MAGIC_AT]}; only {MAGIC} is taken")
    if version < FIRST_WITH_ZSTD and len(records) >= HEADER_SIZE and records[_CODEC_AT] & CODEC_MASK == MAX_CODEC:
        return ErrorCode.UNSUPPORTED_COMPRESSION_TYPE.error(
            f"zstd in a Produce of version {version}; use version {FIRST_WITH_ZSTD}, or another codec"
        )
    return None


def _answer(
    service: KafkaService, call: Call, topics: list[_Topic], refused: dict[int, ProduceResult], produced: Produce
) -> None:
    appended = iter(produced.results)
    results = [refused.get(place) or next(appended) for place in range(len(refused) + len(produced.results))]
    if produced.acks == 0:
        # Nothing is answered with acks=0: only the end of the connection can tell the client (PR-7).
        if error := next((result.error for result in results if result.error is not None), None):
            call.hang_up(f"a produce with acks=0 failed: {error}")
        call.no_answer()
        return
    leaders, responses, place = Leaders(service), [], 0
    for name, topic_id, count in topics:
        rows = [_row(result, leaders) for result in results[place : place + count]]
        responses.append(messages.ProduceResponseResponse(name=name, topic_id=topic_id, partition_responses=rows))
        place += count
    endpoints = [messages.ProduceResponseNodeEndpoint(*each) for each in leaders.endpoints()]
    call.answer(messages.ProduceResponse(responses=responses, node_endpoints=endpoints))


def _row(result: ProduceResult, leaders: Leaders) -> messages.ProduceResponsePartitionResponse:
    tp, offset, time, log_start, error = result
    if error is None:
        return messages.ProduceResponsePartitionResponse(tp.partition, 0, offset, time, log_start)
    code, at_fault = _SAID_AS.get(error.code, error.code), error.records if isinstance(error, InvalidRecord) else ()
    errors = [messages.ProduceResponseRecordError(place) for place in at_fault]
    row = messages.ProduceResponsePartitionResponse(tp.partition, code, -1, -1, log_start, errors, error.message)
    if code in MOVED:
        row = row._replace(current_leader=messages.ProduceResponseCurrentLeader(*leaders.of(tp)))
    return row
