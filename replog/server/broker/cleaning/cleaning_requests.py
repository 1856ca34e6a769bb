"""Requests to the process that cleans logs, and their execution there."""

from collections.abc import Sequence
from dataclasses import dataclass

from replog.log.compaction.cleaning import Cleaning, CleanTask, SourceSegment


@dataclass(frozen=True, slots=True)
class MapKeys:
    """Begins a cleaning (`Cleaning.map_keys`). The answer is the offset up to which the log will be clean."""

    task: CleanTask


@dataclass(frozen=True, slots=True)
class Rewrite:
    """Goes on with the cleaning (`Cleaning.rewrite`). The answer is 1 if a segment is to be swapped in, else 0."""

    group: Sequence[SourceSegment]


class Cleanings:
    """Carries out one cleaning after the other."""

    def __init__(self) -> None:
        self._cleaning: Cleaning | None = None

    def carry_out(self, request: MapKeys | Rewrite) -> int:
        """Carry out a request. Raises as `Cleaning`."""
        if isinstance(request, MapKeys):
            self._cleaning = Cleaning(request.task)
            self._cleaning.map_keys()
            return self._cleaning.end_offset
        assert self._cleaning is not None, "the keys come first"
        return self._cleaning.rewrite(request.group) is not None
