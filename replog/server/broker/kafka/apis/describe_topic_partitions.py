"""DescribeTopicPartitions 0: topics in pages of at most 2,000 partitions, with eligible leader replicas (KIP-966)."""

from replog.common.acl import Operation
from replog.errors import ErrorCode
from replog.kafka import messages
from replog.metadata.values import PartitionState
from replog.rpc.limits import MAX_PARTITIONS_PER_REQUEST
from replog.server.broker.kafka import cluster_rows
from replog.server.broker.kafka.admin_rows import check_count
from replog.server.broker.kafka.call import Call
from replog.server.broker.kafka.cluster_rows import Endpoints
from replog.server.broker.kafka.service import KafkaService
from replog.server.work import in_slices

MAX_PAGE = 2000  # partitions of one answer, as in Kafka


async def serve(service: KafkaService, call: Call) -> messages.DescribeTopicPartitionsResponse:
    request, image, live = call.message, service.context.image, cluster_rows.endpoints(service)
    check_count(len(request.topics), MAX_PARTITIONS_PER_REQUEST, "topics")
    first, first_partition = request.cursor or ("", 0)
    if first_partition < 0:
        raise ErrorCode.INVALID_REQUEST.error(f"the cursor's partition {first_partition} is negative")
    left, topics, cursor = max(1, min(request.response_partition_limit, MAX_PAGE)), [], None
    permits = call.permits(Operation.DESCRIBE, quietly=not request.topics)
    async for name in in_slices(sorted({topic.name for topic in request.topics} or image.topics)):
        allowed = permits(name)
        if name < first or not (allowed or request.topics):
            continue
        row = messages.DescribeTopicPartitionsResponseTopic(name=name, is_internal=name in cluster_rows.INTERNAL_TOPICS)
        if allowed and name in image.topics:
            states = [each for each in image.partitions_of(name).items() if name > first or each[0] >= first_partition]
            if left < len(states):
                cursor = messages.DescribeTopicPartitionsResponseNextCursor(name, states[left][0])
                if not left:
                    break
            row = row._replace(
                topic_id=image.topics[name].topic_id,
                partitions=[_partition(service, number, state, live) for number, state in states[:left]],
                topic_authorized_operations=cluster_rows.topic_operations(call, name),
            )
            left -= min(left, len(states))
        else:
            row = row._replace(
                error_code=cluster_rows.why_unknown(name) if allowed else ErrorCode.TOPIC_AUTHORIZATION_FAILED
            )
        topics.append(row)
        if cursor:
            break
    return messages.DescribeTopicPartitionsResponse(topics=topics, next_cursor=cursor)


def _partition(
    service: KafkaService, number: int, state: PartitionState, live: Endpoints
) -> messages.DescribeTopicPartitionsResponsePartition:
    return messages.DescribeTopicPartitionsResponsePartition(
        **cluster_rows.partition_fields(service, number, state, live),
        eligible_leader_replicas=state.elr,
        last_known_elr=state.last_known_elr,
    )
