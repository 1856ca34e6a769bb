"""Questions to a cluster; the client is loaded only when one is asked."""

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from replog.cli.options import bootstrap_server
from replog.command.output import note
from replog.errors import ErrorCode, ReplogError

ADMIN_TIMEOUT_MS = 10_000
DESCRIBE_TIMEOUT_S = 10.0  # of one broker: thousands of replicas may take seconds
UNKNOWN_OFFSETS: dict[str, int | None] = {"log_start": None, "high_watermark": None, "log_end": None}

T = TypeVar("T")


def ask(bootstrap: str | None, question: Callable[[Any], Awaitable[T]]) -> T:
    """The answer of `question(admin)`."""
    import asyncio

    from replog.client import Admin
    from replog.server import logging

    logging.configure(30)

    async def run() -> T:
        async with Admin(bootstrap_server(bootstrap), timeout_ms=ADMIN_TIMEOUT_MS) as admin:
            return await question(admin)

    return asyncio.run(run())


async def not_led(admin: Any, topic: str) -> str:
    """In words, how many partitions of a created topic have a leader with its replica; "" if all have."""
    try:
        partitions = (await admin.describe_topic(topic)).partitions
    except ReplogError as error:
        if error.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            raise
        return "no broker knows it"
    there = replica_offsets(topic, await admin.describe_cluster(), lambda _: None)
    led = sum((each.partition, each.leader) in there for each in partitions)
    return f"{led} of {len(partitions)} partitions are led" if led < len(partitions) else ""


async def partitions_of(bootstrap: str, topic: str, wanted: int | None) -> list[int]:
    """The topic's partitions, or the one wanted. Raises UNKNOWN_TOPIC_OR_PARTITION before anything is read or sent."""
    from replog.client import Admin

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


def replica_offsets(
    topic: str, cluster: Any, complain: Callable[[str], None] = note
) -> dict[tuple[int, int], dict[str, int | None]]:
    """(partition, broker) to offsets, as each broker of a ClusterDescription tells them of its own replicas.

    `complain` hears of each broker that does not answer.
    """
    from replog.local_cluster import probe
    from replog.rpc.limits import MAX_ANSWER_BYTES
    from replog.rpc.methods import Inspection
    from replog.rpc.v1 import inspection_pb2

    offsets: dict[tuple[int, int], dict[str, int | None]] = {}
    request = inspection_pb2.DescribeReplicasRequest(topic=topic, max_bytes=MAX_ANSWER_BYTES)
    for broker in cluster.brokers:
        if broker.fenced:
            continue
        try:
            answer = probe.call(broker.address, Inspection["describe_replicas"], request, DESCRIBE_TIMEOUT_S)
        except ReplogError as error:
            complain(f"no offsets from broker {broker.broker_id}: {error.message}")
            continue
        for replica in answer.replicas:
            offsets[replica.partition, broker.broker_id] = {
                "log_start": replica.log_start_offset,
                "high_watermark": replica.high_watermark,
                "log_end": replica.log_end_offset,
            }
    return offsets
