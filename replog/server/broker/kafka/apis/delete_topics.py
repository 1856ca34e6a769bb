"""DeleteTopics 1–6: by name, or from 6 on by id. The answer comes once all live brokers know that they are gone."""

from typing import Any

from replog.common.acl import Operation
from replog.errors import ErrorCode
from replog.kafka import messages
from replog.rpc.v1 import controller_pb2 as pb
from replog.server.broker.kafka.call import Call
from replog.server.broker.kafka.forwarding import ask_controller
from replog.server.broker.kafka.service import KafkaService
from replog.server.broker.kafka.topic_changes import change_each, check_known

NO_ID = bytes(16)


async def serve(service: KafkaService, call: Call) -> messages.DeleteTopicsResponse:
    wanted = [
        *call.message.topics,
        *(messages.DeleteTopicsRequestTopic(name=name) for name in call.message.topic_names),
    ]

    async def delete(topic: messages.DeleteTopicsRequestTopic, row: dict[str, Any], until_s: float) -> int:
        row["topic_id"] = topic.topic_id
        if (topic.name is None) == (topic.topic_id == NO_ID):
            raise ErrorCode.INVALID_REQUEST.error("give either the name of a topic or its id")
        name = service.context.image.index.name_of(topic.topic_id) if topic.name is None else topic.name
        if name is None:
            raise ErrorCode.UNKNOWN_TOPIC_ID.error(f"no topic has the id {topic.topic_id.hex()}")
        check_known(call, Operation.DELETE, name)
        row["name"] = name
        deletion = pb.DeleteTopicRequest(topic=name, topic_id=b"" if topic.name else topic.topic_id)
        gone: pb.DeleteTopicResponse = await ask_controller(service, "delete_topic", deletion, until_s)
        return gone.metadata_version

    rows = await change_each(service, call, wanted, delete)
    return messages.DeleteTopicsResponse(responses=[messages.DeleteTopicsResponseResponse(**row) for row in rows])
