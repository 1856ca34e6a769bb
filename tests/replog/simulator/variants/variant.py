"""A protocol that is wrong on purpose: a simulator that does not catch it is too weak."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

Changes = tuple[tuple[Any, str, Callable[..., Any]], ...]  # owner, attribute, new value


@dataclass(frozen=True, slots=True)
class Variant:
    """`changes` are put in place of what is right for as long as `applied` lasts."""

    name: str
    wrong: str  # what it does instead
    of: str  # rules that it breaks, and published defects of that shape
    profile: str  # of the simulator, the one most likely to catch it
    changes: Changes
    raises: bool = False  # what it does in life is to raise an exception

    @contextmanager
    def applied(self) -> Iterator[None]:
        originals = [(owner, name, owner.__dict__[name]) for owner, name, _ in self.changes]
        for owner, name, value in self.changes:
            setattr(owner, name, value)
        try:
            yield
        finally:
            for owner, name, value in originals:
                setattr(owner, name, value)
