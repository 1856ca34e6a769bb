"""Settings of topics and brokers, changed while the cluster runs."""

from dataclasses import replace

import pytest

from replog.config.properties import MAX_BATCH_BYTES
from replog.config.topic import TopicConfig, topic_config
from replog.controller import configs
from replog.controller.broker_events import recovery_strategy
from replog.controller.configs import ConfigChange
from replog.controller.decision import Decision
from replog.controller.elections import Strategy
from replog.errors import ErrorCode
from replog.metadata.changes import Change


def alter(cluster, topic="t", delete=(), validate_only=False, **settings):
    named = {key.replace("_", "."): value for key, value in settings.items()}
    return cluster.do(cluster.state.alter_topic_configs(topic, ConfigChange(named, delete, validate_only)))


def alter_broker(cluster, broker_id=11, delete=(), validate_only=False, **settings):
    named = {key.replace("_", "."): value for key, value in settings.items()}
    return cluster.do(cluster.state.alter_broker_configs(broker_id, ConfigChange(named, delete, validate_only)))


def test_settings_that_are_not_named_stay(three):
    topic_id = three.image.topics["t"].topic_id
    alter(three, retention_ms="1000", segment_bytes="2048")
    answer = alter(three, retention_ms="5", flush_messages="1", delete=["segment.bytes", "segment.ms"])
    assert dict(answer.configs) == {"min.insync.replicas": "2", "retention.ms": "5", "flush.messages": "1"}
    assert three.image.topics["t"].configs == dict(answer.configs)
    assert three.image.topics["t"].topic_id == topic_id
    assert answer.metadata_version == three.image.version


def test_a_change_that_changes_nothing_writes_nothing(three):
    alter(three, retention_ms="1000")
    version = three.image.version
    assert alter(three, retention_ms="1000", delete=["flush.ms"]).metadata_version == version == three.image.version


def test_validate_only_answers_what_would_be_and_writes_nothing(three, refused):
    version = three.image.version
    answer = alter(three, retention_ms="1000", validate_only=True)
    assert dict(answer.configs) == {"min.insync.replicas": "2", "retention.ms": "1000"}
    assert three.image.version == answer.metadata_version == version
    assert three.image.topics["t"].configs == {"min.insync.replicas": "2"}
    with refused(ErrorCode.INVALID_CONFIG, "retention.ms='soon'"):
        alter(three, retention_ms="soon", validate_only=True)


def test_a_deleted_minimum_becomes_the_controllers_default_and_is_written_down(make_cluster):
    cluster = make_cluster(min_insync_replicas=3).start(11, 12)
    cluster.assigned("t", [11, 12], configs={"min.insync.replicas": "1"})
    alter(cluster, delete=["min.insync.replicas"])
    assert cluster.image.topics["t"].configs == {"min.insync.replicas": "2"}, "no more than there are replicas"


@pytest.mark.parametrize("written", ["02", " 2", "+2"])
def test_a_minimum_is_understood_however_it_is_written(three, written):
    alter(three, min_insync_replicas=written)
    three.expire(13)
    three.expire(12)
    assert (three.partition().isr, three.partition().elr) == ((11,), (12,)), "a minimum of 2"
    alter(three, min_insync_replicas="1")
    assert three.partition().elr == ()


@pytest.mark.parametrize("settings", [{"min_insync_replicas": "1"}, {"retention_ms": "1000"}])
def test_the_names_of_our_fields_are_no_names_at_the_door(three, refused, settings):
    """With `min_insync_replicas` the controller once stored both names, and no broker could read them."""
    with refused(ErrorCode.INVALID_CONFIG, "is not a setting here; did you mean"):
        three.assigned("new", [11], configs=settings)
    with refused(ErrorCode.INVALID_CONFIG, "is not a setting here; did you mean"):
        three.state.alter_topic_configs("t", ConfigChange(settings))
    with refused(ErrorCode.INVALID_CONFIG, "is not a setting here"):
        three.state.alter_broker_configs(11, ConfigChange({"cordoned_log_dirs": "*"}))


def test_settings_are_stored_as_their_values_are_written_canonically(three):
    three.assigned("new", [11], configs={"max.message.bytes": " 2000 ", "cleanup.policy": "delete,compact"})
    stored = {"max.message.bytes": "2000", "cleanup.policy": "compact,delete", "min.insync.replicas": "1"}
    assert three.image.topics["new"].configs == stored
    assert alter(three, "new", segment_bytes="+1024").configs == stored | {"segment.bytes": "1024"}
    assert alter_broker(three, leader_replication_throttled_rate="01000").configs == {
        "leader.replication.throttled.rate": "1000"
    }
    three.do(three.state.alter_client_quotas("User:ann", ConfigChange({"producer_byte_rate": "+1000000"})))
    assert three.image.client_quotas["User:ann"] == {"producer_byte_rate": "1000000"}


