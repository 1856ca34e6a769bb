"""AlterClientQuotas 0–1: the byte rates of users, and of each user without quotas of its own."""

from collections import Counter
from typing import Any

from replog.common.acl import Operation
from replog.config.processes import ClientQuota
from replog.config.properties import MAX_LONG
from replog.errors import ErrorCode
from replog.kafka import messages
from replog.rpc.limits import MAX_ALTERED_PER_REQUEST
from replog.rpc.v1 import controller_pb2 as pb
from replog.server.broker.kafka.admin_rows import check, check_count, told_in
from replog.server.broker.kafka.call import Call
from replog.server.broker.kafka.forwarding import ask_controller, deadline, in_lots, until_all_know
from replog.server.broker.kafka.service import KafkaService

OTHERS = ("Broker:", "Controller:")  # processes have quotas, too, under their whole names


async def serve(service: KafkaService, call: Call) -> messages.AlterClientQuotasResponse:
    request: messages.AlterClientQuotasRequest = call.message
    until_s = deadline(service, service.context.config.request_timeout_ms)
    check(call, Operation.ALTER_CONFIGS)
    check_count(len(request.entries), MAX_ALTERED_PER_REQUEST, "entities")
    named, versions = Counter(tuple(each.entity) for each in request.entries), [0]

    async def one(entry: messages.AlterClientQuotasRequestEntry) -> messages.AlterClientQuotasResponseEntry:
        row: dict[str, Any] = {"entity": entry.entity}
        with told_in(row):
            if named[tuple(entry.entity)] > 1:
                raise ErrorCode.INVALID_REQUEST.error("an entity is named twice; name each once")
            asked = _asked(entry)
            asked.validate_only = request.validate_only
            altered = await ask_controller(service, "alter_client_quotas", asked, until_s)
            versions.append(0 if request.validate_only else altered.metadata_version)
        return messages.AlterClientQuotasResponseEntry(**row)

    rows = await in_lots(request.entries, one)
    await until_all_know(service, max(versions), until_s)
    return messages.AlterClientQuotasResponse(entries=rows)


def _asked(entry: messages.AlterClientQuotasRequestEntry) -> pb.AlterClientQuotasRequest:
    """Raises INVALID_REQUEST."""
    if [each.entity_type for each in entry.entity] != ["user"]:
        raise ErrorCode.INVALID_REQUEST.error(  # Kafka's words, then ours
            "Invalid quota entity combination: quotas are of users alone; name one user, or null for all without one"
        )
    name = entry.entity[0].entity_name
    user = "" if name is None else name if name.startswith(OTHERS) else f"User:{name}"
    asked = pb.AlterClientQuotasRequest(user=user)
    for key, value, remove in entry.ops:
        if key not in ClientQuota.model_fields:
            known = " and ".join(ClientQuota.model_fields)
            raise ErrorCode.INVALID_REQUEST.error(f"there is no quota {key[:60]!r} here; there are {known}")
        if key in asked.set or key in asked.delete:
            raise ErrorCode.INVALID_REQUEST.error(f"{key} is altered twice; do it once")
        if remove:
            asked.delete.append(key)
        elif 1 <= value <= MAX_LONG and value.is_integer():
            asked.set[key] = str(int(value))
        else:
            raise ErrorCode.INVALID_REQUEST.error(f"{key}={value}: give a whole number of bytes a second, from 1")
    return asked
