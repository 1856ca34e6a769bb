"""Blocks of producer ids for brokers to hand out. No id is given twice. Pure."""

from replog.controller.decision import Decision
from replog.errors import ErrorCode
from replog.metadata.changes import Change
from replog.metadata.image import MetadataImage
from replog.metadata.values import BrokerRegistration

BLOCK_SIZE = 1000
MAX_PRODUCER_ID = 2**63 - 1


def allocate(image: MetadataImage, broker: BrokerRegistration) -> Decision[int]:
    """Answers the first of the next `BLOCK_SIZE` ids. They belong to the broker for ever when the decision is durable.

    Raises BROKER_NOT_AVAILABLE for a fenced broker, UNKNOWN_SERVER_ERROR when every id has been given away."""
    if broker.fenced:
        raise ErrorCode.BROKER_NOT_AVAILABLE.error(
            f"broker {broker.broker_id} is fenced and gets no producer ids; it does once its heartbeats are back"
        )
    first = image.next_producer_id
    if first > MAX_PRODUCER_ID - BLOCK_SIZE:
        raise ErrorCode.UNKNOWN_SERVER_ERROR.error(f"every producer id up to {first} has been given away")
    return Decision([Change("producer_ids", None, first + BLOCK_SIZE)], first)
