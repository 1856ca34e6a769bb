"""Help reads like documentation, and comes at once."""

import subprocess
import sys

import pytest
from click import Command, Group
from typer.main import get_command
from typer.testing import CliRunner

from replog.cli.main import app


def _commands(command: Command, name: str = "") -> list[str]:
    """All commands below this one, except audits: those are processes that replace this one."""
    if not isinstance(command, Group):
        return [name]
    children = [(word, child) for word, child in command.commands.items() if word != "audit"]
    return [each for word, child in children for each in _commands(child, f"{name} {word}".strip())]


def _run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "replog.cli", *arguments], capture_output=True, text=True, timeout=60, check=False
    )


def test_help_names_every_group_the_exit_statuses_and_a_first_minute():
    done = _run("--help")
    assert done.returncode == 0
    for word in ("cluster", "topic", "partition", "produce", "consume", "log", "audit", "broker", "controller", "demo"):
        assert word in done.stdout
    assert "0 ok, 1 a problem" in done.stdout
    assert "replog cluster up" in done.stdout


@pytest.mark.parametrize("command", _commands(get_command(app)))
def test_every_command_explains_itself(command):
    done = CliRunner().invoke(app, [*command.split(), "-h"], prog_name="replog")
    assert done.exit_code == 0
    assert f"Usage: replog {command}" in done.stdout


def test_help_loads_neither_grpc_nor_the_log():
    """They take most of a second to import."""
    script = (
        "import sys; from replog.cli import main\n"
        "loaded = {'grpc', 'pydantic', 'aiokafka', 'asyncio', 'structlog'} & set(sys.modules)\n"
        "assert not loaded, loaded"
    )
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60)


@pytest.mark.parametrize(
    "arguments", [["nonsense"], ["topic", "create"], ["produce", "--nonsense"], ["cluster", "kill"]]
)
def test_bad_use_is_status_2_and_leaves_stdout_alone(arguments):
    done = _run(*arguments)
    assert done.returncode == 2
    assert done.stdout == ""
    assert "Usage: replog" in done.stderr
