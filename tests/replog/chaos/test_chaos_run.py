"""Half a minute of `make chaos`, where namespaces are allowed."""

import subprocess
import sys

import pytest

from replog.chaos.__main__ import NOT_ALLOWED

pytestmark = [pytest.mark.processes, pytest.mark.plaintext("its hosts have no certificates")]

SEED = 12


def chaos(*arguments: str) -> subprocess.CompletedProcess[str]:
    run = subprocess.run(
        [sys.executable, "-m", "replog.chaos", *arguments], capture_output=True, text=True, timeout=1500
    )
    if run.returncode == NOT_ALLOWED:
        pytest.skip(run.stderr.strip())
    return run


def test_half_a_minute_of_faults_leaves_an_honest_history_and_identical_replicas():
    run = chaos("--seconds", "30", "--seed", str(SEED))
    print(run.stdout)
    assert run.returncode == 0, f"{run.stdout}\n{run.stderr}"
    assert "| fault | times |" in run.stdout
    assert "the replicas are the same bytes" in run.stdout


def test_a_run_keeps_out_of_namespaces_that_are_not_its_own():
    run = subprocess.run([sys.executable, "-m", "replog.chaos.run"], capture_output=True, text=True, timeout=300)
    assert run.returncode != 0
    assert "needs namespaces of its own" in run.stderr
