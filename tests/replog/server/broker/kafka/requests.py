"""Requests of Kafka's clients for topic t."""

from collections.abc import Mapping
from typing import Any

from replog.kafka.messages import (
    FetchRequest,
    FetchRequestForgottenTopicsData,
    FetchRequestPartition,
    FetchRequestTopic,
    ProduceRequest,
    ProduceRequestPartitionData,
    ProduceRequestTopicData,
)
from replog.log.offsets import Buffer

MIB = 1 << 20
Named = Mapping[str | bytes, Mapping[int, Any]]  # names or ids of topics, then what is asked of each partition


def produce(named: Named | bytes, *, acks: int = -1, timeout_ms: int = 30_000, transaction: str | None = None) -> Any:
    """Of records, or of records for partition 0 of t."""
    topics = [
        ProduceRequestTopicData(
            **topic(name), partition_data=[ProduceRequestPartitionData(*each) for each in partitions.items()]
        )
        for name, partitions in ({"t": {0: named}} if isinstance(named, Buffer) else named).items()
    ]
    return ProduceRequest(transaction, acks, timeout_ms, topics)


def topic(name: str | bytes, field: str = "name") -> dict[str, Any]:
    return {"topic_id": name} if isinstance(name, bytes) else {field: name}


def fetch(
    named: Named, *, forgotten: Named | None = None, epoch: int = -1, leader_epoch: int = -1, **fields: Any
) -> Any:
    """Of offsets. It does not wait unless `max_wait_ms` says so."""
    topics = [
        FetchRequestTopic(
            **topic(name, "topic"),
            partitions=[
                FetchRequestPartition(number, leader_epoch, offset, partition_max_bytes=MIB)
                for number, offset in partitions.items()
            ],
        )
        for name, partitions in named.items()
    ]
    gone = [
        FetchRequestForgottenTopicsData(**topic(name, "topic"), partitions=list(partitions))
        for name, partitions in (forgotten or {}).items()
    ]
    given = {"min_bytes": 1, "max_bytes": MIB, "session_epoch": epoch, **fields}
    return FetchRequest(**given, topics=topics, forgotten_topics_data=gone)


def rows_of(response: Any) -> dict[tuple[str | bytes, int], Any]:
    """The partitions of an answer to a produce or a fetch, by topic and number."""
    rows: dict[tuple[str | bytes, int], Any] = {}
    for each in response.responses:
        name = each[0] or each.topic_id
        for row in each[2]:
            rows[name, row[0]] = row
    return rows
