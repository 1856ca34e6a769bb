"""The audit as the last word on what simulated clusters leave on their disks."""

import subprocess
import sys
from pathlib import Path

import pytest

from spark_jobs.audit.audit import Audit, audit
from spark_jobs.audit.findings import CONSISTENT, DIVERGED

# Seed after seed, until a simulation's last act finds that replicas' bytes differ: at rest, and after clean stops, so
# every high watermark is on disk. Its other checks are off, or one of them would end it earlier.
UNTIL_BYTES_DIFFER = """
import sys, time
from pathlib import Path
from replog.simulator.checks.checker import Checker
from replog.simulator.checks.violation import Violation
from replog.simulator.ending import Ending
from replog.simulator.profiles import PROFILES
from replog.simulator.simulation import simulate
from tests.replog.simulator.variants import VARIANTS

compare, differences = Ending._compare, []

def noting(*replicas):
    try:
        compare(*replicas)
    except Violation as difference:
        differences.append(difference)
        raise

Checker.after_step = Checker.at_the_end = lambda *_: None
Ending._compare = staticmethod(noting)
until = time.monotonic() + 240
with VARIANTS[sys.argv[2]].applied():
    for seed in range(1, 101):
        outcome = simulate(seed, PROFILES["swarm"], Path(sys.argv[1]))
        seen = outcome.text.splitlines()[1].strip() if outcome.failed else "nothing wrong"
        print(f"seed {seed}: {seen}", flush=True)
        if differences:
            sys.exit()
        if time.monotonic() > until:
            break
sys.exit(f"no seed from 1 to {seed} leaves replicas that differ")
"""


def directories(files: Path) -> dict[int, tuple[Path, ...]]:
    hosts = sorted(files.glob("broker-*"))
    return {int(host.name.removeprefix("broker-")): tuple(sorted(host.glob("disk[12]"))) for host in hosts}


def told(result: Audit) -> str:
    return f"{result.verdict}\n" + "\n".join(map(str, result.findings))


@pytest.mark.parametrize(("profile", "seed"), [("swarm", 1), ("swarm", 2), ("storm", 3)])
def test_what_a_storm_leaves_behind_is_consistent(spark, tmp_path, profile, seed):
    command = ["sim", "replay", "--profile", profile, "--seed", str(seed), "--keep", str(tmp_path)]
    done = subprocess.run([sys.executable, "-m", "replog.cli", *command], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout[-2000:]
    replicas = directories(tmp_path / f"{profile}-{seed}")
    assert len(replicas) >= 3
    for level in ("index", "deep"):
        result = audit(spark, replicas, level=level)
        assert result.verdict == CONSISTENT, told(result)
        assert result.compared > 0


def test_what_a_wrong_protocol_leaves_behind_is_not(spark, tmp_path):
    """Followers that fetch on after an election without saying their last epoch (FE-5)."""
    files = tmp_path / "files"
    command = [sys.executable, "-c", UNTIL_BYTES_DIFFER, str(files), "no-epoch-validation"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=400)
    assert done.returncode == 0, done.stdout + done.stderr
    result = audit(spark, directories(files), level="deep")
    assert result.verdict == DIVERGED, f"{told(result)}\n{done.stdout}"
