"""franz-go's own tests of `kgo`, in Go: each that needs a broker is a process, since some end it when they fail."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.foreign.judge import SAID, Judge, Said, Verdict
from tests.foreign.tools import build, kept, program, run

pytestmark = pytest.mark.foreign

MODULE = "github.com/twmb/franz-go@v1.22.3"
JUDGE = Judge("kgo")
TIMEOUT_S = 600
RECORDS = 5000
_ENDED = re.compile(r"^\s*--- (PASS|FAIL|SKIP): ", re.MULTILINE)
_TOLD = re.compile(r"^\s+\w+\.go:\d+: (?!FAILED TESTING|deleting )(.*)|^panic: (.*)", re.MULTILINE)


def _build(work: Path) -> None:
    go = program("go", "install Go")
    run(work, go, "mod", "download", MODULE)
    home = Path(run(work, go, "env", "GOMODCACHE").strip()) / MODULE
    shutil.copytree(home, work / "source", copy_function=shutil.copy)
    for path in (work / "source").rglob("*"):
        path.chmod(0o755 if path.is_dir() else 0o644)
    (work / "source").chmod(0o755)
    build(work / "source", go, "test", "-c", "-o", "kgo.test", "./pkg/kgo")


@pytest.fixture(scope="module")
def source() -> Path:
    return kept("franz-go-1.22.3", _build) / "source"


@pytest.mark.parametrize("name", JUDGE.listed)
def test_a_test_of_kgo_does_as_listed(source, cluster, name):
    JUDGE.check({name: _said(source, cluster.bootstrap, name)}, asked=[name])


def _said(source: Path, seeds: str, name: str) -> Said:
    env = {**os.environ, "KGO_SEEDS": seeds, "KGO_TEST_RF": "3", "KGO_TEST_RECORDS": str(RECORDS)}
    command = [source / "kgo.test", "-test.v", f"-test.run=^{name}$", f"-test.timeout={TIMEOUT_S}s"]
    (SAID / JUDGE.name).mkdir(parents=True, exist_ok=True)
    log = SAID / JUDGE.name / f"{name}.log"
    with log.open("wb") as output:
        where = source / "pkg" / "kgo"
        code = subprocess.run(command, cwd=where, env=env, stdout=output, stderr=subprocess.STDOUT).returncode
    text = log.read_text(errors="replace")
    reasons = [one or other for one, other in _TOLD.findall(text)]
    why = reasons[-1] if reasons else f"exit status {code}"
    if code != 0:
        return Said(Verdict.FAILS, why)
    return Said(Verdict.SKIPS, why) if "SKIP" in _ENDED.findall(text) else Said(Verdict.PASSES)
