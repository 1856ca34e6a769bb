"""The README's first five minutes, run as they stand."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.tree import ROOT

TOUR = "/tmp/replog-tour"


def tour() -> str:
    """One shell script of every command and every piece of Python in the section."""
    text = (ROOT / "README.md").read_text()
    section = text.partition("## The first five minutes\n")[2].partition("\n## ")[0]
    script = ["set -euo pipefail"]
    for language, block in re.findall(r"^```(\w+)\n(.*?)^```", section, re.M | re.S):
        if language == "python":
            script.append(f"python - <<'END'\n{block}END")
        else:
            script += re.findall(r"^\$ (.*)", block, re.M)
    return "\n".join(script)


@pytest.mark.processes
@pytest.mark.spark
def test_the_first_five_minutes_work(tmp_path: Path):
    script = tour()
    assert script.count("replog ") >= 10
    assert "python -" in script
    environment = {key: value for key, value in os.environ.items() if not key.startswith("REPLOG_")}
    directory = tmp_path / "cluster"
    try:
        run = subprocess.run(
            ["bash", "-c", script.replace(TOUR, str(directory))],
            cwd=ROOT,
            env={**environment, "HOME": str(tmp_path)},
            capture_output=True,
            text=True,
            timeout=500,
        )
    finally:
        replog = Path(sys.executable).parent / "replog"
        subprocess.run([replog, "cluster", "down", "--directory", directory], capture_output=True, timeout=120)
    assert run.returncode == 0, f"{run.stdout}\n{run.stderr}"
    for expected in ("hello\nworld\n", "still here", "offset 3 of greetings-0", "CONSISTENT"):
        assert expected in run.stdout, f"{expected!r} is not in:\n{run.stdout}\n{run.stderr}"
