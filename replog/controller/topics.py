"""Creating and deleting topics, adding partitions to them (CT-18, CT-19), and placing replicas on brokers (CT-20).
Pure: random numbers are passed in."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import cycle
from typing import NamedTuple, Protocol

from replog.config.processes import ControllerConfig
from replog.config.topic import TopicConfig
from replog.controller.broker_events import MIN_INSYNC_REPLICAS, active_brokers
from replog.controller.configs import check_together, checked_configs
from replog.controller.decision import Decision
from replog.controller.registration import placeable, replicas_fault
from replog.errors import ErrorCode
from replog.metadata.changes import Change
from replog.metadata.image import MetadataImage
from replog.metadata.values import BrokerRegistration, PartitionState, Topic
from replog.topic import MAX_CLUSTER_PARTITIONS, MAX_PARTITIONS, TopicPartition, validate_topic_name


class Rng(Protocol):
    """The methods of `random.Random` that are used."""

    def shuffle(self, x: list[int], /) -> None: ...

    def randrange(self, start: int, /) -> int: ...

    def randbytes(self, n: int, /) -> bytes: ...


class _Rack:
    """The brokers of one rack. It remembers its turns, so that leading and following go round evenly."""

    def __init__(self, rng: Rng) -> None:
        self.active: list[int] = []
        self.inactive: list[int] = []
        self._rng = rng
        self._led = 0
        self._followed = 0

    def leading(self) -> Iterator[int]:
        """Yields the brokers in the order for the next partition that this rack leads."""
        if self._led % len(self.active) == 0:  # each led once; in the same order, the same sets would come again
            self._rng.shuffle(self.active)
            self._rng.shuffle(self.inactive)
        self._led += 1
        yield from self._order(self._led)

    def following(self) -> Iterator[int]:
        """Yields the brokers in the order for a partition that another rack leads."""
        self._followed += 1
        yield from self._order(self._followed)

    def _order(self, turn: int) -> Iterator[int]:
        for brokers in (self.active, self.inactive):
            for i in range(len(brokers)):
                yield brokers[(turn + i) % len(brokers)]


class ReplicaPlacer:
    """Spreads replicas over racks, and leaders over brokers. Brokers without a rack share one (CT-20).

    A rack without an active broker is used only when all others were used once (divergence 46)."""

    def __init__(self, brokers: Iterable[BrokerRegistration], rng: Rng) -> None:
        racks: dict[str, _Rack] = {}
        for broker in sorted(brokers, key=lambda b: b.broker_id):
            rack = racks.setdefault(broker.rack, _Rack(rng))
            (rack.active if broker.active else rack.inactive).append(broker.broker_id)
        ordered = [racks[name] for name in sorted(racks)]
        self._racks = [rack for rack in ordered if rack.active]
        self._dead = [rack for rack in ordered if not rack.active]
        self._first = rng.randrange(len(self._racks)) if self._racks else 0

    def place(self, replication_factor: int) -> tuple[int, ...]:
        """Return the next partition's replicas in preference order; the first is active.

        Needs an active broker, and at least `replication_factor` brokers."""
        leading, *others = self._racks[self._first :] + self._racks[: self._first]
        self._first = (self._first + 1) % len(self._racks)
        # The leader's rack comes last in a round: a rack is used twice only when every rack was used once.
        sources = [rack.following() for rack in others + self._dead] + [leading.leading()]
        replicas = [next(sources[-1])]
        for source in cycle(sources):
            if len(replicas) == replication_factor:
                break
            if (broker := next(source, None)) is not None:
                replicas.append(broker)
        return tuple(replicas)


REQUEST_BYTES = 8  # a topic's id begins with so many bytes of the id in the request that made it


class NewTopic(NamedTuple):
    """A topic to create; 0 is the controller's default."""

    topic: str
    partitions: int = 0
    replication_factor: int = 0
    configs: Mapping[str, str] = {}
    assignment: Sequence[Sequence[int]] = ()  # replicas of each partition; then partitions and factor stay 0
    validate_only: bool = False
    topic_id: bytes = b""  # random; the new topic's id begins like it. Empty: the id is all new


class CreatedTopic(NamedTuple):
    """A topic that was created, or with validate_only could be."""

    topic_id: bytes
    partitions: int
    replication_factor: int
    metadata_version: int  # a broker that has applied it knows the topic


class NewPartitions(NamedTuple):
    """Partitions to add to a topic."""

    topic: str
    total: int  # partitions, those that exist included
    assignment: Sequence[Sequence[int]] = ()  # replicas of each new partition
    validate_only: bool = False


