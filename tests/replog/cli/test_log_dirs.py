"""Moving replicas between log directories, and looking at those, by command."""

import asyncio
import json
import shlex
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from tests.replog.processes.commands import Replog
from tests.replog.server.broker.conftest import TP, InProcessCluster, batch
from tests.replog.server.broker.conftest import cluster as running

__all__ = ["running"]

pytestmark = pytest.mark.processes

MOVE = "move --topic t --partition 0 --broker 1 --log-dir"

Partition = Callable[..., Awaitable[tuple[int, str, str]]]


@pytest.fixture
async def cluster(running: InProcessCluster, tmp_path: Path) -> InProcessCluster:
    """One broker with two directories, its topic in the first of them."""
    await running.start_broker(1, log_dirs=f"{tmp_path / 'one'},{tmp_path / 'two'}")
    await running.create_topic("t", replication_factor=1)
    for _ in range(50):
        await running.produce(TP, batch(bytes(1000)))
    return running


@pytest.fixture
def partition(replog: Replog, cluster: InProcessCluster) -> Partition:
    """Exit status, stdout and stderr of `replog partition …`, run beside the cluster in this process."""

    async def run(command: str) -> tuple[int, str, str]:
        on = ("--bootstrap-server", cluster.brokers[1].address)
        done = await asyncio.to_thread(replog, "partition", *shlex.split(command), *on)
        assert "Traceback" not in done.stderr, done.stderr
        return done.returncode, done.stdout, done.stderr

    return run


async def test_a_replica_is_moved_and_found_where_it_is(partition, cluster):
    two = cluster.directory / "two"
    moved = await partition(f"{MOVE} {two} --wait")
    assert moved == (0, "", f"t-0 is in {two} of broker 1\n")
    assert cluster.log(1, TP).directory == two / "t-0"
    status, out, _ = await partition("log-dirs --topic t --format json")
    assert status == 0
    assert json.loads(out) == [
        {
            "broker": 1,
            "log_dir": str(two),
            "topic": "t",
            "partition": 0,
            "size": cluster.log(1, TP).size,
            "offset_lag": 0,
            "is_future": False,
        }
    ]
    status, out, _ = await partition("log-dirs")
    assert status == 0
    assert [line.split()[:4] for line in out.splitlines()[2:]] == [
        ["1", str(cluster.directory / "one"), "NONE", "0"],
        ["1", str(two), "NONE", "1"],
    ]


async def test_a_replica_that_is_not_there_will_be_created_in_that_directory(partition, cluster):
    one = cluster.directory / "one"
    status, _, err = await partition(f"move --topic t --partition 7 --broker 1 --log-dir {one} --wait")
    assert (status, err) == (0, f"t-7 is not on broker 1; if it is placed there, it will be created in {one}\n")


async def test_what_cannot_be_is_refused(partition, cluster):
    for command, says in (
        (f"{MOVE} /nowhere", f"{cluster.directory / 'one'}"),
        (f"{MOVE} /nowhere", "LOG_DIR_NOT_FOUND"),
        (f"{MOVE} two", "'two' is relative"),
        ("log-dirs --broker 9", "there is no broker 9; there are 1"),
        ("log-dirs --topic t --topic tt", "topic 'tt' is not known"),
    ):
        status, out, err = await partition(command)
        assert (status > 0, out, says in err) == (True, "", True), (command, err)
