"""The language itself: mistakes are told with their place, differences in the language, and files are rewritten."""

import re
from pathlib import Path

import pytest

from tests.scenarios.language import Scenario, ScenarioError, difference, read_scenarios, rewrite
from tests.scenarios.test_scenarios import run
from tests.scenarios.vocabulary import EVENTS

GOOD = """\
# A remark.
1: 0:0-4 hw 5

== R-W-T1: a title
controller: leader 1
  1: 0:0-4 hw 5 isr 1

# Another one.
1 appends 1
  1: 0:0-5 hw 5 isr 1
"""


@pytest.fixture
def write(tmp_path: Path):
    def write(text: str) -> Path:
        path = tmp_path / "case.txt"
        path.write_text(text)
        return path

    return write


@pytest.fixture
def good(write) -> Scenario:
    return read_scenarios(write(GOOD))[0]


def test_a_file_is_read(good):
    assert (good.name, good.title, good.line) == ("R-W-T1", "a title", 4)
    assert [step.event for step in good.beginning] == ["1: 0:0-4 hw 5"]
    assert [(step.line, step.event, step.expected) for step in good.steps] == [
        (5, "controller: leader 1", ("1: 0:0-4 hw 5 isr 1",)),
        (9, "1 appends 1", ("1: 0:0-5 hw 5 isr 1",)),
    ]


@pytest.mark.parametrize(
    ("text", "line", "fault"),
    [
        ("1: ∅\n", 1, "no scenario"),
        ("== no title\n", 1, "is no header"),
        ("  seen\n== R-W-T1: title\n", 1, "no event of a scenario"),
        ("== R-W-T1: title\n  seen\n", 2, "no event of a scenario"),
        ("1: ∅\n  seen\n== R-W-T1: title\n", 2, "no event of a scenario"),
        ("== R-W-T1: title\n1: ∅\n\n  seen\n", 4, "without a gap"),
    ],
)
def test_a_file_that_cannot_be_read_is_told_with_its_line(write, text, line, fault):
    path = write(text)
    with pytest.raises(ScenarioError, match=rf"^{re.escape(str(path))}:{line}: .*{fault}"):
        read_scenarios(path)


@pytest.mark.parametrize(
    ("event", "fault"),
    [
        ("1 dances", "'1 dances' is no event; these are"),
        ("2: 0:0-4 5", "is no log; one is written"),
        ("1: ∅", "1 has a log already"),
        ("2 fetches", "2 has no log; write `2: 1:0-9` above"),
        ("1 fetches", "1 is no follower"),
        ("1 appends 1", "1 does not lead"),
        ("controller: loader 1", "'loader' is nothing a partition has"),
        ("broker 1: happy", "'happy' is nothing a broker is"),
        ("set log.dir 4", "log.dir is no setting"),
        ("set replica.lag.time.max.ms 5", "stands above all of them"),
        ("consumer asks 1 fetch(0) speed 4", "'speed' is no option of"),
        ("controller answers 1", "has asked the controller for nothing"),
        ("at 5 & at 4", "it is 5 already"),
    ],
)
def test_an_event_that_cannot_be_is_told_with_its_line(write, tmp_path, event, fault):
    path = write(f"1: ∅\n== R-W-T1: title\n{event}\n")
    with pytest.raises(ScenarioError, match=rf"^{re.escape(str(path))}:3: .*{re.escape(fault)}"):
        run(read_scenarios(path)[0], tmp_path)


def test_what_is_seen_is_compared_in_the_language(good, tmp_path):
    seen = run(good, tmp_path)
    told = difference(good, seen)
    assert told.startswith(f"{good.path}:4: R-W-T1: a title\n")
    assert "\n-  1: 0:0-5 hw 5 isr 1\n+  1: 0:0-5 hw 6 isr 1" in told


def test_a_file_is_rewritten_with_what_is_seen(good, tmp_path):
    rewrite(good, run(good, tmp_path))
    assert good.path.read_text() == GOOD.replace("0:0-5 hw 5", "0:0-5 hw 6")
    rewrite(good, [["one", "two"], []])  # by the file as it is now
    assert good.path.read_text() == GOOD.replace("  1: 0:0-5 hw 5 isr 1\n", "").replace(
        "  1: 0:0-4 hw 5 isr 1", "  one\n  two"
    )


def test_the_readme_teaches_every_event():
    text = (Path(__file__).parent / "README.md").read_text()
    missing = [event.usage for event in EVENTS if f"`{event.usage}`" not in text]
    missing += [name for event in EVENTS for name in event.options if f"`{name}`" not in text]
    assert not missing
