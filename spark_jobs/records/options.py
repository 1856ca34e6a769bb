"""Options of source and sink, with the names of Spark's Kafka source and sink. Pure.

Case does not matter in names. An unknown option is refused, otherwise a misspelt one would go unnoticed; one of Kafka's
clients that changes neither reads nor what is stored is accepted with a warning."""

import json
import logging
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from replog.client.metadata import parse_bootstrap
from replog.client.offsets import EARLIEST, LATEST
from replog.client.records import codec_id
from replog.config.properties import MAX_INT, number_in
from replog.errors import ErrorCode, ReplogError
from replog.rpc.transport import Transport
from replog.topic import TopicPartition, validate_topic_name
from spark_jobs.kafka_options import SECURITY, SERVERS, Security, in_full, refuse_unknown, security_of, transport_with
from spark_jobs.records.offsets import Bound, parse_partitions

logger = logging.getLogger(__name__)

_CONSUMER: dict[str, type] = {
    **dict.fromkeys(("isolation.level", "client.rack"), str),
    **dict.fromkeys(("fetch.min.bytes", "fetch.max.bytes", "fetch.max.wait.ms", "max.partition.fetch.bytes"), int),
    "request.timeout.ms": int,
}
_PRODUCER: dict[str, type] = {
    "compression.type": str,
    **dict.fromkeys(("linger.ms", "batch.size", "max.request.size", "buffer.memory", "max.block.ms"), int),
    **dict.fromkeys(("delivery.timeout.ms", "request.timeout.ms"), int),
}
_ARGUMENTS = {"compression.type": "compression", "max.request.size": "max_request_bytes"}  # ours have other names
NAMES = {_ARGUMENTS.get(name, name.replace(".", "_")): f"kafka.{name}" for name in (*_CONSUMER, *_PRODUCER)}
_SUBSCRIPTIONS = ("assign", "subscribe", "subscribePattern")
_STARTING = ("startingTimestamp", "startingOffsetsByTimestamp", "startingOffsets")  # the first one given counts
_ENDING = ("endingTimestamp", "endingOffsetsByTimestamp", "endingOffsets")
_SOURCE = (
    *(*_SUBSCRIPTIONS, *_STARTING, *_ENDING),
    *("startingOffsetsByTimestampStrategy", "failOnDataLoss", "failOnBadRecords", "includeHeaders", "minPartitions"),
    *("maxOffsetsPerTrigger", "maxTriggerDelay", "minOffsetsPerTrigger", "maxRecordsPerPartition"),
    "kafkaConsumer.pollTimeoutMs",
)
_SINK = ("topic", "includeHeaders", "checkpointLocation", "queryName")  # the last two are Spark's own
_PROMISED = {"kafka.acks": ("all", "-1"), "kafka.enable.idempotence": ("true",)}  # the sink always does this
_IDLE_OF_CLIENTS = """
    allow.auto.create.topics auto.commit.interval.ms check.crcs client.dns.lookup client.id compression.gzip.level
    compression.lz4.level compression.zstd.level connections.max.idle.ms default.api.timeout.ms enable.metrics.push
    group.id group.instance.id group.protocol heartbeat.interval.ms max.in.flight.requests.per.connection
    max.poll.interval.ms max.poll.records metadata.max.age.ms metadata.max.idle.ms metadata.recovery.strategy
    metric.reporters metrics.num.samples metrics.recording.level metrics.sample.window.ms
    partition.assignment.strategy receive.buffer.bytes reconnect.backoff.max.ms reconnect.backoff.ms retries
    retry.backoff.max.ms retry.backoff.ms send.buffer.bytes session.timeout.ms
    socket.connection.setup.timeout.max.ms socket.connection.setup.timeout.ms transaction.timeout.ms
"""
_IDLE = {
    *(f"kafka.{name}" for name in (*_CONSUMER, *_PRODUCER, *_IDLE_OF_CLIENTS.split())),  # source or sink may use some
    *_PROMISED,
    *("fetchoffset.numretries", "fetchoffset.retryintervalms", "groupidprefix", "usedeprecatedoffsetfetching"),
}
POLL_TIMEOUT_MS = 120_000
_UNITS_MS = {"ms": 1, "s": 1000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}


@dataclass(frozen=True)
class Subscription:
    """The topics or partitions of a query: exactly one of the three is set."""

    topics: tuple[str, ...] = ()
    pattern: str | None = None  # a regular expression that occurs in names
    partitions: tuple[TopicPartition, ...] = ()

    def wants(self, topic: str) -> bool:
        if self.pattern is not None:
            return re.search(self.pattern, topic) is not None
        return topic in self.topics or any(topic == partition.topic for partition in self.partitions)


@dataclass(frozen=True)
class _Options:
    bootstrap: str
    security: Security

    @property
    def transport(self) -> Transport | None:
        """The transport of each client; None: the client chooses."""
        return transport_with(self.security)


