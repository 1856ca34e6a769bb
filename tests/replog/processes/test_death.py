"""A broker that is killed is noticed when it dies and not a session later (CT-21): how long nothing is acknowledged."""

import itertools
import time

import pytest

from replog.chaos.client import ASSIGNED
from replog.local_cluster.local_cluster import LocalCluster
from replog.log.files.replacing import write_atomically
from tests.replog.processes.load import leader_of, load_on

pytestmark = pytest.mark.processes

VICTIM = 2
BOUND_S = 30.0  # the session alone would take a minute
DEFAULTS = {
    "broker.heartbeat.interval.ms": "2000",
    "replica.fetch.backoff.ms": "1000",
    "replica.lag.time.max.ms": "30000",
}
SESSION = "broker.session.timeout.ms=60000\n"


def test_after_a_sigkill_records_are_acknowledged_again_long_before_the_session_ends(tmp_path):
    controller = tmp_path / "controller"
    controller.mkdir()
    write_atomically(controller / "controller.properties", SESSION.encode())
    with LocalCluster(tmp_path, brokers=3, broker_settings=DEFAULTS) as cluster, load_on(cluster, tmp_path) as load:
        led = {partition for partition in ASSIGNED if leader_of(cluster, partition) == VICTIM}
        times = {partition: [time.monotonic()] for partition in ASSIGNED}
        killed_at = time.monotonic()
        cluster.kill(VICTIM)
        load.serves("without it")
    for send in load.notes.history.acknowledgements:
        assert send.completed_s is not None
        if send.completed_s > killed_at:
            times[send.partition].append(send.completed_s)
    gaps = {
        partition: max(later - earlier for earlier, later in itertools.pairwise(acknowledged))
        for partition, acknowledged in times.items()
    }
    assert 0 < len(led) < len(ASSIGNED)
    of_led = max(gaps[partition] for partition in led)
    of_others = max(gap for partition, gap in gaps.items() if partition not in led)
    print(f"longest gap: {of_led:.3f} s where it led, {of_others:.3f} s elsewhere")
    assert max(of_led, of_others) < BOUND_S
