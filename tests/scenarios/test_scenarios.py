"""Every scenario of the `.txt` files beside this one. `REPLOG_REWRITE_SCENARIOS=1` takes what is seen for right."""

import os
from pathlib import Path

import pytest

from tests.scenarios.language import Scenario, ScenarioError, Step, difference, read_scenarios, rewrite
from tests.scenarios.vocabulary import perform
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
