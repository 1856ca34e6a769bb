"""What becomes of the metadata when all there is is an older copy, or nothing, and the disks of brokers."""

import pytest

from replog.config.processes import ControllerConfig
from replog.config.topic import TopicConfig
from replog.controller.broker_events import Rules, unfence
from replog.controller.configs import ConfigChange, alter_topic_configs
from replog.controller.decision import numbered
from replog.controller.restoration import LEADER_EPOCHS_AHEAD, PRODUCER_IDS_AHEAD, Held, restored
from replog.metadata.changes import Change
from replog.metadata.image import MetadataImage
from replog.metadata.values import BrokerRegistration, PartitionState, Topic
from replog.topic import TopicPartition

ID, OTHER_ID, THIRD_ID = b"1" * 16, b"2" * 16, b"3" * 16
TP = TopicPartition("t", 0)
KEEPS_ALL = {"retention.ms": "-1"}
NOT_CLEANED = {"min.compaction.lag.ms": str(2**63 - 1)}
RULES = Rules(ControllerConfig.model_fields["min_insync_replicas"].default)


def state(*replicas, isr=None, leader_epoch=4, partition_epoch=9) -> PartitionState:
    return PartitionState(replicas, replicas if isr is None else isr, replicas[0], leader_epoch, partition_epoch)


def copy(*partitions: PartitionState, topic_id=ID, configs=KEEPS_ALL) -> MetadataImage:
    """Of a cluster with the topic t."""
    image = MetadataImage()
    changes = [Change("cluster", None, "the-cluster"), Change("topic", "t", Topic("t", topic_id, configs))]
    changes += [
        Change("partition", TopicPartition("t", number), each, topic_id) for number, each in enumerate(partitions)
    ]
    return put(image, [*changes, Change("producer_ids", None, 3000)])


def put(image, changes) -> MetadataImage:
    for change in numbered(changes, image.version):
        image.put(change)
    return image


def held(
    broker_id, end, last_epoch=4, *, partition=0, topic_id=ID, seen=None, producer_id=-1, version=50, compacted=False
) -> Held:
    """`version`: of the metadata that the broker knows, which is newer than the copy's."""
    seen = last_epoch if seen is None else seen
    return Held(
        broker_id, TopicPartition("t", partition), topic_id, last_epoch, end, seen, producer_id, compacted, version
    )


def image_of(result) -> MetadataImage:
    return put(MetadataImage(), result.changes)


def test_who_has_the_highest_epoch_and_then_the_longest_log_may_lead_and_its_equals():
    result = restored(copy(state(1, 2, 3)), [held(1, 90, 4), held(2, 70, 5), held(3, 70, 5)], {1, 2, 3})
    (after,) = image_of(result).partitions.values()
    assert (after.replicas, after.leader, after.isr, after.elr) == ((1, 2, 3), -1, (), (2, 3))
    assert result.remarks == []
    result = restored(copy(state(1, 2, 3)), [held(1, 90, 4), held(2, 70, 5), held(3, 71, 5)], {1, 2, 3})
    assert image_of(result).partitions[TP].elr == (3,)


def test_it_leads_as_soon_as_it_comes_in_an_epoch_above_all_that_any_broker_has_seen():
    image = image_of(restored(copy(state(1, 2)), [held(1, 90), held(2, 95, 4, seen=17)], {1, 2}))
    for broker_id in (1, 2):
        broker = BrokerRegistration(broker_id, image.version + 1, b"i" * 16, "host:1", "", True, False)
        put(image, [Change("broker", broker_id, broker)])
        put(image, [change for change in unfence(image, RULES, broker) if change is not None])
        assert image.partitions[TP].leader == (2 if broker_id == 2 else -1)
    after = image.partitions[TP]
    assert after.leader_epoch > 17 + LEADER_EPOCHS_AHEAD
    assert after.partition_epoch > 9
    assert not after.recovering