def create_topic(image: MetadataImage, config: ControllerConfig, request: NewTopic, rng: Rng) -> Decision[CreatedTopic]:
    """Creates a topic under a new id. The first active replica of each partition leads, with epochs 0 (CT-18).

    Its min.insync.replicas is stored even if it is the default: otherwise brokers could commit by another number than
    elections rely on (ISR-16).
    A repeated request, by its id, gets the same answer again. If its topic has been deleted since, it makes another
    topic, with another id (CT-19): no metadata version comes twice.
    Raises INVALID_TOPIC_EXCEPTION, TOPIC_ALREADY_EXISTS, INVALID_PARTITIONS, INVALID_REPLICATION_FACTOR,
    INVALID_REPLICA_ASSIGNMENT, INVALID_CONFIG, INVALID_REQUEST."""
    name = validate_topic_name(request.topic)
    if name in image.topics:
        if not _made_by(image.topics[name], request.topic_id):
            raise ErrorCode.TOPIC_ALREADY_EXISTS.error(f"topic {name} exists; delete it first, or choose another name")
        there = image.partitions_of(name)
        made = CreatedTopic(image.topics[name].topic_id, len(there), len(there[0].replicas), image.version)
        return Decision([], made)
    if request.topic_id and (
        len(request.topic_id) != 16 or any(_made_by(topic, request.topic_id) for topic in image.topics.values())
    ):
        raise ErrorCode.INVALID_REQUEST.error(
            f"topic id {request.topic_id.hex()}: it must be 16 bytes that no topic has; name none, or random ones"
        )
    configs = checked_configs(request.configs, TopicConfig, f"topic {name}")
    count, factor, assignment = _assignment(image, config, request, rng)
    configs.setdefault(MIN_INSYNC_REPLICAS, str(min(config.min_insync_replicas, factor)))
    check_together(image, name, configs)
    topic_id = request.topic_id[:REQUEST_BYTES] + (image.version + 1).to_bytes(16 - REQUEST_BYTES)
    topic = Topic(name, topic_id if request.topic_id else rng.randbytes(16), configs)

    def changes() -> Iterator[Change]:
        yield Change("topic", name, topic)
        yield from _partitions(image, topic, 0, assignment)

    if request.validate_only:
        return Decision([], CreatedTopic(b"", count, factor, image.version))
    return Decision(changes(), CreatedTopic(topic.topic_id, count, factor, image.version + 1 + count))


def create_partitions(image: MetadataImage, request: NewPartitions, rng: Rng) -> Decision[int]:
    """Adds partitions to a topic, placed and led like a new topic's, with as many replicas as its first one has.

    Answers the version that has them. Raises UNKNOWN_TOPIC_OR_PARTITION, INVALID_PARTITIONS unless there will be more
    than there are, INVALID_REPLICA_ASSIGNMENT, INVALID_REPLICATION_FACTOR."""
    name = validate_topic_name(request.topic)
    if name not in image.topics:
        raise ErrorCode.UNKNOWN_TOPIC_OR_PARTITION.error(f"there is no topic {name}")
    there = image.partitions_of(name)
    added = request.total - len(there)
    if added <= 0:
        raise ErrorCode.INVALID_PARTITIONS.error(
            f"topic {name} has {len(there)} partitions already, and {request.total} would be no more; partitions are "
            "never taken away: keys would change their places, and records would be lost"
        )
    _check_partition_count(image, request.total, added)
    first = there[0]
    factor = len(first.replicas) - len(first.removing)
    if request.assignment:
        if len(request.assignment) != added:
            raise ErrorCode.INVALID_REPLICA_ASSIGNMENT.error(
                f"topic {name}: {added} partitions are added, and replicas are assigned to {len(request.assignment)}"
            )
        assignment: Iterable[tuple[int, ...]] = _manual(
            image, [tuple(r) for r in request.assignment], factor, len(there)
        )
    else:
        assignment = _placed(image, added, factor, rng)
    if request.validate_only:
        return Decision([], image.version)
    return Decision(_partitions(image, image.topics[name], len(there), assignment), image.version + added)


def _partitions(
    image: MetadataImage, topic: Topic, first: int, assignment: Iterable[tuple[int, ...]]
) -> Iterator[Change]:
    """Yields new partitions, numbered from `first` on. The first active replica of each leads."""
    active = active_brokers(image)
    for partition, replicas in enumerate(assignment, first):
        isr = tuple(r for r in replicas if r in active)
        state = PartitionState(replicas=replicas, isr=isr, leader=isr[0], leader_epoch=0, partition_epoch=0)
        yield Change("partition", TopicPartition(topic.name, partition), state, topic.topic_id)


