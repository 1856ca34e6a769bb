"""A partition moves to other brokers: CT-14, CT-15, CT-16, and what CT-9 and the other rules make of it."""

import pytest

from replog.controller import reassignments
from replog.controller.elections import Situation
from replog.errors import ErrorCode
from replog.metadata.values import PartitionState
from replog.topic import TopicPartition
from tests.replog.controller.partition_tables import check, table

T = TopicPartition("t", 0)


@table("""
CT-15: nothing completes while a replica of the target is not in sync, neither the new one nor one that was there before
moving | isr 11 12 13 | | same
" | isr 11 12 14 | | replicas 12 13 14 11 isr 11 12 14 leader 11 epoch 5 p 11 adding 14 removing 11
" | isr 11 | | replicas 12 13 14 11 isr 11 leader 11 epoch 5 p 11 elr 12 13 adding 14 removing 11

CT-15, CT-9: a target that is in sync is reached at once; the leader may stay, but a replica left: the epoch rises
isr 11 12 13 | reassign to 11 12 | | replicas 11 12 isr 11 12 leader 11 epoch 6 p 10
" | reassign to 13 12 | | replicas 13 12 isr 12 13 leader 13 epoch 6 p 10

CT-14: another order is no move: only the preferred leader changes, and an election later takes note of it
isr 11 12 13 | reassign to 13 12 11 | | replicas 13 12 11 isr 11 12 13 leader 11 epoch 5 p 10
| elect preferred | | replicas 13 12 11 isr 11 12 13 leader 13 epoch 6 p 11

CT-14, divergence 23: asking for what is so changes nothing: an answer may be lost, and the request be sent again
isr 11 12 13 | reassign to 11 12 13 | | same
moving | reassign to 12 13 14 | | same

CT-14, CT-9: where replicas are only added none leaves, and the leader epoch never rises
isr 11 12 13 | reassign to 11 12 13 14 | | replicas 11 12 13 14 isr 11 12 13 leader 11 epoch 5 p 10 adding 14
| isr 11 12 13 14 | | replicas 11 12 13 14 isr 11 12 13 14 leader 11 epoch 5 p 11

CT-16, divergence 23: another target is reckoned from the full set of the moment; cancelled, it is where it began
moving | reassign to 12 15 | |
  replicas 12 15 13 14 11 isr 11 12 13 leader 11 epoch 5 p 11 adding 14 15 removing 11 13 14
| isr 11 12 15 | | replicas 12 15 isr 12 15 leader 12 epoch 6 p 12
" | cancel | | replicas 12 13 11 isr 11 12 13 leader 11 epoch 6 p 12

Divergence 55: a throttle is the move's, is what the last request says, and ends with the move
isr 11 12 13 | reassign to 12 13 14 at 1000 | |
  replicas 12 13 14 11 isr 11 12 13 leader 11 epoch 5 p 10 adding 14 removing 11 throttle 1000
| isr 11 12 | | replicas 12 13 14 11 isr 11 12 leader 11 epoch 5 p 11 adding 14 removing 11 throttle 1000
| reassign to 12 13 14 at 2000 | |
  replicas 12 13 14 11 isr 11 12 leader 11 epoch 5 p 12 adding 14 removing 11 throttle 2000
| isr 12 13 14 | | replicas 12 13 14 isr 12 13 14 leader 12 epoch 6 p 13
moving throttle 1000 | cancel | | replicas 12 13 11 isr 11 12 13 leader 11 epoch 6 p 11
moving throttle 1000 | reassign to 12 13 14 | |
  replicas 12 13 14 11 isr 11 12 13 leader 11 epoch 5 p 11 adding 14 removing 11
moving throttle 1000 | reassign to 11 12 13 at 1000 | | isr 11 12 13 leader 11 epoch 6 p 11
isr 11 12 13 | reassign to 11 12 at 1000 | | replicas 11 12 isr 11 12 leader 11 epoch 6 p 10
isr 11 12 13 | reassign to 11 12 13 at 1000 | | same

CT-16, CT-15: going back to where it was completes at once
moving | reassign to 11 12 13 | | isr 11 12 13 leader 11 epoch 6 p 11

CT-16: an added replica that leads gives way to one that stays
moving leader 14 isr 12 14 | cancel | | replicas 12 13 11 isr 12 leader 12 epoch 6 p 11

CT-16: cancelling needs a reassignment
isr 11 12 13 | cancel | | NO_REASSIGNMENT_IN_PROGRESS

CT-16: it refuses to drop the only replica in sync
moving leader 14 isr 14 | cancel | | INVALID_REPLICA_ASSIGNMENT
" | cancel | active 14 | INVALID_REPLICA_ASSIGNMENT
" | cancel | active 11 14, no elr | INVALID_REPLICA_ASSIGNMENT

CT-16, CT-31: unless that is allowed and somebody can be elected, by what they say of their logs
moving leader 14 isr 14 | cancel | active 13 14, AGGRESSIVE | replicas 12 13 11 isr ∅ leader none epoch 6 p 11
" | cancel | active 13 14, no elr, AGGRESSIVE | replicas 12 13 11 isr ∅ leader none epoch 6 p 11
" | cancel | active 14, AGGRESSIVE | INVALID_REPLICA_ASSIGNMENT
" | cancel | active 14, no elr, AGGRESSIVE | INVALID_REPLICA_ASSIGNMENT

CT-16, ISR-16: an eligible replica that stays makes it clean, if it is alive: nothing was committed without it
moving leader 14 isr 14 elr 12 | cancel | | replicas 12 13 11 isr 12 leader 12 epoch 6 p 11
" | cancel | active 14 | INVALID_REPLICA_ASSIGNMENT

CT-16: only 14 has what was committed; that 11 led last makes its election no cleaner
moving leader none isr ∅ elr 14 last-known 11 | cancel | active 11 12 | INVALID_REPLICA_ASSIGNMENT

CT-15, ISR-15: a replica that leaves is forgotten everywhere: in the ELR, and as last known leader
moving leader 12 isr 12 13 elr 11 | isr 12 13 14 | active 12 13 14, min 4 |
  replicas 12 13 14 isr 12 13 14 leader 12 epoch 6 p 11
moving leader none isr ∅ elr 12 last-known 14 | cancel | active none |
  replicas 12 13 11 isr ∅ leader none epoch 6 p 11 elr 12

PR-2, ISR-15: the minimum follows the assignment; who is being added has nothing yet
isr 11 elr 12 | reassign to 11 | active 11 | replicas 11 isr 11 leader 11 epoch 6 p 10
replicas 11 | reassign to 11 12 | | replicas 11 12 isr 11 leader 11 epoch 5 p 10 adding 12
| 11 leaves | active 12 | replicas 11 12 isr ∅ leader none epoch 6 p 11 elr 11 adding 12 last-known 11

CT-14: fencing in mid-move elects among those in sync, and the move goes on
moving | 11 leaves | active 12 13 14 | replicas 12 13 14 11 isr 12 13 leader 12 epoch 6 p 11 adding 14 removing 11
| isr 12 13 14 | active 12 13 14 | replicas 12 13 14 isr 12 13 14 leader 12 epoch 7 p 12
moving | 14 leaves | active 11 12 13 | same

CT-15: an election can complete a move: it leaves an ISR of one, which may be the whole target
isr ∅ leader none elr 12 13 last-known 12 | reassign to 13 | active none |
  replicas 13 11 12 isr ∅ leader none epoch 5 p 10 elr 12 13 removing 11 12 last-known 12
| elect | active 13 | replicas 13 isr 13 leader 13 epoch 6 p 11
replicas 11 | reassign to 12 | | replicas 12 11 isr 11 leader 11 epoch 5 p 10 adding 12 removing 11
| 11 leaves | active 12 | replicas 12 11 isr ∅ leader none epoch 6 p 11 elr 11 adding 12 removing 11 last-known 11
| elect unclean | active 12, 12 has 5:9 | replicas 12 isr 12 leader 12 epoch 7 p 12 recovering

CT-8, CT-30, divergence 23: of equal logs an unclean election prefers one that was there before; a longer one has more
replicas 11 12 isr 11 | reassign to 14 15 | |
  replicas 14 15 11 12 isr 11 leader 11 epoch 5 p 10 adding 14 15 removing 11 12
| 11 leaves | active 12 14 15 |
  replicas 14 15 11 12 isr ∅ leader none epoch 6 p 11 elr 11 adding 14 15 removing 11 12 last-known 11
| elect unclean | active 12 14 15, 12 has 5:9 14 has 5:9 15 has 5:8 |
  replicas 14 15 11 12 isr 12 leader 12 epoch 7 p 12 adding 14 15 removing 11 12 recovering
" | elect unclean | active 12 14 15, 12 has 5:9 14 has 5:9 15 has 5:10 |
  replicas 14 15 11 12 isr 15 leader 15 epoch 7 p 12 adding 14 15 removing 11 12 recovering
""")
def test_what_comes_of_an_event(rows):
    check(rows)


