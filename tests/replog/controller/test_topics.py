import random
from collections import Counter

import pytest

from replog.controller.reassignments import Reassignment
from replog.controller.topics import NewPartitions, ReplicaPlacer
from replog.errors import ErrorCode
from replog.metadata.values import BrokerRegistration, PartitionState
from replog.topic import MAX_CLUSTER_PARTITIONS, MAX_PARTITIONS, TopicPartition


def test_ct_18_a_new_topic_is_led_by_its_first_replicas_with_epochs_0(three):
    response = three.create("new", partitions=6, replication_factor=2)
    assert (response.partitions, response.replication_factor) == (6, 2)
    assert response.metadata_version == three.image.version
    assert len(response.topic_id) == 16
    assert response.topic_id == three.image.topics["new"].topic_id
    for partition, state in three.image.partitions_of("new").items():
        replicas = state.replicas
        assert state == PartitionState(replicas, replicas, replicas[0], 0, 0), f"partition {partition}"
    assert len(three.image.partitions_of("new")) == 6


def test_zeros_mean_the_controllers_defaults(make_cluster):
    cluster = make_cluster(num_partitions=4, default_replication_factor=2).start(1, 2, 3)
    response = cluster.create("t")
    assert (response.partitions, response.replication_factor) == (4, 2)


def test_a_request_that_comes_again_is_answered_as_it_was(three, refused):
    """Its answer was lost. Another request for that name is another matter, and so is another name with that id."""
    mine = b"0123456789abcdef"
    first = three.create("new", partitions=3, replication_factor=2, topic_id=mine)
    version = three.image.version
    assert three.create("new", partitions=3, replication_factor=2, topic_id=mine) == first
    assert three.image.version == version, "nothing is written"
    with refused(ErrorCode.TOPIC_ALREADY_EXISTS):
        three.create("new", topic_id=b"another's id ...")
    for taken in (mine, b"short"):
        with refused(ErrorCode.INVALID_REQUEST, "16 bytes that no topic has"):
            three.create("other", topic_id=taken)


def test_ct_19_a_request_that_comes_again_when_its_topic_is_deleted_makes_another_one(three):
    """CT-19 (serving, seed 502): brokers that still have the first one's files must not take them for the second's."""
    mine = b"0123456789abcdef"
    first = three.create("new", topic_id=mine).topic_id
    three.do(three.state.delete_topic("new"))
    assert three.create("new", topic_id=mine).topic_id != first


def test_isr_16_the_minimum_is_written_into_the_topic_so_brokers_and_elections_agree(make_cluster):
    cluster = make_cluster(min_insync_replicas=3).start(1, 2, 3)
    cluster.create("default")
    cluster.create("single", replication_factor=1)
    cluster.create("own", configs={"min.insync.replicas": "1", "retention.ms": "1000"})
    assert cluster.image.topics["default"].configs == {"min.insync.replicas": "3"}
    assert cluster.image.topics["single"].configs == {"min.insync.replicas": "1"}
    assert cluster.image.topics["own"].configs == {"min.insync.replicas": "1", "retention.ms": "1000"}


def test_validate_only_answers_and_writes_nothing(three, refused):
    version = three.image.version
    response = three.create("new", partitions=5, validate_only=True)
    assert (response.partitions, response.replication_factor, response.topic_id) == (5, 3, b"")
    assert response.metadata_version == three.image.version == version
    with refused(ErrorCode.INVALID_PARTITIONS):
        three.create("new", partitions=-5, validate_only=True)


@pytest.mark.parametrize(
    ("fields", "code", "words"),
    [
        ({"topic": ""}, "INVALID_TOPIC_EXCEPTION", "empty"),
        ({"topic": "a/b"}, "INVALID_TOPIC_EXCEPTION", "'a/b'"),
        ({"topic": "x" * 250}, "INVALID_TOPIC_EXCEPTION", "250"),
        ({"topic": "t"}, "TOPIC_ALREADY_EXISTS", "topic t exists"),
        ({"partitions": -1}, "INVALID_PARTITIONS", "-1"),
        ({"partitions": 10_001}, "INVALID_PARTITIONS", "1 to 10000"),
        ({"replication_factor": -1}, "INVALID_REPLICATION_FACTOR", "-1"),
        ({"replication_factor": 4}, "INVALID_REPLICATION_FACTOR", "3 of 3 that are registered have been active"),
        ({"configs": {"no.such": "1"}}, "INVALID_CONFIG", "no.such"),
        ({"configs": {"retention.ms": "soon"}}, "INVALID_CONFIG", "retention.ms='soon'"),
        ({"configs": {"min.insync.replicas": "0"}}, "INVALID_CONFIG", "min.insync.replicas"),
        ({"configs": {"retention.ms": "1" * 257}}, "INVALID_CONFIG", "256 characters"),
        ({"configs": {f"x{i}": "1" for i in range(100)}}, "INVALID_CONFIG", "100 settings"),
    ],
)
def test_a_topic_is_checked_before_it_is_created(three, refused, fields, code, words):
    version = three.image.version
    with refused(ErrorCode[code], words):
        three.create(**({"topic": "new"} | fields))
    assert three.image.version == version


