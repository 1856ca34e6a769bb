"""ListConfigResources 0–1: the names of what has settings. Version 0 asks for client metrics, which nobody has here."""

from replog.common.acl import Operation
from replog.errors import ErrorCode
from replog.kafka import messages
from replog.server.broker.kafka.admin_rows import check
from replog.server.broker.kafka.call import Call
from replog.server.broker.kafka.config_rows import A_BROKER, A_TOPIC, RESOURCES
from replog.server.broker.kafka.service import KafkaService
from replog.server.work import in_slices


async def serve(service: KafkaService, call: Call) -> messages.ListConfigResourcesResponse:
    request: messages.ListConfigResourcesRequest = call.message
    check(call, Operation.DESCRIBE_CONFIGS)
    kinds = set(request.resource_types) or (RESOURCES if call.version else set())
    if strange := kinds - RESOURCES:
        raise ErrorCode.UNSUPPORTED_VERSION.error(f"there is no type {min(strange)} of resources")
    image, named = service.context.image, list[tuple[str, int]]()
    if A_TOPIC in kinds:
        named += [(topic, A_TOPIC) for topic in image.topics]
    if A_BROKER in kinds:
        named += [(str(broker_id), A_BROKER) for broker_id in sorted(image.brokers)]
    rows = [messages.ListConfigResourcesResponseConfigResource(*each) async for each in in_slices(named)]
    return messages.ListConfigResourcesResponse(config_resources=rows)
