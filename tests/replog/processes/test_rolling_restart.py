"""`replog cluster rolling-restart` while a client writes and reads."""

import pytest

from replog.local_cluster.local_cluster import LocalCluster
from tests.replog.processes.load import load_on

pytestmark = pytest.mark.processes


def test_every_process_is_restarted_in_order_and_no_record_fails(replog, tmp_path):
    directory = tmp_path / "cluster"
    with LocalCluster(directory) as cluster, load_on(cluster, tmp_path) as load:
        before = {member.name: member.process for member in cluster.state.members}
        restarted = replog("cluster", "rolling-restart", "--directory", str(directory))
        assert restarted.returncode == 0, restarted.stderr
        after = {member.name: member.process for member in cluster.state.members}
        assert after.keys() == before.keys()
        assert not set(after.values()) & set(before.values())
        assert [line for line in restarted.stderr.splitlines() if line.startswith("restarting")] == [
            f"restarting {name}" for name in ("controller", "broker-1", "broker-2", "broker-3")
        ]
        address = cluster.state.brokers[2].address
        assert replog("health", "--ready", address).returncode == 0
        load.goes_on("all processes are new")
        load.ends_honest()
        cluster.kill(3)
        gone = replog("health", "--ready", address)
        assert (gone.returncode, gone.stderr) == (1, f"{address} is not ready\n")