@pytest.mark.parametrize(
    ("assignment", "words"),
    [
        ([[]], "at least one replica"),
        ([[11, 12], [11]], "partition 1"),
        ([[11, 11]], "named twice"),
        ([[11, 14]], "broker 14 is not registered"),
        ([[13, 12]], "none of these brokers is active"),
    ],
)
def test_an_assignment_by_hand_is_checked(three, refused, assignment, words):
    three.expire(12, 13)
    with refused(ErrorCode.INVALID_REPLICA_ASSIGNMENT, words):
        three.assigned("new", *assignment)


def test_an_assignment_by_hand_and_numbers_contradict_each_other(three, refused):
    with refused(ErrorCode.INVALID_REQUEST, "leave both numbers 0"):
        three.assigned("new", [11], partitions=1)


def test_without_an_active_broker_nothing_can_be_created(three, refused):
    three.expire(11, 12, 13)
    with refused(ErrorCode.INVALID_REPLICATION_FACTOR, "none of the 3 registered brokers is active"):
        three.create("new")


def test_the_cluster_has_a_bound_on_partitions(three, refused):
    while left := MAX_CLUSTER_PARTITIONS - len(three.image.partitions):
        three.create(f"many-{left}", partitions=min(left, MAX_PARTITIONS), replication_factor=1)
    with refused(ErrorCode.INVALID_PARTITIONS, "at most 20000", "has 20000"):
        three.create("more", partitions=1)


def more(cluster, total, *assignment, topic="new", validate_only=False):
    return cluster.do(cluster.state.create_partitions(NewPartitions(topic, total, assignment, validate_only)))


def test_an_added_partition_that_is_refused_is_named_by_its_number(three, refused):
    three.create("new", partitions=2, replication_factor=2)
    with refused(ErrorCode.INVALID_REPLICA_ASSIGNMENT, "partition 3, assigned to [11]"):
        more(three, 4, [11, 12], [11])


def test_ct_18_added_partitions_are_placed_and_led_as_those_of_a_new_topic(three):
    three.create("new", partitions=2, replication_factor=2)
    before = three.image.partitions_of("new").copy()
    assert more(three, 5) == three.image.version
    after = three.image.partitions_of("new")
    assert list(after) == [0, 1, 2, 3, 4]
    assert {number: after[number] for number in before} == before
    for number in (2, 3, 4):
        replicas = after[number].replicas
        assert len(replicas) == 2
        assert after[number] == PartitionState(replicas, replicas, replicas[0], 0, 0)
    assert all(c.topic_id == three.image.topics["new"].topic_id for c in three.history[-3:])


def test_ct_18_added_partitions_may_be_placed_by_hand(three):
    three.assigned("new", [11, 12])
    three.expire(13)
    more(three, 3, [13, 12], [12, 11])
    assert (three.partition("new", 1).leader, three.partition("new", 1).isr) == (12, (12,))
    assert three.partition("new", 2).replicas == (12, 11)


def test_while_a_topic_moves_added_partitions_get_as_many_replicas_as_it_will_have(three):
    three.assigned("new", [11, 12])
    three.do(three.state.alter_partition_reassignments([Reassignment(TopicPartition("new", 0), (13,))]))
    assert len(three.partition("new").replicas) == 3
    more(three, 2)
    assert len(three.partition("new", 1).replicas) == 1


@pytest.mark.parametrize(
    ("total", "assignment", "code", "words"),
    [
        (2, (), ErrorCode.INVALID_PARTITIONS, "has 2 partitions already, and 2 would be no more"),
        (1, (), ErrorCode.INVALID_PARTITIONS, "never taken away"),
        (-1, (), ErrorCode.INVALID_PARTITIONS, "never taken away"),
        (MAX_PARTITIONS + 1, (), ErrorCode.INVALID_PARTITIONS, "1 to"),
        (
            4,
            ([11, 12],),
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "2 partitions are added, and replicas are assigned to 1",
        ),
        (3, ([11],), ErrorCode.INVALID_REPLICA_ASSIGNMENT, "it has 1 replicas and partition 0 has 2"),
        (3, ([11, 11],), ErrorCode.INVALID_REPLICA_ASSIGNMENT, "named twice"),
        (3, ([11, 99],), ErrorCode.INVALID_REPLICA_ASSIGNMENT, "broker 99 is not registered"),
    ],
)
def test_partitions_that_cannot_be_added_are_refused(three, refused, total, assignment, code, words):
    three.create("new", partitions=2, replication_factor=2)
    version = three.image.version
    with refused(code, words):
        more(three, total, *assignment)
    with refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION):
        more(three, 5, topic="unknown")
    assert more(three, 5, validate_only=True) == version == three.image.version


