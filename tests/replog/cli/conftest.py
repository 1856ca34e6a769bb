"""Commands on a cluster."""

import shlex
import subprocess

import pytest

from replog.local_cluster.local_cluster import LocalCluster
from tests.replog.processes.commands import Replog


@pytest.fixture
def ask(replog: Replog, cluster: LocalCluster) -> Replog:
    """A command on the cluster, as one would type it; it must never print a traceback."""

    def run(command: str, *more: object, stdin: str = "") -> subprocess.CompletedProcess[str]:
        done = replog(*shlex.split(command), *more, "--bootstrap-server", cluster.bootstrap, stdin=stdin)
        assert "Traceback" not in done.stderr, done.stderr
        return done

    return run


@pytest.fixture
def done(ask: Replog) -> Replog:
    """The same, with exit status 0."""

    def run(command: str, *more: object, stdin: str = "") -> subprocess.CompletedProcess[str]:
        done = ask(command, *more, stdin=stdin)
        assert done.returncode == 0, done.stderr
        return done

    return run
