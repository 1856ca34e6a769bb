"""Real clusters for tests, and the command line as a process."""

import contextlib
import os
import subprocess
from collections.abc import Generator, Iterator, Mapping
from pathlib import Path

import pytest

from replog.local_cluster.local_cluster import LocalCluster
from replog.local_cluster.processes import log_tail
from replog.rpc.transports import CLIENT_CONFIG
from tests.replog.processes.commands import Commands, Replog
from tests.replog.secure import SECURE, same_certificate_afterwards, secure_local_clusters

if SECURE:
    secure_local_clusters()


@pytest.fixture(scope="module", autouse=True)
def _certificate_of_module() -> Iterator[None]:
    with same_certificate_afterwards():
        yield


@pytest.fixture(autouse=True)
def _certificate_of_test() -> Iterator[None]:
    with same_certificate_afterwards():
        yield


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """Three brokers, one controller; a test that hurts it mends it again. It must stop cleanly at the end."""
    running = LocalCluster(tmp_path_factory.mktemp("cluster"), brokers=3).up()
    try:
        yield running
    finally:
        killed = running.down()
    assert killed == []


@pytest.fixture(scope="session")
def commands() -> Iterator[Commands]:
    with contextlib.closing(Commands()) as commands:
        yield commands


@pytest.fixture
def replog(commands: Commands, tmp_path: Path) -> Replog:
    """The command line, as a process that knows no cluster but those it is told of."""

    def run(
        *arguments: object, stdin: str = "", timeout: int = 180, environment: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("REPLOG_")}
        alone = {"REPLOG_CLUSTER_DIRECTORY": str(tmp_path / "no-cluster")}
        if certificate := os.environ.get(CLIENT_CONFIG):
            alone[CLIENT_CONFIG] = certificate
        return commands.run(list(map(str, arguments)), stdin, timeout, {**inherited, **alone, **(environment or {})})

    return run


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A failed test on a cluster shows what its processes said last."""
    report = yield
    cluster = getattr(item, "funcargs", {}).get("cluster")
    if report.when == "call" and report.failed and isinstance(cluster, LocalCluster):
        for member in cluster.state.members:
            path = cluster.log_file(member)
            report.sections.append((f"end of {path}", log_tail(path)))
    return report
