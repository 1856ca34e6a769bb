"""InitProducerId 0–5: an id for an idempotent producer. Transactions are not taken."""

from replog.errors import ErrorCode, ReplogError
from replog.kafka import messages
from replog.server.broker.kafka.call import Call
from replog.server.broker.kafka.service import KafkaService

NO_PRODUCER, NO_EPOCH = -1, -1


async def serve(service: KafkaService, call: Call) -> messages.InitProducerIdResponse:
    try:
        return messages.InitProducerIdResponse(producer_id=await _next_id(service, call), producer_epoch=0)
    except ReplogError as error:
        code = error.code
        if code is ErrorCode.BROKER_NOT_AVAILABLE:
            code = ErrorCode.REQUEST_TIMED_OUT  # clients retry this one
        return messages.InitProducerIdResponse(error_code=code, producer_id=NO_PRODUCER, producer_epoch=NO_EPOCH)


async def _next_id(service: KafkaService, call: Call) -> int:
    """Give a new id, as Kafka does, to a producer that names its last one, too (KIP-360): what it has in flight then
    is another producer's."""
    message = call.message
    if message.transactional_id is not None:
        # All clients take this code for final. After most others they would go on asking.
        raise ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED.error("transactions are not taken")
    if (message.producer_id == NO_PRODUCER) != (message.producer_epoch == NO_EPOCH):
        raise ErrorCode.INVALID_REQUEST.error("name a producer id and its epoch, or neither")
    service.context.authorizer.check_idempotent_write(call.asks, call.path)
    return await service.producer_ids.next_id()
