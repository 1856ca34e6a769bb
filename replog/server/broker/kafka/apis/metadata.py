"""Metadata 0–13: brokers, and topics with their leaders, by name or from 12 on by id. Unknown topics are made where
`auto.create.topics.enable`, the client and its ACLs allow it.

The bytes of a topic are kept until the metadata change: clients ask again and again for what is as it was."""

from functools import cache

from replog.common.acl import Operation
from replog.errors import ErrorCode
from replog.kafka import messages
from replog.server.broker.kafka import cluster_rows
from replog.server.broker.kafka.call import Call
from replog.server.broker.kafka.cluster_rows import INTERNAL_TOPICS, Endpoints, endpoints, why_unknown
from replog.server.broker.kafka.service import KafkaService
from replog.server.broker.kafka.slices import Rows
from replog.server.broker.kafka.topic_changes import make_unknown
from replog.server.work import in_slices

METADATA = 3
WITH_IDS = 12  # the first version in which a topic may be named by its id
WITH_LISTENERS = 6  # the first in which a leader without the client's listener has an error of its own
CLUSTER_OPERATIONS = range(8, 11)  # only these versions have them
WITH_ERROR = 13  # the first in which the answer has an error of its own
NO_ID = bytes(16)


async def serve(service: KafkaService, call: Call) -> bytes:
    request, image, rows = call.message, service.context.image, _rows(call.version)
    live, kept = endpoints(service), _kept(service, call.version)
    names, encoded = await _asked(service, call, rows)
    errors: dict[str, int] = {}
    makes = service.context.config.auto_create_topics_enable and request.allow_auto_topic_creation
    if makes and (missing := [name for name in names if name not in image.topics]):
        errors = await make_unknown(service, call, missing)
        live, kept = endpoints(service), _kept(service, call.version)
    async for name in in_slices(names):
        if name not in image.topics:
            code = errors.get(name) or why_unknown(name)
            encoded.append(rows.row(messages.MetadataResponseTopic(code, name, NO_ID, name in INTERNAL_TOPICS)))
        elif request.include_topic_authorized_operations:
            row, allowed = await _topic(service, call.version, name, live), cluster_rows.topic_operations(call, name)
            encoded.append(rows.row(row._replace(topic_authorized_operations=allowed)))
        else:
            if name not in kept:
                kept[name] = rows.row(await _topic(service, call.version, name, live))
            encoded.append(kept[name])
    rest = messages.MetadataResponse(
        brokers=[messages.MetadataResponseBroker(*each[:4]) for each in live.values()],
        cluster_id=image.cluster_id,
        controller_id=cluster_rows.controller_id(service, live),
    )
    if request.include_cluster_authorized_operations:
        rest = rest._replace(cluster_authorized_operations=cluster_rows.cluster_operations(call))
    return rows.answer(rest, encoded)


async def _asked(service: KafkaService, call: Call, rows: Rows) -> tuple[list[str], list[bytes]]:
    """Return the names of the topics to describe, each once, and the rows of those that are refused. Raises
    INVALID_REQUEST."""
    topics, image = call.message.topics, service.context.image
    is_all = topics is None or (call.version == 0 and not topics)
    permits = call.permits(Operation.DESCRIBE, quietly=is_all)
    if is_all:
        return [name async for name in in_slices(sorted(image.topics)) if permits(name)], []
    by_id = any(topic.topic_id != NO_ID for topic in topics)
    if (by_id and call.version < WITH_IDS) or (not by_id and any(topic.name is None for topic in topics)):
        raise ErrorCode.INVALID_REQUEST.error("a topic has no name; name it, or from version 12 on give its id")
    names, refused = [], []
    wanted = ((t.topic_id, None if by_id else t.name) for t in topics if not by_id or t.topic_id != NO_ID)
    async for topic_id, name in in_slices(dict.fromkeys(wanted)):
        described = image.index.name_of(topic_id) if by_id else name
        if described is not None and permits(described):
            names.append(described)
        else:
            code = ErrorCode.UNKNOWN_TOPIC_ID if described is None else ErrorCode.TOPIC_AUTHORIZATION_FAILED
            refused.append(rows.row(messages.MetadataResponseTopic(error_code=code, name=name, topic_id=topic_id)))
    return names, refused


async def _topic(service: KafkaService, version: int, name: str, live: Endpoints) -> messages.MetadataResponseTopic:
    image, partitions = service.context.image, []
    topic_id = image.topics[name].topic_id
    async for number, state in in_slices(image.partitions_of(name).items()):
        fields = cluster_rows.partition_fields(service, number, state, live)
        if fields["error_code"] == cluster_rows.LISTENER_NOT_FOUND and version < WITH_LISTENERS:
            fields["error_code"] = ErrorCode.LEADER_NOT_AVAILABLE
        partitions.append(messages.MetadataResponsePartition(**fields))
    is_internal = name in INTERNAL_TOPICS
    return messages.MetadataResponseTopic(name=name, topic_id=topic_id, is_internal=is_internal, partitions=partitions)


@cache
def _rows(version: int) -> Rows:
    behind = 4 if version in CLUSTER_OPERATIONS else 2 if version >= WITH_ERROR else 0
    return Rows(METADATA, version, messages.MetadataResponse(), "topics", behind)


def _kept(service: KafkaService, version: int) -> dict[str, bytes]:
    """Return the rows of topics that were encoded in this version, by name. When the metadata change others are begun,
    so one that is encoded meanwhile is in nobody's way."""
    image_version = service.context.image.version
    kept: tuple[int, dict[int, dict[str, bytes]]] | None = service.kept.get("Metadata")
    if kept is None or kept[0] != image_version:
        kept = service.kept["Metadata"] = image_version, {}  # else versions that nobody asks for again keep theirs
    return kept[1].setdefault(version, {})
