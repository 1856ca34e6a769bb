from itertools import product

import pytest

from replog.controller.broker_events import OfflineReplica
from replog.controller.broker_lifecycle import BrokerControlState, BrokerSessions, control_state, next_state
from replog.metadata.values import BrokerRegistration
from replog.topic import TopicPartition

FENCED, UNFENCED, CONTROLLED_SHUTDOWN, SHUTDOWN_NOW = BrokerControlState


# In each state the first row whose wishes and facts are all so; what a row does not name may be either.
CT_5 = [
    (FENCED, {"want_shutdown": True}, SHUTDOWN_NOW),  # row 1
    (FENCED, {"want_fence": True}, FENCED),  # row 2
    (FENCED, {"caught_up": False}, FENCED),
    (FENCED, {}, UNFENCED),  # row 3
    (UNFENCED, {"want_fence": True, "want_shutdown": True}, SHUTDOWN_NOW),  # row 4
    (UNFENCED, {"want_fence": True}, FENCED),
    (UNFENCED, {"want_shutdown": True, "leads": True}, CONTROLLED_SHUTDOWN),  # row 5
    (UNFENCED, {"want_shutdown": True}, SHUTDOWN_NOW),
    (UNFENCED, {}, UNFENCED),
    (CONTROLLED_SHUTDOWN, {"leads": False, "shutdown_seen": True}, SHUTDOWN_NOW),  # row 6
    (CONTROLLED_SHUTDOWN, {}, CONTROLLED_SHUTDOWN),
]


@pytest.mark.parametrize("values", [*product((False, True), repeat=5)])
@pytest.mark.parametrize("current", [FENCED, UNFENCED, CONTROLLED_SHUTDOWN])
def test_ct_5_what_becomes_of_a_broker(current, values):
    given = dict(zip(("want_fence", "want_shutdown", "caught_up", "leads", "shutdown_seen"), values, strict=True))
    expected = next(then for state, named, then in CT_5 if state is current and named.items() <= given.items())
    assert next_state(current, **given) is expected


def test_the_stored_record_tells_the_state():
    def stored(fenced, shutting_down):
        return control_state(BrokerRegistration(1, 1, b"i" * 16, "h:1", "", fenced, shutting_down))

    assert stored(True, False) is FENCED
    assert stored(True, True) is FENCED
    assert stored(False, False) is UNFENCED
    assert stored(False, True) is CONTROLLED_SHUTDOWN


def test_a_session_lasts_its_timeout_from_the_last_contact():
    sessions = BrokerSessions(9000)
    assert sessions.left_ms(1, 0) == 0
    sessions.touch(1, 1000)
    assert [sessions.left_ms(1, now) for now in (1000, 9999, 10_000, 20_000)] == [9000, 1, 0, 0]
    sessions.touch(1, 9999)
    assert sessions.left_ms(1, 10_000) == 8999
    sessions.end(1)
    assert sessions.left_ms(1, 10_000) == 0


def test_ct_6_expiry_order_is_by_time_and_whoever_has_no_session_comes_first():
    sessions = BrokerSessions(9000)
    for broker_id, now_ms in ((1, 300), (2, 100), (3, 200)):
        sessions.touch(broker_id, now_ms)
    assert sessions.in_expiry_order([1, 2, 3, 4]) == [4, 2, 3, 1]


def test_time_in_which_the_controller_did_not_run_is_held_against_nobody():
    sessions = BrokerSessions(9000)
    assert sessions.note_running(0) == 0, "it has just begun"
    sessions.touch(1, 0)
    assert [sessions.note_running(now_ms) for now_ms in (900, 2700)] == [0, 0], "two checks late is the machine's way"
    assert sessions.left_ms(1, 2700) == 6300
    assert sessions.note_running(62_700) == 58_200
    assert sessions.left_ms(1, 62_700) == 4500


def test_a_shutdown_is_seen_once_every_active_broker_has_applied_its_start():
    sessions = BrokerSessions(9000)
    sessions.touch(1, 0, 50)
    assert not sessions.shutdown_seen(1, frozenset()), "no shutdown has begun"
    sessions.note_shutdown(1, 40)
    sessions.touch(2, 0, 40)
    sessions.touch(3, 0, 39)
    assert not sessions.shutdown_seen(1, frozenset({2, 3}))
    assert not sessions.shutdown_seen(1, frozenset({2, 4})), "4 was never heard"
    assert sessions.shutdown_seen(1, frozenset({2}))
    assert sessions.shutdown_seen(1, frozenset()), "nobody else is left"


T = TopicPartition("t", 0)


def offline(cluster, broker_id, is_gone, topic_id=None):
    """The broker says that its replica of t-0 is on a failed disk, where nothing of it may be left (`is_gone`)."""
    topic_id = topic_id or cluster.image.topics["t"].topic_id
    cluster.heartbeat(broker_id, offline=[OfflineReplica(T, topic_id, is_gone)])
    state = cluster.partition()
    return state.leader, state.isr, state.elr


@pytest.mark.parametrize("is_gone", [False, True])
def test_ct_27_a_replica_on_a_failed_disk_leads_no_more_and_is_in_no_list(three, is_gone):
    assert offline(three, 13, is_gone) == (11, (11, 12), ())
    assert offline(three, 11, is_gone) == (12, (12,), ()), "it was the leader, and is not even eligible"
    assert offline(three, 12, is_gone) == (-1, (), ()), "what is left of these records may be damaged"


@pytest.mark.parametrize("is_gone", [False, True])
def test_ct_27_an_eligible_replica_on_a_failed_disk_is_eligible_no_more(three, is_gone):
    three.expire(13)
    three.expire(12)
    assert three.partition().elr == (12,)
    three.come_back(12, clean=True)
    assert offline(three, 12, is_gone) == (11, (11,), ())
    three.expire(11)
    assert (three.partition().leader, three.partition().elr) == (-1, (11,)), "12 does not lead"


@pytest.mark.parametrize("is_gone", [False, True])
def test_ct_27_a_replica_of_an_earlier_topic_of_the_name_takes_nothing_from_this_one(three, is_gone):
    before = three.partition()
    offline(three, 11, is_gone, topic_id=b"another topic id")
    assert three.partition() is before
