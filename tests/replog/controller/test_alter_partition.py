"""The rows of AlterPartition, resignations, and what is kept of the past of partitions, and how much."""

import contextlib
from dataclasses import replace

import pytest

from replog.controller import partition_history
from replog.controller.alter_partition import INTERVAL_MS, Proposal, Resignations, Verdict, refusal
from replog.controller.elections import Situation, change_isr
from replog.controller.partition_history import OF_EACH, PartitionChange, PartitionHistory
from replog.errors import ErrorCode
from replog.metadata.values import BrokerRegistration, PartitionState
from replog.rpc import methods
from replog.rpc.transports import H2Transport
from replog.server.broker.identity import Identity, PresenceService
from replog.server.controller import active_controller, inquiries
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
    after = change_isr(STATE, GOOD.members, Situation(frozenset(ALL), 2), recovering=GOOD.recovering)
    assert after == replace(STATE, isr=ALL, partition_epoch=10)


def test_isr_11_a_proposal_that_says_nothing_new_writes_nothing():
    """ISR-11."""
    same = replace(GOOD, isr=((12, 120), (11, 110)))
    assert change_isr(STATE, same.members, Situation(frozenset(ALL), 2), recovering=same.recovering) is STATE


def test_st_15_the_leader_reports_recovered_with_its_next_change():
    recovering = PartitionState(ALL, (11,), 11, 5, 9, recovering=True)
    still = replace(GOOD, isr=((11, 110), (12, 120)), recovering=True)
    assert refusal(recovering, still, BROKERS, SINCE) is ErrorCode.INVALID_REQUEST
    done = replace(still, recovering=False)
    assert refusal(recovering, done, BROKERS, SINCE) is ErrorCode.NONE
    after = change_isr(recovering, done.members, Situation(frozenset(ALL), 2), recovering=done.recovering)
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


TP = TopicPartition("t", 0)
EVERYBODY = frozenset({11, 12, 13, 14})


def state(isr, elr=(), replicas=(11, 12, 13)):
    return PartitionState(replicas, isr, 11, leader_epoch=5, partition_epoch=9, elr=elr)


def resign(before, *, minimum=2, active=EVERYBODY, present=EVERYBODY, resignations=None, now_ms=0):
    return (resignations or Resignations()).resign(TP, before, Situation(active, minimum), present, now_ms)


@pytest.mark.parametrize(
    ("before", "changes"),
    [
        (state((11, 12)), {"minimum": 1}),
        (state((11, 12), replicas=(11, 12)), {"minimum": 1}),
        (state((11,), replicas=(11,)), {"minimum": 1}),
        (state((11, 12, 13)), {"minimum": 3}),
        (state((11, 12, 13)), {"minimum": 7}),
        (state((11, 12, 13)), {"present": frozenset({12})}),
        (state((11, 12, 13)), {"active": EVERYBODY - {13}}),
        (state((11, 12), elr=(13, 14), replicas=(11, 12, 13, 14)), {"minimum": 3}),
    ],
    ids=["two in sync", "two replicas", "one", "minimum", "minimum above replicas", "absent", "fenced", "isr first"],
)
def test_ct_22_too_few_could_go_on(before, changes):
    """CT-22: with one of two nothing is gained, and what was acknowledged with acks=1 would be lost. Who had to stay
    may go as soon as enough are there."""
    resignations = Resignations()
    assert resign(before, resignations=resignations, **changes) is ErrorCode.NOT_ENOUGH_REPLICAS
    assert not isinstance(resign(state((11, 12, 13)), resignations=resignations), ErrorCode)


def test_ct_22_once_within_the_interval_and_then_nothing_is_remembered():
    resignations = Resignations()
    assert not isinstance(resign(state((11, 12, 13)), resignations=resignations), ErrorCode)
    again = {"resignations": resignations, "now_ms": INTERVAL_MS - 1}
    assert resign(state((11, 12, 13)), **again) is ErrorCode.THROTTLING_QUOTA_EXCEEDED
    assert not isinstance(resign(state((11, 12, 13)), **again | {"now_ms": INTERVAL_MS}), ErrorCode)
    assert not resignations.has_just(TP, 2 * INTERVAL_MS)
    assert not resignations._granted_ms


# The whole call, against a cluster


def test_ct_22_a_leader_takes_nobody_along_when_it_leaves(three):
    """CT-22, row 8 of §6.4."""
    assert three.alter(11, three.item([12]), present=(12, 13))[0].error is ErrorCode.INVALID_REQUEST
    assert three.alter(11, three.item([]), present=(12, 13))[0].error is ErrorCode.INVALID_REQUEST
    assert three.partition().leader == 11


