"""AlterPartitionReassignments 0–1: partitions move to other brokers, or such a move is taken back (CT-14, CT-16)."""

from typing import Any

from replog.common.acl import Operation
from replog.errors import ErrorCode
from replog.kafka import messages
from replog.rpc.v1 import controller_pb2 as pb
from replog.server.broker.kafka.admin_rows import by_topic, check, check_count, outcome_of, told_in
from replog.server.broker.kafka.call import Call
from replog.server.broker.kafka.forwarding import ask_controller, deadline
from replog.server.broker.kafka.service import KafkaService
from replog.server.work import in_slices
from replog.topic import MAX_CLUSTER_PARTITIONS, TopicPartition


async def serve(service: KafkaService, call: Call) -> messages.AlterPartitionReassignmentsResponse:
    request: messages.AlterPartitionReassignmentsRequest = call.message
    check(call, Operation.ALTER)
    check_count(sum(len(topic.partitions) for topic in request.topics), MAX_CLUSTER_PARTITIONS, "partitions")
    asked, outcomes = pb.AlterPartitionReassignmentsRequest(), dict[TopicPartition, dict[str, Any]]()
    named = ((each.name, *row) for each in request.topics for row in each.partitions)
    async for topic, number, replicas in in_slices(named):
        outcomes[tp := TopicPartition(topic, number)] = {}
        with told_in(outcomes[tp]):
            state = service.context.image.partitions.get(tp)
            if not request.allow_replication_factor_change and replicas is not None and state is not None:
                count = len(state.replicas) - len(state.removing)
                if len(replicas) != count:
                    raise ErrorCode.INVALID_REPLICATION_FACTOR.error(
                        f"{tp} has {count} replicas, and would have {len(replicas)}, which the request does not allow"
                    )
            target = None if replicas is None else pb.ReplicaAssignment(broker_ids=replicas)
            asked.partitions.add(topic=topic, partition=number, target=target)
    if asked.partitions:
        until_s = deadline(service, request.timeout_ms)
        answer = await ask_controller(service, "alter_partition_reassignments", asked, until_s)
        async for row in in_slices(answer.partitions):
            outcomes[TopicPartition(row.topic, row.partition)] = outcome_of(row)
    rows = (
        (tp.topic, messages.AlterPartitionReassignmentsResponsePartition(tp.partition, **said))
        for tp, said in outcomes.items()
    )
    topics = [messages.AlterPartitionReassignmentsResponseResponse(*each) for each in (await by_topic(rows)).items()]
    return messages.AlterPartitionReassignmentsResponse(
        allow_replication_factor_change=request.allow_replication_factor_change, responses=topics
    )
