"""A broker process makes itself known (CT-1, ISR-18). Pure."""

from dataclasses import replace

from cluster.controller.broker_events import Rules, restart
from cluster.controller.records import Decision, broker_record
from cluster.metadata_image import MetadataImage
from replog.config import parse_address
from replog.errors import ErrorCode, ReplogError
from replog.metadata import Broker
from replog.properties import MAX_INT
from replog.rpc.v1 import controller_pb2 as pb
from replog.rpc.v1.metadata_pb2 import MetadataRecord

MAX_BROKERS = 1000
MAX_ADDRESS_LENGTH = 261  # a 255-character host, a colon, a port
MAX_RACK_LENGTH = 255
INCARNATION_ID_SIZE = 16


def register(
    image: MetadataImage, rules: Rules, request: pb.RegisterBrokerRequest, session_left_ms: int
) -> Decision[pb.RegisterBrokerResponse]:
    """Register one incarnation of a broker. `session_left_ms`: how long the id's present session still lasts.

    A new incarnation gets a new broker epoch, the version of its record, and starts fenced; the same one again keeps
    both. The record comes last, so that a broker which has applied it knows all that its restart changed (CT-4).
    Raises INVALID_REQUEST, INCONSISTENT_CLUSTER_ID, DUPLICATE_BROKER_REGISTRATION.
    """
    _validate(request)
    if request.cluster_id and request.cluster_id != image.cluster_id:
        raise ReplogError(
            ErrorCode.INCONSISTENT_CLUSTER_ID,
            f"broker {request.broker_id} belongs to cluster {request.cluster_id[:64]!r} and this is cluster "
            f"{image.cluster_id!r}; point it at its own controller, or give it empty log.dirs",
        )
    known = image.broker(request.broker_id)
    if known is not None and known.incarnation_id == request.incarnation_id:
        return _again(known, image, request)
    if known is not None and session_left_ms > 0:
        raise ReplogError(
            ErrorCode.DUPLICATE_BROKER_REGISTRATION,
            f"broker {request.broker_id} is registered by another process, at {known.address}, and its session lasts "
            f"another {session_left_ms} ms; wait for that if it is dead, or choose another node.id",
        )
    if known is None and len(image.brokers) >= MAX_BROKERS:
        raise _invalid(request, f"this cluster already has {MAX_BROKERS} brokers, and that is the most")
    changes: list[MetadataRecord] = []
    if known is not None:
        unclean = request.previous_broker_epoch != known.broker_epoch  # ISR-18
        changed = restart(image, rules, request.broker_id, unclean=unclean)
        changes = [record for record in changed if record is not None]
    broker = Broker(
        broker_id=request.broker_id,
        broker_epoch=image.version + len(changes) + 1,
        incarnation_id=request.incarnation_id,
        address=request.address,
        rack=request.rack,
        fenced=True,
        in_controlled_shutdown=False,
    )
    return Decision([*changes, broker_record(broker)], _response(image, broker))


def _again(
    known: Broker, image: MetadataImage, request: pb.RegisterBrokerRequest
) -> Decision[pb.RegisterBrokerResponse]:
    """An answer was lost, or the process moved: epoch and fenced state stay."""
    broker = replace(known, address=request.address, rack=request.rack)
    return Decision([] if broker == known else [broker_record(broker)], _response(image, broker))


def _response(image: MetadataImage, broker: Broker) -> pb.RegisterBrokerResponse:
    return pb.RegisterBrokerResponse(cluster_id=image.cluster_id, broker_epoch=broker.broker_epoch)


def _validate(request: pb.RegisterBrokerRequest) -> None:
    if not 0 <= request.broker_id <= MAX_INT:
        raise _invalid(request, f"a broker id is 0 to {MAX_INT}")
    if len(request.incarnation_id) != INCARNATION_ID_SIZE:
        raise _invalid(
            request, f"its incarnation id has {len(request.incarnation_id)} bytes, not {INCARNATION_ID_SIZE}"
        )
    if len(request.address) > MAX_ADDRESS_LENGTH:
        raise _invalid(request, f"its address has {len(request.address)} characters, more than {MAX_ADDRESS_LENGTH}")
    try:
        _, port = parse_address(request.address)
    except ValueError as error:
        raise _invalid(request, f"its address {error}; set advertised.listeners") from None
    if port == 0:
        raise _invalid(request, f"its address {request.address!r} has port 0, which nobody can connect to")
    if len(request.rack) > MAX_RACK_LENGTH or not (request.rack.isprintable()):
        raise _invalid(request, f"its rack must be at most {MAX_RACK_LENGTH} printable characters")
    if request.previous_broker_epoch < -1:
        raise _invalid(request, f"its previous broker epoch {request.previous_broker_epoch} is neither an epoch nor -1")


def _invalid(request: pb.RegisterBrokerRequest, why: str) -> ReplogError:
    return ReplogError(ErrorCode.INVALID_REQUEST, f"cannot register broker {request.broker_id}: {why}")
