"""DescribeProducers 0: the producers that a replica here knows of."""

from typing import Any

from replog.common.acl import Operation
from replog.errors import ErrorCode, ReplogError
from replog.kafka import messages
from replog.log.log import Log
from replog.server.broker.clients.offsets import check_permitted, leading
from replog.server.broker.kafka.call import Call
from replog.server.broker.kafka.partition_rows import rows_by_topic
from replog.server.broker.kafka.service import KafkaService
from replog.server.work import in_slices
from replog.topic import TopicPartition

MAX_PRODUCERS_TOLD = 10_000  # one request tells of no more, except that a partition is told whole


async def serve(service: KafkaService, call: Call) -> messages.DescribeProducersResponse:
    permits, told = call.permits(Operation.READ), 0

    async def row(topic: str, index: int) -> Any:
        nonlocal told
        try:
            check_permitted(permits, topic)
            log, producers = _log(service, TopicPartition(topic, index)), []
            if told >= MAX_PRODUCERS_TOLD:
                raise ErrorCode.THROTTLING_QUOTA_EXCEEDED.error(
                    f"the answer has {told} producers already; name fewer partitions in one request"
                )
            async for producer_id, epoch, sequence, _, _, *rest in in_slices(log.producers.snapshot_entries()):
                producers.append(messages.DescribeProducersResponseActiveProducer(producer_id, epoch, sequence, *rest))
            told += len(producers)
            return messages.DescribeProducersResponsePartition(index, active_producers=producers)
        except ReplogError as error:
            return messages.DescribeProducersResponsePartition(index, error.code, error.message)

    return messages.DescribeProducersResponse(topics=await rows_by_topic(call.message.topics, row))


def _log(service: KafkaService, tp: TopicPartition) -> Log:
    """Return the log of a replica here, a follower's, too. Raises the reason why it does not serve."""
    hosted = service.replicas.hosted.get(tp)
    if hosted is not None and hosted.log.failure is None and hosted.follower is not None:
        return hosted.log
    return leading(service.manager, tp).log