def test_ct_19_a_topic_and_its_partitions_are_deleted_in_one_change(three, refused):
    three.create("gone", partitions=3)
    before = three.image.version
    assert three.do(three.state.delete_topic("gone")) == three.image.version == before + 1
    assert "gone" not in three.image.topics
    assert three.image.partitions_of("gone") == {}
    assert [(change.key, change.value) for change in three.history if change.version > before] == [("topic/gone", None)]
    with refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "no topic gone"):
        three.do(three.state.delete_topic("gone"))
    with refused(ErrorCode.INVALID_TOPIC_EXCEPTION):
        three.do(three.state.delete_topic("a b"))


def test_ct_19_a_topic_that_is_deleted_by_its_id_is_no_other_of_its_name(three, refused):
    first = three.create("again").topic_id
    three.do(three.state.delete_topic("again", first))
    three.create("again")
    with refused(ErrorCode.UNKNOWN_TOPIC_ID, "created again"):
        three.do(three.state.delete_topic("again", first))
    assert "again" in three.image.topics


def test_ct_19_a_leader_of_the_deleted_topic_meets_unknown_topic_id_once_the_name_is_reused(three):
    item = three.item([11, 12])
    three.do(three.state.delete_topic("t"))
    assert three.alter(11, item)[0].error is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    three.assigned("t", [11, 12, 13])
    assert three.alter(11, item)[0].error is ErrorCode.UNKNOWN_TOPIC_ID


def brokers(racks, fenced=()):
    return [BrokerRegistration(b, b, b"i" * 16, f"h{b}:1", rack, b in fenced, False) for b, rack in racks.items()]


def placed(racks, partitions, factor, *, fenced=(), seed=1):
    placer = ReplicaPlacer(brokers(racks, fenced), random.Random(seed))
    return [placer.place(factor) for _ in range(partitions)]


@pytest.mark.parametrize("factor", [1, 2, 3, 4, 5, 6])
def test_ct_20_a_rack_is_used_twice_only_when_all_were_used_once(factor):
    racks = {1: "a", 2: "a", 3: "b", 4: "b", 5: "c", 6: "c"}
    for replicas in placed(racks, 60, factor):
        assert len(set(replicas)) == factor
        used = Counter(racks[r] for r in replicas)
        assert max(used.values()) - min(used[rack] for rack in "abc") <= 1, replicas


def test_ct_20_uneven_racks_fill_up_from_those_that_have_brokers_left():
    racks = {1: "a", 2: "b", 3: "b", 4: "b"}
    for replicas in placed(racks, 20, 4):
        assert sorted(replicas) == [1, 2, 3, 4]


@pytest.mark.parametrize("racks", [dict.fromkeys(range(5), ""), dict(zip(range(6), "aabbcc", strict=True))])
def test_ct_20_leaders_and_replicas_are_spread_evenly(racks):
    partitions = 20 * len(racks)
    for seed in range(10):
        plan = placed(racks, partitions, 3, seed=seed)
        leaders = Counter(replicas[0] for replicas in plan)
        assert set(leaders.values()) == {20}, leaders
        load = Counter(r for replicas in plan for r in replicas)
        assert max(load.values()) - min(load.values()) <= 12, load


def test_the_followers_of_one_leader_vary_so_that_its_failure_spreads_over_the_others():
    plan = placed(dict.fromkeys(range(5), ""), 200, 2)
    seconds = {replicas[1] for replicas in plan if replicas[0] == 0}
    assert seconds == {1, 2, 3, 4}


@pytest.mark.parametrize("racks", [dict.fromkeys((1, 2, 3), ""), {1: "a", 2: "b", 3: "c"}, {1: "a", 2: "a", 3: "b"}])
def test_ct_20_the_first_replica_is_active_and_active_brokers_come_before_fenced_ones_of_their_rack(racks):
    for replicas in placed(racks, 30, 3, fenced={1, 2}):
        assert replicas[0] == 3
        assert sorted(replicas) == [1, 2, 3]
    for replicas in placed({1: "a", 2: "a", 3: "b"}, 30, 2, fenced={1}):
        assert 1 not in replicas


def test_ct_20_a_rack_whose_brokers_are_all_fenced_is_used_only_when_the_others_are_too_few():
    racks = {1: "a", 2: "b", 3: "c", 4: "d"}
    plan = placed(racks, 30, 3, fenced={2})
    assert all(sorted(replicas) == [1, 3, 4] for replicas in plan)
    assert Counter(replicas[0] for replicas in plan) == {1: 10, 3: 10, 4: 10}
    for replicas in placed(racks, 30, 3, fenced={2, 3}):
        assert set(replicas[:2]) == {1, 4}
        assert replicas[2] in (2, 3)
    for replicas in placed({1: "a", 2: "a", 3: "b"}, 30, 2, fenced={3}):
        assert sorted({1: "a", 2: "a", 3: "b"}[r] for r in replicas) == ["a", "b"], "a copy in a rack of its own, later"


def test_the_same_seed_gives_the_same_plan():
    racks = dict.fromkeys(range(9), "")
    assert placed(racks, 20, 3, seed=4) == placed(racks, 20, 3, seed=4)
    assert placed(racks, 20, 3, seed=4) != placed(racks, 20, 3, seed=5)
