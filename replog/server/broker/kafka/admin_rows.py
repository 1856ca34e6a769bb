"""Permissions, bounds and rows of the admin APIs: a row says how each thing that was asked for went."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from replog.common.acl import CLUSTER_NAME, Operation, ResourceType
from replog.errors import ErrorCode, ReplogError
from replog.rpc.v1 import controller_pb2 as pb
from replog.server.authorizer import refusal
from replog.server.broker.kafka.call import Call
from replog.server.work import in_slices
from replog.topic import MAX_CLUSTER_PARTITIONS


@contextmanager
def told_in(row: dict[str, Any]) -> Iterator[None]:
    """Have the fields of a row say why it is refused."""
    try:
        yield
    except ReplogError as error:
        row |= {"error_code": error.code, "error_message": error.message}


def outcome_of(row: Any) -> dict[str, Any]:
    """Return the same fields for a row of a controller's answer."""
    return {"error_code": row.error_code, "error_message": row.error_message or None}


def check(call: Call, operation: Operation, topic: str | None = None) -> None:
    """Check the operation on the topic, or else on the cluster. Raises TOPIC_ or CLUSTER_AUTHORIZATION_FAILED."""
    kind, name = (ResourceType.CLUSTER, CLUSTER_NAME) if topic is None else (ResourceType.TOPIC, topic)
    if not call.allows(operation, kind, name):
        raise refusal(call.asks, operation, kind, name)


def check_count(count: int, most: int, what: str) -> None:
    """Raises INVALID_REQUEST."""
    if count > most:
        raise ErrorCode.INVALID_REQUEST.error(f"{count} {what} in one request; at most {most}, so name fewer")


def partition_names(topics: Sequence[tuple[str, Sequence[int]]]) -> Sequence[pb.PartitionName]:
    """Return the partitions that a request names, for the controller. Raises INVALID_REQUEST if there are too many."""
    check_count(sum(len(numbers) for _, numbers in topics), MAX_CLUSTER_PARTITIONS, "partitions")
    return [pb.PartitionName(topic=topic, partition=number) for topic, numbers in topics for number in numbers]


async def by_topic(rows: Iterable[tuple[str, Any]]) -> Mapping[str, Sequence[Any]]:
    """Return rows by their topics, in slices."""
    grouped: dict[str, list[Any]] = {}
    async for topic, row in in_slices(rows):
        grouped.setdefault(topic, []).append(row)
    return grouped
