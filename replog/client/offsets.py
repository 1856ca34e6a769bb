"""ListOffsets for clients, which ask the leader of each partition until the deadline."""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from replog.client.arguments import by_partition, check_timeout, partitions_of, whole
from replog.client.metadata import Leader, Metadata
from replog.common.backoff import Backoff
from replog.config.properties import MAX_LONG
from replog.errors import ErrorCode, ReplogError
from replog.rpc.methods import Log, Method
from replog.rpc.v1 import log_pb2
from replog.topic import TopicPartition

LATEST = -1
EARLIEST = -2
CALL_TIMEOUT_S = 10.0

Request = Callable[[list[TopicPartition], float], Any]
"""Makes the request about these partitions, for a call that may take so many seconds."""


class OffsetAndTimestamp(NamedTuple):
    """An answer of ListOffsets. `timestamp` is -1 for earliest and latest."""

    offset: int
    timestamp: int
    leader_epoch: int


async def list_offsets(
    metadata: Metadata,
    backoff: Backoff,
    timestamps: Mapping[TopicPartition, int],
    *,
    read_committed: bool,
    timeout_s: float,
) -> dict[TopicPartition, OffsetAndTimestamp | None]:
    """Return each partition's first offset at or after its timestamp (ms, LATEST or EARLIEST); None if there is none.

    LATEST is the high watermark, or the last stable offset when reading committed (FE-22)."""
    for partition, timestamp in by_partition("timestamps", timestamps).items():
        whole(f"the timestamp of {partition}", timestamp, MAX_LONG)
    request = list_offsets_request(metadata, timestamps, read_committed)
    results = await ask_leaders(metadata, backoff, list(timestamps), Log["list_offsets"], request, timeout_s)
    return {
        tp: OffsetAndTimestamp(result.offset, result.timestamp, result.leader_epoch) if result.offset >= 0 else None
        for tp, result in results.items()
    }


def list_offsets_request(metadata: Metadata, timestamps: Mapping[TopicPartition, int], read_committed: bool) -> Request:
    def request(partitions: list[TopicPartition], _timeout_s: float) -> log_pb2.ListOffsetsRequest:
        level = log_pb2.READ_COMMITTED if read_committed else log_pb2.READ_UNCOMMITTED
        message = log_pb2.ListOffsetsRequest(isolation_level=level)
        for tp in partitions:
            leader = metadata.view.leader(tp)
            message.partitions.add(
                topic=tp.topic,
                partition=tp.partition,
                timestamp=timestamps[tp],
                current_leader_epoch=leader.epoch if leader is not None else None,
            )
        return message

    return request


async def ask_leaders(
    metadata: Metadata,
    backoff: Backoff,
    partitions: list[TopicPartition],
    method: Method,
    request: Request,
    timeout_s: float,
) -> dict[TopicPartition, Any]:
    """Return one result per partition from its leader, by calls that `request` builds.

    Retriable errors are retried with fresh metadata until the deadline; then the last one is raised."""
    metadata.life.check()
    check_timeout(timeout_s)
    loop = asyncio.get_running_loop()
    deadline = loop.time() + timeout_s
    results: dict[TopicPartition, Any] = {}
    failures = 0
    for topic in dict.fromkeys(partition.topic for partition in partitions_of(partitions)):
        await metadata.topic(topic, timeout_s)
    while True:
        open_partitions = [partition for partition in partitions if partition not in results]
        timeout_s = min(CALL_TIMEOUT_S, max(0.01, deadline - loop.time()))
        answers, error = await ask_once(metadata, open_partitions, method, request, timeout_s)
        results |= answers
        if error is None:
            return results
        failures += 1
        delay_s = backoff.delay_s(failures)
        if not error.retriable or loop.time() + delay_s >= deadline:
            raise error
        await asyncio.sleep(delay_s)
        try:
            async with asyncio.timeout_at(deadline):
                await metadata.refresh()
        except (ReplogError, TimeoutError):
            continue  # the next round raises it, if it lasts


async def ask_once(
    metadata: Metadata, partitions: list[TopicPartition], method: Method, request: Request, timeout_s: float
) -> tuple[dict[TopicPartition, Any], ReplogError | None]:
    """Return the results of leaders that answer, and an error of the others, one that is not retriable if possible."""
    results: dict[TopicPartition, Any] = {}
    errors: list[ReplogError] = []
    by_leader: dict[Leader, list[TopicPartition]] = {}
    for partition in partitions:
        leader = metadata.view.leader(partition)
        if leader is None:
            view = metadata.view.topics.get(partition.topic)
            if view is not None and partition.partition not in view.partitions:
                there = f"topic {partition.topic!r} has {len(view.partitions)} partitions"
                errors.append(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION.error(f"{partition} is not there: {there}"))
            else:
                errors.append(ErrorCode.LEADER_NOT_AVAILABLE.error(f"{partition} has no known leader"))
        else:
            by_leader.setdefault(leader._replace(epoch=0), []).append(partition)
    answers = await asyncio.gather(
        *(
            metadata.channel(leader.address).call(method, request(asked, timeout_s), timeout_s)
            for leader, asked in by_leader.items()
        ),
        return_exceptions=True,
    )
    for answer in answers:
        if isinstance(answer, ReplogError):
            errors.append(answer)
        elif isinstance(answer, BaseException):
            raise answer
        else:
            for result in answer.partitions:
                partition = TopicPartition(result.topic, result.partition)
                if result.error_code:
                    code = ErrorCode(result.error_code)
                    refused = f"{method.path.rpartition('/')[2]} of {partition} was refused"
                    errors.append(ReplogError(code, result.error_message or refused))
                else:
                    results[partition] = result
    missing = [str(partition) for partition in partitions if partition not in results]
    if missing and not errors:
        errors.append(ErrorCode.UNKNOWN_SERVER_ERROR.error(f"no answer was given for {', '.join(missing)}"))
    return results, min(errors, key=lambda error: error.retriable, default=None)
