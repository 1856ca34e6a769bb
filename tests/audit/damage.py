"""What a walk along the batches of a replica cannot believe, and up to where."""

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.audit.cases import IN_PLACE, LEADS_AWAY, MISNUMBERED, Held, Hit, Range
from tests.audit.replica_files import Place, logs
from tests.damage.vocabulary import index_entries

BEYOND = 2**63 - 1  # where the end of a log cannot be told


@dataclass(frozen=True)
class Damaged:
    """Batches next to each other that cannot be believed, and what is missing next to them."""

    first: int
    last: int  # BEYOND if no batch follows
    position: int
    hits: tuple[Hit, ...]
    missing: bool = False  # as if it had not been written to its end: no bytes are left to be rotten

    @property
    def range(self) -> Range:
        return self.first, self.last


def indexed(log: Path) -> set[int]:
    """The positions that its offset index has."""
    path = log.with_suffix(".index")
    return {position for _, position in index_entries(path)} if path.is_file() else set()


def runs(ranges: Iterable[Range]) -> list[Range]:
    """Joined where they adjoin."""
    joined: list[Range] = []
    for first, last in sorted(ranges):
        if joined and first <= joined[-1][1] + 1:
            first, before = joined.pop()
            last = max(before, last)
        joined.append((first, last))
    return joined


def damaged_in(held: Held, of: list[Hit]) -> list[Damaged]:
    """What a walk along the batches cannot believe, joined where it adjoins."""
    hits = {hit.first: hit for hit in of}
    damaged: list[Damaged] = []
    paths = logs(held.directory) if hits else []
    for path, after in itertools.zip_longest(paths, paths[1:]):
        for one in _in_file(path, [place for place in held.batches if place.path == path], hits, after):
            before = damaged[-1] if damaged else None
            if before is not None and one.first <= before.last + 1 and not before.missing and not one.missing:
                damaged[-1] = Damaged(before.first, max(before.last, one.last), before.position, before.hits + one.hits)
            else:
                damaged.append(one)
    return damaged


def _in_file(path: Path, places: list[Place], hits: dict[int, Hit], after: Path | None) -> Iterator[Damaged]:
    met = [hits.get(place.header.base_offset) for place in places]
    end = BEYOND if after is None else int(after.stem) - 1
    unsure = [hit is not None and hit.how != IN_PLACE for hit in met]  # nothing is known of where these are
    expected, at = int(path.stem), 0
    while at < len(places):
        began, hit, header = at, met[at], places[at].header
        at += 1
        if hit is None:
            expected = header.next_offset
            continue
        first = header.base_offset if hit.how == IN_PLACE else expected
        if hit.how == LEADS_AWAY:
            while at < len(places) and (unsure[at] or places[at].position not in indexed(path)):
                at += 1
        follows = at < len(places)
        last = places[at].header.base_offset - 1 if follows else end
        if hit.how != LEADS_AWAY and (unsure[at] if follows else hit.how == MISNUMBERED and last == BEYOND):
            last = header.last_offset
        if hit.how == IN_PLACE and hit.ends:
            last = header.last_offset
        before = met[began - 1] if began else None
        missing = hit.beyond and not follows and (before is None or before.how != IN_PLACE)
        yield Damaged(first, last, places[began].position, tuple(h for h in met[began:at] if h is not None), missing)
        expected = last + 1
