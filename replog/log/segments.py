"""The segments of one log, oldest first; the last one is active and always there (5.1)."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from operator import attrgetter
from pathlib import Path
from typing import ClassVar

from replog.log.errors import RetriableLogError, storage_errors
from replog.log.files.deletion import DeletedFiles
from replog.log.files.names import NEW_SUFFIX, SNAPSHOT_SUFFIX, segment_file_name
from replog.log.offsets import AbortedTransaction, FetchData, OffsetMetadata
from replog.log.segment import Segment
from replog.log.swap import Swap

_base = attrgetter("base_offset")


class Segments:
    """Finds, adds and removes segments. Files of removed ones wait as `.deleted`."""

    WATCHED: ClassVar = frozenset({"generation", "_swap"})  # the simulator's checks run after each assignment

    def __init__(self, directory: Path, segments: list[Segment]) -> None:
        """Take the loaded segments, at least one."""
        self.directory = directory
        self._segments = segments
        self.deleted = DeletedFiles()
        self.generation = 0  # counts truncations and cancelled cleanings
        self._swap: Swap | None = None  # a cleaner's swap that has begun

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

    def since(self, offset: int) -> list[Segment]:
        """Return the segment with the greatest base offset up to `offset` (else the first one), and those after it."""
        if offset >= self._segments[-1].base_offset:
            return self._segments[-1:]
        return self._segments[max(bisect_right(self._segments, offset, key=_base) - 1, 0) :]

    def locate(self, offset: int) -> OffsetMetadata:
        """Return the place of the batch that holds `offset`, or of the next one; the end if there is none (LG-6)."""
        for segment in self.since(offset):
            batch = segment.translate(offset) if segment.next_offset > offset else None
            if batch is not None:
                return OffsetMetadata(offset, segment.base_offset, batch[0])
        return OffsetMetadata(offset, self.active.base_offset, self.active.size)

    def end(self) -> OffsetMetadata:
        active = self._segments[-1]
        return OffsetMetadata(active.next_offset, active.base_offset, active.size)

    def read(self, offset: int, max_bytes: int, bound: OffsetMetadata, *, min_one_message: bool) -> FetchData:
        """Read whole batches from the one that holds `offset`, below `bound`, whose place is known (LG-7). A read stays
        within one segment, and has nothing at or past the bound."""
        if offset >= bound.offset:
            return FetchData(bound if offset == bound.offset else self.locate(offset), b"")
        for segment in self.since(offset):
            if segment.base_offset < bound.segment_base:
                max_position = segment.size
            else:
                max_position = bound.position if segment.base_offset == bound.segment_base else 0
            data = segment.read(offset, max_bytes, max_position, min_one_message=min_one_message)
            if data is not None:
                return data
        return FetchData(self.end(), b"")

    def aborted_transactions(self, data: FetchData) -> tuple[AbortedTransaction, ...]:
        """Return the aborted transactions that may overlap the data, perhaps others too (LG-9)."""
        first, *later = self.since(data.metadata.segment_base)
        if not data.records or not any(segment.transaction_index.count for segment in (first, *later)):
            return ()
        bound = first.index.fetch_upper_bound(data.metadata.position, len(data.records))
        end = later[0].base_offset if later else first.next_offset
        upper = end if bound is None else bound.offset
        aborted: list[AbortedTransaction] = []
        for segment in (first, *later):
            entries, complete = segment.transaction_index.collect(data.metadata.offset, upper)
            aborted += [AbortedTransaction(entry.producer_id, entry.first_offset) for entry in entries]
            if complete:
                break
        return tuple(aborted)

    def start(self, base_offset: int) -> None:
        """Roll (LG-5): finish the active segment and continue in a new one. An empty active segment is replaced.

        The finished segment stays open until it is flushed, or its descriptors are needed elsewhere. ValueError if the
        offset is below the log end."""
        old = self.active
        if base_offset < old.next_offset:
            raise ValueError(f"{old.path} ends at {old.next_offset}: no segment can begin at {base_offset}")
        if not old.size and old.base_offset == base_offset:
            return
        with old.held():
            new = new_segment(self.directory, base_offset)
            try:
                if old.size:
                    old.seal()
            except OSError:  # no room for the last index entries
                old.unseal()
                new.discard()
                raise
            self._segments.append(new)
        if not old.size:
            self._segments.remove(old)
            self._set_aside([old])

    def truncate_to(self, offset: int) -> None:
        """Remove everything from the batch that holds `offset` on; the segment of `offset` becomes active.

        Nothing may be appended before that is durable: batches that a crash brings back might fit behind new ones."""
        kept = bisect_right(self._segments, offset, key=_base)
        with self._segments[kept - 1].held():
            self._cancel_swap()
            self.generation += 1
            self._set_aside(reversed(self._segments[kept:]))
            del self._segments[kept:]
            self.active.truncate_to(offset)

    def replace_all(self, base_offset: int) -> None:
        """Remove everything and continue in one empty segment (LG-12)."""
        new = new_segment(self.directory, base_offset, NEW_SUFFIX)  # fails before anything has changed
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
        """Begin a cleaner's replacement. False, and its files are removed, if the segments it replaces are gone (CL-9).

        An earlier swap that lacked descriptors to finish is cancelled here: a crash much later would complete it."""
        self._cancel_swap()
        if self._slot_of(swap) is None:
            swap.cancel()
            return False
        swap.begin()
        self._swap = swap
        return True

    def finish_swap(self, swap: Swap) -> bool:
        """Finish the replacement. False if a removal of segments has cancelled it."""
        slot = self._slot_of(swap)
        if self._swap is not swap or slot is None:
            return False
        end = slot + len(swap.replaced)
        swap.finish(self._segments[slot:end], self.deleted)
        self._segments[slot:end] = [swap.new]
        self._swap = None
        return True

    def _slot_of(self, swap: Swap) -> int | None:
        """Return the index of the first sealed segment that it replaces; None if they are not all here."""
        bases = [segment.base_offset for segment in self._segments[:-1]]
        slot = bisect_left(bases, swap.replaced[0])
        return slot if tuple(bases[slot : slot + len(swap.replaced)]) == swap.replaced else None

    def _cancel_swap(self) -> None:
        if self._swap is not None:
            self._swap.cancel()
            self._swap = None

    def abort_cleaning(self) -> None:
        """Make a cleaning that is under way void (CL-2)."""
        self._cancel_swap()
        self.generation += 1

    def renamed(self, directory: Path) -> None:
        self.directory = directory
        for segment in self._segments:
            segment.renamed(directory)
        self.deleted.renamed(directory)

    def close(self) -> None:
        for segment in self._segments:
            segment.close()

    def _set_aside(self, segments: Iterable[Segment]) -> None:
        """Rename their files to `.deleted`, from an end of the log inwards: a crash leaves no hole."""
        for segment in segments:
            segment.close()
            snapshot = self.directory / segment_file_name(segment.base_offset, SNAPSHOT_SUFFIX)
            self.deleted.set_aside((*segment.paths, snapshot))  # PS-8


def new_segment(directory: Path, base_offset: int, suffix: str = "") -> Segment:
    """Return an empty segment with its files. If descriptors or room are lacking, no file is left."""
    segment = Segment(directory, base_offset, suffix)
    try:
        with storage_errors(directory):
            segment.create()
    except RetriableLogError:
        segment.discard()
        raise
    return segment