def test_nobody_is_registered_and_settings_stay():
    image = copy(state(1, 2), configs={"segment.bytes": "1024", **KEEPS_ALL})
    broker = BrokerRegistration(1, 7, b"i" * 16, "host:1", "", False, False)
    put(image, [Change("broker", 1, broker), Change("broker_config", 1, {"leader.replication.throttled.rate": "7"})])
    after = image_of(restored(image, [held(1, 1), held(2, 1)], {1, 2}))
    assert after.cluster_id == "the-cluster"
    assert after.brokers == {}
    assert after.broker_configs == image.broker_configs
    assert after.topics == image.topics


def test_a_topic_that_is_younger_than_the_copy_is_taken_from_the_disks_with_all_its_partitions():
    image = put(MetadataImage(), [Change("cluster", None, "the-cluster")])
    result = restored(image, [held(1, 5), held(3, 5), held(2, 9, partition=2), held(3, 8, partition=2)], {1, 2, 3})
    after = image_of(result)
    assert after.topics == {"t": Topic("t", ID, {"min.insync.replicas": "2", **KEEPS_ALL})}
    first, gap, last = after.partitions_of("t").values()
    assert (first.replicas, first.elr) == ((1, 3), (1, 3))
    assert (last.replicas, last.elr) == ((2, 3), (2,))
    assert gap.replicas == gap.elr == (2, 3), "as many as the others"
    assert result.remarks == [
        "topic t is younger than the copy: its settings are not known. Defaults count, except that nothing is deleted "
        "until you say so: replog topic alter --topic t --delete-config retention.ms",
        "t-1: no replica of it is on any disk: it begins empty, on brokers 2, 3",
    ]


def test_where_a_disk_was_lost_a_topic_without_a_copy_has_as_many_replicas_as_elsewhere():
    """Fewer in sync are enough for an acknowledgement where there are fewer replicas: that must not happen unseen."""
    image = put(MetadataImage(), [Change("cluster", None, "the-cluster")])
    whole = [held(1, 5), held(2, 5), held(3, 5)]
    result = restored(image, [*whole, held(4, 9, partition=1), held(2, 8, partition=1)], {1, 2, 3, 4})
    first, second = image_of(result).partitions_of("t").values()
    assert first.replicas == (1, 2, 3)
    assert (second.replicas, second.elr) == ((2, 4, 3), (4,)), "who has it comes first"
    assert result.remarks[1:] == [
        "t-1: only brokers 2, 4 had it, and others of its topic have 3 replicas: it comes to broker 3, too"
    ]
    few = restored(image, [*whole, held(2, 8, partition=1)], {1, 2})
    assert image_of(few).partitions[TopicPartition("t", 1)].replicas == (2, 1), "nobody else was read"


def test_a_topic_that_was_made_again_since_the_copy_is_the_one_on_the_disks():
    """Broker 3 was down and has still the old one."""
    replicas = [held(1, 5, topic_id=OTHER_ID), held(2, 5, topic_id=OTHER_ID), held(3, 900, version=3)]
    result = restored(copy(state(1, 2, 3), configs={"segment.ms": "5", **KEEPS_ALL}), replicas, {1, 2, 3})
    after = image_of(result)
    assert after.topics["t"] == Topic("t", OTHER_ID, {"segment.ms": "5", **KEEPS_ALL})
    assert (after.partitions[TP].replicas, after.partitions[TP].elr) == ((1, 2), (1, 2))
    assert result.remarks == ["topic t was deleted and made again since the copy: its settings may be others"]


@pytest.mark.parametrize("version", [0, 1])
def test_a_topic_without_known_settings_is_compacted_if_any_disk_says_so_and_is_not_cleaned_until_the_operator_says_so(
    version,
):
    """As one that is not, most of it was cut off at the next start: holes were damage."""
    image = put(MetadataImage(), [Change("cluster", None, "the-cluster")][:version])
    result = restored(image, [held(1, 90), held(2, 90), held(3, 9, partition=1, compacted=True)], {1, 2, 3})
    configs = {"min.insync.replicas": "2", "cleanup.policy": "compact", **NOT_CLEANED}
    assert image_of(result).topics == {"t": Topic("t", ID, configs)}
    assert result.remarks[0] == (
        f"topic t is {'younger than the copy' if version else 'in no copy'}: its settings are not known. It is "
        "compacted, by what is on the disks. Defaults count, except that nothing is deleted until you say so: "
        "replog topic alter --topic t --delete-config min.compaction.lag.ms"
    )