def test_what_a_later_release_stored_can_be_kept_altered_and_deleted(three, refused):
    stored = {"later": "x", "min.insync.replicas": "two"}
    three.do(Decision([Change("topic", "t", replace(three.image.topics["t"], configs=stored))], None))
    assert alter(three, flush_ms="5").configs == {"later": "x", "min.insync.replicas": "two", "flush.ms": "5"}
    three.expire(12, 13)
    assert three.partition().leader == 11, "what cannot be read stops nobody"
    assert alter(three, delete=["later", "min.insync.replicas", "flush_ms"]).configs == {"min.insync.replicas": "2"}
    with refused(ErrorCode.INVALID_CONFIG, "later is not a setting here"):
        alter(three, delete=["later"])


@pytest.mark.parametrize("change", [{"delete": ["cleanup.policy"]}, {"cleanup_policy": "delete"}])
def test_a_policy_that_cannot_be_read_counts_as_compact_and_may_be_mended(three, change):
    stored = {"cleanup.policy": "compcat", "min.insync.replicas": "2"}
    three.do(Decision([Change("topic", "t", replace(three.image.topics["t"], configs=stored))], None))
    assert alter(three, flush_ms="5").configs["cleanup.policy"] == "compcat"
    assert topic_config("t", alter(three, **change).configs).cleanup_policy == "delete"


@pytest.mark.parametrize(
    ("topic", "settings", "delete", "code", "words"),
    [
        ("a/b", {}, [], "INVALID_TOPIC_EXCEPTION", "'a/b'"),
        ("nobody", {}, [], "UNKNOWN_TOPIC_OR_PARTITION", "no topic nobody"),
        ("t", {"no.such": "1"}, [], "INVALID_CONFIG", "no.such is not a setting here (known: "),
        ("t", {"retention.ms": "soon"}, [], "INVALID_CONFIG", "retention.ms='soon'"),
        ("t", {"min.insync.replicas": "0"}, [], "INVALID_CONFIG", "min.insync.replicas='0'"),
        ("t", {"retention.ms": "1_000"}, [], "INVALID_CONFIG", "give a whole number from -1"),
        ("t", {"preallocate": "yes"}, [], "INVALID_CONFIG", "give true or false"),
        ("t", {"remote.storage.enable": "true"}, [], "INVALID_CONFIG", "there is no tiered storage here"),
        ("t", {"min.compaction.lag.ms": "5", "max.compaction.lag.ms": "3"}, [], "INVALID_CONFIG", "is more than max"),
        ("t", {"retention.ms": "1" * 257}, [], "INVALID_CONFIG", "256 characters"),
        ("t", {}, ["no.such"], "INVALID_CONFIG", "no.such is not a setting here (known: "),
        ("t", {"retention.ms": "1"}, ["retention.ms"], "INVALID_REQUEST", "both set and deleted"),
        ("t", {"cleanup.policy": "compact"}, [], "INVALID_CONFIG", "whole life"),
        ("t", {"index.interval.bytes": "1"}, [], "INVALID_CONFIG", "index.interval.bytes=4096 cannot become 1"),
        ("t", {"leader.replication.throttled.replicas": "0-11"}, [], "INVALID_CONFIG", "neither * nor a list"),
        ("t", {"follower.replication.throttled.replicas": "0:1," * 9000}, [], "INVALID_CONFIG", "32767 characters"),
        ("t", {f"x{number}": "" for number in range(99)}, [], "INVALID_CONFIG", "topic t has 99 settings; there are"),
    ],
)
def test_wrong_settings_are_refused_as_at_creation(three, refused, topic, settings, delete, code, words):
    version = three.image.version
    with refused(ErrorCode[code], words):
        three.state.alter_topic_configs(topic, ConfigChange(settings, delete))
    assert three.image.version == version


def test_batches_larger_than_a_message_can_carry_are_refused(three, refused):
    alter(three, max_message_bytes=str(MAX_BATCH_BYTES))
    with refused(ErrorCode.INVALID_CONFIG, f"max.message.bytes={MAX_BATCH_BYTES + 1}"):
        alter(three, max_message_bytes=str(MAX_BATCH_BYTES + 1))


def test_a_compacted_topic_stays_one_but_may_begin_and_cease_to_delete_by_time(three, refused):
    three.assigned("keyed", [11, 12, 13], configs={"cleanup.policy": "compact"})
    alter(three, "keyed", cleanup_policy="compact,delete")
    alter(three, "keyed", cleanup_policy="compact")
    with refused(ErrorCode.INVALID_CONFIG, "cleanup.policy=compact cannot become delete"):
        alter(three, "keyed", delete=["cleanup.policy"])


