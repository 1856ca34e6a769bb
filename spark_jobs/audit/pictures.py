"""The page's plots: where logs, epochs and findings are, in pixels. The template draws them. Pure."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from spark_jobs.replicas.describe import Replica

WIDTH, LEFT, RIGHT = 960, 118, 136  # the width of a plot, and of its labels on each side, in pixels at full size
_APART = 14  # boxes closer than this are drawn as one


@dataclass(frozen=True)
class Mark:
    """The offsets of a finding in one replica. `blamed`: this replica is most likely wrong, or may be."""

    number: int
    kind: str
    first: int
    last: int
    blamed: bool


@dataclass(frozen=True)
class Box:
    """Marks that are drawn as one; the page leads from it to `lead`."""

    marks: tuple[Mark, ...]
    first: int
    last: int

    @property
    def lead(self) -> Mark:
        return next((mark for mark in self.marks if mark.blamed), self.marks[0])

    @property
    def kinds(self) -> str:
        return ", ".join(dict.fromkeys(mark.kind for mark in self.marks))


@dataclass(frozen=True)
class Lane:
    """One replica of a partition. `log` is None if the replica has no known log."""

    replica: int
    log: Replica | None
    epochs: tuple[tuple[int, int], ...]
    marks: tuple[Mark, ...]


@dataclass(frozen=True)
class Plot:
    """The replicas of a partition from one offset to another."""

    name: str
    lanes: Sequence[Lane]
    low: int
    high: int

    def x(self, offset: int) -> float:
        inside = min(max(offset, self.low), self.high)
        return round(LEFT + (WIDTH - LEFT - RIGHT) * (inside - self.low) / max(self.high - self.low, 1), 1)

    def shows(self, offset: int | None) -> bool:
        return offset is not None and self.low <= offset <= self.high

    def ticks(self) -> list[int]:
        """Return up to nine round numbers."""
        rough = max((self.high - self.low) / 6, 1)
        power = 10 ** math.floor(math.log10(rough))
        step = next(int(power * m) for m in (1, 2, 5, 10) if power * m >= rough)
        return list(range(-(-self.low // step) * step, self.high + 1, step))

    def epochs(self, lane: Lane) -> Iterator[tuple[int | None, int, int]]:
        """Yield the epoch, start and end of each part of the log; None if the checkpoint does not say the epoch."""
        assert lane.log is not None
        at, end = lane.log.log_start, lane.log.log_end
        known = [entry for entry in lane.epochs if entry[1] < end]
        parts: list[tuple[int | None, int]] = [(None, at), *known, (None, end)]
        for (epoch, start), (_, after) in pairwise(parts):
            first, last = max(start, at, self.low), min(after, self.high)
            if first < last:
                yield epoch, first, last

    def boxes(self, lane: Lane) -> list[Box]:
        boxes: list[Box] = []
        for mark in sorted(lane.marks, key=lambda m: (m.first, m.last)):
            if mark.last < self.low or mark.first >= self.high:
                continue
            if boxes and self.x(mark.first) < self.x(boxes[-1].last + 1) + _APART:
                before = boxes.pop()
                boxes.append(Box((*before.marks, mark), before.first, max(before.last, mark.last)))
            else:
                boxes.append(Box((mark,), mark.first, mark.last))
        return boxes


def plots(name: str, lanes: Sequence[Lane]) -> list[Plot]:
    """Return the plot of a partition, and a closer one if its findings take less than a quarter of it."""
    logs = [lane.log for lane in lanes if lane.log is not None]
    marks = [mark for lane in lanes for mark in lane.marks]
    low = min([*(log.log_start for log in logs), *(mark.first for mark in marks)], default=0)
    high = max([low + 1, *(max(log.log_end, log.mark) for log in logs), *(mark.last + 1 for mark in marks)])
    whole = Plot(name, lanes, low, high)
    if not marks:
        return [whole]
    first, last = min(mark.first for mark in marks), max(mark.last for mark in marks) + 1
    around = max((last - first) // 2, 4)
    closer = Plot(name, lanes, max(low, first - around), min(high, last + around))
    return [whole, closer] if closer.high - closer.low < (high - low) / 4 else [whole]
