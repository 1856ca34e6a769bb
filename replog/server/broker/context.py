"""The parts of a broker share its context, and none of them owns it: settings, metadata, clocks, counts of traffic.

Traffic is counted by batch, by partition of an answer and by request, never by record."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import structlog

from replog.config.processes import BrokerConfig
from replog.errors import ErrorCode, ReplogError
from replog.log.errors import RetriableLogError
from replog.log.fetch import SessionRow
from replog.metadata.image import MetadataImage
from replog.server.authorizer import AuditLog, Authorizer
from replog.server.clock import Clock, TrustedTime
from replog.server.metrics.families import Times
from replog.server.work import Throttle

log = structlog.get_logger()

PRODUCE, CONSUMER, FOLLOWER = REQUESTS = ("Produce", "FetchConsumer", "FetchFollower")
# Damage is met by a start, which cuts it off; by a read; in records of the leader, which are refused; by a cleaning;
# by a move to another directory.
RECOVERY, READ, REPLICATION, CLEANING, MOVE = DAMAGE = ("recovery", "read", "replication", "cleaning", "move")


@dataclass(slots=True)
class TopicTraffic:
    """Counts of a topic since the start of the broker."""

    messages_in: int = 0
    bytes_in: int = 0
    bytes_out: int = 0
    copied_in: int = 0  # bytes from leaders
    copied_out: int = 0  # bytes to followers
    produces: int = 0  # batches
    failed_produces: int = 0
    fetches: int = 0  # answers with something to say of a partition
    failed_fetches: int = 0


@dataclass(slots=True)
class Traffic:
    clock: Clock
    image: MetadataImage
    topics: defaultdict[str, TopicTraffic] = field(default_factory=lambda: defaultdict(TopicTraffic))
    gone: TopicTraffic = field(default_factory=TopicTraffic)  # deleted topics together
    requests: dict[str, Times] = field(default_factory=lambda: {name: Times() for name in REQUESTS})
    errors: Counter[tuple[str, ErrorCode]] = field(default_factory=Counter)  # keys are requests and errors
    damage: Counter[str] = field(default_factory=Counter)
    flushes: Times = field(default_factory=Times)  # logs of a disk together
    isr_shrinks: int = 0
    isr_expands: int = 0
    undeleted: int = 0  # deleted replicas and files that cannot be removed now
    strays: Mapping[Path, int] = field(default_factory=dict)  # replicas that are set aside, by directory (CT-26)
    oldest_stray_s: float = 0.0  # the age of the oldest
    uncleanable: Mapping[Path, int] = field(default_factory=dict)  # logs that a cleaning failed on, by directory

    def produced(self, topic: str) -> None:
        if topic in self.image.topics:
            self.topics[topic].produces += 1

    def not_produced(self, topic: str, error: ErrorCode) -> None:
        """Count a batch that was refused, or not known to be safe in time."""
        self.errors[PRODUCE, error] += 1
        if topic in self.image.topics:
            self.topics[topic].failed_produces += 1

    def fetched(self, request: str, rows: Sequence[SessionRow]) -> None:
        """Count the partitions of an answer to a fetch."""
        for row in rows:
            answer, name = row.answer, row.topic_partition.topic
            failed = answer.error is not ErrorCode.NONE
            if failed:
                self.errors[request, answer.error] += 1
                self.damage[READ] += answer.error is ErrorCode.CORRUPT_MESSAGE
                if name not in self.image.topics:
                    continue
            topic = self.topics[name]
            topic.fetches += 1
            topic.failed_fetches += failed
            if request == CONSUMER:
                topic.bytes_out += len(answer.records)
            else:
                topic.copied_out += len(answer.records)

    def answered(self, request: str, begun_s: float) -> None:
        """Count a request that began at `begun_s`, by the clock."""
        now_s = self.clock.monotonic_s()
        if (times := self.requests.get(request)) is None:  # an API of Kafka's
            times = self.requests[request] = Times()
        times.add((now_s - begun_s) * 1000, now_s)

    def forget_gone(self) -> None:
        """Add the counts of deleted topics to `gone`."""
        for name in self.topics.keys() - self.image.topics.keys():
            was = self.topics.pop(name)
            for counter in TopicTraffic.__slots__:
                setattr(self.gone, counter, getattr(self.gone, counter) + getattr(was, counter))


@dataclass(slots=True)
class BrokerContext:
    """A broker's settings, metadata and clock, and what follows from them. `on_storage_error` takes every error of a
    file, and decides what goes offline (CT-27)."""

    config: BrokerConfig
    image: MetadataImage
    clock: Clock
    on_storage_error: Callable[[ReplogError], None]
    time: TrustedTime = field(init=False)
    traffic: Traffic = field(init=False)
    throttle: Throttle = field(init=False)
    authorizer: Authorizer = field(init=False)

    def __post_init__(self) -> None:
        self.time = TrustedTime(self.clock)
        self.traffic = Traffic(self.clock, self.image)
        self.throttle = Throttle(self.clock)
        self.authorizer = Authorizer(self.config, self.image.acls, AuditLog(self.clock))

    @contextmanager
    def storage_errors_reported(self, work: str) -> Iterator[None]:
        """Report an error of a file. Without room the work is left for the next time: a checkpoint stays as it was, and
        only a start after a crash has more to do. Otherwise a full disk would stop replicas that need no room."""
        try:
            yield
        except ReplogError as error:
            if isinstance(error, RetriableLogError):
                log.warning("left for the next time", work=work, reason=error.message)
            elif error.code is ErrorCode.KAFKA_STORAGE_ERROR:
                self.on_storage_error(error)
            else:
                raise
