"""How an event's line is understood: the vocabulary, as usages with places for numbers and names."""

import re
from collections.abc import Callable
from typing import Any, NamedTuple

from tests.scenarios.language import ScenarioError
from tests.scenarios.world import World

_PLACES = {
    "BROKER": r"(\d+)",
    "REPLICA": r"(\d+[a-z]?)",  # a broker, and a letter where there are several partitions
    "REPLICAS": r"(\d+[a-z]?(?: \d+[a-z]?)*)",
    "BROKERS": r"(\d+(?: \d+)*)",
    "PARTITION": r"((?: [a-z])?)",
    "N": r"(-?\d+)",
    "ERROR": r"([A-Z_]+)",
    "NAME": r"([a-z]+)",
    "WHO": r"(\d+|consumer)",
    "TEXT": r"(.+)",
}
_NAMES = re.compile("|".join(sorted(_PLACES, key=len, reverse=True)))


class Event(NamedTuple):
    usage: str
    pattern: re.Pattern[str]
    options: tuple[str, ...]
    do: Callable[..., None]


EVENTS: list[Event] = []


def event(usage: str, *options: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Register what a line does. `options` may follow in any order, as `name value`."""
    pattern = _NAMES.sub(lambda place: _PLACES[place[0]], re.sub(r"([().])", r"\\\1", usage))
    tail = r"((?: [a-z-]+ \S+)*)" if options else ""

    def register(do: Callable[..., None]) -> Callable[..., None]:
        EVENTS.append(Event(usage, re.compile(pattern + tail), options, do))
        return do

    return register


def perform(world: World, line: str) -> None:
    """Do what the line says: one event, or several joined by ` & `. Raises ScenarioError if it is nothing known."""
    for one in line.split(" & "):
        _perform(world, one)


def _perform(world: World, line: str) -> None:
    for known in EVENTS:
        match = known.pattern.fullmatch(line)
        if match is None:
            continue
        groups = match.groups()
        if not known.options:
            known.do(world, *groups)
            return
        *places, tail = groups
        known.do(world, *places, **_options(known, tail))
        return
    usages = "\n  ".join(known.usage for known in EVENTS)
    raise ScenarioError(f"{line!r} is no event; these are:\n  {usages}")


def _options(known: Event, tail: str) -> dict[str, Any]:
    words = tail.split()
    options = dict(zip(words[::2], words[1::2], strict=True))
    for name in options:
        if name not in known.options:
            raise ScenarioError(f"{name!r} is no option of `{known.usage}`; these are: {', '.join(known.options)}")
    return {name.replace("-", "_"): value for name, value in options.items()}
