"""Scenario files: events and what is to be seen after each, compared with what was seen. README.md teaches the form."""

import difflib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

INDENT = "  "
_HEADER = re.compile(r"== (?P<cases>[\w-]+(?: [\w-]+)*): (?P<title>\S.*)")


class ScenarioError(Exception):
    """A scenario that cannot be read or run. `at` says where."""

    def at(self, path: Path, line: int) -> "ScenarioError":
        return ScenarioError(f"{path}:{line}: {self}")


@dataclass(frozen=True, slots=True)
class Step:
    """One event, and the lines that are to be seen after it."""

    line: int  # of the event, from 1; what is to be seen stands in the lines after it
    event: str
    expected: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Scenario:
    path: Path
    line: int
    name: str  # the worked cases, as `R-W-E5 R-W-E6`
    title: str
    beginning: tuple[Step, ...]  # the events above the file's first scenario, with which each of them begins
    steps: tuple[Step, ...]


def read_scenarios(path: Path) -> list[Scenario]:
    """Every scenario of a file, in order. Raises ScenarioError with file and line."""
    blocks: list[tuple[int, str, str, list[Step]]] = [(0, "", "", [])]
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        steps = blocks[-1][3]
        if not line.strip() or line.startswith("#"):
            continue
        if line.startswith("="):
            header = _HEADER.fullmatch(line)
            if header is None:
                raise ScenarioError(f"{line!r} is no header; write `== R-W-T4: what it is about`").at(path, number)
            blocks.append((number, header["cases"], header["title"], []))
        elif not line[0].isspace():
            steps.append(Step(number, line.rstrip(), ()))
        elif len(blocks) == 1 or not steps:
            raise ScenarioError("a line to be seen, and no event of a scenario above it").at(path, number)
        elif steps[-1].line + len(steps[-1].expected) + 1 != number:
            raise ScenarioError("what is to be seen follows its event without a gap").at(path, number)
        else:
            last = steps[-1]
            steps[-1] = Step(last.line, last.event, (*last.expected, line.strip()))
    if len(blocks) == 1:
        raise ScenarioError("no scenario; write `== R-W-T4: what it is about` above its events").at(path, 1)
    beginning = tuple(blocks[0][3])
    return [Scenario(path, line, cases, title, beginning, tuple(steps)) for line, cases, title, steps in blocks[1:]]


def difference(scenario: Scenario, seen: Sequence[Sequence[str]]) -> str:
    """What was to be seen against what was seen, in the language itself; empty if they are the same."""
    expected = _text(scenario.steps, [step.expected for step in scenario.steps])
    actual = _text(scenario.steps, seen)
    if expected == actual:
        return ""
    shown = difflib.unified_diff(expected, actual, "expected", "seen", n=4, lineterm="")
    return f"{scenario.path}:{scenario.line}: {scenario.name}: {scenario.title}\n" + "\n".join(shown)


def _text(steps: Sequence[Step], seen: Sequence[Sequence[str]]) -> list[str]:
    lines: list[str] = []
    for step, lines_seen in zip(steps, seen, strict=True):
        lines += [step.event, *(INDENT + line for line in lines_seen)]
    return lines


def rewrite(scenario: Scenario, seen: Sequence[Sequence[str]]) -> None:
    """Put what was seen in the place of what was to be seen. The file may have been rewritten since it was read."""
    current = next(candidate for candidate in read_scenarios(scenario.path) if candidate.name == scenario.name)
    lines = scenario.path.read_text(encoding="utf-8").splitlines()
    for step, lines_seen in reversed(list(zip(current.steps, seen, strict=True))):
        lines[step.line : step.line + len(step.expected)] = [INDENT + line for line in lines_seen]
    scenario.path.write_text("\n".join(lines) + "\n", encoding="utf-8")
