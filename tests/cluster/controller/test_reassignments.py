"""A partition moves to other brokers: CT-14, CT-15, CT-16, and what CT-9 and the other rules make of it."""

from dataclasses import replace

import pytest

from cluster.controller import reassignments
from cluster.controller.elections import Election, Situation, change_isr, elect, remove_from_isr
from replog.errors import ErrorCode
from replog.metadata import PartitionState
from replog.rpc.v1 import controller_pb2 as pb
from replog.topic import TopicPartition

ALL = (11, 12, 13)
T = TopicPartition("t", 0)
BEFORE = PartitionState(ALL, ALL, 11, 5, 9)


def active(*brokers, min_isr=2, elr=True, unclean=False):
    return Situation(frozenset(brokers), min_isr, elr, unclean)


EVERYONE = active(11, 12, 13, 14, 15)


@pytest.fixture
def moving():
    """R-W-C14."""
    return reassignments.start(BEFORE, (12, 13, 14), EVERYONE)


def test_ct_15_nothing_completes_while_a_replica_of_the_target_is_not_in_sync(moving):
    """CT-15: neither the new one nor one that was there before."""
    for isr in ((11, 12, 13), (11, 12, 14), (11,)):
        after = change_isr(moving, isr, EVERYONE)
        assert (after.adding, after.removing, after.leader) == ((14,), (11,), 11), isr
        assert after.leader_epoch == 5


def test_ct_15_a_target_that_is_in_sync_already_is_reached_at_once():
    """CT-15, CT-9: the leader stays, but a replica left, so the leader epoch rises."""
    fewer = reassignments.start(BEFORE, (11, 12), EVERYONE)
    assert fewer == PartitionState((11, 12), (11, 12), 11, 6, 10)
    without_leader = reassignments.start(BEFORE, (13, 12), EVERYONE)
    assert without_leader == PartitionState((13, 12), (13, 12), 13, 6, 10)


def test_ct_14_another_order_is_no_move():
    """CT-14: only the preferred leader changes, and an election later takes note of it."""
    after = reassignments.start(BEFORE, (13, 12, 11), EVERYONE)
    assert after == PartitionState((13, 12, 11), (13, 12, 11), 11, 5, 10)
    assert elect(after, EVERYONE, Election.PREFERRED).leader == 13


def test_ct_14_asking_for_what_is_so_changes_nothing(moving):
    """CT-14, divergence 23: an answer may be lost, and the request be sent again."""
    assert reassignments.start(BEFORE, ALL, EVERYONE) is BEFORE
    assert reassignments.start(moving, (12, 13, 14), EVERYONE) is moving


def test_ct_14_replicas_are_only_added_where_none_leaves():
    """CT-14, CT-9: no replica leaves, so the leader epoch never rises."""
    more = reassignments.start(BEFORE, (11, 12, 13, 14), EVERYONE)
    assert (more.replicas, more.adding, more.removing) == ((11, 12, 13, 14), (14,), ())
    done = change_isr(more, (11, 12, 13, 14), EVERYONE)
    assert done == PartitionState((11, 12, 13, 14), (11, 12, 13, 14), 11, 5, 11)


def test_ct_16_another_target_in_mid_way_is_reckoned_from_the_full_set_of_the_moment(moving):
    """CT-16."""
    after = reassignments.start(moving, (12, 15), EVERYONE)
    assert after.replicas == (12, 15, 13, 14, 11)
    assert (after.adding, after.removing) == ((15, 14), (13, 14, 11))
    assert (after.leader, after.leader_epoch) == (11, 5)
    back = reassignments.cancel(T, after, EVERYONE)
    assert back.replicas == (12, 13, 11), "divergence 23: where it began, without 14"
    done = change_isr(after, (11, 12, 15), EVERYONE)
    assert done == PartitionState((12, 15), (12, 15), 12, 6, 12)


def test_ct_16_going_back_to_where_it_was_completes_at_once(moving):
    """CT-16, CT-15."""
    after = reassignments.start(moving, ALL, EVERYONE)
    assert after == PartitionState(ALL, ALL, 11, 6, 11)


def test_ct_16_an_added_replica_that_leads_gives_way_to_one_that_stays(moving):
    """CT-16."""
    led_by_14 = replace(moving, leader=14, isr=(12, 14))
    after = reassignments.cancel(T, led_by_14, EVERYONE)
    assert (after.leader, after.isr, after.leader_epoch) == (12, (12,), 6)


def test_ct_16_cancelling_needs_a_reassignment(refused):
    """CT-16."""
    with refused(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, "t-0"):
        reassignments.cancel(T, BEFORE, EVERYONE)


@pytest.fixture
def only_14(moving):
    """The added replica alone is in sync, and nobody that would stay has all that was committed."""
    return replace(moving, leader=14, isr=(14,))


def test_ct_16_cancelling_refuses_to_drop_the_only_replica_in_sync(only_14, refused):
    """CT-16."""
    for situation in (EVERYONE, active(14), active(11, 14, elr=False)):
        with refused(ErrorCode.INVALID_REPLICA_ASSIGNMENT, "t-0", "[12, 13, 11]", "unclean"):
            reassignments.cancel(T, only_14, situation)


