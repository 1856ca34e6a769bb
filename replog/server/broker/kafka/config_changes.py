"""Changes of the settings of topics and brokers: what IncrementalAlterConfigs and AlterConfigs share."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from replog.common.acl import Operation
from replog.config.properties import MAX_INT, number_in
from replog.errors import ErrorCode
from replog.rpc.limits import MAX_ALTERED_PER_REQUEST, MAX_CONFIGS_PER_REQUEST
from replog.rpc.v1 import controller_pb2 as pb
from replog.server.broker.kafka.admin_rows import check, check_count, told_in
from replog.server.broker.kafka.call import Call
from replog.server.broker.kafka.config_rows import A_BROKER, A_TOPIC, BROKER, LISTS, TOPIC, settings_of
from replog.server.broker.kafka.forwarding import ask_controller, deadline, in_lots, until_all_know
from replog.server.broker.kafka.service import KafkaService

OPS = SET, DELETE, APPEND, SUBTRACT = tuple(range(4))


class Op(NamedTuple):
    """A change of one setting."""

    name: str
    kind: int  # one of OPS
    value: str | None  # None for DELETE only


async def alter(service: KafkaService, call: Call, row: Callable[..., Any], *, replaces: bool = False) -> list[Any]:
    """Alter each resource of the request by itself, and return a row for each. With `replaces`, each setting that is
    named is set, and the others are deleted."""
    request, until_s = call.message, deadline(service, service.context.config.request_timeout_ms)
    check_count(len(request.resources), MAX_ALTERED_PER_REQUEST, "resources")
    named, versions = Counter(each[:2] for each in request.resources), [0]

    async def one(resource: Any) -> Any:
        kind, name, configs = resource
        said = {"resource_type": kind, "resource_name": name}
        with told_in(said):
            method, asked, known = _target(call, kind, name)
            if named[kind, name] > 1:
                raise ErrorCode.INVALID_REQUEST.error(f"{name[:60]!r} is named twice; name each resource once")
            ops = _checked([Op(each.name, SET if replaces else each.config_operation, each.value) for each in configs])
            current: Mapping[str, str] = {}
            asked.validate_only = True
            if replaces or any(op.kind in (APPEND, SUBTRACT) or op.name not in known for op in ops):
                # a change of nothing tells what is set
                current = dict((await ask_controller(service, method, asked, until_s)).configs)
            asked.validate_only = request.validate_only
            asked.set.update({op.name: _value(op, current) for op in ops if op.kind != DELETE})
            deleted = current.keys() - asked.set if replaces else {op.name for op in ops if op.kind == DELETE}
            asked.delete.extend(deleted & (known.keys() | current.keys()))  # Kafka lets names be deleted that are none
            altered = await ask_controller(service, method, asked, until_s)
            versions.append(0 if request.validate_only else altered.metadata_version)
        return row(**said)

    rows = await in_lots(request.resources, one)
    await until_all_know(service, max(versions), until_s)
    return rows


def _target(call: Call, kind: int, name: str) -> tuple[str, Any, Mapping[str, Any]]:
    """Return the controller's method, its request, and what can be set. Raises an error for what this client, or
    nobody, can alter."""
    if kind == A_TOPIC:
        check(call, Operation.ALTER_CONFIGS, name)
        return "alter_topic_configs", pb.AlterTopicConfigsRequest(topic=name), settings_of(TOPIC)
    check(call, Operation.ALTER_CONFIGS)
    broker_id = number_in(name, MAX_INT)
    if kind != A_BROKER or broker_id is None:
        raise ErrorCode.INVALID_REQUEST.error(
            f"{name[:60]!r}, a resource of type {kind}: settings are those of topics, or of one broker, by its id"
        )
    return "alter_broker_configs", pb.AlterBrokerConfigsRequest(broker_id=broker_id), settings_of(BROKER)


def _checked(ops: Sequence[Op]) -> Sequence[Op]:
    """Raises INVALID_REQUEST, as Kafka does."""
    check_count(len(ops), MAX_CONFIGS_PER_REQUEST, "settings of a resource")
    names = Counter(op.name for op in ops)
    for name, kind, value in ops:
        if names[name] > 1:
            raise ErrorCode.INVALID_REQUEST.error(f"{name[:60]!r} is altered twice; do it once")
        if kind not in OPS:
            raise ErrorCode.INVALID_REQUEST.error(f"{name[:60]!r}: there is no operation {kind}")
        if value is None and kind != DELETE:
            raise ErrorCode.INVALID_REQUEST.error(f"Null value not supported for : {name[:60]}")  # Kafka's words
    return ops


def _value(op: Op, current: Mapping[str, str]) -> str:
    """Return the new value of a setting. Raises INVALID_CONFIG."""
    if op.kind == SET:
        return op.value or ""
    if op.name not in LISTS:
        raise ErrorCode.INVALID_CONFIG.error(f"{op.name[:60]!r} is no list, so nothing can be added to it; set it")
    default = settings_of(TOPIC)[op.name].default
    before, given = (
        dict.fromkeys(filter(None, map(str.strip, text.split(","))))
        for text in (current.get(op.name, default or ""), op.value or "")
    )
    return ",".join(before | given if op.kind == APPEND else (each for each in before if each not in given))
