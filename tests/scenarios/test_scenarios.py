"""Every scenario of the `.txt` files beside this one. `REPLOG_REWRITE_SCENARIOS=1` takes what is seen for right. And
the language itself: mistakes are told with their place, files are rewritten."""

import os
import re
from pathlib import Path

import pytest

from tests.scenarios.language import Scenario, ScenarioError, Step, difference, read_scenarios, rewrite
from tests.scenarios.vocabulary import EVENTS, perform
from tests.scenarios.world import World

SCENARIOS = [scenario for path in sorted(Path(__file__).parent.glob("*.txt")) for scenario in read_scenarios(path)]


def run(scenario: Scenario, directory: Path) -> list[list[str]]:
    """What is seen after each event: what it says, then the new line of everything whose state it changed."""
    world = World(directory)
    states: dict[str, str] = {}
    seen: list[list[str]] = []
    try:
        for step in (*scenario.beginning, *scenario.steps):
            said, now = see(world, scenario, step)
            written = step.event.partition(":")[0]  # an event that writes a state down does not show it again
            said += [
                f"{name}: {now[name]}" for name in sorted(now) if states.get(name) != now[name] and name != written
            ]
            said += [f"{name}: gone" for name in sorted(states.keys() - now.keys())]
            seen.append(said)
            states = now
    finally:
        world.close()
    return seen[len(scenario.beginning) :]


def see(world: World, scenario: Scenario, step: Step) -> tuple[list[str], dict[str, str]]:
    """What the event says, and the states after it."""
    try:
        perform(world, step.event)
        world.settle()
        return world.said(), world.states()
    except ScenarioError as error:
        raise error.at(scenario.path, step.line) from None
    except Exception as error:
        error.add_note(f"{scenario.path}:{step.line}: {step.event}")
        raise


@pytest.mark.parametrize("scenario", SCENARIOS, ids=[scenario.name for scenario in SCENARIOS])
def test_scenario(scenario, tmp_path):
    seen = run(scenario, tmp_path)
    if os.environ.get("REPLOG_REWRITE_SCENARIOS"):
        rewrite(scenario, seen)
        return
    message = difference(scenario, seen)
    if message:
        pytest.fail(message, pytrace=False)


def test_a_scenario_is_found_by_one_name():
    names = [scenario.name for scenario in SCENARIOS]
    assert len(names) == len(set(names)), sorted(name for name in names if names.count(name) > 1)


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
