"""When a leader hears nobody (divergence 29), and who is silent while the controller is not (divergence 32)."""

from leader.failure_detector import CONTROLLER_HEARD_MS, LISTENING_MS, SIGNS_OF_LIFE_MS, FailureDetector
from leader.failure_detector import LATE_MS as LATE_LOOK_MS

SESSION_MS = 9000
LATE_MS = SESSION_MS + 1


def failure_detector() -> FailureDetector:
    """Of a broker that hears the controller at 0."""
    failure_detector = FailureDetector(0)
    failure_detector.session_ms = SESSION_MS
    return failure_detector


def test_nobody_is_heard_once_controller_and_every_follower_are_silent_for_a_session():
    heard = failure_detector()
    heard.heard(2, 100)
    heard.heard(3, 50)
    assert not heard.nobody((2, 3), LATE_MS)
    assert not heard.nobody((2, 3), 100 + SESSION_MS)
    assert heard.nobody((2, 3), 100 + LATE_MS)
    assert heard.nobody((3, 4), LATE_MS + 50), "a broker that was never heard is silent"


def test_the_controller_alone_is_company():
    heard = failure_detector()
    heard.controller_ms = 50
    assert not heard.nobody((2, 3), LATE_MS)


def test_whoever_has_no_followers_is_the_only_one_that_can_lead():
    assert not failure_detector().nobody((), 1 << 40)


def test_a_session_shorter_than_the_controllers_silence_between_two_signs_of_life_does_not_count():
    heard = failure_detector()
    heard.session_ms = 200
    assert not heard.nobody((2,), SIGNS_OF_LIFE_MS)
    assert heard.nobody((2,), SIGNS_OF_LIFE_MS + 1)


def test_silent_is_who_was_not_heard_for_so_long_or_never():
    heard = failure_detector()
    heard.heard(2, 100)
    heard.heard(3, 600)
    heard.controller_ms = 2600
    assert heard.silent({2, 3, 4}, 2000, 2600) == {2, 3, 4}
    assert heard.silent({2, 3, 4}, 2000, 2599) == {2, 4}


def test_while_the_controller_is_silent_nobody_is_said_to_be():
    assert failure_detector().silent({2}, 1000, CONTROLLER_HEARD_MS - 1) == {2}
    assert failure_detector().silent({2}, 1000, CONTROLLER_HEARD_MS) == set()


def test_who_was_slow_itself_says_of_nobody_that_it_is_silent_until_it_has_listened_anew():
    heard = failure_detector()
    for now_ms in range(0, 2001, LISTENING_MS):
        heard.look(now_ms)
    heard.controller_ms = 6000
    assert heard.silent({2}, 2000, 2000) == {2}
    late_ms = 2000 + LATE_LOOK_MS + 1
    heard.look(late_ms)
    assert heard.silent({2}, 2000, late_ms + 1999) == set()
    assert heard.silent({2}, 2000, late_ms + 2000) == {2}
