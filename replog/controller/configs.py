"""Settings of topics and brokers that change while the cluster runs. Pure.

A change names the settings that it sets or deletes; the others stay (Kafka's incremental alter, KIP-339)."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import chain
from typing import NamedTuple

from replog.common.acl import check_principal
from replog.config.processes import DEFAULT_USER, AlterableBrokerConfig, ClientQuota
from replog.config.properties import MAX_BATCH_BYTES
from replog.config.settings import Settings
from replog.config.topic import MAX_REPLICA_LIST_LENGTH, TopicConfig, topic_config
from replog.controller.broker_events import MIN_INSYNC_REPLICAS, Rules, active_brokers, situation_under
from replog.controller.decision import Decision
from replog.controller.elections import elect
from replog.errors import ErrorCode
from replog.metadata.changes import Change
from replog.metadata.image import MetadataImage
from replog.metadata.values import Topic
from replog.topic import TopicPartition, validate_topic_name

MAX_QUOTAS = 1000  # users with a quota of their own
MAX_CONFIG_LENGTH = 256  # characters of a name or value, except lists of replicas
THROTTLED_REPLICAS = ".throttled.replicas"
MAX_ALL_LENGTH = 16 << 20  # characters of all topics' settings together: one answer has them all
SINCE_0_1_0 = {
    *("message.timestamp.after.max.ms", "message.timestamp.before.max.ms", "unclean.recovery.strategy"),
    *("compression.type", "compression.gzip.level", "compression.lz4.level", "compression.zstd.level", "preallocate"),
    *("segment.jitter.ms", "local.retention.ms", "local.retention.bytes", "remote.storage.enable"),
    *("remote.log.copy.disable", "remote.log.delete.on.disable"),
}
LONG = 2048  # characters of one topic's settings; more only with lists of replicas


class ConfigChange(NamedTuple):
    """Settings that are set, and those that go back to their defaults."""

    set: Mapping[str, str] = {}
    delete: Collection[str] = ()
    validate_only: bool = False


@dataclass(slots=True)
class AlteredConfigs:
    """All settings now, and the metadata version that has them."""

    configs: Mapping[str, str]
    metadata_version: int


def alter_topic_configs(
    image: MetadataImage, rules: Rules, name: str, request: ConfigChange
) -> Decision[AlteredConfigs]:
    """Changes a topic's settings, checked like a new topic's.

    If a lower min.insync.replicas lets a partition commit again, the same commit forgets its eligible leader replicas:
    they will lack the records committed from then on (ISR-15, ISR-16). If unclean elections are allowed from now on,
    partitions without a leader get one at once (CT-12).
    Raises UNKNOWN_TOPIC_OR_PARTITION, INVALID_TOPIC_EXCEPTION, INVALID_CONFIG, INVALID_REQUEST."""
    topic = image.topics.get(validate_topic_name(name))
    if topic is None:
        raise ErrorCode.UNKNOWN_TOPIC_OR_PARTITION.error(f"there is no topic {name}")
    source = f"topic {name}"
    configs = _altered(topic.configs, request, TopicConfig, source)
    _check_unchangeable(name, topic.configs, configs, source)
    check_together(image, name, configs)
    partitions = image.partitions_of(name)
    configs.setdefault(MIN_INSYNC_REPLICAS, str(min(rules.min_insync_replicas, len(partitions[0].replicas))))
    answer = AlteredConfigs(configs, image.version)

    def changes() -> Iterator[Change | None]:
        written = [Change("topic", name, replace(topic, configs=configs))] if configs != topic.configs else []
        for change in chain(_settle(image, rules, topic, configs), written):
            answer.metadata_version += change is not None
            yield change

    return Decision([] if request.validate_only else changes(), answer)


def alter_broker_configs(image: MetadataImage, broker_id: int, request: ConfigChange) -> Decision[AlteredConfigs]:
    """Changes a broker's settings. It uses them as soon as it receives them, and after every start.

    Raises BROKER_ID_NOT_REGISTERED, INVALID_CONFIG, INVALID_REQUEST."""
    if broker_id not in image.brokers:
        raise ErrorCode.BROKER_ID_NOT_REGISTERED.error(f"broker {broker_id} is not registered")
    before = image.broker_configs.get(broker_id, {})
    configs = _altered(before, request, AlterableBrokerConfig, f"broker {broker_id}")
    return _decided(image, before, Change("broker_config", broker_id, configs), request)


def alter_client_quotas(image: MetadataImage, user: str, request: ConfigChange) -> Decision[AlteredConfigs]:
    """Changes the quota of a user on each broker; "" is each user without a quota of its own.

    Raises INVALID_CONFIG, INVALID_REQUEST."""
    user = user or DEFAULT_USER
    if user != DEFAULT_USER:
        check_principal(user)
    if user not in image.client_quotas and len(image.client_quotas) >= MAX_QUOTAS:
        raise ErrorCode.INVALID_REQUEST.error(
            f"{MAX_QUOTAS} users have quotas, and that is the most; give others the default"
        )
    before = image.client_quotas.get(user, {})
    configs = _altered(before, request, ClientQuota, f"the quota of {user}")
    return _decided(image, before, Change("client_quota", user, configs), request)


def _decided(
    image: MetadataImage, before: Mapping[str, str], change: Change, request: ConfigChange
) -> Decision[AlteredConfigs]:
    is_new = change.value != before and not request.validate_only
    return Decision([change] if is_new else [], AlteredConfigs(change.value, image.version + is_new))


def checked_configs(configs: Mapping[str, str], model: type[Settings], source: str) -> dict[str, str]:
    """Return the settings in the form that is stored. Raises INVALID_CONFIG if they are too long or not of `model`."""
    if len(configs) > len(model.model_fields):
        raise ErrorCode.INVALID_CONFIG.error(
            f"{source} has {len(configs)} settings; there are {len(model.model_fields)}"
        )
    for key, value in configs.items():
        limit = MAX_REPLICA_LIST_LENGTH if key.endswith(THROTTLED_REPLICAS) else MAX_CONFIG_LENGTH
        if len(key) > MAX_CONFIG_LENGTH or len(value) > limit:
            raise ErrorCode.INVALID_CONFIG.error(f"{source}: setting {key[:60]!r} is longer than {limit} characters")
    canonical = model.canonical(configs, source, as_in_kafka=True)
    if model is TopicConfig and (size := int(canonical.get("max.message.bytes", 0))) > MAX_BATCH_BYTES:
        raise ErrorCode.INVALID_CONFIG.error(
            f"{source}: max.message.bytes={size}, and no message carries a batch of more than "
            f"{MAX_BATCH_BYTES} bytes; set it to that or less"
        )
    return canonical


def check_together(image: MetadataImage, name: str, configs: Mapping[str, str]) -> None:
    """Raises INVALID_CONFIG if settings of the topic contradict each other, or if those of all topics, this one's
    included, would not fit into an answer."""
    config = topic_config(name, configs)
    if config.min_compaction_lag_ms > config.max_compaction_lag_ms and not TopicConfig.unreadable(configs):
        raise ErrorCode.INVALID_CONFIG.error(
            f"topic {name}: min.compaction.lag.ms={config.min_compaction_lag_ms} is more than max.compaction.lag.ms="
            f"{config.max_compaction_lag_ms}; set it to that or less"
        )
    if (length := _length(configs)) <= LONG:
        return
    length += sum(_length(topic.configs) for topic in image.topics.values() if topic.name != name)
    if length > MAX_ALL_LENGTH:
        raise ErrorCode.INVALID_CONFIG.error(
            f"topic {name}: the settings of all topics would have {length} characters, and {MAX_ALL_LENGTH} are the "
            "most; give * instead of long lists of throttled replicas, here or for other topics"
        )


def _length(configs: Mapping[str, str]) -> int:
    return sum(len(name) + len(value) for name, value in configs.items())


def _altered(configs: Mapping[str, str], request: ConfigChange, model: type[Settings], source: str) -> dict[str, str]:
    if twice := sorted(set(request.delete) & set(request.set)):
        raise ErrorCode.INVALID_REQUEST.error(
            f"{source}: {twice[0][:60]!r} is both set and deleted; do only one of them"
        )
    new = checked_configs(request.set, model, source)
    deleted = {name if name in configs else model.named(name) for name in request.delete}
    if strange := sorted(deleted - configs.keys() - {model.named(field) for field in model.model_fields}):
        model.parse({strange[0]: ""}, source)  # raises: this is no setting, and none that is stored
    return {key: value for key, value in configs.items() if key not in deleted} | new


def _check_unchangeable(topic: str, stored: Mapping[str, str], new: Mapping[str, str], source: str) -> None:
    """Raises INVALID_CONFIG if a setting changes that the files of every replica depend on, unless it only counts as
    compact because it cannot be read."""
    before, after = topic_config(topic, stored), topic_config(topic, new)
    if before.compacted != after.compacted and "cleanup.policy" not in TopicConfig.unreadable(stored):
        raise ErrorCode.INVALID_CONFIG.error(
            f"{source}: cleanup.policy={before.cleanup_policy} cannot become {after.cleanup_policy}: a topic is "
            "compacted for its whole life or never; create another one"
        )
    if before.index_interval_bytes != after.index_interval_bytes:
        raise ErrorCode.INVALID_CONFIG.error(
            f"{source}: index.interval.bytes={before.index_interval_bytes} cannot become "
            f"{after.index_interval_bytes}: the indexes of all segments follow from it; create another topic"
        )


def _settle(image: MetadataImage, rules: Rules, topic: Topic, configs: Mapping[str, str]) -> Iterator[Change | None]:
    """Yields the change of each partition under the new settings; None for one that stays as it is."""
    situation = situation_under(configs, rules, active_brokers(image))
    for number, state in image.partitions_of(topic.name).items():
        changed, tp = elect(state, situation), TopicPartition(topic.name, number)
        yield None if changed is state else Change("partition", tp, changed, topic.topic_id)
