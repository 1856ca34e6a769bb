"""DescribeClientQuotas 0–1: the quotas of users that a filter fits; clients and addresses have none of their own."""

from collections.abc import Sequence

from replog.common.acl import Operation
from replog.config.processes import DEFAULT_USER, ClientQuota
from replog.config.properties import number_in
from replog.errors import ErrorCode
from replog.kafka import messages
from replog.server.broker.kafka.admin_rows import check
from replog.server.broker.kafka.call import Call
from replog.server.broker.kafka.service import KafkaService
from replog.server.work import in_slices

USER = "user"
EXACT, DEFAULT, ANY = HOW = tuple(range(3))


async def serve(service: KafkaService, call: Call) -> messages.DescribeClientQuotasResponse:
    request: messages.DescribeClientQuotasRequest = call.message
    check(call, Operation.DESCRIBE_CONFIGS)
    _check(request.components)
    entries, quotas = [], sorted(service.context.image.client_quotas.items())
    if (request.strict and not request.components) or any(each.entity_type != USER for each in request.components):
        quotas = []  # nobody has quotas of exactly that kind
    async for user, configs in in_slices(quotas):
        name = None if user == DEFAULT_USER else user.removeprefix("User:")  # Kafka's name for it
        rates = ((key, number_in(configs.get(key, ""))) for key in ClientQuota.model_fields)
        values = [messages.DescribeClientQuotasResponseValue(key, rate) for key, rate in rates if rate is not None]
        if values and all(how == ANY or match == name for _, how, match in request.components):
            entity = [messages.DescribeClientQuotasResponseEntity(USER, name)]
            entries.append(messages.DescribeClientQuotasResponseEntry(entity, values))
    return messages.DescribeClientQuotasResponse(entries=entries)


def _check(components: Sequence[messages.DescribeClientQuotasRequestComponent]) -> None:
    """Raises INVALID_REQUEST, and UNSUPPORTED_VERSION for a type of entity that Kafka has not either."""
    kinds = [each.entity_type for each in components[:4]]
    if len(set(kinds)) < len(kinds) or ("ip" in kinds and len(kinds) > 1):
        raise ErrorCode.INVALID_REQUEST.error(
            f"Invalid entity filter component combination: {kinds}; name each type once, and ip alone"
        )
    for kind, how, match in components:
        if kind not in (USER, "client-id", "ip"):
            raise ErrorCode.UNSUPPORTED_VERSION.error(f"there are no quotas of entity type {kind[:60]!r}")
        if how not in HOW or (how == EXACT) == (match is None):
            raise ErrorCode.INVALID_REQUEST.error(f"{kind}: match type 0 takes a name, 1 and 2 take none; it is {how}")
