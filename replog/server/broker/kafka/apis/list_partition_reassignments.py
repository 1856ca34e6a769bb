"""ListPartitionReassignments 0: the partitions that are on their way to other brokers."""

from replog.common.acl import Operation
from replog.kafka import messages
from replog.rpc.limits import MAX_ANSWER_BYTES
from replog.rpc.v1 import controller_pb2 as pb
from replog.server.broker.kafka.admin_rows import by_topic, check, partition_names
from replog.server.broker.kafka.call import Call
from replog.server.broker.kafka.forwarding import ask_controller, deadline
from replog.server.broker.kafka.service import KafkaService


async def serve(service: KafkaService, call: Call) -> messages.ListPartitionReassignmentsResponse:
    request: messages.ListPartitionReassignmentsRequest = call.message
    check(call, Operation.DESCRIBE)
    names = partition_names(request.topics or ())
    if request.topics is not None and not names:
        return messages.ListPartitionReassignmentsResponse()  # no names would mean all to the controller
    asked = pb.ListPartitionReassignmentsRequest(partitions=names, max_bytes=MAX_ANSWER_BYTES)
    until_s = deadline(service, request.timeout_ms)
    answer = await ask_controller(service, "list_partition_reassignments", asked, until_s)
    row = messages.ListPartitionReassignmentsResponsePartition
    rows = (
        (each.topic, row(each.partition, each.replicas, each.adding_replicas, each.removing_replicas))
        for each in answer.partitions
    )
    topics = [messages.ListPartitionReassignmentsResponseTopic(*each) for each in (await by_topic(rows)).items()]
    return messages.ListPartitionReassignmentsResponse(topics=topics)
