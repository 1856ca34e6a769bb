"""Changes of topics, which the controller makes: one after the other, each with an outcome of its own."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Any

from replog.common.acl import CLUSTER_NAME, Operation, ResourceType
from replog.errors import ErrorCode, ReplogError
from replog.rpc.limits import MAX_PARTITIONS_PER_REQUEST
from replog.rpc.v1 import controller_pb2 as pb
from replog.server.authorizer import Permits, everything
from replog.server.broker.kafka.admin_rows import check, check_count, told_in
from replog.server.broker.kafka.call import Call
from replog.server.broker.kafka.cluster_rows import NEVER_MADE, why_unknown
from replog.server.broker.kafka.forwarding import ask_controller, deadline, in_lots, until_all_know
from replog.server.broker.kafka.service import KafkaService

MADE_MS = 5000  # a request for metadata waits no longer for the topics that it makes


async def change_each(
    service: KafkaService,
    call: Call,
    topics: Sequence[Any],
    change: Callable[[Any, dict[str, Any], float], Awaitable[int]],
) -> list[dict[str, Any]]:
    """Return a row for each topic, and only once all live brokers know the changes. `change` gets the topic, its row
    and a deadline, and returns the metadata version that has the change, or 0; its error goes into the row. Raises
    INVALID_REQUEST."""
    check_count(len(topics), MAX_PARTITIONS_PER_REQUEST, "topics")
    until_s, versions = deadline(service, call.message.timeout_ms), [0]
    named = Counter(topic.name for topic in topics if topic.name is not None)

    async def one(topic: Any) -> dict[str, Any]:
        row: dict[str, Any] = {"name": topic.name}
        with told_in(row):
            if named[topic.name] > 1:
                raise ErrorCode.INVALID_REQUEST.error("Duplicate topic name.")  # Kafka's words
            versions.append(await change(topic, row, until_s))
        return row

    once = {topic.name if topic.name is not None else topic: topic for topic in topics}
    rows = await in_lots(list(once.values()), one)
    await until_all_know(service, max(versions), until_s)
    return rows


async def create(service: KafkaService, request: pb.CreateTopicRequest, until_s: float) -> pb.CreateTopicResponse:
    """Raises the controller's error. By its id the controller knows a request that is repeated."""
    request.topic_id = service.randbytes(16)
    created: pb.CreateTopicResponse = await ask_controller(service, "create_topic", request, until_s)
    return created


def check_known(call: Call, operation: Operation, name: str) -> None:
    """Check what the client may do with a topic that should be there. Raises TOPIC_AUTHORIZATION_FAILED, and
    UNKNOWN_TOPIC_OR_PARTITION if there is none of any such name."""
    check(call, operation, name)
    if why_unknown(name) != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        raise ErrorCode.UNKNOWN_TOPIC_OR_PARTITION.error(f"there is no topic {name[:60]!r}")


def may_create(call: Call) -> Permits:
    """Return the function that says if the client may create a topic: this one, or any (Kafka's rule)."""
    creates_any = call.allows(Operation.CREATE, ResourceType.CLUSTER, CLUSTER_NAME, quietly=True)
    return everything if creates_any else call.permits(Operation.CREATE)


async def make_unknown(service: KafkaService, call: Call, names: Sequence[str]) -> dict[str, int]:
    """Make topics with the controller's defaults, and wait, but not for long, until every live broker knows them.
    Return the errors of those that cannot be made. Another broker may be quicker: that is a success, too."""
    until_s, image, permits = deadline(service, MADE_MS), service.context.image, may_create(call)
    errors: dict[str, int] = {}

    async def make(name: str) -> int:
        if not permits(name):
            errors[name] = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        elif name not in NEVER_MADE and why_unknown(name) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            try:
                created = await create(service, pb.CreateTopicRequest(topic=name), until_s)
            except ReplogError as error:
                if error.code is ErrorCode.TOPIC_ALREADY_EXISTS:
                    with suppress(TimeoutError):
                        async with asyncio.timeout_at(until_s):
                            await service.until(lambda: name in image.topics)
                elif not error.retriable:  # else the client asks again, as for any topic that is unknown
                    errors[name] = error.code
            else:
                return created.metadata_version
        return 0

    await until_all_know(service, max(await in_lots(names, make)), until_s)
    return errors
