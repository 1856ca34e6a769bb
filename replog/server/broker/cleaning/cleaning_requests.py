"""Requests to the process that cleans logs, and how it carries them out."""

from collections.abc import Sequence
from dataclasses import dataclass

from replog.log.compaction.cleaning import Cleaning, CleanTask, SourceSegment


@dataclass(frozen=True, slots=True)
class MapKeys:
    """Begin this cleaning (`Cleaning.map_keys`). The answer is the offset up to which the log will be clean."""

    task: CleanTask


@dataclass(frozen=True, slots=True)
class Rewrite:
    """Go on with it (`Cleaning.rewrite`). The answer is whether there is a segment to be swapped in."""

    group: Sequence[SourceSegment]


class Cleanings:
    """One cleaning after the other, as requested."""

    def __init__(self) -> None:
        self._cleaning: Cleaning | None = None

    def carry_out(self, request: MapKeys | Rewrite) -> int:
        """Raises what `Cleaning` raises."""
        if isinstance(request, MapKeys):
            self._cleaning = Cleaning(request.task)
            self._cleaning.map_keys()
            return self._cleaning.end_offset
        assert self._cleaning is not None, "the keys come first"
        return self._cleaning.rewrite(request.group) is not None
