"""Elections and reassignments by command, on a real cluster."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from replog.client import SyncAdmin
from replog.local_cluster.local_cluster import LocalCluster
from tests.replog.waiting import until

pytestmark = pytest.mark.processes

PROBLEM_FOUND, BAD_USE = 1, 2


@pytest.fixture
def admin(cluster: LocalCluster) -> Iterator[SyncAdmin]:
    with SyncAdmin(cluster.bootstrap) as admin:
        yield admin


def described(admin: SyncAdmin, topic: str, number: int = 0) -> Any:
    return admin.describe_topic(topic).partitions[number]


def rows(done: Any) -> Any:
    return json.loads(done.stdout)


def test_a_partition_is_moved_and_its_leader_with_it(done, cluster, admin):
    admin.create_topic("moved", assignment=[[1, 2], [2, 1]])
    lines = "".join(f"line {n}\n" for n in range(5000))
    done("produce --topic moved", stdin=lines)
    moved = done(f"partition reassign --topic moved --partition 0 --replicas 3,2 --wait --throttle {1 << 30}")
    assert "moved-0 is on brokers 3,2" in moved.stderr
    assert [row["replicas"] for row in rows(moved)["partitions"]] == [[1, 2]], "a plan that goes back"
    after = described(admin, "moved")
    assert (after.replicas, sorted(after.isr), after.leader) == ((3, 2), [2, 3], 3)
    until(lambda: not (cluster.data_directory(1) / "moved-0").exists(), "broker 1 deletes its copy")
    assert described(admin, "moved", 1).replicas == (2, 1)
    back = done("consume --topic moved --from-beginning --max-messages 5000")
    assert sorted(back.stdout.splitlines()) == sorted(lines.splitlines())
    elected = done("partition elect --topic moved --election-type preferred --format json")
    assert [row["leader"] for row in rows(elected)] == [3, 2]
    again = done("partition elect --topic moved --partition 1 --election-type preferred --format json")
    assert rows(again) == [{"topic": "moved", "partition": 1, "leader": 2, "result": "ELECTION_NOT_NEEDED"}]


def test_a_move_is_listed_and_described_until_it_is_cancelled(ask, done, cluster, admin):
    admin.create_topic("stuck", assignment=[[1, 2]])
    cluster.pause(3)
    try:
        reassign = "partition reassign --topic stuck --partition 0"
        assert "moves to brokers 1,3" in done(f"{reassign} --replicas 1,3 --throttle 5").stderr
        listed = done("partition list-reassignments --format json")
        assert rows(listed) == [
            {"topic": "stuck", "partition": 0, "replicas": [1, 3, 2], "adding": [3], "removing": [2], "throttle": 5}
        ]
        assert "throttle" in done("topic describe --topic stuck").stdout
        assert "throttled moves: 1, such as that of stuck-0 at 5 bytes a second" in ask("cluster describe").stdout
        other = ask("partition list-reassignments --topic other")
        assert other.returncode == PROBLEM_FOUND
        assert "topic 'other' is not known" in other.stderr
        until(lambda: described(admin, "stuck").adding_replicas == (3,), lambda: described(admin, "stuck"))
        table = done("topic describe --topic stuck").stdout
        assert "adding" in table
        assert "removing" in table
        waiting = ask(f"{reassign} --replicas 1,3 --wait --timeout 0.1")
        assert waiting.returncode == PROBLEM_FOUND
        assert (
            "REQUEST_TIMED_OUT: no partition has come to its new brokers for 0.1 s; 1 still move, such as stuck-0"
            in waiting.stderr
        )
        done(f"{reassign} --cancel")
        nothing = ask(f"{reassign} --cancel")
        assert nothing.returncode == PROBLEM_FOUND
        assert "NO_REASSIGNMENT_IN_PROGRESS" in nothing.stderr
        assert rows(done("partition list-reassignments --format json")) == []
    finally:
        cluster.resume(3)
    until(lambda: sorted(described(admin, "stuck").replicas) == [1, 2], lambda: described(admin, "stuck"))


def test_an_unclean_election_is_asked_for_twice_and_says_what_it_may_cost(ask, done, cluster, admin):
    """CT-11, CT-8: broker 2 left first, and 1, which has everything, is away."""
    admin.create_topic("risky", assignment=[[1, 2, 3]], configs={"min.insync.replicas": "2"})
    unclean = "partition elect --election-type unclean --topic risky"
    assert "every partition asked for has a leader" in done(f"{unclean} --partition 0").stderr
    cluster.pause(2)
    until(lambda: 2 not in described(admin, "risky").isr, lambda: described(admin, "risky"))
    cluster.pause(1)
    cluster.pause(3)
    cluster.resume(2)
    with SyncAdmin(cluster.state.brokers[1].address) as admin_of_2:
        until(lambda: described(admin_of_2, "risky").leader == -1, lambda: described(admin_of_2, "risky"))
        refused = ask(unclean)
        assert refused.returncode == BAD_USE
        assert "risky-0 has no leader; start broker 1" in refused.stderr
        assert "add --yes" in refused.stderr
        assert described(admin_of_2, "risky").leader == -1
        assert rows(done(f"{unclean} --yes --format json")) == [
            {"topic": "risky", "partition": 0, "leader": 2, "result": "elected"}
        ]
    cluster.resume(1)
    cluster.resume(3)
    until(lambda: sorted(described(admin, "risky").isr) == [1, 2, 3], lambda: described(admin, "risky"))
    log = cluster.log_file(cluster.state.controller).read_text()
    assert "unclean leader elections: committed records may be lost" in log
