"""What an audit must say of a case: worked out from what was done to its replicas, by the promises in docs/audit.md.

Of several faults in one replica some hide others, or are one: an `Outlook` is what there is to see of some of them.
"""

import itertools
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from tests.audit.cases import (
    COMMITTED_LOSS,
    GAP,
    IN_PLACE,
    LEADS_AWAY,
    MISMATCHES,
    UNREADABLE,
    Case,
    Cause,
    Held,
    Range,
)
from tests.audit.damage import BEYOND, damaged_in, indexed, runs
from tests.audit.replica_files import logs


@dataclass(frozen=True)
class Expected:
    """A finding that there must be."""

    causes: tuple[Cause, ...]
    kinds: tuple[str, ...]
    wrong: int | None
    first: int | None
    last: int | None  # None: where it ends is not said here
    position: int | None = None  # of what is rotten

    def __str__(self) -> str:
        names = ", ".join(cause.name for cause in self.causes)
        return f"{'/'.join(self.kinds)} wrong={self.wrong} {self.first} to {self.last}  ({names})"


class Outlook:
    """What there is to see of a case, if `causes` are all that is wrong.

    Of those that are `otherwise`, it is only seen that other replicas have other batches.
    """

    def __init__(self, case: Case, causes: Iterable[Cause], otherwise: Iterable[Cause] = ()) -> None:
        self._case = case
        self._otherwise = list(otherwise)
        self._of: dict[int, list[Cause]] = defaultdict(list)
        for cause in causes:
            self._of[cause.replica].append(cause)
        self._whole = {replica for replica, of in self._of.items() if any(cause.whole for cause in of)}
        hits = {r: [hit for c in of if c not in self._otherwise for hit in c.hits] for r, of in self._of.items()}
        damaged = {held.replica: damaged_in(held, hits.get(held.replica, [])) for held in case.held.values()}
        self._damaged = {replica: [one for one in of if not one.missing] for replica, of in damaged.items()}
        self._missing = {replica: [one for one in of if one.missing] for replica, of in damaged.items()}
        self._lost = {held.replica: self._holes(held) for held in case.held.values()}

    # -- what a replica has

    def has(self, held: Held, offset: int) -> bool:
        """Whether the batch with `offset` is there and sound."""
        if held.replica in self._whole or not held.kept_from <= offset < held.end:
            return False
        hidden: list[Range] = [one.range for one in self._damaged[held.replica]]
        hidden += [*self._lost[held.replica], *self._unreadable(held)]
        return not any(first <= offset <= last for first, last in hidden)

    def knows(self, held: Held, first: int) -> bool:
        """Whether it has a batch that begins there, and knows it to be committed."""
        return held.entry(first) is not None and self.has(held, first) and (held.mark or 0) > first

    def size(self, held: Held, start: int, end: int) -> int:
        """Bytes of its batches from one offset to another."""
        return sum(len(e.data) for e in held.entries if start <= e.first and e.last < end and self.has(held, e.first))

    def epoch(self, held: Held, first: int) -> int:
        """In the header of that batch."""
        changed = next(
            (c.epochs for c in self._of[held.replica] if c.name == "changed epoch" and c.first == first), None
        )
        entry = held.entry(first)
        assert entry is not None
        return changed[0][0] if changed else entry.epoch

    def _unreadable(self, held: Held) -> list[Range]:
        """Segments of which a file cannot be read: up to the next one that is there."""
        ranges = []
        for cause in self._of[held.replica]:
            if cause.kind == UNREADABLE and cause.first is not None and cause.last is not None:
                following = [base for path in logs(held.directory) if (base := int(path.stem)) > cause.first]
                ranges.append((cause.first, min(following) - 1 if following else cause.last))
        return ranges

    def _holes(self, held: Held) -> list[Range]:
        """Runs of missing offsets, those left out that are part of what is damaged or in what cannot be read."""
        gone = [c for c in self._of[held.replica] if c.kind in (COMMITTED_LOSS, GAP) and c.name != "repeated batch"]
        ranges = [(c.first, c.last) for c in gone if c.first is not None and c.last is not None]
        lost = runs([*ranges, *(one.range for one in self._missing[held.replica])])
        hidden = [one.range for one in self._damaged[held.replica]] + self._unreadable(held)
        for first, last in hidden:
            lost = [
                part for a, b in lost for part in ((a, min(b, first - 1)), (max(a, last + 1), b)) if part[0] <= part[1]
            ]
        return lost

    def _log_end(self, held: Held) -> int:
        """As it is described: from the last batch that the offset index points to on, up to what leads away."""
        paths = logs(held.directory)
        if not paths or any(int(paths[-1].stem) <= last for _, last in self._unreadable(held)):
            return held.end if paths else held.log_start
        hits = {hit.first: hit for cause in self._of[held.replica] for hit in cause.hits}
        places = [place for place in held.batches if place.path == paths[-1]]
        how = [hits[first].how if (first := place.header.base_offset) in hits else None for place in places]
        known = [
            n for n, place in enumerate(places) if place.position in indexed(paths[-1]) and how[n] in (None, IN_PLACE)
        ]
        end = int(paths[-1].stem)
        for place, hit in zip(places[max(known, default=0) :], how[max(known, default=0) :], strict=True):
            if hit == LEADS_AWAY:
                break
            end = place.header.next_offset
        return max(end, held.log_start)

    # -- what must be said

    def expected(self) -> list[Expected]:
        expected: list[Expected] = []
        for held in self._case.held.values():
            of = self._of[held.replica]
            if held.replica in self._whole:
                expected.append(Expected(tuple(c for c in of if c.whole), (UNREADABLE,), held.replica, None, None))
            else:
                expected += [_one(c, (UNREADABLE,), c.first, None) for c in of if c.kind == UNREADABLE]
                expected += [*self._losses(held), *self._rot(held)]
                expected += [_one(c, (GAP,), c.first, c.last) for c in of if c.name == "repeated batch"]
        mismatches = list(self._mismatches())
        for held in self._case.held.values():
            if held.replica not in self._whole:
                expected += [e for e in self._epoch_lies(held) if not any(_contains(m, e) for m in mismatches)]
        return expected + mismatches

    def _losses(self, held: Held) -> Iterator[Expected]:
        """A loss of what another replica still has, as far as it was committed; of what no other has, a gap."""
        for first, last in self._lost[held.replica]:
            cut = {
                hit
                for one in self._missing[held.replica]
                if first <= one.last and one.first <= last
                for hit in one.hits
            }
            causes = tuple(
                c
                for c in self._of[held.replica]
                if (c.kind in (COMMITTED_LOSS, GAP) and _meets(c, first, last)) or cut & set(c.hits)
            )
            first = max(first, held.log_start)
            if held.mark is not None and last >= held.end:
                last = held.mark - 1  # of what came behind it knew nothing
            if first > last:
                continue
            holders = [
                other
                for other in self._case.others(held.replica)
                if other.log_start <= last
                and any(self.has(other, e.first) and first <= e.last and e.first <= last for e in other.entries)
            ]
            kind = GAP
            if holders and first < self._case.committed:
                first = max(first, min(other.log_start for other in holders))
                last = min(last, self._case.committed - 1, max(map(self._log_end, holders)) - 1)
                kind = COMMITTED_LOSS
            yield Expected(causes, (kind,), held.replica, first, last)

    def _rot(self, held: Held) -> Iterator[Expected]:
        for one in self._damaged[held.replica]:
            if one.first < held.log_start:
                continue
            of = self._of[held.replica]
            causes = tuple(
                c
                for c in of
                if set(c.hits) & set(one.hits)
                or (not c.hits and c.kind in (COMMITTED_LOSS, GAP) and _meets(c, one.first, one.last))
            )
            may_be = tuple(kind for c in causes for kind in c.may_be)
            ends = one.last != BEYOND and not may_be
            yield Expected(
                causes, ("BIT_ROT", *may_be), held.replica, one.first, one.last if ends else None, position=one.position
            )

    def _epoch_lies(self, held: Held) -> Iterator[Expected]:
        """Runs of batches of which the checkpoint says what they do not."""
        of = [cause for cause in self._of[held.replica] if cause.kind == "EPOCH_CACHE_LIE"]
        for cause in of:
            if cause.epochs is None and not self._speaks_of_a_lost_tail(held, cause):
                last = max(held.log_start, self._log_end(held) - 1)
                yield Expected((cause,), (cause.kind,), held.replica, held.log_start, last)
        if any(cause.name == "unusable epochs" for cause in of):
            return
        changed = [cause for cause in self._of[held.replica] if cause.name == "changed epoch"]
        wrong: list[Range] = []
        for e in held.entries:
            if e.last < held.log_start or not self.has(held, e.first):
                continue
            said = {e.epoch}
            if of and of[0].epochs is not None:
                said = {_epoch_at(of[0].epochs, offset) for offset in (max(e.first, held.log_start), e.last)}
            if said != {self.epoch(held, e.first)}:
                wrong.append((e.first, e.last))
        for first, last in runs(wrong):
            causes = (*of, *(c for c in changed if _meets(c, first, last)))
            yield Expected(causes, ("EPOCH_CACHE_LIE",), held.replica, first, last)

    def _speaks_of_a_lost_tail(self, held: Held, cause: Cause) -> bool:
        return cause.name == "epochs beyond the log end" and self._log_end(held) < (held.mark or 0)

    # -- what replicas show of each other

    def _mismatches(self) -> Iterator[Expected]:
        """Runs of batches that two replicas have otherwise, joined where they overlap and one is part of each."""
        runs: list[tuple[int, int, bool, set[tuple[int, int]]]] = []
        for one, other in itertools.combinations(self._case.held.values(), 2):
            run: tuple[int, int, bool] | None = None
            for first in sorted({e.first for e in one.entries} & {e.first for e in other.entries}):
                if not (self.knows(one, first) and self.knows(other, first)):
                    continue
                a, b = one.entry(first), other.entry(first)
                assert a is not None
                assert b is not None
                bytes_differ = a.payload != b.payload or any(self._is_otherwise(h, first) for h in (one, other))
                if not bytes_differ and self.epoch(one, first) == self.epoch(other, first):
                    run = None
                    continue
                last = max(a.last, b.last)
                if run is None:
                    run = (first, last, bytes_differ)
                else:
                    runs.pop()
                    run = (run[0], max(run[1], last), run[2] or bytes_differ)
                runs.append((*run, {(one.replica, other.replica)}))
        joined: list[tuple[int, int, bool, set[tuple[int, int]]]] = []
        for first, last, value, pairs in sorted(runs, key=lambda run: run[0]):
            if joined and first <= joined[-1][1]:
                before = joined.pop()
                joined.append((before[0], max(before[1], last), before[2] or value, before[3] | pairs))
            else:
                joined.append((first, last, value, pairs))
        for first, last, value, pairs in joined:
            involved = {replica for pair in pairs for replica in pair}
            causes = tuple(
                cause
                for replica in involved
                for cause in self._of[replica]
                if (cause.kind in MISMATCHES or cause in self._otherwise) and _meets(cause, first, last)
            )
            if causes:
                wrong = self._culprit(causes, first, last, involved)
                yield Expected(causes, (MISMATCHES[not value],), wrong, first, last)

    def _is_otherwise(self, held: Held, first: int) -> bool:
        return any(cause.replica == held.replica and cause.first == first for cause in self._otherwise)

    def _culprit(self, causes: tuple[Cause, ...], first: int, last: int, involved: set[int]) -> int | None:
        """Whom two others contradict is wrong; of two that contradict each other it is the one that contradicts itself,
        else the one with the older epoch."""
        (replica,) = {cause.replica for cause in causes}
        if len(involved) > 2 or self._contradicts_itself(self._case.held[replica], first, last):
            return replica
        epochs = {self.epoch(self._case.held[one], first): one for one in involved}
        return epochs[min(epochs)] if len(epochs) > 1 else None

    def _contradicts_itself(self, held: Held, first: int, last: int) -> bool:
        of = self._of[held.replica]
        digests = [c for c in of if c.name == "changed epoch" and _meets(c, first, last) and _has_digest(held, c)]
        lies = [
            e
            for e in self._epoch_lies(held)
            if any(c.epochs is not None for c in e.causes) and (e.first or 0) <= last and (e.last or 0) >= first
        ]
        return bool(digests or lies)


def _one(cause: Cause, kinds: tuple[str, ...], first: int | None, last: int | None) -> Expected:
    return Expected((cause,), kinds, cause.replica, first, last)


def _meets(cause: Cause, first: int, last: int) -> bool:
    """Whether it concerns any of these offsets."""
    return cause.first is not None and cause.first <= last and first <= (BEYOND if cause.last is None else cause.last)


def _contains(mismatch: Expected, lie: Expected) -> bool:
    """Whether a checkpoint is right, and the batches are not."""
    return (
        mismatch.wrong in (None, lie.wrong)
        and (mismatch.first or 0) <= (lie.first or 0)
        and (lie.last or 0) <= (mismatch.last or 0)
    )


def _epoch_at(entries: tuple[tuple[int, int], ...], offset: int) -> int | None:
    return next((epoch for epoch, start in reversed(entries) if start <= offset), None)


def _has_digest(held: Held, cause: Cause) -> bool:
    place = next((place for place in held.batches if place.header.base_offset == cause.first), None)
    return place is not None and place.path.with_suffix(".digest").is_file()
