"""A cluster of the last release becomes one of this, process by process, while a client of the old one goes on."""

import os
import signal
import subprocess
import sys
import tarfile
from contextlib import ExitStack
from io import BytesIO
from pathlib import Path

import pytest

from replog.client import SyncAdmin
from replog.local_cluster.cluster_file import LocalMember
from replog.local_cluster.local_cluster import LocalCluster
from replog.local_cluster.processes import wait_until_stopped
from replog.release import VERSION
from tests.replog.processes.load import load_on
from tests.replog.server.controller.etcds import path_with_etcd

pytestmark = [
    pytest.mark.processes,
    pytest.mark.plaintext("the cluster is made by an earlier release, which makes none with certificates by itself"),
]

HERE = Path(__file__).parent
LAST_RELEASE = "d3e5570ceea419288dc93dabe73c9d2209559bcc"  # what clusters are upgraded from (docs/operations.md)
STOP_S = 60.0


@pytest.fixture
def last_release(tmp_path: Path) -> Path:
    """Its tree. Its processes run in this environment, so they have the dependencies of today."""
    archive = subprocess.run(["git", "archive", LAST_RELEASE], cwd=HERE, capture_output=True, check=False)
    if archive.returncode:
        pytest.skip(f"the last release is not in this clone, which may be shallow: {archive.stderr.decode()[:200]}")
    tree = tmp_path / "last-release"
    with tarfile.open(fileobj=BytesIO(archive.stdout)) as files:
        files.extractall(tree, filter="data")
    return tree


def code_of(member: LocalMember) -> str:
    """Where a running process has its code from, as its environment says."""
    assert member.process is not None
    variables = Path(f"/proc/{member.process.pid}/environ").read_text().split("\0")
    return next((value for name, _, value in (v.partition("=") for v in variables) if name == "PYTHONPATH"), "here")


def stop_in_order(cluster: LocalCluster, name: str) -> None:
    process = cluster.state.member(name).process
    assert process is not None
    os.kill(process.pid, signal.SIGTERM)
    assert not wait_until_stopped([process], STOP_S), f"{name} did not stop"


def controllers_of(cluster: LocalCluster) -> list[str]:
    """Standby ones first."""
    with SyncAdmin(cluster.bootstrap) as admin:
        active = admin.describe_cluster().controller
    return [each.name for each in sorted(cluster.state.controllers, key=lambda each: each.address == active)]


@pytest.mark.parametrize("controllers", [1, 3])
def test_no_record_fails_while_each_process_is_replaced_by_this_release(
    last_release, tmp_path, monkeypatch, controllers
):
    """docs/operations.md: controllers first, then one broker after the other."""
    directory = tmp_path / "cluster"
    up = [sys.executable, "-P", "-m", "replog.cli", "cluster", "up", "--directory", str(directory)]
    if controllers > 1:
        monkeypatch.setenv("PATH", path_with_etcd(tmp_path / "bin"))
        up += ["--controllers", str(controllers)]
    cluster = LocalCluster(directory)
    with ExitStack() as ending:
        ending.callback(cluster.down)
        with monkeypatch.context() as there:
            there.chdir(last_release)
            there.setenv("PYTHONPATH", str(last_release))
            subprocess.run(up, check=True)
            load = ending.enter_context(load_on(cluster, tmp_path))
        for name in (*controllers_of(cluster), "broker-1", "broker-2", "broker-3"):
            assert code_of(cluster.state.member(name)) == str(last_release)
            stop_in_order(cluster, name)
            cluster.up()
            assert code_of(cluster.state.member(name)) == "here"
            load.goes_on(f"{name} is of this release")
        with SyncAdmin(cluster.bootstrap) as admin:
            assert [broker.software_version for broker in admin.describe_cluster().brokers] == [VERSION] * 3
        load.ends_honest()
