"""The histories of a cluster's metadata: they show if a store is behind, or holds something else (CT-24). Pure.

Every controller that becomes active begins a history. So the changes of two controllers to two copies of one store are
told apart, though their versions are the same numbers, as leader epochs tell logs apart (FE-5)."""

from collections.abc import Sequence
from typing import NamedTuple

from replog.log.directories.metadata_position import Position

MAX_HISTORIES = 500
HISTORY_ID_SIZE = 16


class History(NamedTuple):
    """One controller's changes, until the next history begins."""

    history_id: bytes
    begins: int  # the version of its first change


Lineage = Sequence[History]  # oldest first; older ones may be forgotten


def begin(lineage: Lineage, history_id: bytes, newest: int) -> tuple[History, ...]:
    """Return the lineage with a history that begins after the version `newest`."""
    return (*lineage, History(history_id, newest + 1))[-MAX_HISTORIES:]


def continues(lineage: Lineage, newest: int, position: Position) -> bool:
    """Return True if metadata of this lineage, at the version `newest`, contain `position`.

    A position older than all remembered histories is trusted."""
    for number, history in enumerate(lineage):
        if history.history_id == position.history_id:
            end = lineage[number + 1].begins - 1 if number + 1 < len(lineage) else newest
            return position.version <= end
    return position.version < (lineage[0].begins if lineage else newest + 1)
