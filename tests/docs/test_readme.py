"""The README's first five minutes, and what continues them in docs/, run as they stand."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.tree import ROOT, blocks

TOUR = "/tmp/replog-tour"


def tour() -> str:
    """One shell script: the README's, then the examples of clients and operations on the same cluster."""
    lines = ["set -euo pipefail", *blocks("README.md", "The first five minutes")]
    lines += ["replog cluster up", *blocks("docs/clients.md"), *blocks("docs/operations.md")]
    return "\n".join(lines)


@pytest.mark.processes
@pytest.mark.spark
def test_the_first_five_minutes_work(tmp_path):
    script = tour()
    assert script.count("replog ") >= 30
    assert script.count("python -") == 7
    environment = {key: value for key, value in os.environ.items() if not key.startswith("REPLOG_")}
    directory = tmp_path / "cluster"
    try:
        run = subprocess.run(
            ["bash", "-c", script.replace(TOUR, str(directory))],
            cwd=ROOT,
            env={**environment, "HOME": str(tmp_path)},
            capture_output=True,
            text=True,
            timeout=1500,
        )
    finally:
        replog = Path(sys.executable).parent / "replog"
        for each in (directory, f"{directory}-secured"):
            subprocess.run([replog, "cluster", "down", "--directory", each], capture_output=True, timeout=300)
    assert run.returncode == 0, f"{run.stdout}\n{run.stderr}"
    for expected in (
        "hello\nworld\n",
        "still here",
        "offset 3 of greetings-0",
        "CONSISTENT",
        "4 b'hello'",
        "10000 orders done",
        "sent over TLS: secrets",
    ):
        assert expected in run.stdout, f"{expected!r} is not in:\n{run.stdout}\n{run.stderr}"