@dataclass(frozen=True)
class SourceOptions(_Options):
    subscription: Subscription
    starting: Bound
    ending: Bound
    latest_if_too_young: bool  # False: it is an error if no record is as young as the starting timestamp
    fail_on_data_loss: bool
    fail_on_bad_records: bool
    headers: bool
    max_offsets_per_trigger: int | None
    min_offsets_per_trigger: int | None  # a trigger waits for so many, up to `max_trigger_delay_s` since the last
    max_trigger_delay_s: float
    max_records_per_partition: int | None
    min_partitions: int | None
    poll_timeout_s: float
    consumer: dict[str, Any]  # arguments of the client's consumer

    @property
    def read_committed(self) -> bool:
        return bool(self.consumer.get("isolation_level") == "read_committed")

    def lose(self, message: str) -> None:
        """Raise OFFSET_OUT_OF_RANGE for records that are gone; without `fail_on_data_loss` log a warning."""
        if self.fail_on_data_loss:
            raise ErrorCode.OFFSET_OUT_OF_RANGE.error(
                f"{message}; to go on all the same, set the option failOnDataLoss to false"
            )
        logger.warning("%s; failOnDataLoss is false: going on", message)


@dataclass(frozen=True)
class SinkOptions(_Options):
    topic: str | None  # every record's topic; None: the column's
    producer: dict[str, Any]  # arguments of the client's producer


def include_headers(options: Mapping[str, str]) -> bool:
    return _boolean(_Given(options), "includeHeaders", False)


def source_options(options: Mapping[str, str], *, streaming: bool) -> SourceOptions:
    """Parse the source's options. Raises INVALID_CONFIG, with the remedy, or INVALID_TOPIC_EXCEPTION."""
    given = _Given(options)
    given.refuse_unknown("the source", _SOURCE, _CONSUMER)
    if streaming:
        for name in _ENDING:
            if name in given:
                raise _refused(name, given[name], "a streaming query has no end; leave it out")
    starting = _bound(given, _STARTING, LATEST if streaming else EARLIEST)
    ending = _bound(given, _ENDING, LATEST)
    if not streaming and not starting.by_time and LATEST in starting.values:
        raise _refused(starting.option, "latest", "a batch query that starts at the end reads nothing")
    if not ending.by_time and EARLIEST in ending.values:
        raise _refused(ending.option, "earliest", "a query that ends at the beginning reads nothing")
    strategy = given.get("startingOffsetsByTimestampStrategy", "error").lower()
    if strategy not in ("error", "latest"):
        raise _refused("startingOffsetsByTimestampStrategy", strategy, "choose error or latest")
    consumer = given.client(_CONSUMER)
    if consumer.get("isolation_level", "read_committed") not in ("read_committed", "read_uncommitted"):
        raise _refused(
            "kafka.isolation.level", consumer["isolation_level"], "choose read_committed or read_uncommitted"
        )
    most, least = given.positive("maxOffsetsPerTrigger"), given.positive("minOffsetsPerTrigger")
    if most is not None and least is not None and least > most:
        raise _refused("minOffsetsPerTrigger", least, f"it is more than maxOffsetsPerTrigger={most}")
    return SourceOptions(
        bootstrap=given.bootstrap(),
        security=given.security(),
        subscription=_subscription(given),
        starting=starting,
        ending=ending,
        latest_if_too_young=strategy == "latest",
        fail_on_data_loss=_boolean(given, "failOnDataLoss", True),
        fail_on_bad_records=_boolean(given, "failOnBadRecords", True),
        headers=_boolean(given, "includeHeaders", False),
        max_offsets_per_trigger=most,
        min_offsets_per_trigger=least,
        max_trigger_delay_s=given.seconds("maxTriggerDelay", "15m"),
        max_records_per_partition=given.positive("maxRecordsPerPartition"),
        min_partitions=given.positive("minPartitions"),
        poll_timeout_s=(given.positive("kafkaConsumer.pollTimeoutMs") or POLL_TIMEOUT_MS) / 1000,
        consumer=consumer,
    )


def sink_options(options: Mapping[str, str]) -> SinkOptions:
    """Parse the sink's options; it always writes with acks=all and idempotence. Raises as `source_options`."""
    given = _Given(options)
    kept = [name for name, values in _PROMISED.items() if given.get(name, "").lower() in values]
    given.refuse_unknown("the sink", (*_SINK, *kept), _PRODUCER)
    topic = validate_topic_name(given["topic"]) if "topic" in given else None
    producer = given.client(_PRODUCER)
    codec_id(producer.get("compression", "none"))
    return SinkOptions(given.bootstrap(), given.security(), topic, producer)


