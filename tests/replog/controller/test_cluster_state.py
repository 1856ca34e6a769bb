"""Whole decisions, with sessions and time; no producer id is ever given twice; what an audit reports."""

from dataclasses import replace

import pytest

from replog.controller.cluster_state import BLOCK_SIZE, MAX_PRODUCER_ID, ClusterState
from replog.errors import ErrorCode
from replog.metadata.changes import Change
from replog.metadata.values import MAX_DIVERGED, StandingAudit
from replog.topic import TopicPartition


def test_ct_3_a_heartbeat_of_an_unknown_broker_or_an_old_epoch_is_stale(three, refused):
    with refused(ErrorCode.STALE_BROKER_EPOCH, "broker 99 is not registered"):
        three.heartbeat(99, epoch=1)
    epoch = three.image.brokers[11].broker_epoch
    with refused(ErrorCode.STALE_BROKER_EPOCH, f"not by this one under epoch {epoch - 1}"):
        three.heartbeat(11, epoch=epoch - 1)


@pytest.mark.parametrize("incarnation", [b"x" * 16, b"x"], ids=["another", "short"])
@pytest.mark.parametrize("asked", ["heartbeat", "want_fence", "want_shutdown", "alter", "resign", "producer ids"])
def test_ct_3_who_knows_id_and_epoch_of_a_broker_but_not_its_incarnation_changes_nothing(
    three, refused, asked, incarnation
):
    """CT-3: and is not told what is registered."""
    before = three.image.version, three.state.sessions.left_ms(11, three.now_ms)
    three.now_ms += 1
    with refused(ErrorCode.STALE_BROKER_EPOCH, "broker 11", "it must register") as caught:
        match asked:
            case "alter":
                three.alter(11, three.item([11]), incarnation=incarnation)
            case "resign":
                three.state.candidates(three.claim(11, None, incarnation), [three.item([12, 13])])
            case "producer ids":
                three.do(three.state.allocate_producer_ids(three.claim(11, None, incarnation)))
            case _:
                three.heartbeat(
                    11, incarnation=incarnation, fence=asked == "want_fence", shutdown=asked == "want_shutdown"
                )
    assert three.image.brokers[11].incarnation_id.hex() not in str(caught.value)
    assert (three.image.version, three.state.sessions.left_ms(11, three.now_ms) + 1) == before


def test_a_stale_heartbeat_does_not_keep_the_session_alive(three, refused):
    three.now_ms += 5000
    with refused(ErrorCode.STALE_BROKER_EPOCH):
        three.heartbeat(11, epoch=1)
    three.now_ms += 3999
    for broker_id in (12, 13):
        three.heartbeat(broker_id)
    three.now_ms += 1
    assert three.do(three.state.fence_next_expired(three.now_ms)) == 11


@pytest.mark.parametrize(("version", "code"), [(-1, "INVALID_REQUEST"), (10**6, "NOT_CONTROLLER")])
def test_a_heartbeat_with_an_impossible_metadata_version_is_refused(three, refused, version, code):
    with refused(ErrorCode[code], str(version)):
        three.heartbeat(11, version=version)


def test_ct_6_kafka_13173_brokers_that_expire_together_are_fenced_one_by_one_in_expiry_order(three):
    three.now_ms += 10
    three.heartbeat(11)
    three.now_ms += 10
    three.heartbeat(13)
    before = three.image.version
    assert three.expire(11, 12, 13) == [12, 11, 13]
    states = [change.value for change in three.history if change.version > before and change.kind == "partition"]
    assert [(s.isr, s.leader, s.elr) for s in states] == [((11, 13), 11, ()), ((13,), 13, (11,)), ((), -1, (11, 13))]
    assert three.partition().last_known_leader == 13


def test_ct_6_a_new_active_controller_grants_fresh_sessions(three):
    successor = ClusterState(three.config, None)
    now_ms = 5  # another machine, another clock
    successor.load(three.history, now_ms)
    assert successor.image.version == three.image.version
    assert successor.image.partitions == three.image.partitions
    assert successor.fence_next_expired(now_ms + 8999).answer is None
    assert successor.fence_next_expired(now_ms + 9000).answer == 11


def test_a_new_active_controller_makes_no_stopped_broker_wait(three):
    three.heartbeat(13, shutdown=True)
    three.expire(12)
    three.state = ClusterState(three.config, None)
    three.state.load(three.history, three.now_ms)
    three.register(12, previous=-1)
    three.register(13)


def test_who_takes_long_to_stop_keeps_its_session(three):
    """It still leads, or the others have not heard yet; each heartbeat is a sign of life."""
    for _ in range(3):
        three.now_ms += three.state.sessions.timeout_ms // 2
        for broker_id in (12, 13):
            three.heartbeat(broker_id, version=0)
        assert not three.heartbeat(11, shutdown=True).should_shutdown
        assert three.do(three.state.fence_next_expired(three.now_ms)) is None


def test_a_deletion_is_kept_until_all_that_serve_have_applied_it(three):
    """Also one that is stopping, and one that has started again and begins from nothing."""
    three.do(three.state.delete_topic("t"))
    three.assigned("u", [11, 12, 13])
    deleted = three.image.version
    three.heartbeat(11, shutdown=True, version=0)
    for broker_id in (12, 13):
        three.heartbeat(broker_id, version=deleted)
    assert three.state.collect_tombstones().answer == 0
    three.heartbeat(11, version=deleted)
    three.heartbeat(12, version=0)
    assert three.state.collect_tombstones().answer == 0
    three.heartbeat(12, version=deleted)
    assert three.state.collect_tombstones().answer == 1


