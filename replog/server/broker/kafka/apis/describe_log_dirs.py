"""DescribeLogDirs 1–4: this broker's log directories, with their replicas and the room that is left."""

from replog.common.acl import Operation
from replog.kafka import messages
from replog.server.broker.kafka.admin_rows import by_topic, check, check_count
from replog.server.broker.kafka.call import Call
from replog.server.broker.kafka.service import KafkaService
from replog.topic import MAX_CLUSTER_PARTITIONS


async def serve(service: KafkaService, call: Call) -> messages.DescribeLogDirsResponse:
    request: messages.DescribeLogDirsRequest = call.message
    check(call, Operation.DESCRIBE)
    check_count(sum(len(numbers) for _, numbers in request.topics or ()), MAX_CLUSTER_PARTITIONS, "replicas")
    asked = {(topic, number) for topic, numbers in request.topics or () for number in numbers}
    row, results = messages.DescribeLogDirsResponsePartition, []
    for directory in await service.log_dirs.described(lambda *replica: request.topics is None or replica in asked):
        rows = (
            (each.topic, row(each.partition, each.size, each.offset_lag, each.is_future)) for each in directory.replicas
        )
        topics = [messages.DescribeLogDirsResponseTopic(*each) for each in (await by_topic(rows)).items()]
        room = directory.total_bytes, directory.usable_bytes
        results.append(messages.DescribeLogDirsResponseResult(directory.error_code, directory.log_dir, topics, *room))
    return messages.DescribeLogDirsResponse(results=results)