def test_the_settings_of_all_topics_fit_in_an_answer(three, refused, monkeypatch):
    """With a thousand such lists no answer had room for all topics, and nobody could find what to undo."""
    monkeypatch.setattr(configs, "MAX_ALL_LENGTH", 10_000)
    listed = ",".join(f"{partition}:11" for partition in range(1000))
    alter(three, leader_replication_throttled_replicas=listed)
    wanted = {"leader.replication.throttled.replicas": listed}
    with refused(ErrorCode.INVALID_CONFIG, "the settings of all topics would have 1", "10000 are the most; give *"):
        three.assigned("new", [11], configs=wanted)
    three.assigned("new", [11])
    with refused(ErrorCode.INVALID_CONFIG, "the settings of all topics would have 1"):
        three.state.alter_topic_configs("new", ConfigChange(wanted))
    alter(three, delete=[*wanted])
    assert alter(three, "new", leader_replication_throttled_replicas=listed).configs.keys() >= wanted.keys()


def test_isr_15_a_lower_minimum_forgets_eligible_leaders_in_the_same_commit(three):
    """ISR-16: the one member that is left commits alone from now on, and the others will not have it."""
    three.expire(12, 13)
    before = three.partition()
    assert (before.isr, before.elr) == ((11,), (13,))
    three.history.clear()
    alter(three, min_insync_replicas="1")
    after = three.partition()
    assert (after.isr, after.elr, after.leader) == ((11,), (), 11)
    assert (after.leader_epoch, after.partition_epoch) == (before.leader_epoch, before.partition_epoch + 1)
    assert [change.key for change in three.history] == ["partition/t/0", "topic/t"]


def test_isr_15_eligible_leaders_stay_while_the_minimum_is_still_not_reached(make_cluster):
    cluster = make_cluster().start(11, 12, 13)
    cluster.assigned("t", [11, 12, 13], configs={"min.insync.replicas": "3"})
    cluster.expire(12, 13)
    elr = cluster.partition().elr
    alter(cluster, min_insync_replicas="2")
    assert cluster.partition().elr == elr == (12, 13)


def test_isr_16_a_leader_is_told_of_eligible_leaders_by_the_minimum_that_holds_here(make_cluster):
    """ISR-16: so it commits nothing alone, even while it goes by the lower minimum that it knows of."""
    cluster = make_cluster().start(11, 12, 13)
    cluster.assigned("t", [11, 12, 13], configs={"min.insync.replicas": "1"})
    proposal = cluster.item([11])
    answer = alter(cluster, min_insync_replicas="2")
    assert answer.metadata_version == cluster.image.version
    accepted = cluster.alter(11, proposal)[0]
    assert accepted.error is ErrorCode.NONE
    assert tuple(accepted.state.elr) == cluster.partition().elr == (12, 13)


@pytest.mark.parametrize(
    "setting", [{"unclean_leader_election_enable": "true"}, {"unclean_recovery_strategy": "AGGRESSIVE"}]
)
def test_ct_12_allowing_unclean_elections_holds_them_at_the_next_look(three, setting):
    """CT-12, CT-31: a second later, where the wait has been over for long."""
    three.alter(11, three.item([11, 12]))
    three.expire(12)
    three.expire(11)
    three.recover()
    three.now_ms += 9000
    three.recover()
    assert three.partition().leader == -1
    alter(three, **setting)
    three.do(three.state.recover(three.now_ms))
    assert (three.partition().leader, three.partition().isr, three.partition().recovering) == (13, (13,), True)


def test_brokers_settings_are_set_and_deleted_one_by_one(three):
    alter_broker(three, leader_replication_throttled_rate="1000", follower_replication_throttled_rate="2000")
    answer = alter_broker(three, delete=["leader.replication.throttled.rate"])
    assert dict(answer.configs) == {"follower.replication.throttled.rate": "2000"}
    assert three.image.broker_configs == {11: dict(answer.configs)}
    version = three.image.version
    assert alter_broker(three, delete=["leader.replication.throttled.rate"]).metadata_version == version
    alter_broker(three, follower_replication_throttled_rate="1", validate_only=True)
    assert three.image.version == version
    alter_broker(three, delete=["follower.replication.throttled.rate"])
    assert three.image.broker_configs == {11: {}}