@pytest.mark.parametrize("policy", ["delete", "compact", "compact,delete"])
@pytest.mark.parametrize("compacted", [False, True])
def test_a_topic_that_was_made_again_is_compacted_if_the_disks_say_so_whatever_the_copy_says(policy, compacted):
    replicas = [held(1, 5, topic_id=OTHER_ID, compacted=compacted), held(3, 900, compacted=not compacted, version=3)]
    result = restored(copy(state(1, 3), configs={"cleanup.policy": policy, "segment.ms": "5"}), replicas, {1, 3})
    configs = image_of(result).topics["t"].configs
    assert TopicConfig.parse(configs, "test").compacted == compacted
    assert configs["segment.ms"] == "5"


@pytest.mark.parametrize(
    ("configs", "held_back", "command"),
    [
        ({}, KEEPS_ALL, "--delete-config retention.ms"),
        ({"retention.ms": "60000"}, KEEPS_ALL, "--config retention.ms=60000"),
        ({**KEEPS_ALL, "retention.bytes": "5"}, {"retention.bytes": "-1"}, "--config retention.bytes=5"),
        ({"cleanup.policy": "compact"}, NOT_CLEANED, "--delete-config min.compaction.lag.ms"),
        (
            {"cleanup.policy": "compact,delete", "min.compaction.lag.ms": "9"},
            KEEPS_ALL | NOT_CLEANED,
            "--delete-config retention.ms --config min.compaction.lag.ms=9",
        ),
        (
            {**KEEPS_ALL, "unclean.leader.election.enable": "true"},
            {"unclean.leader.election.enable": "false"},
            "--config unclean.leader.election.enable=true",
        ),
    ],
)
def test_no_setting_of_the_copy_deletes_a_record_until_the_operator_says_so(configs, held_back, command):
    """It may have been altered since, and nobody can alter it before brokers run."""
    result = restored(copy(state(1, 2), configs=configs), [held(1, 5), held(2, 5)], {1, 2})
    assert image_of(result).topics["t"].configs == configs | held_back
    assert result.remarks == [
        "topic t: nothing is deleted until you say so, as the copy may be older than its settings. To go by the copy: "
        f"replog topic alter --topic t {command}"
    ]
    words = command.split()
    options = dict(zip(words[1::2], words[::2], strict=True))
    change = ConfigChange(
        dict(word.split("=") for word, option in options.items() if option == "--config"),
        [word for word, option in options.items() if option == "--delete-config"],
    )
    altered = alter_topic_configs(image_of(result), RULES, "t", change).answer.configs
    assert {name: value for name, value in altered.items() if name != "min.insync.replicas"} == configs


def test_what_deletes_nothing_stays_as_it_is():
    for configs in (KEEPS_ALL, {**KEEPS_ALL, "max.compaction.lag.ms": "5", "unclean.leader.election.enable": "false"}):
        result = restored(copy(state(1, 2), configs=configs), [held(1, 5), held(2, 5)], {1, 2})
        assert (image_of(result).topics["t"].configs, result.remarks) == (configs, [])


@pytest.mark.parametrize("late", [1, 2])
def test_a_topic_that_was_made_again_before_the_copy_is_the_one_of_the_copy(late):
    """Broker 3 was down then, and has still the old one: it knows no metadata that are newer than the copy."""
    replicas = [held(broker_id, 5, version=50) for broker_id in range(1, late + 1)]
    replicas += [held(3, 900, topic_id=OTHER_ID, version=3), held(3, 900, partition=1, topic_id=OTHER_ID, version=3)]
    image = copy(state(1, 2, 3))
    result = restored(image, replicas, {1, 2, 3})
    after = image_of(result)
    assert after.topics["t"] == image.topics["t"]
    assert set(after.partitions[TP].elr) == {replica.broker_id for replica in replicas if replica.topic_id == ID}
    assert "topic t was made more than once: 2 topic ids" in result.remarks[0]
    unread = restored(image, replicas[-2:], {3})
    assert image_of(unread).topics["t"] == image.topics["t"], "the others may have it"
    assert 3 not in image_of(unread).partitions[TP].elr


