"""deploy/setup.sh says what is missing and how to get it, and does nothing when nothing is to be done."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.deploy.commands import DEPLOY

TOOLS = ["bash", "cat", "date", "dirname", "flock", "mktemp", "rm", "touch"]


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout with the set-up's files, and a `bin` with no Python."""
    (tmp_path / "deploy").mkdir()
    shutil.copy(DEPLOY / "setup.sh", tmp_path / "deploy")
    for name in ("pyproject.toml", "constraints.txt"):
        shutil.copy(DEPLOY.parent / name, tmp_path)
    (tmp_path / "bin").mkdir()
    for tool in TOOLS:
        path = shutil.which(tool)
        assert path is not None, tool
        (tmp_path / "bin" / tool).symlink_to(path)
    return tmp_path


def set_up(checkout: Path) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        ["bash", "deploy/setup.sh"],
        cwd=checkout,
        env={"PATH": str(checkout / "bin"), "HOME": str(checkout)},
        capture_output=True,
        text=True,
        timeout=300,
    )


def fake_python(checkout: Path, body: str) -> None:
    path = checkout / "bin" / "python3"
    path.write_text(f'#!{checkout}/bin/bash\n{body}\nexec {sys.executable} "$@"\n')
    path.chmod(0o755)


def test_without_python_it_says_what_to_install(checkout):
    run = set_up(checkout)
    assert run.returncode == 1
    assert "no Python 3.11 or newer found" in run.stderr
    assert "sudo apt-get install python3 python3-venv" in run.stderr


def test_an_old_python_is_not_taken(checkout):
    fake_python(checkout, "exit 1")
    assert "no Python 3.11 or newer found" in set_up(checkout).stderr


def test_without_the_venv_module_it_says_which_package_has_it(checkout):
    fake_python(checkout, '[[ "$1 $2" = "-m venv" ]] && { echo "ensurepip is not available"; exit 1; }')
    for _ in range(2):
        run = set_up(checkout)
        assert run.returncode == 1
        assert "ensurepip is not available" in run.stderr
        version = f"{sys.version_info.major}.{sys.version_info.minor}"
        assert f"sudo apt-get install python{version}-venv" in run.stderr


def test_a_finished_set_up_is_left_alone(checkout):
    (checkout / ".venv").mkdir()
    done = checkout / ".venv" / ".setup-done"
    done.touch()
    run = set_up(checkout)
    assert (run.returncode, run.stdout, run.stderr) == (0, "", "")
    os.utime(done, (0, 0))
    run = set_up(checkout)
    assert run.returncode == 1, "an outdated one without a working interpreter starts over"
    assert "no Python 3.11 or newer found" in run.stderr


def test_help_lists_every_target():
    outside = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}  # not a sub-make
    run = subprocess.run(["make", "help"], cwd=DEPLOY.parent, env=outside, capture_output=True, text=True, timeout=300)
    assert run.returncode == 0, run.stderr
    makefile = (DEPLOY.parent / "Makefile").read_text()
    phony = next(line for line in makefile.splitlines() if line.startswith(".PHONY:")).split()[1:]
    assert [line.split()[1] for line in run.stdout.splitlines()] == phony
