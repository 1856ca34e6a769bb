"""Decisions: the changes to commit, and their versions."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Generic, TypeVar

from replog.metadata.changes import Change

A = TypeVar("A")


@dataclass(frozen=True, slots=True)
class Decision(Generic[A]):
    """The changes to commit in one piece, not yet numbered, and the answer that is valid after the commit.

    If there may be thousands, they are made one by one as they are taken, with None for each partition that stays as it
    is. Nothing else may be decided meanwhile. The answer is complete when all were taken."""

    changes: Iterable[Change | None]  # an empty sequence: nothing to commit
    answer: A


def numbered(changes: Iterable[Change | None], after_version: int) -> Iterator[Change | None]:
    """Yields the changes with their versions, each one more than the last; None for None."""
    version = after_version
    for change in changes:
        if change is None:
            yield None
            continue
        version += 1
        yield change._replace(version=version)
