"""The audit as the last word on what simulated clusters leave on their disks."""

import subprocess
import sys

import pytest

from spark_jobs.audit.audit import audit
from spark_jobs.audit.findings import CONSISTENT


@pytest.mark.parametrize(("profile", "seed"), [("swarm", 1), ("storm", 3)])
def test_what_a_storm_leaves_behind_is_consistent(spark, tmp_path, profile, seed):
    command = ["sim", "replay", "--profile", profile, "--seed", str(seed), "--keep", str(tmp_path)]
    done = subprocess.run([sys.executable, "-m", "replog.cli", *command], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout[-2000:]
    hosts = (tmp_path / f"{profile}-{seed}").glob("broker-*")
    replicas = {int(host.name.removeprefix("broker-")): tuple(sorted(host.glob("disk[12]"))) for host in sorted(hosts)}
    assert len(replicas) >= 3
    for level in ("index", "deep"):
        result = audit(spark, replicas, level=level)
        assert result.verdict == CONSISTENT, "\n".join(map(str, [result.verdict, *result.findings]))
        assert result.compared > 0
