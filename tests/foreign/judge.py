"""What a judge has said: each test of its own, compared with a list in the tree, which only grows.

A list has one test a line, in the judge's order: `name: passes`, `name: fails: reason`, `name: skips: reason`, or
`name: varies: reason` where the machine decides. What a judge says that is not in its list is a failure of ours: also a
test that passes and was listed as failing, so that it is moved up and stays up.
"""

import enum
import re
from collections import Counter
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import NamedTuple

_LISTS = Path(__file__).parent
SAID = _LISTS.parents[1] / "artifacts" / "foreign"  # lists of what really happened, to take lines from
_LINE = re.compile(r"(.+?): (?:passes|(fails|skips|varies): (.+))")


class Verdict(enum.StrEnum):
    PASSES = "passes"
    FAILS = "fails"
    SKIPS = "skips"
    VARIES = "varies"


class Said(NamedTuple):
    """What one test of a judge came to; `why` is empty when it passed."""

    verdict: Verdict
    why: str = ""

    def __str__(self) -> str:
        return f"{self.verdict}: {' '.join(self.why.split())[:200]}" if self.why else self.verdict


class Judge:
    """The list of one judge, `tests/foreign/<name>.txt`."""

    def __init__(self, name: str) -> None:
        self.name = name
        path = _LISTS / f"{name}.txt"
        lines = path.read_text().splitlines() if path.exists() else []
        self._said: dict[str, Said] = {}
        self.listed = dict(_parsed(line) for line in lines if line and not line.startswith("#"))

    def check(self, said: Mapping[str, Said], asked: Collection[str] | None = None) -> None:
        """Fail with all differences between what was said and what is listed. `asked`: the listed tests that ran;
        default all."""
        self._keep(said)
        wrong = [difference for name, one in said.items() if (difference := self._difference(name, one))]
        for name in self.listed if asked is None else asked:
            if name not in said and self.listed[name].verdict is not Verdict.VARIES:
                wrong.append(f"{name}: is listed, and did not run")
        counts = Counter(one.verdict for one in said.values())
        told = ", ".join(f"{counts[verdict]} {verdict}" for verdict in Verdict if counts[verdict])
        print(f"{self.name}: {told}, of {len(said)}")
        assert not wrong, f"{self.name}: {told}; {len(wrong)} differ from {self.name}.txt:\n" + "\n".join(wrong)

    def _difference(self, name: str, said: Said) -> str:
        """Return what is wrong with a test; empty if nothing is."""
        match self.listed.get(name):
            case None:
                return f"{name}: {said}; add a line"
            case Said(Verdict.VARIES) | Said(said.verdict):
                return ""
            case listed if said.verdict is Verdict.PASSES:
                return f"{name}: passes; move it up, it was listed as: {listed}"
            case listed:
                return f"{name}: {said}; it is listed as: {listed}"

    def _keep(self, said: Mapping[str, Said]) -> None:
        """Write a list of all that was said so far, with the reasons that the tree has."""
        self._said.update(said)
        SAID.mkdir(parents=True, exist_ok=True)
        lines = [f"{name}: {self._reasoned(name, one)}\n" for name, one in self._said.items()]
        (SAID / f"{self.name}.txt").write_text("".join(lines))

    def _reasoned(self, name: str, said: Said) -> Said:
        listed = self.listed.get(name)
        return listed if listed and listed.verdict in (Verdict.VARIES, said.verdict) else said


def _parsed(line: str) -> tuple[str, Said]:
    if (match := _LINE.fullmatch(line)) is None:
        raise ValueError(f"{line!r} is no line of a list: a test, and `passes`, or another verdict with its reason")
    return match[1], Said(Verdict(match[2] or Verdict.PASSES), match[3] or "")
