"""Answers to fetches, partition by partition. Records are not copied."""

from replog.errors import ErrorCode, ReplogError
from replog.kafka import messages
from replog.log.fetch import FetchAnswer, FetchPartition
from replog.log.offsets import Isolation
from replog.server.broker.kafka.call import Call
from replog.server.broker.kafka.leaders import MOVED, Leaders
from replog.server.broker.kafka.service import KafkaService
from replog.topic import TopicPartition

FIRST_WITH_SESSIONS, FIRST_WITH_ENDPOINTS = 7, 16
_GONE = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.INCONSISTENT_TOPIC_ID)


class FetchRows:
    def __init__(self, service: KafkaService, version: int, isolation: Isolation) -> None:
        self._index = service.context.image.index
        self._leaders = Leaders(service)
        self._version = version
        self._committed_only = isolation is Isolation.TXN_COMMITTED
        self._topics: dict[str | bytes, list[messages.FetchResponsePartition]] = {}  # keys are names, or ids

    def add(self, tp: TopicPartition, request: FetchPartition, answer: FetchAnswer) -> None:
        row = messages.FetchResponsePartition(
            partition_index=tp.partition,
            high_watermark=answer.high_watermark,
            last_stable_offset=answer.last_stable_offset,
            log_start_offset=answer.log_start_offset,
            aborted_transactions=answer.aborted if self._committed_only else None,  # type: ignore[arg-type]
            records=answer.records,
        )
        if answer.error is not ErrorCode.NONE:
            row = row._replace(error_code=self._code(tp, request, answer.error))
            if answer.error in MOVED and self._version >= FIRST_WITH_ENDPOINTS:
                row = row._replace(current_leader=messages.FetchResponseCurrentLeader(*self._leaders.of(tp)))
        if answer.diverging is not None:
            row = row._replace(diverging_epoch=messages.FetchResponseDivergingEpoch(*answer.diverging))
        if answer.preferred_read_replica is not None:
            row = row._replace(preferred_read_replica=answer.preferred_read_replica)
        self._topics.setdefault(request.topic_id or tp.topic, []).append(row)

    def _code(self, tp: TopicPartition, request: FetchPartition, error: ErrorCode) -> ErrorCode:
        if error in _GONE and request.topic_id and self._index.topic_id(tp.topic) != request.topic_id:
            return ErrorCode.UNKNOWN_TOPIC_ID
        return ErrorCode.KAFKA_STORAGE_ERROR if error is ErrorCode.THROTTLING_QUOTA_EXCEEDED else error

    def add_unknown(self, topic_id: bytes, number: int) -> None:
        row = _refused(number, ErrorCode.UNKNOWN_TOPIC_ID)
        self._topics.setdefault(topic_id, []).append(row)

    def response(self, session_id: int) -> messages.FetchResponse:
        return messages.FetchResponse(
            session_id=session_id,
            responses=[
                messages.FetchResponseResponse(topic_id=topic, partitions=rows)
                if isinstance(topic, bytes)
                else messages.FetchResponseResponse(topic=topic, partitions=rows)
                for topic, rows in self._topics.items()
            ],
            node_endpoints=[messages.FetchResponseNodeEndpoint(*each) for each in self._leaders.endpoints()],
        )


def refusal(call: Call, error: ReplogError) -> messages.FetchResponse:
    """Return the answer to a request that failed as a whole; before version 7 only rows can tell that."""
    topics = call.message.topics if call.version < FIRST_WITH_SESSIONS else ()
    rows = ((topic.topic, [_refused(each.partition, error.code) for each in topic.partitions]) for topic in topics)
    responses = [messages.FetchResponseResponse(topic=topic, partitions=partitions) for topic, partitions in rows]
    return messages.FetchResponse(error_code=error.code, responses=responses)


def _refused(number: int, code: ErrorCode) -> messages.FetchResponsePartition:
    return messages.FetchResponsePartition(number, code, -1, records=b"")