def test_a_topic_that_only_a_broker_has_that_knows_less_than_the_copy_was_deleted():
    image = put(MetadataImage(), [Change("cluster", None, "c"), *(Change("producer_ids", None, n) for n in range(30))])
    result = restored(image, [held(3, 900, version=20)], {1, 2, 3})
    assert image_of(result).topics == {}
    assert result.remarks == ["topic t was deleted before the copy: it is left out, and brokers keep it as stray"]
    for version in (0, 40):
        assert image_of(restored(image, [held(3, 900, version=version)], {1, 2, 3})).topics.keys() == {"t"}


def test_of_several_without_any_copy_the_one_of_the_newest_metadata_counts():
    replicas = [held(1, 5, version=51), held(2, 900, topic_id=OTHER_ID), held(3, 900, topic_id=OTHER_ID)]
    result = restored(put(MetadataImage(), [Change("cluster", None, "c")]), replicas, {1, 2, 3})
    assert image_of(result).topics["t"].topic_id == ID


def test_of_several_that_the_copy_does_not_know_the_one_with_most_replicas_counts():
    replicas = [held(1, 5, topic_id=THIRD_ID), held(2, 5, topic_id=OTHER_ID), held(3, 5, topic_id=OTHER_ID)]
    result = restored(copy(state(1, 2, 3)), replicas, {1, 2, 3})
    assert image_of(result).topics["t"].topic_id == OTHER_ID
    assert "topic t was made more than once: 2 topic ids" in result.remarks[0]


def test_a_topic_of_the_copy_that_is_on_no_disk_was_deleted():
    result = restored(copy(state(1, 2)), [], {1, 2})
    assert image_of(result).topics == {}
    assert result.remarks == ["topic t of the copy is on no disk: it was deleted since, and is left out"]


def test_of_a_broker_that_was_not_read_the_copy_is_believed():
    result = restored(copy(state(1, 2), state(2, 3, isr=(3,))), [held(1, 5)], {1})
    first, second = image_of(result).partitions_of("t").values()
    assert (first.replicas, first.elr) == ((1, 2), (1,))
    assert (second.replicas, second.elr) == ((2, 3), (3,))
    assert result.remarks == [
        "t-0: what only broker 2 had is lost, and is cut off there, too, if it comes back: it was not read",
        "t-1: only broker 3 may have it: it has no leader until that comes",
    ]


def test_a_replica_that_moved_since_is_where_it_is_and_one_that_was_lost_comes_back():
    moved = restored(copy(state(1, 2)), [held(1, 5), held(3, 5)], {1, 2, 3})
    assert image_of(moved).partitions[TP].replicas == (1, 3)
    lost = restored(copy(state(1, 2)), [held(1, 5)], {1, 2, 3})
    assert image_of(lost).partitions[TP].replicas == (1, 2)
    assert image_of(lost).partitions[TP].elr == (1,)
    for result in (moved, lost):
        (remark,) = result.remarks
        assert remark.startswith("t-0: by the copy broker 2 had all of it, and there is none in the directories named")
    out_of_sync = restored(copy(state(1, 2, isr=(1,))), [held(1, 5)], {1, 2})
    assert out_of_sync.remarks == []


def test_producer_ids_go_on_far_above_all_that_were_given():
    assert image_of(restored(copy(state(1)), [held(1, 5)], {1})).next_producer_id == 3000 + PRODUCER_IDS_AHEAD
    wrote = [held(1, 5, producer_id=8_000)]
    assert image_of(restored(copy(state(1)), wrote, {1})).next_producer_id == 8_001 + PRODUCER_IDS_AHEAD


def test_a_copy_that_is_older_than_earlier_restorations_gives_no_epoch_twice():
    """Found by the simulator: brokers had heard of epochs that neither the copy nor any disk had."""
    older, replicas = copy(state(1, 2)), [held(1, 90), held(2, 90)]
    (first,) = image_of(restored(older, replicas, {1, 2})).partitions.values()
    for restorations in (1, 2, 3):
        (again,) = image_of(restored(older, replicas, {1, 2}, restorations)).partitions.values()
        assert again.partition_epoch > first.partition_epoch + 1000
        assert again.leader_epoch > first.leader_epoch + 100
        first = again
