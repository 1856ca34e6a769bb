"""Registered brokers that have joined the cluster, and registrations that are forgotten (D43). Pure.

Anybody can register by one request. A broker has joined once it was unfenced: until then it gets no replicas, its
registration ends with its session, and makes room for another when there are too many."""

from replog.controller.decision import Decision
from replog.errors import ErrorCode
from replog.metadata.changes import Change
from replog.metadata.image import MetadataImage
from replog.metadata.values import BrokerRegistration

CORDONED, CORDONED_WHOLLY = "cordoned.log.dirs", "*"


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
    """A store of an earlier release does not say that a stopped broker has joined; its replicas show it."""
    return broker.joined or not broker.fenced or bool(image.index.on_broker(broker.broker_id))


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
