"""Clients that speak Kafka's protocol, in whole clusters under faults, held to what the others are held to."""

from collections import Counter

import pytest

from replog.simulator.history import Outcome, Poll
from replog.simulator.profiles import PROFILES
from replog.simulator.simulation import Simulation
from tests.replog.simulator.catch import catch, evidence
from tests.replog.simulator.variants import VARIANTS


@pytest.mark.parametrize("seed", [2, 3])
def test_they_write_and_read_while_everything_fails(tmp_path, seed):
    """One of the two loses requests for longer than it waits for them, so some of its records have no known outcome."""
    simulation = Simulation(seed, PROFILES["kafka"], tmp_path)
    assert simulation.run().text == ""
    history = simulation.cluster.history
    sent = Counter(send.outcome for send in history.sends if send.client.startswith("producer-k"))
    read = sum(
        len(poll.records) for poll in history.reads if isinstance(poll, Poll) and poll.client.startswith("consumer-k")
    )
    assert sent[Outcome.OK] > 100
    assert sent[Outcome.UNKNOWN] > 0
    assert read > 500


@pytest.mark.processes
def test_a_broker_that_acknowledges_too_soon_is_caught():
    caught, tried = catch(VARIANTS["kafka-acks-of-one"], 10)
    assert caught is not None, f"none of {tried} seeds"
    print(evidence(caught))
