"""Compares leader epochs of the replicas of one partition, and shows where their histories part. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

SAME, FIRST, LATER, TAIL = "same", "first", "later", "tail"

BEFORE, SHOWN = 4, 24  # the most rows before the first difference, and in all


@dataclass(frozen=True)
class EpochHistory:
    """A replica's leader epoch checkpoint. `entries` are (epoch, first offset) in order; None: they are not known."""

    replica: int
    log_start: int
    log_end: int
    mark: int
    entries: tuple[tuple[int, int], ...] | None


@dataclass(frozen=True)
class LineageRow:
    """One epoch, with its first offset in each replica; None: the replica does not have it.

    `state` is `same`; `first` for the first difference; `later` for one that follows; `tail` for one at or above a
    high watermark, which is allowed, since nothing there is committed.
    """

    epoch: int
    starts: tuple[int | None, ...]
    state: str


@dataclass(frozen=True)
class Lineage:
    """The epochs around the first difference; `earlier` and `after` count the rows that are not shown."""

    replicas: tuple[int, ...]
    unknown: tuple[int, ...]
    rows: tuple[LineageRow, ...]
    earlier: int = 0
    after: int = 0

    @property
    def first(self) -> LineageRow | None:
        return next((row for row in self.rows if row.state == FIRST), None)


def lineage(histories: Sequence[EpochHistory]) -> Lineage:
    """Compare every epoch that some replica knows."""
    known = [history for history in histories if history.entries is not None]
    unknown = tuple(history.replica for history in histories if history.entries is None)
    bound = min((history.mark for history in known), default=0)
    rows: list[LineageRow] = []
    parted = False
    for epoch in sorted({epoch for history in known for epoch, _ in history.entries or ()}):
        starts = tuple(dict(history.entries or ()).get(epoch) for history in known)
        state = SAME
        if not _agree(known, epoch):
            state = TAIL if min(s for s in starts if s is not None) >= bound else LATER if parted else FIRST
            parted = parted or state == FIRST
        rows.append(LineageRow(epoch, starts, state))
    at = next((n for n, row in enumerate(rows) if row.state == FIRST), max(0, len(rows) - SHOWN + BEFORE))
    begin = max(0, at - BEFORE)
    shown = tuple(rows[begin : begin + SHOWN])
    return Lineage(tuple(h.replica for h in known), unknown, shown, begin, len(rows) - begin - len(shown))


def _agree(histories: Sequence[EpochHistory], epoch: int) -> bool:
    """Return True if no log contradicts; one may begin within the epoch or later, or end before it (EP-5, R-W-E10)."""
    exact, latest = set(), []  # offsets at which it starts; offsets at which it has begun
    end = 0
    for history in histories:
        entries = history.entries or ()
        for n, (known, start) in enumerate(entries):
            if known == epoch:
                if n == 0 and 0 < start <= history.log_start:
                    latest.append(start)
                else:
                    exact.add(start)
                end = max(end, entries[n + 1][1] if n + 1 < len(entries) else history.log_end)
    if len(exact) > 1 or any(start > late for start in exact for late in latest):
        return False
    start = min([*exact, *latest])
    lacking = [history for history in histories if epoch not in dict(history.entries or ())]
    return all(history.log_end <= start or history.log_start >= end for history in lacking)
