"""Requests to the cluster, for partitions and their offsets, and the event loop of all clients.

The loop is one for the life of the process, in its own thread: Spark calls from threads without a loop. With a loop for
each call, gRPC might call back into one that is closed. And with this one, the next batches arrive while the last ones
are decoded."""

import asyncio
import threading
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from functools import cache
from typing import Any, NamedTuple, TypeVar

from replog.client import Admin
from replog.client.offsets import EARLIEST, LATEST
from replog.common.buffers import tune_allocator
from replog.errors import ErrorCode, ReplogError
from replog.rpc.tasks import may_fail_unheard
from replog.rpc.transport import Transport
from replog.topic import TopicPartition
from spark_jobs.kafka_options import SERVERS
from spark_jobs.records.offsets import Bound
from spark_jobs.records.options import NAMES, SinkOptions, SourceOptions

TIMEOUT_MS = 60_000
ONE_BROKER_TIMEOUT_MS = 10_000
REACHED_MS = 8_000  # a query that begins gives up after this time without a broker; later calls have `TIMEOUT_MS`
SETTLED_S = 15.0  # all brokers have heard of a new or deleted topic by then
LOOKED_AFTER_S = 2.0  # a leader that does not answer by then may lead a topic that is deleted

T = TypeVar("T")


@cache
def _loop() -> asyncio.AbstractEventLoop:
    tune_allocator()  # batches come in messages of a MiB
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name="replog-clients", daemon=True).start()
    return loop


def run(coroutine: Coroutine[Any, Any, T]) -> T:
    """Wait for the result of a coroutine; errors name options, not clients' arguments. Do not call it on a loop."""
    try:
        return asyncio.run_coroutine_threadsafe(coroutine, _loop()).result()
    except ReplogError as error:
        for argument, option in NAMES.items():
            error.message = error.message.replace(f"{argument}=", f"{option}=")
        raise


class Assigned(NamedTuple):
    """The subscription's partitions that exist, and their topics' ids in hexadecimal."""

    partitions: list[TopicPartition]
    topic_ids: dict[str, str]


def admin(options: SourceOptions | SinkOptions, timeout_ms: int = TIMEOUT_MS) -> Admin:
    return Admin(options.bootstrap, timeout_ms=timeout_ms, transport=options.transport)


async def reach(options: SourceOptions | SinkOptions) -> None:
    """Raise within `REACHED_MS` if no broker answers; the error names the addresses, which may be wrong."""
    try:
        async with admin(options, REACHED_MS) as client:
            await client.describe_cluster()
    except ReplogError as error:
        if not error.retriable:
            raise
        message = f"option {SERVERS}={options.bootstrap}: {error.message}"
        raise ReplogError(error.code, message) from None


async def settled(ask: Callable[[bool], Awaitable[T]]) -> T:
    """Return the answer of `ask(False)`, tried again while brokers know different topics; at last of `ask(True)`."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + SETTLED_S
    while loop.time() < deadline:
        try:
            return await ask(False)
        except ReplogError as error:
            if error.code not in (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID):
                raise
        await asyncio.sleep(0.3)
    return await ask(True)


async def assigned(client: Admin, options: SourceOptions, *, all_of_it: bool = False) -> Assigned:
    """Return the subscribed partitions. `all_of_it`: raises UNKNOWN_TOPIC_OR_PARTITION if one is missing."""
    wanted = options.subscription
    if wanted.pattern is not None:
        topics = [topic for topic in await client.list_topics() if wanted.wants(topic)]
    else:
        topics = list(wanted.topics or dict.fromkeys(partition.topic for partition in wanted.partitions))
    known = Assigned([], {})
    for topic in topics:
        try:
            description = await client.describe_topic(topic)
        except ReplogError as error:
            if error.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION or (all_of_it and wanted.pattern is None):
                raise
            continue
        known.topic_ids[topic] = description.topic_id.hex()
        there = [TopicPartition(topic, partition.partition) for partition in description.partitions]
        known.partitions.extend(tp for tp in there if not wanted.partitions or tp in wanted.partitions)
    missing = sorted(set(wanted.partitions) - set(known.partitions))
    if missing and all_of_it:
        names = ", ".join(map(str, missing))
        raise ErrorCode.UNKNOWN_TOPIC_OR_PARTITION.error(f"option assign: {names} not known; see the topics")
    return known


async def is_gone(client: Admin, topic: str, topic_id: str, transport: Transport | None = None) -> bool:
    """Return True if brokers answer, and none of them knows the topic under this id; "": under any id.

    One broker's answer is not enough: it may be cut off from the controller, and not have heard of the topic yet."""
    answered = False
    for broker in (await client.describe_cluster()).brokers:
        try:
            async with Admin(broker.address, timeout_ms=ONE_BROKER_TIMEOUT_MS, transport=transport) as admin:
                known = (await admin.describe_topic(topic)).topic_id.hex()
        except ReplogError as error:
            answered |= error.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            continue
        if topic_id in ("", known):
            return False
        answered = True
    return answered


async def offsets(
    client: Admin, options: SourceOptions, wanted: Mapping[TopicPartition, int]
) -> dict[TopicPartition, int | None]:
    """Return offsets for timestamps, LATEST (by the isolation level, FE-22) or EARLIEST; None: no record is so young.

    Raises UNKNOWN_TOPIC_OR_PARTITION soon for a topic that is deleted meanwhile, and has no leaders to wait for."""
    if not wanted:
        return {}
    asking = may_fail_unheard(client.list_offsets(wanted, options.read_committed))
    try:
        while not (await asyncio.wait({asking}, timeout=LOOKED_AFTER_S))[0]:
            for topic in {partition.topic for partition in wanted}:
                await client.describe_topic(topic)
        answers = await asking
    finally:
        asking.cancel()
    return {partition: None if offset is None else offset.offset for partition, offset in answers.items()}


class PartitionRange(NamedTuple):
    """The offsets that a partition holds for this query's isolation level."""

    start: int
    end: int


async def ranges(client: Admin, options: SourceOptions, assigned: Assigned) -> dict[TopicPartition, PartitionRange]:
    """Return the partitions' ranges. Starts are asked for first, otherwise an end might lie before its start."""
    starts = await offsets(client, options, dict.fromkeys(assigned.partitions, EARLIEST))
    ends = await offsets(client, options, dict.fromkeys(assigned.partitions, LATEST))
    return {
        partition: PartitionRange(starts[partition] or 0, ends[partition] or 0) for partition in assigned.partitions
    }


async def resolve(
    client: Admin,
    options: SourceOptions,
    bound: Bound,
    there: Mapping[TopicPartition, PartitionRange],
    *,
    starting: bool,
) -> dict[TopicPartition, int]:
    """Return the bound as offsets. Raises INVALID_CONFIG if it names other partitions, or if no record is as young as
    a starting timestamp and `latest_if_too_young` is not set."""
    asked = bound.of(there)
    if not bound.by_time:
        ends = {partition: {EARLIEST: at.start, LATEST: at.end} for partition, at in there.items()}
        return {partition: ends[partition].get(value, value) for partition, value in asked.items()}
    by_partition = await offsets(client, options, asked)
    resolved: dict[TopicPartition, int] = {}
    for partition, offset in by_partition.items():
        if offset is None and starting and not options.latest_if_too_young:
            raise ErrorCode.INVALID_CONFIG.error(
                f"option {bound.option}: {partition} has no record at or after {asked[partition]} ms; to start at its "
                "end, set startingOffsetsByTimestampStrategy to latest"
            )
        resolved[partition] = there[partition].end if offset is None else min(offset, there[partition].end)
    return resolved
