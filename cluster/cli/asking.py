"""Questions to the cluster's admin client, which is loaded only when one is asked."""

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from cluster.cli.options import bootstrap_server

ADMIN_TIMEOUT_MS = 10_000

T = TypeVar("T")


def ask(bootstrap: str | None, question: Callable[[Any], Awaitable[T]]) -> T:
    """The answer of `question(admin)`."""
    import asyncio

    from cluster import logging
    from replog.client import Admin

    logging.configure(30)

    async def run() -> T:
        async with Admin(bootstrap_server(bootstrap), timeout_ms=ADMIN_TIMEOUT_MS) as admin:
            return await question(admin)

    return asyncio.run(run())


async def partitions_of(bootstrap: str, topic: str, wanted: int | None) -> list[int]:
    """The topic's partitions, or the one wanted: asked before anything is read or sent, so that a wrong name is told
    at once. Raises UNKNOWN_TOPIC_OR_PARTITION.
    """
    from replog.client import Admin
    from replog.errors import ErrorCode, ReplogError

    async with Admin(bootstrap, timeout_ms=ADMIN_TIMEOUT_MS) as admin:
        description = await admin.describe_topic(topic)
    numbers = [partition.partition for partition in description.partitions]
    if wanted is None:
        return numbers
    if wanted not in numbers:
        raise ReplogError(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            f"topic {topic!r} has partitions 0 to {len(numbers) - 1}, not {wanted}",
        )
    return [wanted]