@pytest.mark.parametrize(
    ("broker_id", "settings", "code", "words"),
    [
        (9, {}, "BROKER_ID_NOT_REGISTERED", "broker 9"),
        (11, {"leader.replication.throttled.rate": "-1"}, "INVALID_CONFIG", "rate='-1'"),
        (11, {"listeners": "h:1"}, "INVALID_CONFIG", "listeners is not a setting here"),
    ],
)
def test_wrong_settings_of_brokers_are_refused(three, refused, broker_id, settings, code, words):
    with refused(ErrorCode[code], words):
        three.state.alter_broker_configs(broker_id, ConfigChange(settings))


def alter_quota(cluster, user="User:ann", delete=(), validate_only=False, **settings):
    named = {key: str(value) for key, value in settings.items()}
    return cluster.do(cluster.state.alter_client_quotas(user, ConfigChange(named, delete, validate_only)))


def test_a_users_quota_is_set_and_deleted_setting_by_setting(three):
    alter_quota(three, producer_byte_rate=1000)
    answer = alter_quota(three, consumer_byte_rate=5)
    assert answer.configs == {"producer_byte_rate": "1000", "consumer_byte_rate": "5"}
    assert answer.metadata_version == three.image.version
    alter_quota(three, delete=["producer_byte_rate"])
    alter_quota(three, user="", producer_byte_rate=7)
    version = three.image.version
    alter_quota(three, validate_only=True, producer_byte_rate=8)
    assert three.image.version == version
    assert three.image.client_quotas == {
        "User:ann": {"consumer_byte_rate": "5"},
        "<default>": {"producer_byte_rate": "7"},
    }


@pytest.mark.parametrize(
    ("user", "settings", "code", "words"),
    [
        ("ann", {"producer_byte_rate": 1}, ErrorCode.INVALID_REQUEST, "write User:NAME"),
        ("User:a/b", {"producer_byte_rate": 1}, ErrorCode.INVALID_REQUEST, "no /"),
        (
            "User:*",
            {"producer_byte_rate": 1},
            ErrorCode.INVALID_REQUEST,
            "for each user without one of its own name none",
        ),
        ("User:a", {"producer_byte_rate": 0}, ErrorCode.INVALID_CONFIG, "producer_byte_rate='0'"),
        ("User:a", {"request_percentage": 1}, ErrorCode.INVALID_CONFIG, "known: consumer_byte_rate"),
    ],
)
def test_a_wrong_quota_is_refused(three, refused, user, settings, code, words):
    with refused(code, words):
        alter_quota(three, user=user, **settings)


def test_users_with_quotas_are_bounded(three, refused, monkeypatch):
    monkeypatch.setattr(configs, "MAX_QUOTAS", 2)
    alter_quota(three, user="User:a", producer_byte_rate=1)
    alter_quota(three, user="User:b", producer_byte_rate=1)
    with refused(ErrorCode.INVALID_REQUEST, "2 users have quotas"):
        alter_quota(three, user="User:c", producer_byte_rate=1)
    alter_quota(three, user="User:b", producer_byte_rate=2)


@pytest.mark.parametrize(
    ("topic", "cluster", "strategy"),
    [
        ({}, "BALANCED", "BALANCED"),
        ({}, "AGGRESSIVE", "AGGRESSIVE"),
        ({"unclean.recovery.strategy": "NONE"}, "AGGRESSIVE", "NONE"),
        ({"unclean.leader.election.enable": "true", "unclean.recovery.strategy": "NONE"}, "NONE", "AGGRESSIVE"),
        ({"unclean.leader.election.enable": "false"}, "AGGRESSIVE", "BALANCED"),
        ({"unclean.leader.election.enable": "false"}, "NONE", "NONE"),
    ],
)
def test_ct_30_which_recovery_a_topic_has(topic, cluster, strategy):
    """CT-31."""
    assert recovery_strategy(topic, Strategy(cluster)) is Strategy(strategy)


def test_no_broker_of_release_0_1_0_gets_a_setting_that_it_does_not_know(three, refused):
    """It would stop, and not start again. It tells itself by saying nothing of its logs."""
    three.log_ends[12] = None
    three.heartbeat(12)
    for name in ("unclean_recovery_strategy", "message_timestamp_before_max_ms", "message_timestamp_after_max_ms"):
        value = "NONE" if name.startswith("unclean") else "5"
        with refused(ErrorCode.UNSUPPORTED_VERSION, name.replace("_", "."), "broker 12", "upgrade it first"):
            alter(three, **{name: value})
        with refused(ErrorCode.UNSUPPORTED_VERSION):
            three.create("u", configs={name.replace("_", "."): value})
    alter(three, retention_ms="5")
    three.expire(12)
    del three.log_ends[12]
    three.come_back(12, clean=True)
    alter(three, unclean_recovery_strategy="NONE")
    assert {*configs.SINCE_0_1_0} <= {field.alias for field in TopicConfig.model_fields.values()}
