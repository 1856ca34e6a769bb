from itertools import product

import pytest

from replog.controller.broker_lifecycle import BrokerControlState, BrokerSessions, control_state, next_state
from replog.metadata.values import BrokerRegistration

FENCED, UNFENCED, CONTROLLED_SHUTDOWN, SHUTDOWN_NOW = BrokerControlState
BOTH = (False, True)


def following(current, *, fence=False, shutdown=False, caught_up=True, leads=False, seen=False):
    return next_state(
        current, want_fence=fence, want_shutdown=shutdown, caught_up=caught_up, leads=leads, shutdown_seen=seen
    )


@pytest.mark.parametrize(("fence", "caught_up", "leads", "seen"), [*product(BOTH, repeat=4)])
def test_ct_5_row_1_a_fenced_broker_that_wants_to_stop_may(fence, caught_up, leads, seen):
    """CT-5."""
    assert following(FENCED, shutdown=True, fence=fence, caught_up=caught_up, leads=leads, seen=seen) is SHUTDOWN_NOW


def test_ct_5_row_2_a_fenced_broker_stays_fenced_while_it_wants_to_or_is_behind():
    """CT-5."""
    assert following(FENCED, fence=True) is FENCED
    assert following(FENCED, caught_up=False) is FENCED
    assert following(FENCED, fence=True, caught_up=False) is FENCED


def test_ct_5_row_3_a_fenced_broker_that_is_caught_up_is_unfenced():
    """CT-5."""
    assert following(FENCED) is UNFENCED


@pytest.mark.parametrize(("caught_up", "leads", "seen"), [*product(BOTH, repeat=3)])
def test_ct_5_row_4_an_unfenced_broker_that_wants_to_be_fenced_is(caught_up, leads, seen):
    """CT-5."""
    given = {"caught_up": caught_up, "leads": leads, "seen": seen}
    assert following(UNFENCED, fence=True, **given) is FENCED
    assert following(UNFENCED, fence=True, shutdown=True, **given) is SHUTDOWN_NOW


@pytest.mark.parametrize("seen", BOTH)
def test_ct_5_row_5_an_unfenced_broker_that_wants_to_stop_first_gives_up_leadership(seen):
    """CT-5."""
    assert following(UNFENCED, shutdown=True, leads=True, seen=seen) is CONTROLLED_SHUTDOWN
    assert following(UNFENCED, shutdown=True, leads=False, seen=seen) is SHUTDOWN_NOW


def test_ct_5_an_unfenced_broker_that_wants_nothing_stays_even_when_it_falls_behind():
    """CT-5."""
    assert following(UNFENCED) is UNFENCED
    assert following(UNFENCED, caught_up=False) is UNFENCED


@pytest.mark.parametrize(("fence", "shutdown", "caught_up"), [*product(BOTH, repeat=3)])
def test_ct_5_row_6_a_controlled_shutdown_ends_when_nothing_is_led_and_every_active_broker_has_seen_it(
    fence, shutdown, caught_up
):
    """CT-5."""
    given = {"fence": fence, "shutdown": shutdown, "caught_up": caught_up}
    assert following(CONTROLLED_SHUTDOWN, leads=False, seen=True, **given) is SHUTDOWN_NOW
    for leads, seen in ((True, True), (True, False), (False, False)):
        assert following(CONTROLLED_SHUTDOWN, leads=leads, seen=seen, **given) is CONTROLLED_SHUTDOWN


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
    """CT-6."""
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
