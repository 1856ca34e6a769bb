"""One notation at the door, and no harm from what is stored already, whatever version wrote it."""

import pytest

from replog.config.processes import AlterableBrokerConfig, BrokerConfig, ClientQuota
from replog.config.properties import MAX_LONG
from replog.config.topic import TopicConfig, topic_config
from replog.errors import ErrorCode, ReplogError


@pytest.mark.parametrize(
    ("model", "given", "stored"),
    [
        (TopicConfig, {"max.message.bytes": "2000.0"}, {"max.message.bytes": "2000"}),
        (TopicConfig, {"segment.bytes": " 1_0_24\n"}, {"segment.bytes": "1024"}),
        (TopicConfig, {"retention.ms": "0" * 200 + "7"}, {"retention.ms": "7"}),
        (TopicConfig, {"unclean.leader.election.enable": "y"}, {"unclean.leader.election.enable": "true"}),
        (TopicConfig, {"min.cleanable.dirty.ratio": "0.50"}, {"min.cleanable.dirty.ratio": "0.5"}),
        (TopicConfig, {"cleanup.policy": "delete, compact"}, {"cleanup.policy": "compact,delete"}),
        (
            TopicConfig,
            {"leader.replication.throttled.replicas": "0:01,00:1,1:2"},
            {"leader.replication.throttled.replicas": "0:1,1:2"},
        ),
        (ClientQuota, {"producer_byte_rate": "1000000.0"}, {"producer_byte_rate": "1000000"}),
        (
            AlterableBrokerConfig,
            {"leader.replication.throttled.rate": "+5", "cordoned.log.dirs": "*"},
            {"leader.replication.throttled.rate": "5", "cordoned.log.dirs": "*"},
        ),
    ],
)
def test_what_is_stored_is_the_text_of_the_parsed_value(model, given, stored):
    assert model.canonical(given, "test") == stored
    assert model.canonical(stored, "test") == model.tidied(given) == stored


@pytest.mark.parametrize(
    ("model", "name", "value", "words"),
    [
        (TopicConfig, "retention.ms", "1h", f"give a whole number from -1 to {MAX_LONG}"),
        (TopicConfig, "retention.ms", "1.5", f"give a whole number from -1 to {MAX_LONG}"),
        (TopicConfig, "segment.bytes", "9", "give a whole number from 1024 to 2147483647"),
        (TopicConfig, "min.cleanable.dirty.ratio", "nan", "give a number from 0 to 1"),
        (TopicConfig, "unclean.leader.election.enable", "maybe", "give true or false"),
        (TopicConfig, "cleanup.policy", "Compact", "give delete or compact or compact,delete"),
        (TopicConfig, "leader.replication.throttled.replicas", "0:9999999999", "greater than 2147483647"),
        (TopicConfig, "min_insync_replicas", "1", "is not a setting here; did you mean min.insync.replicas?"),
        (BrokerConfig, "log_dirs", "/x", "is not a setting here; did you mean log.dirs?"),
        (BrokerConfig, "metrics.listener", "nowhere", "metrics.listener='nowhere': 'nowhere' is not host:port"),
        (BrokerConfig, "ssl.keystore.type", "JKS", "only PEM is known here"),
        (ClientQuota, "producer.byte.rate", "1", "did you mean producer_byte_rate"),
    ],
)
def test_a_wrong_name_or_value_is_refused_in_our_own_words(model, name, value, words):
    with pytest.raises(ReplogError) as refused:
        model.parse({"node.id": "1", "log.dirs": "/d", name: value} if model is BrokerConfig else {name: value}, "test")
    assert refused.value.code is ErrorCode.INVALID_CONFIG
    assert words in refused.value.message, refused.value.message
    assert refused.value.message.count(name) <= 2, "one fault is told once"


def test_a_long_value_is_not_shown_whole():
    with pytest.raises(ReplogError) as refused:
        TopicConfig.parse({"retention.ms": "x" * 10_000}, "test")
    assert len(refused.value.message) < 300


def test_fields_names_that_0_1_0_stored_count_where_kafkas_names_are_missing():
    stored = {"retention_ms": "1_000", "min_insync_replicas": "1", "min.insync.replicas": "2"}
    assert TopicConfig.tidied(stored) == {"retention.ms": "1000", "min.insync.replicas": "2"}
    assert TopicConfig.tidied({"retention_ms": "1000"}) == TopicConfig.tidied({"retention.ms": "1000"})


def test_what_a_later_release_stored_stays_and_is_named():
    stored = {"remote.storage.enable": "true", "retention.ms": "P7D", "segment.bytes": "2048.0"}
    tidy = TopicConfig.tidied(stored)
    assert tidy == {"remote.storage.enable": "true", "retention.ms": "P7D", "segment.bytes": "2048"}
    assert TopicConfig.unreadable(tidy) == ["remote.storage.enable", "retention.ms"]
    assert topic_config("t", tidy).segment_bytes == 2048


@pytest.mark.parametrize("name", ["cleanup.policy", "retention.ms", "retention.bytes", "delete.retention.ms"])
def test_nothing_is_deleted_by_a_setting_that_cannot_be_read(name):
    config = topic_config("t", {name: "of a later release"})
    limits = {"retention.ms": config.retention_ms, "retention.bytes": config.retention_bytes}
    if name == "cleanup.policy":
        assert (config.deletes_by_retention, config.min_compaction_lag_ms) == (False, MAX_LONG)
    else:
        assert (limits | {"delete.retention.ms": config.delete_retention_ms})[name] in (-1, MAX_LONG)


def test_a_broker_keeps_what_it_was_started_with_where_the_altered_setting_cannot_be_read():
    config = BrokerConfig.parse(
        {"node.id": "1", "log.dirs": "/d", "leader.replication.throttled.rate": "5000"}, "broker.properties"
    )
    name = "leader.replication.throttled.rate"
    for altered in ({name: "10MB"}, {"leader.rate": "1"}, {name: "10MB", "leader.rate": "1"}):
        assert config.dynamic(altered).leader_replication_throttled_rate == 5000
    assert config.dynamic({name: "7"}).leader_replication_throttled_rate == 7
