"""The first two hours, run as they stand, on free ports and in directories of their own."""

import contextlib
import os
import re
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

from replog.local_cluster.ports import free_port
from tests.docs.tree import ROOT, blocks


def run(document: str, directory: str, own: Path) -> str:
    """What the commands of the document print."""
    script = "\n".join(["set -euo pipefail", *blocks(document)])
    assert script.count("replog ") >= 10
    ports = sorted(set(re.findall(r"127\.0\.0\.1:(\d+)", script)))
    assert len(ports) >= 4
    assert directory in script
    script = script.replace(directory, str(own))
    free: dict[str, int] = {}
    for port in ports:
        free[port] = free_port(free.values())
    script = re.sub(r"(?<=:)\d+", lambda shown: str(free.get(shown[0], shown[0])), script)
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
        told, _ = shell.communicate(timeout=1500)
    finally:
        if shell.poll() != 0:  # it stops its processes at its end
            with contextlib.suppress(ProcessLookupError):
                os.killpg(shell.pid, signal.SIGKILL)
    assert shell.returncode == 0, told
    return told


@pytest.mark.processes
@pytest.mark.spark
@pytest.mark.plaintext("it shows a first cluster, without certificates")
def test_the_first_hour_works(tmp_path):
    told = run("docs/first-hour.md", "/tmp/replog-hour", tmp_path)
    verdicts = [line for line in told.splitlines() if line in ("CONSISTENT", "DIVERGED")]
    assert verdicts == ["DIVERGED", "CONSISTENT"], told
    assert "BIT_ROT" in told


@pytest.mark.processes
@pytest.mark.plaintext("it shows a cluster without certificates")
@pytest.mark.skipif(shutil.which("prometheus") is None, reason="Debian's prometheus is not installed")
def test_the_second_hour_works(tmp_path):
    told = run("docs/second-hour.md", "/tmp/replog-hours", tmp_path)
    assert "ReplogUnderReplicatedPartitions" in told
    assert "acknowledged, 0 failed" in told
