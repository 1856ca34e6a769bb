"""`replog consume --client-rack`: the replica in that rack prints the records."""

import asyncio
from collections import Counter

from typer.testing import CliRunner

from cluster.cli.main import app
from tests.cluster.broker.conftest import InProcessCluster, cluster
from tests.cluster.broker.test_follower_reads import RACKS, TP, produce, racks, served

__all__ = ["cluster", "served"]


async def test_records_come_from_the_replica_in_the_rack(cluster: InProcessCluster, served: Counter[int]) -> None:
    """FE-20."""
    follower = await racks(cluster)
    size = await produce(cluster, 0, 3)
    address = cluster.brokers[cluster.leader(TP)].address
    command = ["consume", "--bootstrap-server", address, "--topic", "t", "--from-beginning", "--max-messages", "3"]
    command += ["--timeout-ms", "5000", "--client-rack", RACKS[follower]]
    done = await asyncio.to_thread(CliRunner().invoke, app, command)
    assert done.exit_code == 0, done.output
    assert done.stdout_bytes.splitlines() == [b"0", b"1", b"2"]
    assert +served == Counter({follower: size})