def test_a_controlled_shutdown_outlives_the_controller(three):
    three.heartbeat(11, shutdown=True)
    three.state = ClusterState(three.config, None)
    three.state.load(three.history, three.now_ms)
    assert not three.heartbeat(11, shutdown=True).should_shutdown, "12 and 13 have not been heard yet"
    three.heartbeat(12)
    three.heartbeat(13)
    assert three.heartbeat(11, shutdown=True).should_shutdown


def test_a_decision_changes_no_metadata_before_it_is_applied(three):
    version, partitions = three.image.version, dict(three.image.partitions)
    decision = three.state.fence_next_expired(three.now_ms + 9000)
    assert decision.changes
    assert (three.image.version, three.image.partitions) == (version, partitions)
    assert not three.image.brokers[11].fenced


def allocate(cluster, broker_id, epoch=None):
    if epoch is None:
        epoch = cluster.image.brokers[broker_id].broker_epoch
    first = cluster.do(cluster.state.allocate_producer_ids(cluster.claim(broker_id, epoch)))
    return range(first, first + BLOCK_SIZE)


def test_every_block_begins_where_the_last_one_ended_whoever_asks(three):
    assert [allocate(three, broker) for broker in (11, 12, 11, 13)] == [
        range(first, first + 1000) for first in (0, 1000, 2000, 3000)
    ]


def test_what_was_given_away_is_in_the_records_and_outlives_the_controller(three, make_cluster):
    given = allocate(three, 11)
    candidate = make_cluster()
    candidate.state.load(three.history, 0)
    assert candidate.image.next_producer_id == given.stop
    assert allocate(candidate, 12).start == given.stop


def test_unknown_and_replaced_brokers_get_none_ct_3(three, refused):
    with refused(ErrorCode.STALE_BROKER_EPOCH, "broker 99 is not registered"):
        allocate(three, 99, epoch=1)
    epoch = three.image.brokers[11].broker_epoch
    with refused(ErrorCode.STALE_BROKER_EPOCH, f"not by this one under epoch {epoch - 1}"):
        allocate(three, 11, epoch=epoch - 1)


def test_a_fenced_broker_gets_none_until_it_is_back(three, refused):
    three.expire(11)
    with refused(ErrorCode.BROKER_NOT_AVAILABLE, "broker 11 is fenced"):
        allocate(three, 11)
    three.heartbeat(11)
    assert len(allocate(three, 11)) == BLOCK_SIZE


@pytest.mark.parametrize("left", [BLOCK_SIZE - 1, 1, 0])
def test_ids_end_before_they_would_overflow(three, refused, left):
    three.apply([Change("producer_ids", None, MAX_PRODUCER_ID - BLOCK_SIZE)])
    assert allocate(three, 11)[-1] == MAX_PRODUCER_ID - 1
    three.apply([Change("producer_ids", None, MAX_PRODUCER_ID - left)])
    with refused(ErrorCode.UNKNOWN_SERVER_ERROR, "every producer id"):
        allocate(three, 11)


EQUAL = StandingAudit("CONSISTENT", "deep", 5000, ((TopicPartition("t", 0), 70),), 1, (), 0)
NOW_MS = 10_000
DIVERGED = replace(EQUAL, verdict="DIVERGED", at_ms=6000, diverged=("t-0",), diverged_partitions=1)


def test_the_last_report_counts_and_when_replicas_were_last_equal_is_kept(cluster):
    assert cluster.image.audit is None
    cluster.do(cluster.state.report_audit(DIVERGED, NOW_MS))
    assert cluster.image.audit == DIVERGED, "never equal so far"
    cluster.do(cluster.state.report_audit(EQUAL, NOW_MS))
    assert cluster.image.audit == replace(EQUAL, consistent_at_ms=5000)
    cluster.do(cluster.state.report_audit(DIVERGED, NOW_MS))
    assert cluster.image.audit == replace(DIVERGED, consistent_at_ms=5000)
    cluster.do(cluster.state.report_audit(replace(EQUAL, at_ms=NOW_MS + 1), NOW_MS))
    assert cluster.image.audit == replace(EQUAL, at_ms=NOW_MS, consistent_at_ms=NOW_MS), "its age is not negative"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"verdict": "FINE"}, "verdict 'FINE' is none of CONSISTENT, DIVERGED"),
        ({"at_ms": 0}, "0 ms after 1970"),
        ({"at_ms": 1_700_000_000_000_000}, "1700000000000000 ms after 1970"),
        ({"partitions": -1}, "negative"),
        ({"verified": ((TopicPartition("t", 0), -7),)}, "negative"),
        ({"diverged": ("t-0",) * (MAX_DIVERGED + 1)}, f"{MAX_DIVERGED + 1} diverged partitions"),
        ({"level": "\n"}, "printable"),
        ({"diverged": ("t" * 301,)}, "300 printable"),
    ],
    ids=lambda value: "" if isinstance(value, str) else next(iter(value)),
)
def test_a_report_that_makes_no_sense_is_refused(cluster, refused, change, words):
    with refused(ErrorCode.INVALID_REQUEST, "the report of an audit is refused", words):
        cluster.state.report_audit(replace(EQUAL, **change), NOW_MS)
