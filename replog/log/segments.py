"""The segments of one log, oldest first; the last one is active and always there (5.1)."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from operator import attrgetter
from pathlib import Path
from typing import NamedTuple

from replog.log.compaction.swap import Swap
from replog.log.deletion import DeletedFiles
from replog.log.errors import TooManyOpenFiles
from replog.log.files import NEW_SUFFIX, SNAPSHOT_SUFFIX, segment_file_name
from replog.log.offsets import OffsetMetadata
from replog.log.segment import Segment

_base = attrgetter("base_offset")


class SegmentView(NamedTuple):
    """What others may know of a segment."""

    base_offset: int
    size: int  # bytes of the .log file
    path: Path  # of the .log file; the indexes lie beside it


class Segments:
    """Finds, adds and removes segments. Files of removed ones wait as `.deleted`."""

    def __init__(self, directory: Path, segments: list[Segment]) -> None:
        """Take what was loaded; at least one segment."""
        self._directory = directory
        self._segments = segments
        self.deleted = DeletedFiles()
        self.generation = 0  # counts truncations, and cleanings that were called off
        self._swap: Swap | None = None  # begun

    def __iter__(self) -> Iterator[Segment]:
        return iter(self._segments)

    def __len__(self) -> int:
        return len(self._segments)

    @property
    def active(self) -> Segment:
        return self._segments[-1]

    @property
    def first(self) -> Segment:
        return self._segments[0]

    @property
    def size(self) -> int:
        return sum(segment.size for segment in self._segments)

    def all(self) -> list[Segment]:
        return list(self._segments)

    def views(self) -> tuple[SegmentView, ...]:
        return tuple(SegmentView(segment.base_offset, segment.size, segment.path) for segment in self._segments)

    def since(self, offset: int) -> list[Segment]:
        """The segment with the greatest base offset up to `offset` (the first one, if none), and those after it."""
        if offset >= self.active.base_offset:
            return self._segments[-1:]
        return self._segments[max(bisect_right(self._segments, offset, key=_base) - 1, 0) :]

    def locate(self, offset: int) -> OffsetMetadata:
        """The place of the batch that holds `offset`, or of the next one; the end if there is none (LG-6)."""
        for segment in self.since(offset):
            found = segment.translate(offset) if segment.next_offset > offset else None
            if found is not None:
                return OffsetMetadata(offset, segment.base_offset, found[0])
        return OffsetMetadata(offset, self.active.base_offset, self.active.size)

    def end(self) -> OffsetMetadata:
        """The log end."""
        return OffsetMetadata(self.active.next_offset, self.active.base_offset, self.active.size)

    def start(self, base_offset: int) -> None:
        """Roll (LG-5): finish the active segment and go on in a new one. An empty active segment is replaced.

        What is finished stays open until it is flushed, or its descriptor is needed elsewhere. ValueError if it would
        go back, or replace a segment that has data.
        """
        old = self.active
        if base_offset < old.next_offset:
            raise ValueError(f"{old.path} ends at {old.next_offset}: no segment can begin at {base_offset}")
        if not old.size and old.base_offset == base_offset:
            return
        with old.held():
            self._segments.append(new_segment(self._directory, base_offset))
            if old.size:
                old.seal()
        if not old.size:
            self._segments.remove(old)
            self._set_aside([old])

    def truncate_to(self, offset: int) -> None:
        """Remove everything from the batch that holds `offset` on; the segment of `offset` becomes active.

        Nothing may be appended before that is durable: what a crash brought back might fit behind it.
        """
        kept = bisect_right(self._segments, offset, key=_base)
        with self._segments[kept - 1].held():
            self._cancel_swap()
            self.generation += 1
            self._set_aside(reversed(self._segments[kept:]))
            del self._segments[kept:]
            self.active.truncate_to(offset)

    def replace_all(self, base_offset: int) -> None:
        """Remove everything and go on in one empty segment (LG-12)."""
        new = new_segment(self._directory, base_offset, NEW_SUFFIX)  # while nothing has happened yet
        self._cancel_swap()
        self.generation += 1
        self._set_aside(reversed(self._segments))
        new.rename("")
        self._segments = [new]

    def remove_first(self, count: int) -> None:
        """Remove the oldest segments; at least one must stay."""
        self._cancel_swap()
        removed = self._segments[:count]
        del self._segments[:count]
        self._set_aside(removed)

    def begin_swap(self, swap: Swap) -> bool:
        """The first half of a cleaner's replacement; False, and it is removed, if what it replaces is gone (CL-9).

        One that was begun and not finished, for want of descriptors, is called off: nobody else would be in time, and
        a crash much later would complete it.
        """
        self._cancel_swap()
        if self._slot_of(swap) is None:
            swap.cancel()
            return False
        swap.begin()
        self._swap = swap
        return True

    def finish_swap(self, swap: Swap) -> bool:
        """The second half; False if a removal of segments has called the swap off."""
        slot = self._slot_of(swap)
        if self._swap is not swap or slot is None:
            return False
        end = slot + len(swap.replaced)
        swap.finish(self._segments[slot:end], self.deleted)
        self._segments[slot:end] = [swap.new]
        self._swap = None
        return True

    def _slot_of(self, swap: Swap) -> int | None:
        """Where the sealed segments that it replaces begin; None if they are not all here."""
        bases = [segment.base_offset for segment in self._segments[:-1]]
        slot = bisect_left(bases, swap.replaced[0])
        return slot if tuple(bases[slot : slot + len(swap.replaced)]) == swap.replaced else None

    def _cancel_swap(self) -> None:
        if self._swap is not None:
            self._swap.cancel()
            self._swap = None

    def abort_cleaning(self) -> None:
        """Whatever cleaning is under way comes to nothing (CL-2)."""
        self._cancel_swap()
        self.generation += 1

    def renamed(self, directory: Path) -> None:
        """Their directory has this name from now on."""
        self._directory = directory
        for segment in self._segments:
            segment.renamed(directory)
        self.deleted.renamed(directory)

    def close(self) -> None:
        for segment in self._segments:
            segment.close()

    def _set_aside(self, segments: Iterable[Segment]) -> None:
        """In this order, from an end of the log inwards, so that a crash leaves no hole."""
        for segment in segments:
            segment.close()
            snapshot = self._directory / segment_file_name(segment.base_offset, SNAPSHOT_SUFFIX)
            self.deleted.set_aside((*segment.paths, snapshot))  # PS-8


def new_segment(directory: Path, base_offset: int, suffix: str = "") -> Segment:
    """An empty segment, its files created; none of them is left if there are no descriptors for them."""
    segment = Segment(directory, base_offset, suffix)
    try:
        segment.create()
    except TooManyOpenFiles:
        segment.close()
        for path in segment.paths:
            path.unlink(missing_ok=True)
        raise
    return segment
