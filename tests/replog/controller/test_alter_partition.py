from dataclasses import replace

import pytest

from replog.controller.alter_partition import Proposal, Verdict, accept, refusal
from replog.controller.elections import Situation
from replog.errors import ErrorCode
from replog.metadata.values import BrokerRegistration, PartitionState
from replog.topic import TopicPartition

ALL = (11, 12, 13)
STATE = PartitionState(ALL, (11, 12), 11, leader_epoch=5, partition_epoch=9)
GOOD = Proposal(
    TopicPartition("t", 0),
    topic_id=b"t" * 16,
    sender=11,
    leader_epoch=5,
    partition_epoch=9,
    isr=((11, 110), (12, 120), (13, 130)),
    recovering=False,
)


def broker(broker_id, **fields):
    known = BrokerRegistration(broker_id, broker_id * 10, b"i" * 16, f"host{broker_id}:9092", "", False, False)
    return replace(known, **fields)


BROKERS = {b: broker(b) for b in ALL}
SINCE = {11: 1, 12: 30, 13: 20}  # the versions of their records


@pytest.mark.parametrize(
    ("row", "change", "error"),
    [
        (2, {"leader_epoch": 6}, ErrorCode.NOT_CONTROLLER),
        (3, {"partition_epoch": 10}, ErrorCode.NOT_CONTROLLER),
        (4, {"leader_epoch": 4}, ErrorCode.FENCED_LEADER_EPOCH),
        (5, {"sender": 12}, ErrorCode.INVALID_REQUEST),
        (6, {"partition_epoch": 8}, ErrorCode.INVALID_UPDATE_VERSION),
        (7, {"isr": ((11, 110), (12, 120), (12, 120))}, ErrorCode.INVALID_REQUEST),
        (7, {"isr": ((11, 110), (14, 140))}, ErrorCode.INVALID_REQUEST),
        (8, {"isr": ((12, 120), (13, 130))}, ErrorCode.INVALID_REQUEST),
        (8, {"isr": ()}, ErrorCode.INVALID_REQUEST),
        (9, {"recovering": True}, ErrorCode.INVALID_REQUEST),
        (10, {"recovering": True, "isr": ((11, 110),)}, ErrorCode.INVALID_REQUEST),
        (11, {"isr": ((11, 110), (12, 119))}, ErrorCode.INELIGIBLE_REPLICA),
        (11, {"isr": ((11, 110), (12, -1))}, ErrorCode.INELIGIBLE_REPLICA),
        (12, {"known": 19}, ErrorCode.INELIGIBLE_REPLICA),
        ("accepted: the sender knew of the replica that it adds", {"known": 20}, ErrorCode.NONE),
        ("accepted: nothing is added", {"known": 19, "isr": ((11, 110), (12, 120))}, ErrorCode.NONE),
        ("accepted", {}, ErrorCode.NONE),
    ],
)
def test_each_row_of_6_4_gives_its_error(row, change, error):
    assert refusal(STATE, replace(GOOD, **change), BROKERS, SINCE) is error, f"row {row}"


@pytest.mark.parametrize(
    "other",
    [None, broker(13, fenced=True), broker(13, in_controlled_shutdown=True), broker(13, broker_epoch=131)],
    ids=["unregistered", "fenced", "in controlled shutdown", "another incarnation"],
)
def test_row_11_refuses_a_member_that_is(other):
    brokers = {**BROKERS, 13: other} if other else {11: BROKERS[11], 12: BROKERS[12]}
    assert refusal(STATE, GOOD, brokers, SINCE) is ErrorCode.INELIGIBLE_REPLICA


def test_the_first_row_that_matches_wins_so_a_stale_sender_never_reaches_the_membership_rows():
    """ISR-13."""
    bad_members = ((12, 1), (99, 1))
    for change, error in [
        ({"leader_epoch": 6, "partition_epoch": 10}, ErrorCode.NOT_CONTROLLER),
        ({"leader_epoch": 4, "partition_epoch": 10}, ErrorCode.NOT_CONTROLLER),  # row 3 before row 4
        ({"leader_epoch": 4, "partition_epoch": 8, "sender": 12}, ErrorCode.FENCED_LEADER_EPOCH),
        ({"sender": 12, "partition_epoch": 8}, ErrorCode.INVALID_REQUEST),
        ({"partition_epoch": 8}, ErrorCode.INVALID_UPDATE_VERSION),
    ]:
        assert refusal(STATE, replace(GOOD, isr=bad_members, **change), BROKERS, SINCE) is error, change


