"""The commands that the files in deploy/ run, and the machinery to try them."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import typer.main
import yaml

from replog.cli.main import app

DEPLOY = Path(__file__).resolve().parents[2] / "deploy"
SYSTEMD = {"%i": "1", "%H": "host-1"}


class Command(NamedTuple):
    """What a file runs, after `replog` or `spark-class`, with the values that its runtime would put in."""

    source: str
    program: str
    arguments: list[str]

    def overrides(self) -> dict[str, str]:
        return dict(value.split("=", 1) for value in self._values("override"))

    def config_file(self) -> str:
        (path,) = self._values("config")
        return path

    def _values(self, option: str) -> list[str]:
        joined = " ".join(self.arguments)
        return re.findall(rf"--{option}[= ](\S+)", joined)


def compose(file: str = "compose.yaml") -> dict[str, Any]:
    document: dict[str, Any] = yaml.safe_load((DEPLOY / file).read_text())
    return document


def kubernetes(directory: str = "kubernetes") -> Iterator[tuple[str, dict[str, Any]]]:
    for path in sorted((DEPLOY / directory).glob("*.yaml")):
        for document in yaml.safe_load_all(path.read_text()):
            yield path.name, document


def unit(name: str) -> dict[str, list[str]]:
    """A systemd unit's settings, every section in one; continued lines joined."""
    text = (DEPLOY / "systemd" / name).read_text().replace("\\\n", " ")
    settings: dict[str, list[str]] = {}
    for line in text.splitlines():
        key, equals, value = line.partition("=")
        if equals:
            settings.setdefault(key, []).append(value.strip())
    return settings


def systemd_command(name: str, environment: dict[str, str] | None = None, instance: str = "1") -> Command:
    """ExecStart as systemd would run it: specifiers, then variables from `Environment=` and `environment`."""
    settings = unit(name)
    (line,) = settings["ExecStart"]
    variables = dict(word.split("=", 1) for value in settings["Environment"] for word in value.split())
    variables |= environment or {}
    for specifier, value in {**SYSTEMD, "%i": instance}.items():
        line = line.replace(specifier, value)
        variables = {name: word.replace(specifier, value) for name, word in variables.items()}
    line = re.sub(r"\$\{(\w+)\}", lambda match: variables[match[1]], line)
    program, *arguments = shlex.split(line)
    return Command(name, program, arguments)


def compose_commands(file: str = "compose.yaml") -> list[Command]:
    commands = []
    for name, service in compose(file)["services"].items():
        *_, program = service.get("entrypoint", ["replog"])
        commands.append(Command(f"{file}: {name}", program, service["command"]))
    return commands


def pod_of(document: dict[str, Any]) -> dict[str, Any]:
    pod: dict[str, Any] = document["spec"].get("jobTemplate", document)["spec"]["template"]["spec"]
    return pod


def containers(document: dict[str, Any]) -> list[dict[str, Any]]:
    """Of a thing that runs some: not of the audit's Spark, which is no command of ours."""
    runs = document["kind"] in ("StatefulSet", "Job", "CronJob")
    return list(pod_of(document)["containers"]) if runs else []


def kubernetes_commands(directory: str = "kubernetes") -> list[Command]:
    values = {"POD_NAME": "replog-broker-0", "POD_INDEX": "0", "ZONE": "zone-a"}
    commands = []
    for path, document in kubernetes(directory):
        for container in containers(document):
            given = {variable["name"]: values[variable["name"]] for variable in container.get("env", [])}
            arguments = container["args"]
            for name, value in given.items():
                arguments = [argument.replace(f"$({name})", value) for argument in arguments]
            program, *shell = container.get("command", ["replog"])
            if shell:  # sh -c: the first command of the line
                program, *arguments = shlex.split(arguments[0].partition("&&")[0])
            commands.append(Command(f"{path}: {container['name']}", program, arguments))
    return commands


def all_commands() -> list[Command]:
    units = sorted(path.name for path in (DEPLOY / "systemd").glob("*.service"))
    return [*compose_commands(), *kubernetes_commands(), *(systemd_command(name) for name in units)]


def parse(arguments: list[str]) -> Any:
    """What the command line makes of the arguments, without running the command; raises UsageError."""
    command: Any = typer.main.get_command(app)
    remaining = list(arguments)
    while hasattr(command, "commands"):
        if command.invoke_without_command and (not remaining or remaining[0].startswith("-")):
            break
        name = remaining.pop(0)
        assert name in command.commands, f"replog has no command {name!r}"
        command = command.commands[name]
    with pytest.MonkeyPatch.context() as patched:
        for param in command.params:  # files that are named are not there
            patched.setattr(param.type_descriptor.parameter_info, "exists", False)
        return command.make_context(command.name, remaining).params