def test_a_cancel_that_is_refused_names_the_replicas_and_the_remedy(refused):
    state = PartitionState((12, 13, 14, 11), (14,), 14, 5, 10, adding=(14,), removing=(11,))
    with refused(ErrorCode.INVALID_REPLICA_ASSIGNMENT, "t-0", "[12, 13, 11]", "unclean", "alive"):
        reassignments.cancel(T, state, Situation(frozenset((14,)), 2))
    with refused(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, "t-0"):
        reassignments.cancel(T, PartitionState((11,), (11,), 11, 5, 9), Situation(frozenset((11,)), 2))


# The whole call, against a cluster


def alter(cluster, *targets):
    """One result for each (topic, partition, target or None)."""
    wanted = [reassignments.Reassignment(TopicPartition(topic, number), target) for topic, number, target in targets]
    errors = cluster.do(cluster.state.alter_partition_reassignments(wanted))
    return [(error.code.name, error.message) for error in errors]


def ongoing(cluster, *partitions):
    return dict(cluster.state.list_partition_reassignments(partitions))


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
    assert result.error is ErrorCode.NONE
    assert result.state == PartitionState((11, 12, 14), (11, 12, 14), 11, 1, 2)


def test_reassignments_under_way_are_listed_until_they_are_done(five):
    """CT-14."""
    alter(five, ("t", 0, [12, 13, 14]), ("u", 1, [13, 15]))
    u1, nope = TopicPartition("u", 1), TopicPartition("nope", 0)
    assert ongoing(five) == {T: five.partition("t"), u1: five.partition("u", 1)}
    moved = five.partition("u", 1)
    assert (moved.replicas, moved.adding, moved.removing) == ((13, 15, 12, 11), (15,), (12, 11))
    assert list(ongoing(five, u1, TopicPartition("u", 0), nope)) == [u1]
    assert alter(five, ("u", 1, None)) == [("NONE", "")]
    assert list(ongoing(five)) == [T]


@pytest.mark.parametrize(
    ("target", "words"),
    [
        ([], "at least one replica"),
        ([11, 12, 11], "broker 11 is named twice"),
        ([11, 99], "broker 99 is not registered"),
        ([11, -1], "broker -1 is not registered"),
        (list(range(11, 20_000)), "broker 16 is not registered"),
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


def test_start_and_cancel_in_one_request_are_taken_in_turn(five):
    """INV-4."""
    assert alter(five, ("t", 0, [12, 13, 14]), ("t", 0, None)) == [("NONE", ""), ("NONE", "")]
    state = five.partition()
    assert (state.replicas, state.partition_epoch, state.leader_epoch) == ((12, 13, 11), 2, 1)
