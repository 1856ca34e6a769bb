"""Settings of topics and brokers that change while the cluster runs. Pure.

A change names the settings that it sets or deletes; the others stay (Kafka's incremental alter, KIP-339).
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import chain

from cluster.controller.broker_events import (
    MIN_INSYNC_REPLICAS,
    Rules,
    active_brokers,
    situation_under,
)
from cluster.controller.elections import elect
from cluster.controller.records import Decision, broker_config_record, partition_record, topic_record
from cluster.metadata_image import MetadataImage
from replog.config import MAX_REPLICA_LIST_LENGTH, DynamicBrokerConfig, Settings, TopicConfig
from replog.errors import ErrorCode, ReplogError
from replog.metadata import Topic
from replog.rpc.limits import MAX_BATCH_BYTES
from replog.rpc.v1 import controller_pb2 as pb
from replog.rpc.v1 import metadata_pb2
from replog.topic import TopicPartition, validate_topic_name

MAX_CONFIG_LENGTH = 256  # characters of one name or value,
THROTTLED_REPLICAS = ".throttled.replicas"  # except lists of replicas


def alter_topic_configs(
    image: MetadataImage, rules: Rules, request: pb.AlterTopicConfigsRequest
) -> Decision[pb.AlterConfigsResponse]:
    """The topic's new settings, checked as those of a new topic are.

    Where a lower min.insync.replicas lets a partition commit again, its eligible leader replicas are forgotten in the
    same commit: they will not have what is committed from then on (ISR-15, ISR-16). Where unclean elections are allowed
    from now on, partitions without a leader have one at once (CT-12).
    Raises UNKNOWN_TOPIC_OR_PARTITION, INVALID_TOPIC_EXCEPTION, INVALID_CONFIG, INVALID_REQUEST.
    """
    name = validate_topic_name(request.topic)
    topic = image.topics.get(name)
    if topic is None:
        raise ReplogError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {name}")
    source = f"topic {name}"
    before = TopicConfig.parse(dict(topic.configs), source)
    configs = _altered(topic.configs, request, TopicConfig, source)
    _check_unchangeable(before, TopicConfig.parse(configs, source), source)
    partitions = image.partitions_of(name)
    configs.setdefault(MIN_INSYNC_REPLICAS, str(min(rules.min_insync_replicas, len(partitions[0].replicas))))
    answer = pb.AlterConfigsResponse(configs=configs, metadata_version=image.version)

    def records() -> Iterator[metadata_pb2.MetadataRecord | None]:
        written = [topic_record(replace(topic, configs=configs))] if configs != topic.configs else []
        for record in chain(_settle(image, rules, topic, configs), written):
            answer.metadata_version += record is not None
            yield record

    return Decision([] if request.validate_only else records(), answer)


def alter_broker_configs(
    image: MetadataImage, request: pb.AlterBrokerConfigsRequest
) -> Decision[pb.AlterConfigsResponse]:
    """The broker's new settings, which it goes by as soon as it hears of them, and after every start.

    Raises BROKER_ID_NOT_REGISTERED, INVALID_CONFIG, INVALID_REQUEST.
    """
    if request.broker_id not in image.brokers:
        raise ReplogError(ErrorCode.BROKER_ID_NOT_REGISTERED, f"broker {request.broker_id} is not registered")
    before = image.broker_configs.get(request.broker_id, {})
    configs = _altered(before, request, DynamicBrokerConfig, f"broker {request.broker_id}")
    changes = configs != before and not request.validate_only
    answer = pb.AlterConfigsResponse(configs=configs, metadata_version=image.version + changes)
    return Decision([broker_config_record(request.broker_id, configs)] if changes else [], answer)


def check_configs(configs: Mapping[str, str], model: type[Settings], source: str) -> None:
    """Raises INVALID_CONFIG unless `configs` are settings of `model`; what comes from outside is bounded first."""
    if len(configs) > len(model.model_fields):
        raise ReplogError(
            ErrorCode.INVALID_CONFIG,
            f"{source} has {len(configs)} settings; there are {len(model.model_fields)}",
        )
    for key, value in configs.items():
        limit = MAX_REPLICA_LIST_LENGTH if key.endswith(THROTTLED_REPLICAS) else MAX_CONFIG_LENGTH
        if len(key) > MAX_CONFIG_LENGTH or len(value) > limit:
            raise ReplogError(
                ErrorCode.INVALID_CONFIG, f"{source}: setting {key[:60]!r} is longer than {limit} characters"
            )
    parsed = model.parse(dict(configs), source)
    if isinstance(parsed, TopicConfig) and parsed.max_message_bytes > MAX_BATCH_BYTES:
        raise ReplogError(
            ErrorCode.INVALID_CONFIG,
            f"{source}: max.message.bytes={parsed.max_message_bytes}, and no message carries a batch of more than "
            f"{MAX_BATCH_BYTES} bytes; set it to that or less",
        )


def _altered(
    configs: Mapping[str, str],
    request: pb.AlterTopicConfigsRequest | pb.AlterBrokerConfigsRequest,
    model: type[Settings],
    source: str,
) -> dict[str, str]:
    if twice := sorted(set(request.delete) & set(request.set)):
        raise ReplogError(
            ErrorCode.INVALID_REQUEST, f"{source}: {twice[0][:60]!r} is both set and deleted; do only one of them"
        )
    check_configs(request.set, model, source)
    known = {field.alias for field in model.model_fields.values()}
    for name in request.delete:
        if name not in known:
            shown = ", ".join(sorted(filter(None, known)))
            raise ReplogError(ErrorCode.INVALID_CONFIG, f"{source}: {name[:60]} is not a setting here (known: {shown})")
    kept = {key: value for key, value in configs.items() if key not in request.delete}
    return kept | dict(request.set)


def _check_unchangeable(before: TopicConfig, after: TopicConfig, source: str) -> None:
    """What the files of every replica were built by is for a topic's whole life."""
    if before.compacted != after.compacted:
        raise ReplogError(
            ErrorCode.INVALID_CONFIG,
            f"{source}: cleanup.policy={before.cleanup_policy} cannot become {after.cleanup_policy}: a topic is "
            "compacted for its whole life or never; create another one",
        )
    if before.index_interval_bytes != after.index_interval_bytes:
        raise ReplogError(
            ErrorCode.INVALID_CONFIG,
            f"{source}: index.interval.bytes={before.index_interval_bytes} cannot become "
            f"{after.index_interval_bytes}: the indexes of all segments follow from it; create another topic",
        )


def _settle(
    image: MetadataImage, rules: Rules, topic: Topic, configs: Mapping[str, str]
) -> Iterator[metadata_pb2.MetadataRecord | None]:
    """What the new settings make of the topic's partitions; None of each that stays as it is."""
    situation = situation_under(configs, rules, active_brokers(image))
    for number, state in image.partitions_of(topic.name).items():
        changed, tp = elect(state, situation), TopicPartition(topic.name, number)
        yield None if changed is state else partition_record(tp, topic.topic_id, changed)
