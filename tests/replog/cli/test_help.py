"""Help reads like documentation, and comes at once."""

import re
import subprocess
import sys
from collections.abc import Callable
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import pytest
from typer import Typer
from typer.main import get_command
from typer.testing import CliRunner

from replog.cli.main import app
from replog.config.properties import MAX_LONG
from replog.release import VERSION


def _commands(command: Any, name: str = "") -> list[str]:
    """All commands below this one, except audits: those are processes that replace this one."""
    if not hasattr(command, "commands"):
        return [name]
    children = [(word, child) for word, child in command.commands.items() if word != "audit"]
    return [each for word, child in children for each in _commands(child, f"{name} {word}".strip())]


def test_help_names_every_group_the_exit_statuses_and_a_first_minute():
    done = CliRunner().invoke(app, ["--help"])
    assert done.exit_code == 0
    for word in ("cluster", "topic", "partition", "produce", "consume", "log", "audit", "broker", "controller", "demo"):
        assert word in done.stdout
    assert "0 ok, 1 a problem" in done.stdout
    assert "replog cluster up" in done.stdout


@pytest.mark.parametrize("command", _commands(get_command(app)))
def test_every_command_explains_itself_and_breaks_no_list_of_choices_or_examples(command, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    done = CliRunner().invoke(app, [*command.split(), "-h"], prog_name="replog")
    assert done.exit_code == 0
    assert f"Usage: replog {command}" in done.stdout
    assert not re.findall(r"<[^>│ ]*\|[^>│ ]*(?:[ │]|$)", done.stdout)
    for _, examples in re.findall(r"^(.*)Examples:(.*?)╭", done.stdout, re.M | re.S):
        assert re.match(r"\s*\n\s*\n *• .*\n(.*\n)*? *• ", examples), "each stands on a line"


def test_help_loads_neither_grpc_nor_the_log():
    """They take most of a second to import."""
    script = (
        "import sys; from replog.cli import main\n"
        "loaded = {'grpc', 'pydantic', 'aiokafka', 'asyncio', 'structlog'} & set(sys.modules)\n"
        "assert not loaded, loaded"
    )
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60)


def _functions(group: Typer) -> list[Callable[..., Any]]:
    below = [
        each for inner in group.registered_groups if inner.typer_instance for each in _functions(inner.typer_instance)
    ]
    return [info.callback for info in group.registered_commands if info.callback is not None] + below


def test_no_command_takes_a_number_that_does_not_fit_its_message():
    """The error would be a traceback, and what waits for infinity never ends."""
    bounds = {
        f"{function.__name__} {name}": option.max
        for function in _functions(app)
        for name, hint in get_type_hints(function, include_extras=True).items()
        if get_origin(hint) is Annotated and re.search(r"\b(int|float)\b", str(get_args(hint)[0]))
        for option in hint.__metadata__
    }
    assert len(bounds) > 20
    assert not {name: most for name, most in bounds.items() if most is None or most > MAX_LONG}


@pytest.mark.parametrize("words", ["version", "--version"])
def test_the_version_is_told(words):
    assert CliRunner().invoke(app, [words]).stdout == f"replog {VERSION}\n"


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        ("topic create orders", "Perhaps you mean: --topic orders"),
        ("produce greetings --acks 1", "Perhaps you mean: --topic greetings"),
        ("produce --acks 1", "Missing option '--topic'."),
        ("offsets get orders", "Perhaps you mean: --topic orders"),
        ("partition elect orders", "Missing option '--election-type'. Perhaps you mean: --topic orders"),
        ("cluster up 3", "Perhaps you mean: --brokers 3"),
        ("cluster status here", "Perhaps you mean: --directory here"),
        ("client-quota ann", "Perhaps you mean: --user ann"),
        ("cluster kill broker-1 broker-2", "unexpected extra argument (broker-2)."),
        ("topic list orders", "unexpected extra argument (orders)."),
        ("nonsense", "No such command 'nonsense'."),
        ("produce --nonsense", "No such option: --nonsense"),
        ("broker /etc/hosts", "No such command '/etc/hosts'. Perhaps you mean: --config /etc/hosts"),
    ],
)
def test_a_value_without_its_option_gets_a_hint(words, hint):
    done = CliRunner().invoke(app, words.split(), env={"COLUMNS": "200", "NO_COLOR": "1"})
    assert (done.exit_code, done.stdout) == (2, "")
    assert hint in done.output
    assert ("Perhaps" in done.output) is ("Perhaps" in hint)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("topic create --topic t --partitions three", "'three'; give a whole number from 0 to 2147483647."),
        ("topic create --topic t --partitions -1", "'-1'; give a whole number from 0 to 2147483647."),
        ("produce --topic t --linger-ms x", "'--linger-ms': 'x'; give a number from 0 to 2147483647."),
        ("produce --topic t --acks two", "'--acks': 'two' is not one of 'all', '1', '0'."),
        ("produce --topic t --file {}", "does not exist"),
        ("produce --topic t --file /", "is a directory"),
        ("partition reassign --plan {}", "does not exist"),
        ("records delete --offset-json-file {}", "does not exist"),
        ("console --keystore {}", "does not exist"),
        ("console --audit /etc/hosts", "is a file"),
        ("controller backup --to /etc/hosts", "is a file"),
        ("controller format --move-from {}", "does not exist"),
    ],
)
def test_values_and_files_are_looked_at_before_anybody_is_asked(words, says, tmp_path):
    done = CliRunner().invoke(app, words.format(tmp_path / "x").split(), env={"COLUMNS": "200", "NO_COLOR": "1"})
    assert (done.exit_code, says in done.output) == (2, True), done.output
