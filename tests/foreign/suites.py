"""Test suites of Python clients, each run by pytest in a process of its own."""

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from xml.etree import ElementTree

from tests.foreign.judge import SAID, Said, Verdict

_TEST_TIMEOUT_S = 120


def run_suite(
    name: str, home: Path, tests: Sequence[str], packages: Sequence[Path], env: Mapping[str, str]
) -> dict[str, Said]:
    """Return what became of each test of the files `tests` in `home`, as `file::test`. `packages`: directories to
    import from. What the suite printed is kept beside the lists."""
    SAID.mkdir(parents=True, exist_ok=True)
    report = SAID / f"{name}.xml"
    report.unlink(missing_ok=True)
    path = os.pathsep.join(map(str, (home, *packages)))
    options = (
        "--asyncio-mode=auto",
        "-c",
        "/dev/null",
        "--rootdir",
        home,
        "-p",
        "no:cacheprovider",
        "--assert=plain",
        "-o",
        "junit_family=xunit1",
    )
    command = [sys.executable, "-m", "pytest", "-q", *options, f"--timeout={_TEST_TIMEOUT_S}", f"--junitxml={report}"]
    with (SAID / f"{name}.log").open("wb") as log:
        code = subprocess.run(
            [*map(str, command), *tests],
            cwd=home,
            env={**os.environ, "PYTHONPATH": path, **env},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            check=False,
        ).returncode
    assert code in (0, 1), f"the suite ended with {code}: see {log.name}"
    return dict(map(_said, ElementTree.parse(report).iter("testcase")))


def _said(case: ElementTree.Element) -> tuple[str, Said]:
    where = Path(case.get("file", "")).stem
    inner = case.get("classname", "").rpartition(where)[2].strip(".").replace(".", "::")
    name = "::".join(filter(None, (where, inner, case.get("name", ""))))
    for child in case:
        if child.tag in ("failure", "error"):
            return name, Said(Verdict.FAILS, child.get("message", "no reason"))
        if child.tag == "skipped":
            return name, Said(Verdict.SKIPS, child.get("message", "no reason"))
    return name, Said(Verdict.PASSES)
