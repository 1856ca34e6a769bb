"""Questions to a cluster. The client is imported only when one is asked, so that `--help` is quick."""

from collections.abc import Awaitable, Callable, Iterable, Sequence, Set
from typing import Any, TypeVar

from replog.cli.options import bootstrap_server
from replog.command.output import note
from replog.errors import ErrorCode, ReplogError
from replog.topic import TopicPartition

ADMIN_TIMEOUT_MS = 10_000
DESCRIBE_TIMEOUT_S = 10.0  # a broker may take seconds for thousands of replicas
UNKNOWN_OFFSETS: dict[str, int | None] = {"log_start": None, "high_watermark": None, "log_end": None}

T = TypeVar("T")


def ask(bootstrap: str | None, question: Callable[[Any], Awaitable[T]], controller: str | None = None) -> T:
    """Return the answer of `question(admin)`, which asks brokers, or only `controller` if that is given."""
    import asyncio

    from replog.client import Admin
    from replog.server import logging

    logging.configure_command()

    async def run() -> T:
        asked = controller or bootstrap_server(bootstrap)
        async with Admin(asked, timeout_ms=ADMIN_TIMEOUT_MS, to_controller=controller is not None) as admin:
            return await question(admin)

    return asyncio.run(run())


async def not_led(admin: Any, topic: str, led: set[tuple[int, int]]) -> str:
    """Say how many partitions of a new topic have a leader with its replica; "" if all have.

    `led` keeps those partitions and leaders between calls, otherwise every call would describe all of them again."""
    try:
        partitions = (await admin.describe_topic(topic)).partitions
    except ReplogError as error:
        if error.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            raise
        return "no broker knows it"
    wanted = {(each.partition, each.leader) for each in partitions}
    led &= wanted
    led |= wanted & await _replicas(admin, topic, {leader for _, leader in wanted - led})
    return f"{len(led)} of {len(wanted)} partitions are led" if led < wanted else ""


async def not_deleted(admin: Any, topic: str, topic_id: bytes) -> str:
    """Say that brokers know a deleted topic, and how many replicas are left; "" if the one asked does not know it."""
    try:
        description = await admin.describe_topic(topic)
    except ReplogError as error:
        if error.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            raise
        return ""
    if description.topic_id != topic_id:
        return ""
    left = await _replicas(admin, topic, {broker for each in description.partitions for broker in each.replicas})
    return f"brokers know it, and {len(left)} replicas are left"


async def _replicas(admin: Any, topic: str, brokers: set[int]) -> Set[tuple[int, int]]:
    """Return the replicas of the topic on these brokers, as (partition, broker)."""
    asked = [broker for broker in (await admin.describe_cluster()).brokers if broker.broker_id in brokers]
    return (await offsets_meanwhile(topic, asked)).keys()


async def offsets_meanwhile(topic: str, brokers: Iterable[Any]) -> dict[tuple[int, int], dict[str, int | None]]:
    """Like `replica_offsets`, but Ctrl-C does not wait for it."""
    from replog.rpc.daemons import of_commands

    return await of_commands.do(lambda: replica_offsets(topic, brokers, lambda _: None))


async def topics_named(admin: Any, topic: str | None) -> Sequence[Any]:
    """Describe the topic, or all topics."""
    return await admin.describe_topics() if topic is None else [await admin.describe_topic(topic)]


async def named_partitions(admin: Any, topic: str | None, numbers: Sequence[int] | None) -> list[TopicPartition]:
    """Return these partitions of the topic, or all of it, or all there are. Raises UNKNOWN_TOPIC_OR_PARTITION,
    INVALID_REQUEST."""
    if topic is None and numbers:
        raise ErrorCode.INVALID_REQUEST.error("--partition needs --topic")
    there = [TopicPartition(t.topic, p.partition) for t in await topics_named(admin, topic) for p in t.partitions]
    if not numbers:
        return there
    wanted = [TopicPartition(str(topic), number) for number in dict.fromkeys(numbers)]
    if unknown := [tp for tp in wanted if tp not in there]:
        raise ErrorCode.UNKNOWN_TOPIC_OR_PARTITION.error(
            f"topic {topic!r} has partitions 0 to {len(there) - 1}, not {unknown[0].partition}"
        )
    return wanted


async def partitions_of(bootstrap: str, topic: str, wanted: int | None) -> list[TopicPartition]:
    """Return the topic's partitions, or the one wanted. Raises UNKNOWN_TOPIC_OR_PARTITION."""
    from replog.client import Admin

    async with Admin(bootstrap, timeout_ms=ADMIN_TIMEOUT_MS) as admin:
        return await named_partitions(admin, topic, None if wanted is None else [wanted])


def replica_offsets(
    topic: str, brokers: Iterable[Any], complain: Callable[[str], None] = note
) -> dict[tuple[int, int], dict[str, int | None]]:
    """Ask brokers of a ClusterDescription for the offsets of their replicas, by (partition, broker). It blocks.

    `complain` is called for each broker that does not answer."""
    from replog.local_cluster import probe
    from replog.rpc.limits import MAX_ANSWER_BYTES
    from replog.rpc.methods import Inspection
    from replog.rpc.transports import client_tls
    from replog.rpc.v1 import inspection_pb2

    offsets: dict[tuple[int, int], dict[str, int | None]] = {}
    request = inspection_pb2.DescribeReplicasRequest(topic=topic, max_bytes=MAX_ANSWER_BYTES, without_segments=True)
    tls = client_tls()
    for broker in brokers:
        if broker.fenced:
            continue
        try:
            answer = probe.call(broker.address, Inspection["describe_replicas"], request, DESCRIBE_TIMEOUT_S, tls)
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
