"""IncrementalAlterConfigs 0–1: settings are set, deleted, added to or taken from; the others stay."""

from replog.kafka import messages
from replog.server.broker.kafka.call import Call
from replog.server.broker.kafka.config_changes import alter
from replog.server.broker.kafka.service import KafkaService


async def serve(service: KafkaService, call: Call) -> messages.IncrementalAlterConfigsResponse:
    rows = await alter(service, call, messages.IncrementalAlterConfigsResponseResponse)
    return messages.IncrementalAlterConfigsResponse(responses=rows)