class _Given:
    """The options that were given; names ignore case, values have no space around them."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._options = in_full(options, (SERVERS, *SECURITY, *_IDLE))

    def __contains__(self, name: str) -> bool:
        return name.lower() in self._options

    def __getitem__(self, name: str) -> str:
        return self._options[name.lower()]

    def get(self, name: str, default: str) -> str:
        return self._options.get(name.lower(), default)

    def bootstrap(self) -> str:
        if SERVERS not in self:
            raise ErrorCode.INVALID_CONFIG.error(f"option {SERVERS} is missing; name at least one host:port")
        return ",".join(parse_bootstrap(self[SERVERS]))

    def security(self) -> Security:
        return security_of(self._options)

    def refuse_unknown(self, who: str, own: tuple[str, ...], client: Mapping[str, Any]) -> None:
        known = [*own, SERVERS, *SECURITY, *(f"kafka.{name}" for name in client)]
        may_idle = _IDLE - set(known)
        idle = self._options.keys() & may_idle
        refuse_unknown(who, self._options.keys() - idle, known, sorted(may_idle))
        if idle:
            _warn(
                f"without effect in {who}: {', '.join(sorted(idle))}; there are no consumer groups, clients retry by "
                "themselves, and what is written is acknowledged by all in-sync replicas"
            )

    def positive(self, name: str) -> int | None:
        if name not in self:
            return None
        if not (number := number_in(self[name])):
            raise _refused(name, self[name], "give a whole number greater than 0")
        return number

    def seconds(self, name: str, default: str) -> float:
        """Return a time in seconds that is written as in Spark: `15m`, `30s`, or a number of milliseconds."""
        text = self.get(name, default).lower()
        number = text.rstrip("abcdefghijklmnopqrstuvwxyz")
        unit = text[len(number) :] or "ms"
        if (count := number_in(number)) is None or unit not in _UNITS_MS:
            raise _refused(name, text, f"give a whole number and one of {', '.join(_UNITS_MS)}")
        return count * _UNITS_MS[unit] / 1000

    def client(self, known: Mapping[str, type]) -> dict[str, Any]:
        """Return a client's arguments, from its `kafka.` options."""
        arguments: dict[str, Any] = {}
        for option, kind in known.items():
            name = f"kafka.{option}"
            if name in self:
                text = self[name]
                if kind is int and number_in(text, MAX_INT) is None:
                    raise _refused(name, text, "give a whole number below 2^31")
                arguments[_ARGUMENTS.get(option, option.replace(".", "_"))] = kind(text)
        return arguments


@cache
def _warn(message: str) -> None:
    """Log a warning once a process: Spark makes readers and writers again and again."""
    logger.warning(message)


def _refused(name: str, value: object, remedy: str) -> ReplogError:
    return ErrorCode.INVALID_CONFIG.error(f"option {name}={str(value)[:100]}: {remedy}")


def _boolean(given: _Given, name: str, default: bool) -> bool:
    text = given.get(name, str(default)).lower()
    if text not in ("true", "false"):
        raise _refused(name, text, "choose true or false")
    return text == "true"


def _subscription(given: _Given) -> Subscription:
    ways = [name for name in _SUBSCRIPTIONS if name in given]
    if len(ways) != 1:
        raise ErrorCode.INVALID_CONFIG.error(
            f"give one of {', '.join(_SUBSCRIPTIONS)}, not {' and '.join(ways) or 'none'}"
        )
    text = given[ways[0]]
    if ways[0] == "subscribe":
        topics = tuple(dict.fromkeys(validate_topic_name(name.strip()) for name in text.split(",") if name.strip()))
        if not topics:
            raise _refused("subscribe", text, "name at least one topic")
        return Subscription(topics=topics)
    if ways[0] == "assign":
        return Subscription(partitions=_assigned(text))
    if not text:
        raise _refused("subscribePattern", text, "it is empty, and would match every topic")
    try:
        re.compile(text)
    except re.error as error:
        raise _refused("subscribePattern", text, f"not a regular expression of Python's: {error}") from None
    return Subscription(pattern=text)


def _assigned(text: str) -> tuple[TopicPartition, ...]:
    try:
        asked = json.loads(text).items()
        named = [TopicPartition(validate_topic_name(topic), number) for topic, numbers in asked for number in numbers]
        right = bool(named) and all(type(number) is int and 0 <= number < 2**31 for _, number in named)
    except (ValueError, TypeError, AttributeError):
        right = False
    if not right:
        raise _refused("assign", text, 'give JSON such as {"flights":[0,1]}')
    return tuple(sorted(dict.fromkeys(named)))


def _bound(given: _Given, names: tuple[str, ...], default: int) -> Bound:
    """Parse a bound from the first option that is given: a timestamp, partitions' timestamps, or offsets."""
    timestamp, timestamps, offsets = names
    if timestamp in given:
        if (since_ms := number_in(given[timestamp])) is None:
            raise _refused(timestamp, given[timestamp], "give milliseconds since 1970")
        return Bound(timestamp, everywhere=since_ms, by_time=True)
    if timestamps in given:
        return Bound(timestamps, each=parse_partitions(timestamps, given[timestamps], 0), by_time=True)
    text = given.get(offsets, {EARLIEST: "earliest", LATEST: "latest"}[default])
    if text.lower() in ("earliest", "latest"):
        return Bound(offsets, everywhere=EARLIEST if text.lower() == "earliest" else LATEST)
    return Bound(offsets, each=parse_partitions(offsets, text, EARLIEST))
