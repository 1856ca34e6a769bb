"""AlterReplicaLogDirs 1–2: replicas of this broker move to others of its log directories."""

from replog.common.acl import Operation
from replog.kafka import messages
from replog.rpc.limits import MAX_PARTITIONS_PER_REQUEST
from replog.rpc.v1 import log_dirs_pb2 as pb
from replog.server.broker.kafka.admin_rows import by_topic, check, check_count
from replog.server.broker.kafka.call import Call
from replog.server.broker.kafka.service import KafkaService
from replog.server.work import in_slices


async def serve(service: KafkaService, call: Call) -> messages.AlterReplicaLogDirsResponse:
    request: messages.AlterReplicaLogDirsRequest = call.message
    check(call, Operation.ALTER)
    count = sum(len(numbers) for _, topics in request.dirs for _, numbers in topics)
    check_count(count, MAX_PARTITIONS_PER_REQUEST, "replicas")
    moves = ((path, topic, number) for path, topics in request.dirs for topic, numbers in topics for number in numbers)
    asked = pb.AlterReplicaLogDirsRequest()
    async for path, topic, number in in_slices(moves):
        asked.replicas.add(topic=topic, partition=number, log_dir=path)
    answer = await service.log_dirs.alter_replica_log_dirs(asked)
    rows = (
        (row.topic, messages.AlterReplicaLogDirsResponsePartition(row.partition, row.error_code))
        for row in answer.replicas
    )
    results = [messages.AlterReplicaLogDirsResponseResult(*each) for each in (await by_topic(rows)).items()]
    return messages.AlterReplicaLogDirsResponse(results=results)
