"""How much a reader behind a slow line asks for."""

from replog.common.backoff import FetchSize


def test_an_answer_that_does_not_get_through_is_asked_for_by_halves():
    size = FetchSize(1000)
    size.timed_out(5000)
    size.timed_out(5000)
    assert size.bytes == 250
    size.timed_out(100)
    assert size.bytes == 50, "it had no more than 100"
    for _ in range(20):
        size.timed_out(5000)
    assert size.bytes == 1, "one whole batch comes then"


def test_it_grows_again_while_answers_come_easily_and_never_beyond_what_was_configured():
    size = FetchSize(1000)
    size.timed_out(500)
    size.answered(250, elapsed=20.0, allowed=30.0)
    assert size.bytes == 250, "twice as much would not come in time"
    size.answered(100, elapsed=1.0, allowed=30.0)
    assert size.bytes == 250, "a small answer says little of a large one"
    size.answered(250, elapsed=5.0, allowed=30.0)
    assert size.bytes == 500
    assert size.is_reduced
    size.answered(250, elapsed=5.0, allowed=30.0)
    size.answered(1000, elapsed=5.0, allowed=30.0)
    assert size.bytes == 1000
    assert not size.is_reduced
