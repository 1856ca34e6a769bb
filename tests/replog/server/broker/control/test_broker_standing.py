import pytest

from replog.server.broker.control.broker_standing import BrokerStanding, BrokerState

STARTING, RECOVERY, RUNNING, PENDING, STOPPING = BrokerState


def standing(state: BrokerState) -> BrokerStanding:
    broker = BrokerStanding(2000)
    broker.state = state
    return broker


def test_ct_2_a_broker_wants_to_be_fenced_until_it_runs_and_to_stop_once_it_is_told_to() -> None:
    """CT-2, CT-13."""
    wants = [(standing(state).want_fence, standing(state).want_shutdown) for state in BrokerState]
    assert wants == [(True, False), (True, False), (False, False), (False, True), (False, False)]


@pytest.mark.parametrize(
    ("state", "is_fenced", "is_caught_up", "due_ms"),
    [
        (RUNNING, False, True, 2000),
        (RUNNING, True, True, 10),
        (RUNNING, True, False, 2000),
        (RECOVERY, True, True, 2000),
        (STARTING, True, True, 2000),
        (PENDING, False, True, 50),
        (PENDING, True, True, 50),
        (STOPPING, True, True, 2000),
    ],
)
def test_ct_3_the_next_heartbeat_is_due_early_where_its_answer_lets_the_broker_go_on(
    state: BrokerState, is_fenced: bool, is_caught_up: bool, due_ms: int
) -> None:
    """CT-3."""
    broker = standing(state)
    assert broker.on_answer(is_fenced=is_fenced, is_caught_up=is_caught_up) == due_ms
    assert broker.fenced is is_fenced