def _made_by(topic: Topic, topic_id: bytes) -> bool:
    """Return True if the request with this id made the topic."""
    return bool(topic_id) and topic.topic_id[:REQUEST_BYTES] == topic_id[:REQUEST_BYTES]


def delete_topic(image: MetadataImage, name: str, meant: bytes) -> Decision[int]:
    """Forget a topic and its partitions in one change (CT-19). Answers the version that does.

    Raises UNKNOWN_TOPIC_OR_PARTITION, and UNKNOWN_TOPIC_ID if the topic's id is not `meant`, which may be empty."""
    if validate_topic_name(name) not in image.topics:
        raise ErrorCode.UNKNOWN_TOPIC_OR_PARTITION.error(f"there is no topic {name}")
    topic_id = image.topics[name].topic_id
    if meant not in (topic_id, b""):
        raise ErrorCode.UNKNOWN_TOPIC_ID.error(
            f"topic {name} is {topic_id.hex()}, not {meant.hex()}: it was deleted and created again; describe it again"
        )
    return Decision([Change("topic", name, None)], image.version + 1)


def _assignment(
    image: MetadataImage, config: ControllerConfig, request: NewTopic, rng: Rng
) -> tuple[int, int, Iterable[tuple[int, ...]]]:
    """Return the number of partitions, of replicas each, and the replicas: at least one of each partition is active."""
    if request.assignment:
        if request.partitions or request.replication_factor:
            raise ErrorCode.INVALID_REQUEST.error(
                f"topic {request.topic}: an assignment by hand says how many partitions and replicas there are; "
                "leave both numbers 0"
            )
        _check_partition_count(image, len(request.assignment), len(request.assignment))
        rows = [tuple(replicas) for replicas in request.assignment]
        assignment = _manual(image, rows, len(rows[0]))
        return len(assignment), len(assignment[0]), assignment
    partitions = request.partitions or config.num_partitions
    factor = request.replication_factor or config.default_replication_factor
    _check_partition_count(image, partitions, partitions)
    if factor < 1:
        raise ErrorCode.INVALID_REPLICATION_FACTOR.error(f"replication factor {factor} is less than 1")
    return partitions, factor, _placed(image, partitions, factor, rng)


def _placed(image: MetadataImage, count: int, factor: int, rng: Rng) -> Iterator[tuple[int, ...]]:
    """Return the replicas of `count` new partitions (CT-20). Raises INVALID_REPLICATION_FACTOR."""
    brokers = placeable(image)
    if factor > len(brokers):
        raise ErrorCode.INVALID_REPLICATION_FACTOR.error(
            f"replication factor {factor} needs as many brokers, and {len(brokers)} of {len(image.brokers)} that are "
            "registered have been active and are not cordoned; start more brokers or ask for fewer replicas"
        )
    if not any(broker.active for broker in brokers):
        raise ErrorCode.INVALID_REPLICATION_FACTOR.error(
            f"none of the {len(image.brokers)} registered brokers is active and not cordoned; wait until one is"
        )
    placer = ReplicaPlacer(brokers, rng)
    return (placer.place(factor) for _ in range(count))


def _check_partition_count(image: MetadataImage, partitions: int, added: int) -> None:
    """Raises INVALID_PARTITIONS unless a topic may have so many, and the cluster so many more."""
    if not 1 <= partitions <= MAX_PARTITIONS:
        raise ErrorCode.INVALID_PARTITIONS.error(f"{partitions} partitions: a topic has 1 to {MAX_PARTITIONS} of them")
    if len(image.partitions) + added > MAX_CLUSTER_PARTITIONS:
        raise ErrorCode.INVALID_PARTITIONS.error(
            f"{added} more partitions: a cluster has at most {MAX_CLUSTER_PARTITIONS}, "
            f"and this one has {len(image.partitions)}"
        )


def _manual(
    image: MetadataImage, assignment: list[tuple[int, ...]], factor: int, first: int = 0
) -> list[tuple[int, ...]]:
    for partition, replicas in enumerate(assignment, first):
        if fault := _fault(image, replicas, factor):
            shown = ", ".join(map(str, replicas[:10])) + (", ..." if len(replicas) > 10 else "")
            raise ErrorCode.INVALID_REPLICA_ASSIGNMENT.error(f"partition {partition}, assigned to [{shown}]: {fault}")
    return assignment


def _fault(image: MetadataImage, replicas: tuple[int, ...], factor: int) -> str:
    if fault := replicas_fault(image, replicas):
        return fault
    if len(replicas) != factor:
        return f"it has {len(replicas)} replicas and partition 0 has {factor}; give all the same number"
    if not any(image.brokers[r].active for r in replicas):
        return "none of these brokers is active; wait until one is"
    return ""
