"""CreateTopics 2–7: the controller makes each topic by itself. The answer comes once all live brokers know them."""

from collections.abc import Mapping
from typing import Any

from replog.common.acl import Operation
from replog.errors import ErrorCode
from replog.kafka import messages
from replog.rpc.v1 import controller_pb2 as pb
from replog.server.authorizer import refused_topic
from replog.server.broker.kafka.call import Call
from replog.server.broker.kafka.cluster_rows import CLUSTER_METADATA, NEVER_MADE
from replog.server.broker.kafka.config_rows import DEFAULT, DYNAMIC_TOPIC, TOPIC, settings_of
from replog.server.broker.kafka.service import KafkaService
from replog.server.broker.kafka.slices import Rows
from replog.server.broker.kafka.topic_changes import change_each, create, may_create
from replog.server.work import in_slices
from replog.topic import validate_topic_name

HIDDEN = {"topic_config_error_code": ErrorCode.TOPIC_AUTHORIZATION_FAILED, "configs": None}


async def serve(service: KafkaService, call: Call) -> bytes:
    request, image, permits = call.message, service.context.image, may_create(call)
    shows = call.permits(Operation.DESCRIBE_CONFIGS, quietly=True)
    alike = {_without_dots(name): name for name in image.topics}

    async def make(topic: messages.CreateTopicsRequestTopic, row: dict[str, Any], until_s: float) -> int:
        if not permits(topic.name):
            raise refused_topic(topic.name)
        validate_topic_name(topic.name)
        if topic.name in NEVER_MADE:
            code = ErrorCode.INVALID_REQUEST if topic.name == CLUSTER_METADATA else ErrorCode.INVALID_TOPIC_EXCEPTION
            raise code.error(f"topic {topic.name} is internal; choose another name")
        other = alike.setdefault(_without_dots(topic.name), topic.name)
        if other != topic.name:  # Kafka's rule: both would have the same metrics there
            raise ErrorCode.INVALID_TOPIC_EXCEPTION.error(
                f"Topic '{topic.name}' collides with existing topics: {other}"
            )
        wanted = _wanted(topic, request.validate_only)
        made = await create(service, wanted, until_s)
        row["configs"] = wanted.configs
        if shows(topic.name):
            row |= {"num_partitions": made.partitions, "replication_factor": made.replication_factor}
        if request.validate_only:
            return 0
        row["topic_id"] = made.topic_id
        return made.metadata_version

    rows, encoded = Rows(call.api.key, call.version, messages.CreateTopicsResponse(), "topics"), []
    async for row in in_slices(await change_each(service, call, request.topics, make)):
        if "configs" in row:
            topic = image.topics.get(row["name"])
            said = topic.configs if topic and not request.validate_only else row["configs"]
            row |= {"configs": _configs(said)} if shows(row["name"]) else HIDDEN
        encoded.append(rows.row(messages.CreateTopicsResponseTopic(**row)))
    return rows.answer(messages.CreateTopicsResponse(), encoded)


def _without_dots(name: str) -> str:
    return name.replace(".", "_")


def _wanted(topic: messages.CreateTopicsRequestTopic, validate_only: bool) -> pb.CreateTopicRequest:
    """Return the request to the controller, for which 0 is a default. Raises as Kafka does."""
    partitions, factor = topic.num_partitions, topic.replication_factor
    if topic.assignments and (partitions, factor) != (-1, -1):
        raise ErrorCode.INVALID_REQUEST.error("an assignment by hand says both numbers; leave them -1")
    if partitions == 0 or partitions < -1:
        raise ErrorCode.INVALID_PARTITIONS.error(f"{partitions} partitions; give 1 or more, or -1 for the default")
    if factor == 0 or factor < -1:
        raise ErrorCode.INVALID_REPLICATION_FACTOR.error(
            f"replication factor {factor}; give 1 or more, or -1 for the default"
        )
    if nothing := next((config.name for config in topic.configs if config.value is None), None):
        raise ErrorCode.INVALID_CONFIG.error(f"Null value not supported for topic configs: {nothing[:60]}")
    assigned = sorted((each.partition_index, each.broker_ids) for each in topic.assignments)
    if [number for number, _ in assigned] != [*range(len(assigned))]:
        raise ErrorCode.INVALID_REPLICA_ASSIGNMENT.error("assign replicas to each partition from 0 on, once")
    return pb.CreateTopicRequest(
        topic=topic.name,
        partitions=max(partitions, 0),
        replication_factor=max(factor, 0),
        configs={config.name: config.value or "" for config in topic.configs},
        assignment=[pb.ReplicaAssignment(broker_ids=broker_ids) for _, broker_ids in assigned],
        validate_only=validate_only,
    )


def _configs(said: Mapping[str, str]) -> list[messages.CreateTopicsResponseConfig]:
    return [
        messages.CreateTopicsResponseConfig(
            name=name, value=said.get(name, setting.default), config_source=DYNAMIC_TOPIC if name in said else DEFAULT
        )
        for name, setting in settings_of(TOPIC).items()
    ]
