"""Requests that ask the same of many partitions: each gets a row in the answer, in slices."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from replog.rpc.limits import MAX_PARTITIONS_PER_REQUEST
from replog.server.broker.kafka.admin_rows import check_count
from replog.server.work import in_slices


def check_named(topics: Sequence[Any]) -> None:
    """Raise INVALID_REQUEST if these pairs of a topic and its partitions have too many."""
    check_count(sum(len(partitions) for _, partitions in topics), MAX_PARTITIONS_PER_REQUEST, "partitions")


async def rows_by_topic(topics: Sequence[Any], row: Callable[[str, Any], Awaitable[Any]]) -> list[Any]:
    """Return the topics of an answer, which are pairs like those of its request. Raises as `check_named`."""
    check_named(topics)
    answered = [(topic, list[Any]()) for topic, _ in topics]
    each = (
        (topic, partition, rows)
        for (topic, partitions), (_, rows) in zip(topics, answered, strict=True)
        for partition in partitions
    )
    async for topic, partition, rows in in_slices(each):
        rows.append(await row(topic, partition))
    return answered
