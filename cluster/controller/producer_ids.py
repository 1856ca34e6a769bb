"""Blocks of producer ids for brokers to hand out, none ever given twice. Pure."""

from cluster.controller.records import Decision, producer_ids_record
from cluster.metadata_image import MetadataImage
from replog.errors import ErrorCode, ReplogError
from replog.metadata import Broker
from replog.rpc.v1 import controller_pb2 as pb

BLOCK_SIZE = 1000
MAX_PRODUCER_ID = 2**63 - 1


def allocate(image: MetadataImage, broker: Broker) -> Decision[pb.AllocateProducerIdsResponse]:
    """The next block, the broker's once the decision is durable. Ids of a broker that stops are not taken back.

    Raises BROKER_NOT_AVAILABLE for a fenced broker, UNKNOWN_SERVER_ERROR when every id has been given away.
    """
    if broker.fenced:
        raise ReplogError(
            ErrorCode.BROKER_NOT_AVAILABLE,
            f"broker {broker.broker_id} is fenced and gets no producer ids; it does once its heartbeats are back",
        )
    first = image.next_producer_id
    if first > MAX_PRODUCER_ID - BLOCK_SIZE:
        raise ReplogError(ErrorCode.UNKNOWN_SERVER_ERROR, f"every producer id up to {first} has been given away")
    answer = pb.AllocateProducerIdsResponse(first_producer_id=first, count=BLOCK_SIZE)
    return Decision([producer_ids_record(first + BLOCK_SIZE)], answer)