def test_ct_16_unless_an_unclean_election_is_allowed_and_somebody_can_be_elected(only_14, refused):
    """CT-16."""
    for elr in (True, False):
        after = reassignments.cancel(T, only_14, active(13, 14, elr=elr, unclean=True))
        assert (after.replicas, after.isr, after.leader, after.recovering) == ((12, 13, 11), (13,), 13, True)
        with refused(ErrorCode.INVALID_REPLICA_ASSIGNMENT, "alive"):
            reassignments.cancel(T, only_14, active(14, elr=elr, unclean=True))


def test_ct_16_an_eligible_replica_that_stays_makes_cancelling_clean(moving):
    """CT-16, ISR-16: below the minimum nothing was committed without it."""
    state = replace(moving, leader=14, isr=(14,), elr=(12,))
    after = reassignments.cancel(T, state, EVERYONE)
    assert (after.leader, after.isr, after.elr, after.recovering) == (12, (12,), (), False)


def test_ct_16_the_last_known_leader_is_no_reason_to_drop_eligible_replicas(moving, refused):
    """CT-16: only 14 has what was committed; that 11 led last makes its election no cleaner."""
    state = replace(moving, leader=-1, isr=(), elr=(14,), last_known_leader=11)
    with refused(ErrorCode.INVALID_REPLICA_ASSIGNMENT, "t-0"):
        reassignments.cancel(T, state, active(11, 12))


def test_a_replica_that_leaves_is_forgotten_everywhere(moving):
    """CT-15, ISR-15: from the ELR and as last known leader too."""
    state = replace(moving, leader=12, isr=(12, 13), elr=(11,))
    state = change_isr(state, (12, 13, 14), active(12, 13, 14, min_isr=4))
    assert 11 not in (*state.replicas, *state.isr, *state.elr)
    waiting = replace(moving, leader=-1, isr=(), elr=(12,), last_known_leader=14)
    after = reassignments.cancel(T, waiting, active())
    assert (after.elr, after.last_known_leader) == ((12,), -1)


def test_pr_2_the_minimum_follows_the_assignment():
    """PR-2, ISR-15: fewer replicas may be all that there are, and then the ISR is large enough."""
    state = PartitionState(ALL, (11,), 11, 5, 9, elr=(12,))
    assert reassignments.start(state, (11,), active(11)).elr == ()
    grown = reassignments.start(PartitionState((11,), (11,), 11, 5, 9), (11, 12), EVERYONE)
    gone = remove_from_isr(grown, 11, active(12))
    assert (gone.isr, gone.elr, gone.leader) == ((), (11,), -1), "12 is being added and has nothing yet"


def test_fencing_in_mid_move_elects_among_those_in_sync_and_the_move_goes_on(moving):
    """CT-14: whoever is fenced, the assignment stays what it is."""
    without_11 = remove_from_isr(moving, 11, active(12, 13, 14))
    assert (without_11.leader, without_11.isr, without_11.leader_epoch) == (12, (12, 13), 6)
    assert (without_11.adding, without_11.removing) == ((14,), (11,))
    done = change_isr(without_11, (12, 13, 14), active(12, 13, 14))
    assert done == PartitionState((12, 13, 14), (12, 13, 14), 12, 7, 12), "11 left the assignment"
    assert remove_from_isr(moving, 14, active(11, 12, 13)) is moving, "the one that was to come is away"


def test_ct_15_an_election_can_complete_a_move():
    """CT-15: of an eligible replica, or an unclean one: it leaves an ISR of one, which may be the whole target."""
    waiting = PartitionState(ALL, (), -1, 5, 9, (12, 13), last_known_leader=12)
    to_13 = reassignments.start(waiting, (13,), active())
    assert elect(to_13, active(13)) == PartitionState((13,), (13,), 13, 6, 11)
    moving = reassignments.start(PartitionState((11,), (11,), 11, 5, 9), (12,), EVERYONE)
    gone = remove_from_isr(moving, 11, active(12))
    after = elect(gone, active(12), Election.UNCLEAN)
    assert after == PartitionState((12,), (12,), 12, 7, 12, recovering=True)


# The whole call, against a cluster


def alter(cluster, *targets):
    """One result for each (topic, partition, target or None)."""
    items = [
        pb.ReassignablePartition(
            topic=topic,
            partition=partition,
            target=None if target is None else pb.ReplicaAssignment(broker_ids=target),
        )
        for topic, partition, target in targets
    ]
    results = cluster.do(cluster.state.alter_partition_reassignments(items))
    return [(ErrorCode(result.error_code).name, result.error_message) for result in results]


def ongoing(cluster, *partitions):
    return list(cluster.do(cluster.state.list_partition_reassignments(partitions)).partitions)


@pytest.fixture
def five(make_cluster):
    cluster = make_cluster().start(11, 12, 13, 14, 15)
    cluster.assigned("t", [11, 12, 13])
    cluster.assigned("u", [11, 12, 13], [12, 13, 11])
    return cluster


