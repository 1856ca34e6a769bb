"""AlterConfigs 0–2: the settings that are named are set, and all others of a resource go back to their defaults."""

from replog.kafka import messages
from replog.server.broker.kafka.call import Call
from replog.server.broker.kafka.config_changes import alter
from replog.server.broker.kafka.service import KafkaService


async def serve(service: KafkaService, call: Call) -> messages.AlterConfigsResponse:
    rows = await alter(service, call, messages.AlterConfigsResponseResponse, replaces=True)
    return messages.AlterConfigsResponse(responses=rows)