def test_ct_23_it_leaves_the_in_sync_sets_that_those_lead_whom_it_does_not_hear(make_cluster):
    """CT-23: they would wait for it as long as a follower may lag; where no two would be left they do."""
    five = make_cluster().start(11, 12, 13, 14, 15)
    five.assigned("t", [11, 12, 13])
    five.assigned("u", [12, 11, 13], [14, 11, 13], [12, 13, 14], [11, 14, 15])
    five.assigned("v", [12, 11])
    five.assigned("w", [12, 11, 13], configs={"min.insync.replicas": "3"})
    others = [("u", 1), ("u", 2), ("u", 3), ("v", 0), ("w", 0)]
    before = [five.partition(*other) for other in others]
    five.alter(11, five.item([12, 13]), present=(12, 13))
    changed = five.partition("u", 0)
    assert (changed.isr, changed.leader, changed.leader_epoch, changed.partition_epoch) == ((12, 13), 12, 0, 1)
    assert [five.partition(*other) for other in others] == before


def test_ct_23_one_that_is_not_relieved_stays_where_it_follows(three):
    three.assigned("u", [12, 11, 13])
    three.alter(11, three.item([12, 13]), present=(12,))
    assert three.partition("u").isr == (12, 11, 13)


@pytest.mark.parametrize("alive", [(2, 3), (2,)])
async def test_ct_22_those_who_would_lead_are_asked_on_real_connections(running, alive, monkeypatch):
    """CT-22: their sessions last for ten minutes. On a busy machine an answer may take longer than a second."""
    monkeypatch.setattr(inquiries, "PRESENT_S", 60.0)
    monkeypatch.setattr(active_controller, "COME_AFTER_S", 600.0)  # they have no streams, and the controller would ask
    async with running(broker_session_timeout_ms=600_000) as r, contextlib.AsyncExitStack() as servers:
        for broker_id in (1, 2, 3):
            incarnation = bytes([broker_id]) * 16
            server = H2Transport().listen("127.0.0.1:0")
            server.add(methods.PRESENCE, PresenceService(Identity(broker_id, incarnation)))
            address = await server.start()
            if broker_id in alive:
                servers.push_async_callback(server.stop, 0)
            else:
                await server.stop(0)
            await r.register(broker_id, incarnation, address)
            await r.heartbeat(broker_id)
        await r.assigned("t", [1, 2, 3])
        expected = (ErrorCode.NEW_LEADER_ELECTED, 2) if 3 in alive else (ErrorCode.NOT_ENOUGH_REPLICAS, 1)
        assert (await r.propose([2, 3]), r.partition().leader) == expected


A, B = TopicPartition("a", 0), TopicPartition("b", 0)
KEPT = PartitionState(replicas=(1, 2), isr=(1, 2), leader=1, leader_epoch=0, partition_epoch=0)


def change(version: int, tp: TopicPartition = A) -> PartitionChange:
    return PartitionChange(version, version * 1000, tp, "asked for", KEPT, KEPT)


def versions(history: PartitionHistory, after: int = 0, limit: int = 1000) -> list[int]:
    return [change.version for change in history.after(after, limit)]


def test_the_last_changes_of_each_partition_are_kept():
    history = PartitionHistory()
    history.add(change(1, B))
    for version in range(2, 2 + OF_EACH + 5):
        history.add(change(version))
    assert versions(history) == [1, *range(7, 7 + OF_EACH)], "one that flaps does not push out the others"


def test_of_all_partitions_the_newest_are_kept(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(partition_history, "OF_ALL", 3)
    history = PartitionHistory()
    for version in range(1, 7):
        history.add(change(version, TopicPartition("t", version)))
    assert versions(history) == [4, 5, 6]
    history.add(change(7, TopicPartition("t", 1)))
    assert versions(history) == [5, 6, 7]


def test_changes_are_read_on_from_a_version_some_at_a_time():
    history = PartitionHistory()
    for version in (3, 5, 8, 9):
        history.add(change(version))
    assert versions(history, limit=2) == [3, 5]
    assert versions(history, after=5, limit=2) == [8, 9]
    assert versions(history, after=6) == [8, 9]
    assert versions(history, after=9) == []


def test_what_is_deleted_is_forgotten():
    history = PartitionHistory()
    for version in range(1, 5):
        history.add(change(version, (A, B)[version % 2]))
    history.forget([A, TopicPartition("never changed", 0)])
    assert versions(history) == [1, 3]
    history.forget([B])
    assert versions(history) == []
