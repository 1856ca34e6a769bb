"""A broker process registers (CT-1, ISR-18), joins, and is forgotten (D43). Pure.

Anybody can register by one request. A broker has joined once it was unfenced: until then it gets no replicas, its
registration ends with its session, and makes room for another when there are too many."""

from collections.abc import Sequence
from typing import NamedTuple

from replog.config.listeners import MAX_ADDRESS_LENGTH, MAX_LISTENERS, NAME, check_address
from replog.config.properties import MAX_INT
from replog.controller.broker_events import Rules, restart
from replog.controller.decision import Decision
from replog.errors import ErrorCode, ReplogError
from replog.metadata.changes import Change
from replog.metadata.image import MetadataImage
from replog.metadata.values import INCARNATION_ID_SIZE, BrokerRegistration, is_same
from replog.release import MAX_VERSION_LENGTH, Release
from replog.topic import TopicPartition

MAX_BROKERS = 1000
MAX_RACK_LENGTH = 255
CORDONED, CORDONED_WHOLLY = "cordoned.log.dirs", "*"


class Registration(NamedTuple):
    """The registration of one process of a broker."""

    cluster_id: str  # empty: not known yet
    broker_id: int
    incarnation_id: bytes
    address: str
    rack: str
    previous_broker_epoch: int  # the epoch that stopped cleanly; -1: the last stop was not clean (ISR-18)
    previous_incarnation_id: bytes = b""  # the process that stopped
    endpoints: tuple[tuple[str, str], ...] = ()  # name and address of its other listeners (D47)
    release: Release = Release()
    missing: Sequence[tuple[bytes, Sequence[int]]] = ()  # replicas that it lacks: topic ids, and partitions of each


def register(image: MetadataImage, rules: Rules, request: Registration, session_left_ms: int) -> Decision[int]:
    """Answers the broker epoch of an incarnation. `session_left_ms`: the time that the id's present session has left.

    A new incarnation gets a new broker epoch, the version of this change, and starts fenced. The same incarnation keeps
    both, and its address and rack. In a full cluster the oldest registration that was never used makes room. The
    broker's record is the last change: a broker that has applied it knows all other changes, too (CT-4).
    Raises INVALID_REQUEST, INCONSISTENT_CLUSTER_ID, DUPLICATE_BROKER_REGISTRATION."""
    _validate(request)
    if request.cluster_id and request.cluster_id != image.cluster_id:
        raise ErrorCode.INCONSISTENT_CLUSTER_ID.error(
            f"broker {request.broker_id} belongs to cluster {request.cluster_id[:64]!r} and this is cluster "
            f"{image.cluster_id!r}; point it at its own controller, or give it empty log.dirs"
        )
    known = image.broker(request.broker_id)
    if known is not None and is_same(known.incarnation_id, request.incarnation_id):
        if (known.address, known.endpoints, known.rack) != (request.address, request.endpoints, request.rack):
            raise _invalid(  # a process keeps them for life (D40)
                request,
                f"it is registered at {_places(known)} in rack {known.rack!r}, and now says {_places(request)} and "
                f"{request.rack!r}; a process keeps them, so restart it",
            )
        return Decision([], known.broker_epoch)  # the answer was lost
    if known is not None and session_left_ms > 0:
        raise ErrorCode.DUPLICATE_BROKER_REGISTRATION.error(
            f"broker {request.broker_id} is registered by another process, at {known.address}, and its session lasts "
            f"another {session_left_ms} ms; try again, it is asked whether it is gone; or choose another node.id"
        )
    changes: list[Change] = []
    if known is None and len(image.brokers) >= MAX_BROKERS:
        unused = never_joined(image)
        if not unused:
            raise _invalid(
                request,
                f"this cluster already has {MAX_BROKERS} brokers, the most there may be; forget one that is gone",
            )
        changes = [Change("broker", unused[0].broker_id, None)]
    if known is not None:
        unclean = not _stopped_cleanly(known, request)
        changed = restart(image, rules, request.broker_id, unclean=unclean, missing=_missing(image, request))
        changes = [change for change in changed if change is not None]
    broker = BrokerRegistration(
        broker_id=request.broker_id,
        broker_epoch=image.version + len(changes) + 1,
        incarnation_id=request.incarnation_id,
        address=request.address,
        rack=request.rack,
        fenced=True,
        in_controlled_shutdown=False,
        joined=known is not None and known.joined,
        endpoints=request.endpoints,
        software_version=request.release.version,
    )
    return Decision([*changes, Change("broker", broker.broker_id, broker)], broker.broker_epoch)


def _stopped_cleanly(known: BrokerRegistration, request: Registration) -> bool:
    """Return True if the last process left its epoch and its incarnation id, which others do not know (ISR-18)."""
    is_it = is_same(known.incarnation_id, request.previous_incarnation_id)
    return is_it and request.previous_broker_epoch == known.broker_epoch


