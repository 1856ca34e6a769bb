"""The audit as the last word on what simulated clusters leave on their disks."""

import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from spark_jobs.audit.audit import Audit, audit
from spark_jobs.audit.findings import CONSISTENT, DIVERGED

pytestmark = [
    pytest.mark.spark,
    pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]

# Unchecked, a simulation goes on to its end whatever happens on the way; there the replicas' bytes are compared.
UNTIL_BYTES_DIFFER = """
import shutil, sys
from pathlib import Path
from cluster.simulation.checks.checker import Checker
from cluster.simulation.profiles import PROFILES
from cluster.simulation.simulation import simulate
from tests.cluster.simulation.variants import VARIANTS

Checker.after_step = Checker.at_the_end = lambda *_: None
files = Path(sys.argv[1])
with VARIANTS[sys.argv[2]].applied():
    for seed in range(7, 100):  # 7 is the first that shows it
        outcome = simulate(seed, PROFILES["swarm"], files)
        if outcome.failed:
            print(outcome.text)
            break
        shutil.rmtree(files)
"""


def directories(files: Path) -> dict[int, Path]:
    return {int(host.name.removeprefix("broker-")): host / "disk1" for host in sorted(files.glob("broker-*"))}


def told(result: Audit) -> str:
    return f"{result.verdict}\n" + "\n".join(map(str, result.findings))


@pytest.mark.parametrize(("profile", "seed"), [("swarm", 1), ("swarm", 2), ("storm", 3)])
def test_what_a_storm_leaves_behind_is_consistent(spark: SparkSession, tmp_path: Path, profile: str, seed: int) -> None:
    command = ["sim", "replay", "--profile", profile, "--seed", str(seed), "--keep", str(tmp_path)]
    done = subprocess.run([sys.executable, "-m", "cluster.cli", *command], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout[-2000:]
    found = directories(tmp_path / f"{profile}-{seed}")
    assert len(found) >= 3
    for level in ("index", "deep"):
        result = audit(spark, found, level=level)
        assert result.verdict == CONSISTENT, told(result)
        assert result.compared > 0


def test_what_a_wrong_protocol_leaves_behind_is_not(spark: SparkSession, tmp_path: Path) -> None:
    """Followers that fetch on after an election without saying their last epoch (FE-5)."""
    files = tmp_path / "files"
    command = [sys.executable, "-c", UNTIL_BYTES_DIFFER, str(files), "no-epoch-validation"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    result = audit(spark, directories(files), level="deep")
    assert result.verdict == DIVERGED, f"{told(result)}\n{done.stdout[-2000:]}"
