"""The histories of a cluster's metadata: they show who knows more than a store, or something else (CT-24). Pure.

Every controller that becomes active begins a history. So what two controllers made of two copies of one store can be
told apart, though its versions are the same numbers; as leader epochs tell logs apart (FE-5)."""

from collections.abc import Sequence
from typing import NamedTuple

from replog.log.directories.metadata_position import Position

MAX_HISTORIES = 500
HISTORY_ID_SIZE = 16


class History(NamedTuple):
    """It lasts until the next one begins."""

    history_id: bytes
    begins: int  # the version of its first change


Lineage = Sequence[History]  # oldest first; older ones may be forgotten


def begin(lineage: Lineage, history_id: bytes, newest: int) -> tuple[History, ...]:
    """The lineage with a history that begins after the version `newest`."""
    return (*lineage, History(history_id, newest + 1))[-MAX_HISTORIES:]


def continues(lineage: Lineage, newest: int, position: Position) -> bool:
    """Whether metadata of this lineage, at the version `newest`, have gone on from `position`, or are there.

    What is older than all histories that are remembered is taken on trust."""
    for number, history in enumerate(lineage):
        if history.history_id == position.history_id:
            end = lineage[number + 1].begins - 1 if number + 1 < len(lineage) else newest
            return position.version <= end
    return position.version < (lineage[0].begins if lineage else newest + 1)