def test_a_leader_that_stays_is_told_of_the_assignment_that_it_completed(five):
    """CT-9: with a higher leader epoch, which it takes from the metadata (ISR-9)."""
    alter(five, ("t", 0, [11, 12, 14]))
    (result,) = five.alter(11, five.item([11, 12, 13, 14]))
    assert result.error_code == ErrorCode.NONE
    state = result.state
    assert (list(state.replicas), list(state.isr), state.leader_epoch) == ([11, 12, 14], [11, 12, 14], 1)
    assert not state.adding_replicas
    assert not state.removing_replicas


def test_reassignments_under_way_are_listed_until_they_are_done(five):
    """CT-14."""
    alter(five, ("t", 0, [12, 13, 14]), ("u", 1, [13, 15]))
    listed = {(r.topic, r.partition): r for r in ongoing(five)}
    assert list(listed) == [("t", 0), ("u", 1)]
    moved = listed["u", 1]
    assert list(moved.replicas) == [13, 15, 12, 11]
    assert (list(moved.adding_replicas), list(moved.removing_replicas)) == ([15], [12, 11])
    u1, nope = TopicPartition("u", 1), TopicPartition("nope", 0)
    assert [r.topic for r in ongoing(five, u1, TopicPartition("u", 0), nope)] == ["u"]
    assert alter(five, ("u", 1, None)) == [("NONE", "")]
    assert [r.topic for r in ongoing(five)] == ["t"]


@pytest.mark.parametrize(
    ("target", "words"),
    [
        ([], "empty"),
        ([11, 12, 11], "broker 11 twice"),
        ([11, 99], "broker 99 of the target is not registered"),
        ([11, -1], "broker -1 of the target"),
        (list(range(11, 20_000)), "broker 16 of"),
    ],
)
def test_a_target_that_cannot_be_is_refused_and_the_others_of_the_request_go_on(five, target, words):
    """CT-14."""
    (bad, bad_message), good = alter(five, ("t", 0, target), ("u", 0, [11, 14]))
    assert bad == "INVALID_REPLICA_ASSIGNMENT"
    assert "t-0" in bad_message
    assert words in bad_message
    assert good == ("NONE", "")
    assert not five.partition().reassigning


def test_unknown_partitions_and_cancels_of_nothing_are_refused(five):
    """CT-16."""
    results = alter(five, ("t", 9, [11]), ("nope", 0, None), ("t", 0, None))
    assert [code for code, _ in results] == [
        "UNKNOWN_TOPIC_OR_PARTITION",
        "UNKNOWN_TOPIC_OR_PARTITION",
        "NO_REASSIGNMENT_IN_PROGRESS",
    ]
    assert all(message for _, message in results)


def test_a_target_may_name_a_broker_that_is_away(five):
    """CT-14: it joins when it is back."""
    five.expire(14)
    assert alter(five, ("t", 0, [12, 13, 14])) == [("NONE", "")]
    assert five.alter(11, five.item([11, 12, 13, 14]))[0].error_code == ErrorCode.INELIGIBLE_REPLICA
    five.come_back(14, clean=True)
    assert five.alter(11, five.item([11, 12, 13, 14]))[0].error_code == ErrorCode.NEW_LEADER_ELECTED


def test_start_and_cancel_in_one_request_are_taken_in_turn(five):
    """INV-4."""
    assert alter(five, ("t", 0, [12, 13, 14]), ("t", 0, None)) == [("NONE", ""), ("NONE", "")]
    state = five.partition()
    assert (state.replicas, state.partition_epoch, state.leader_epoch) == ((12, 13, 11), 2, 1)


def test_an_unclean_restart_of_an_added_replica_in_sync_takes_it_out_again(five):
    """ISR-18."""
    alter(five, ("t", 0, [12, 13, 14, 15]))
    assert five.alter(11, five.item([11, 12, 13, 14]))[0].error_code == ErrorCode.NONE
    five.expire(14)
    five.come_back(14, clean=False)
    state = five.partition()
    assert 14 not in state.isr
    assert (state.adding, state.removing) == ((14, 15), (11,))


def test_a_reassignment_outlives_the_controller(five):
    """CT-14."""
    alter(five, ("t", 0, [12, 13, 14]))
    state = five.partition()
    five.state = type(five.state)(five.config, None)
    five.state.load([r for r in five.history if not r.HasField("cluster")], five.now_ms)
    assert five.partition() == state
    assert state.reassigning


def test_ct_8_an_unclean_election_prefers_a_replica_that_was_there_before():
    """CT-8, divergence 23: the target comes first, but who is being added may not have copied anything yet."""
    moving = reassignments.start(replace(BEFORE, isr=(11,)), (14, 15), EVERYONE)
    assert moving.replicas == (14, 15, 11, 12, 13)
    lost = remove_from_isr(moving, 11, active(12, 14, 15))
    assert (lost.leader, lost.elr) == (-1, (11,))
    assert elect(lost, active(12, 14, 15), Election.UNCLEAN).leader == 12
    assert elect(lost, active(15), Election.UNCLEAN).leader == 15
    assert remove_from_isr(moving, 11, active(12, 14, 15, unclean=True)).leader == 12