def test_an_accepted_change_raises_the_partition_epoch_and_not_the_leader_epoch():
    after = accept(STATE, GOOD, Situation(frozenset(ALL), 2))
    assert after == replace(STATE, isr=ALL, partition_epoch=10)


def test_isr_11_a_proposal_that_says_nothing_new_writes_nothing():
    """ISR-11."""
    same = replace(GOOD, isr=((12, 120), (11, 110)))
    assert accept(STATE, same, Situation(frozenset(ALL), 2)) is STATE


def test_st_15_the_leader_reports_recovered_with_its_next_change():
    """ST-15."""
    recovering = PartitionState(ALL, (11,), 11, 5, 9, recovering=True)
    still = replace(GOOD, isr=((11, 110), (12, 120)), recovering=True)
    assert refusal(recovering, still, BROKERS, SINCE) is ErrorCode.INVALID_REQUEST
    done = replace(still, recovering=False)
    assert refusal(recovering, done, BROKERS, SINCE) is ErrorCode.NONE
    after = accept(recovering, done, Situation(frozenset(ALL), 2))
    assert (after.isr, after.recovering) == ((11, 12), False)


# The whole call, against a cluster


def test_row_1_unknown_topic_partition_and_topic_id(three):
    results = three.alter(
        11, three.item([11], topic="nope"), three.item([11], partition=7), three.item([11], topic_id=b"x" * 16)
    )
    unknown = Verdict(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    assert results == [unknown, unknown, Verdict(ErrorCode.UNKNOWN_TOPIC_ID)]


@pytest.mark.parametrize("sender", [11, 99])
def test_a_sender_with_another_broker_epoch_is_refused_as_a_whole(three, sender, refused):
    before = three.image.version
    with refused(ErrorCode.STALE_BROKER_EPOCH, f"broker {sender}"):
        three.alter(sender, three.item([11]), epoch=1)
    assert three.image.version == before


def test_every_partition_is_judged_by_itself_and_the_answer_carries_the_new_state(three):
    three.assigned("u", [12, 13, 11], [11, 12, 13])
    results = three.alter(
        11,
        three.item([11, 12]),
        three.item([11, 13], topic="u", partition=0),
        three.item([11], topic="u", partition=1, partition_epoch=3),
    )
    assert [verdict.error.name for verdict in results] == ["NONE", "INVALID_REQUEST", "NOT_CONTROLLER"]
    answered = results[0].state
    assert (answered.isr, answered.partition_epoch, answered.leader) == ((11, 12), 1, 11)
    assert three.partition() == answered
    assert three.partition("u", 1).isr == ALL


def test_two_proposals_for_one_partition_in_one_request_are_taken_in_turn(three):
    item = three.item([11, 12])
    results = three.alter(11, item, item)
    assert [verdict.error for verdict in results] == [ErrorCode.NONE, ErrorCode.INVALID_UPDATE_VERSION]
    assert three.partition().partition_epoch == 1


def test_isr_21_a_late_copy_adds_nobody_who_was_fenced_when_the_second_copy_came(three):
    """ISR-21: the leader has heard of the refusal, and may have committed without that replica since."""
    three.alter(11, three.item([11, 12]))
    first = three.item(ALL, known=three.image.version)
    three.expire(13)
    refused = [Verdict(ErrorCode.INELIGIBLE_REPLICA)]
    assert three.alter(11, replace(first, known=three.image.version)) == refused
    assert not three.heartbeat(13).is_fenced
    assert three.alter(11, first) == refused
    (again,) = three.alter(11, replace(first, known=three.image.version))
    assert again.error is ErrorCode.NONE, "the leader knows that it is back, and asks again"


def test_a_topics_own_minimum_decides_who_becomes_eligible(three):
    three.assigned("strict", [11, 12, 13], configs={"min.insync.replicas": "3"})
    three.assigned("loose", [11, 12, 13], configs={"min.insync.replicas": "1"})
    three.alter(11, three.item([11, 12], topic="strict"), three.item([11], topic="loose"))
    assert three.partition("strict").elr == (13,)
    assert three.partition("loose").elr == ()
