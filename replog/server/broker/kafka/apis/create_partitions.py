"""CreatePartitions 0–3: more partitions for topics. The answer comes once all live brokers know them."""

from typing import Any

from replog.common.acl import Operation
from replog.kafka import messages
from replog.rpc.v1 import controller_pb2 as pb
from replog.server.broker.kafka.call import Call
from replog.server.broker.kafka.forwarding import ask_controller
from replog.server.broker.kafka.service import KafkaService
from replog.server.broker.kafka.topic_changes import change_each, check_known


async def serve(service: KafkaService, call: Call) -> messages.CreatePartitionsResponse:
    request = call.message

    async def add(topic: messages.CreatePartitionsRequestTopic, _: dict[str, Any], until_s: float) -> int:
        check_known(call, Operation.ALTER, topic.name)
        wanted = pb.CreatePartitionsRequest(
            topic=topic.name,
            total_count=topic.count_,
            assignment=[pb.ReplicaAssignment(broker_ids=each.broker_ids) for each in topic.assignments or ()],
            validate_only=request.validate_only,
        )
        added: pb.CreatePartitionsResponse = await ask_controller(service, "create_partitions", wanted, until_s)
        return 0 if request.validate_only else added.metadata_version

    rows = await change_each(service, call, request.topics, add)
    return messages.CreatePartitionsResponse(results=[messages.CreatePartitionsResponseResult(**row) for row in rows])
