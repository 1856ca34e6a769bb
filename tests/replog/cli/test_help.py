"""Help reads like documentation, and comes at once."""

import subprocess
import sys

import pytest

COMMANDS = [
    "cluster up",
    "cluster down",
    "cluster status",
    "cluster kill",
    "cluster pause",
    "cluster resume",
    "topic create",
    "topic list",
    "topic describe",
    "topic alter",
    "topic delete",
    "partition elect",
    "partition reassign",
    "partition list-reassignments",
    "partition move",
    "partition log-dirs",
    "produce",
    "consume",
    "log dump",
    "log verify",
    "log rebuild-index",
    "sim run",
    "sim replay",
    "demo",
    "broker",
    "broker-config",
    "controller",
]


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


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_explains_itself(command):
    done = _run(*command.split(), "-h")
    assert done.returncode == 0
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
