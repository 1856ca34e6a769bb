"""The first hour, run as it stands, on free ports and in a directory of its own."""

import contextlib
import os
import signal
import subprocess

import pytest

from replog.local_cluster.ports import free_port
from tests.docs.tree import ROOT, blocks

HOUR = "/tmp/replog-hour"
PORTS = ("19093", "19094", "19095", "19096")


@pytest.mark.processes
@pytest.mark.spark
@pytest.mark.plaintext("it shows a first cluster, without certificates")
def test_the_first_hour_works(tmp_path):
    script = "\n".join(["set -euo pipefail", *blocks("docs/first-hour.md")])
    assert script.count("replog ") >= 15
    script = script.replace(HOUR, str(tmp_path))
    taken: set[int] = set()
    for port in PORTS:
        assert port in script
        taken.add(free := free_port(taken))
        script = script.replace(port, str(free))
    environment = {key: value for key, value in os.environ.items() if not key.startswith("REPLOG_")}
    shell = subprocess.Popen(
        ["bash", "-c", script],
        cwd=ROOT,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        told, _ = shell.communicate(timeout=600)
    finally:
        if shell.poll() != 0:  # it stops its processes at its end
            with contextlib.suppress(ProcessLookupError):
                os.killpg(shell.pid, signal.SIGKILL)
    assert shell.returncode == 0, told
    verdicts = [line for line in told.splitlines() if line in ("CONSISTENT", "DIVERGED")]
    assert verdicts == ["DIVERGED", "CONSISTENT"], told
    assert "BIT_ROT" in told
