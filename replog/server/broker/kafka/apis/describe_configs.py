"""DescribeConfigs 1–4: settings of topics and of this broker, with where each value comes from."""

from typing import Any

from replog.common.acl import Operation
from replog.config.properties import number_in
from replog.errors import ErrorCode
from replog.kafka import messages
from replog.rpc.limits import MAX_ANSWER_BYTES, MAX_PARTITIONS_PER_REQUEST
from replog.server.broker.kafka import config_rows
from replog.server.broker.kafka.admin_rows import check, check_count, told_in
from replog.server.broker.kafka.call import Call
from replog.server.broker.kafka.service import KafkaService
from replog.server.broker.kafka.slices import Rows
from replog.server.work import in_slices
from replog.topic import validate_topic_name


async def serve(service: KafkaService, call: Call) -> bytes:
    resources, size = call.message.resources, 0
    check_count(len(resources), MAX_PARTITIONS_PER_REQUEST, "resources")
    rows, results = Rows(call.api.key, call.version, messages.DescribeConfigsResponse(), "results"), []
    more = call.message.include_synonyms, call.message.include_documentation
    async for kind, name, wanted in in_slices(resources):
        result: dict[str, Any] = {"resource_type": kind, "resource_name": name}
        with told_in(result):
            result["configs"] = config_rows.config_rows(*_settings(service, call, kind, name), wanted or (), more)
        results.append(rows.row(messages.DescribeConfigsResponseResult(**result)))
        check_count(size := size + len(results[-1]), MAX_ANSWER_BYTES, "bytes to answer")
    return rows.answer(messages.DescribeConfigsResponse(), results)


def _settings(service: KafkaService, call: Call, kind: int, name: str) -> tuple[config_rows.Models, config_rows.Layers]:
    """Return what a resource may have, and what is set. Raises an error if it is none, or if the client may not see
    it."""
    image, config = service.context.image, service.context.config
    if kind == config_rows.A_TOPIC:
        check(call, Operation.DESCRIBE_CONFIGS, name)
        topic = image.topics.get(validate_topic_name(name))
        if topic is None:
            raise ErrorCode.UNKNOWN_TOPIC_OR_PARTITION.error(f"there is no topic {name}")
        return config_rows.TOPIC, [(config_rows.DYNAMIC_TOPIC, topic.configs)]
    if kind not in config_rows.RESOURCES:
        raise ErrorCode.INVALID_REQUEST.error(f"{name[:60]!r}: there is no type {kind} of resources")
    check(call, Operation.DESCRIBE_CONFIGS)
    if kind != config_rows.A_BROKER or not name:
        return (), ()  # there are no loggers, metrics or groups with settings, and no settings of all brokers together
    if number_in(name) != config.node_id:
        raise ErrorCode.INVALID_REQUEST.error(f"{name[:60]!r} is not this broker's id, {config.node_id}; ask that one")
    started = config.model_dump(by_alias=True, mode="json", exclude_unset=True)
    static = {setting: config_rows.shown(value) for setting, value in started.items()}
    altered = image.broker_configs.get(config.node_id, {})
    return config_rows.BROKER, [(config_rows.DYNAMIC_BROKER, altered), (config_rows.STATIC_BROKER, static)]