def _missing(image: MetadataImage, request: Registration) -> frozenset[TopicPartition]:
    """Return the partitions that the broker lacks, without topics that are not known here (CT-29)."""
    names = {topic.topic_id: name for name, topic in image.topics.items()} if request.missing else {}
    known = ((names[topic_id], numbers) for topic_id, numbers in request.missing if topic_id in names)
    return frozenset(TopicPartition(name, number) for name, numbers in known for number in numbers)


def _places(broker: BrokerRegistration | Registration) -> str:
    return ", ".join((broker.address, *(f"{name}://{address}" for name, address in broker.endpoints)))


def _validate(request: Registration) -> None:
    if not 0 <= request.broker_id <= MAX_INT:
        raise _invalid(request, f"a broker id is 0 to {MAX_INT}")
    if len(request.incarnation_id) != INCARNATION_ID_SIZE:
        raise _invalid(
            request, f"its incarnation id has {len(request.incarnation_id)} bytes, not {INCARNATION_ID_SIZE}"
        )
    for address in (request.address, *(address for _, address in request.endpoints)):
        _validate_address(request, address)
    names = [name for name, _ in request.endpoints]
    if len(names) >= MAX_LISTENERS or len(set(names)) < len(names) or not all(map(NAME.fullmatch, names)):
        raise _invalid(
            request, f"of its other listeners, {names}, each has a name of its own; at most {MAX_LISTENERS} in all"
        )
    if len(request.rack) > MAX_RACK_LENGTH or not (request.rack.isprintable()):
        raise _invalid(request, f"its rack must be at most {MAX_RACK_LENGTH} printable characters")
    if len(request.release.version) > MAX_VERSION_LENGTH or not request.release.version.isprintable():
        raise _invalid(request, f"its version of replog must be at most {MAX_VERSION_LENGTH} printable characters")
    if request.previous_broker_epoch < -1:
        raise _invalid(request, f"its previous broker epoch {request.previous_broker_epoch} is neither an epoch nor -1")


def _validate_address(request: Registration, address: str) -> None:
    if len(address) > MAX_ADDRESS_LENGTH:
        raise _invalid(request, f"its address has {len(address)} characters, more than {MAX_ADDRESS_LENGTH}")
    try:
        _, port = check_address(address)
    except ValueError as error:
        raise _invalid(request, f"its address {error}; set advertised.listeners") from None
    if port == 0:
        raise _invalid(request, f"its address {address!r} has port 0, which nobody can connect to")


def _invalid(request: Registration, why: str) -> ReplogError:
    return ErrorCode.INVALID_REQUEST.error(f"cannot register broker {request.broker_id}: {why}")


def placeable(image: MetadataImage) -> list[BrokerRegistration]:
    """Return the brokers that get replicas: they have joined, and are not cordoned (KIP-1066)."""
    return [
        broker
        for broker in image.brokers.values()
        if has_joined(image, broker) and image.broker_configs.get(broker.broker_id, {}).get(CORDONED) != CORDONED_WHOLLY
    ]


def never_joined(image: MetadataImage) -> list[BrokerRegistration]:
    """Return the registrations that nothing needs, oldest first."""
    unused = [broker for broker in image.brokers.values() if not has_joined(image, broker)]
    return sorted(unused, key=lambda broker: broker.broker_epoch)


def has_joined(image: MetadataImage, broker: BrokerRegistration) -> bool:
    """A restored store does not know the brokers; their replicas show that they have joined."""
    return broker.joined or not broker.fenced or bool(image.index.on_broker(broker.broker_id))


def replicas_fault(image: MetadataImage, replicas: Sequence[int]) -> str:
    """Return "" if these are one or more distinct brokers that have joined, otherwise what is wrong."""
    seen: set[int] = set()
    for replica in replicas:
        if replica in seen:
            return f"broker {replica} is named twice"
        seen.add(replica)
        if replica not in image.brokers:
            return f"broker {replica} is not registered; start it, or choose another"
        if not has_joined(image, image.brokers[replica]):
            return f"broker {replica} has never been active; wait until it is"
    return "" if replicas else "it needs at least one replica"


def unregister(image: MetadataImage, broker_id: int) -> Decision[int]:
    """Forget a broker that will not come back, and its settings. Answers the version at which it is forgotten.

    Raises BROKER_ID_NOT_REGISTERED, INVALID_REPLICA_ASSIGNMENT while it has replicas, and then INVALID_REQUEST while it
    is unfenced."""
    broker = image.broker(broker_id)
    if broker is None:
        raise ErrorCode.BROKER_ID_NOT_REGISTERED.error(f"broker {broker_id} is not registered")
    if held := image.index.on_broker(broker_id):
        raise ErrorCode.INVALID_REPLICA_ASSIGNMENT.error(
            f"cannot forget broker {broker_id}: it has replicas, such as that of {next(iter(held))}; "
            "move them to other brokers first"
        )
    if not broker.fenced:
        raise ErrorCode.INVALID_REQUEST.error(f"cannot forget broker {broker_id}: it is unfenced; stop it first")
    settings = [Change("broker_config", broker_id, {})] if image.broker_configs.get(broker_id) else []
    return Decision([*settings, Change("broker", broker_id, None)], image.version + len(settings) + 1)
