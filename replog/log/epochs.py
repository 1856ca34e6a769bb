"""The leader epoch cache: the offset at which each leader epoch of a log begins (EP-1 to EP-9).

It serves to find divergence. A leader's epoch is durable before anything is appended in it. Epochs that come with
replicated batches become durable together with the batches (divergence 31)."""

import threading
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Sequence
from operator import itemgetter
from pathlib import Path
from typing import ClassVar

from replog.errors import ReplogError
from replog.log.errors import storage_errors
from replog.log.files.filesystem import GroupCommit
from replog.log.files.opening import fsync_directory, put_in_place, write_beside
from replog.log.formats.checkpoint import DamagedCheckpoint, format_entries, parse_number, read_entries
from replog.log.offsets import UNDEFINED_EPOCH_END, EpochEndOffset

EpochEntry = tuple[int, int]  # (leader epoch, offset of its first record)
Entries = list[EpochEntry]

_epoch = itemgetter(0)
_start = itemgetter(1)


def checked_epochs(path: Path, words: Iterable[Sequence[str]]) -> Entries:
    """Return the entries of a checkpoint. Raises DamagedCheckpoint unless they are numbers that increase (EP-1)."""
    entries = [(parse_number(path, epoch), parse_number(path, start)) for epoch, start in words]
    previous = (-1, -1)
    for entry in entries:
        if not previous[0] < entry[0] < 2**31 or entry[1] <= previous[1]:
            raise DamagedCheckpoint(
                f"{path}: entry {entry} does not follow {previous}: epochs and offsets must increase"
            )
        previous = entry
    return entries


class LeaderEpochCache:
    """Epochs and their start offsets, both strictly increasing (EP-1).

    Changes are in memory only; `save` makes them durable, in any thread. If a crash comes first, the file has too many
    entries, or lacks epochs of batches. Opening the log repairs both (LD-10)."""

    WATCHED: ClassVar = frozenset({"_entries"})  # the simulator's checks see each assignment

    def __init__(self, path: Path, entries: Iterable[EpochEntry] = ()) -> None:
        self.path = path
        self._entries = list(entries)  # replaced, never changed
        self.latest_epoch = self._entries[-1][0] if self._entries else None
        self._saved = self._entries  # the entries in the file
        self._begun: Entries | None = None  # the entries in the temporary file
        self._placed: Entries | None = None  # the entries under the file's name, maybe not durably
        self._saving = threading.Lock()
        self.on_unsaved: Callable[[], None] = lambda: None  # must have it saved soon

    @classmethod
    def load(cls, path: Path) -> "LeaderEpochCache":
        """Read the file; empty if it is missing. Raises DamagedCheckpoint if its content cannot be right."""
        return cls(path, checked_epochs(path, read_entries(path, 2)))

    @property
    def entries(self) -> tuple[EpochEntry, ...]:
        return tuple(self._entries)

    def assign(self, epoch: int, start_offset: int) -> bool:
        """Note that `epoch` begins at `start_offset`. False, and nothing changes, if it began earlier (EP-2).
        ValueError if either is negative."""
        before = self._entries
        self.assign_all([(epoch, start_offset)])
        return self._entries is not before

    def assign_all(self, starts: Iterable[EpochEntry]) -> None:
        entries = list(self._entries)
        for epoch, start in starts:
            if epoch < 0 or start < 0:
                raise ValueError(f"leader epoch {epoch} at offset {start}: neither may be negative")
            if entries and epoch == entries[-1][0] and start >= entries[-1][1]:
                continue
            while entries and (entries[-1][0] >= epoch or entries[-1][1] >= start):
                entries.pop()
            entries.append((epoch, start))
        self.replace(entries)

    def save(self) -> None:
        """Make all noted epochs durable."""
        self.begin_save()
        self.put_in_place()
        self.finish_save()

    def begin_save(self) -> Entries | None:
        """Write a temporary file, without waiting for the disk: the first of three steps, to save many caches together.
        Returns the entries that are being saved, None if all are. Another thread may save meanwhile: each step takes
        what it finds."""
        with self._saving, storage_errors(self.path):
            entries = self._entries  # the loop may note more meanwhile
            if all(entries is not known for known in (self._saved, self._begun, self._placed)):
                self._begun = None  # a half-written file must not be put in place
                write_beside(self.path, format_entries(entries))
                self._begun = entries
            return self._begun or self._placed

    def put_in_place(self, durable: Entries | None = None) -> None:
        """The second step: fsync the file unless its entries are `durable`, then give it its name."""
        with self._saving, storage_errors(self.path):
            begun, self._begun = self._begun, None
            if begun is not None:
                put_in_place(self.path, fsync=begun is not durable)
                self._placed = begun

    def finish_save(self, durable: Entries | None = None) -> None:
        """The third step: make the name durable, unless its entries are `durable`."""
        with self._saving, storage_errors(self.path):
            placed, self._placed = self._placed, None
            if placed is not None:
                if placed is not durable:
                    fsync_directory(self.path.parent)
                self._saved = placed

    def close(self) -> None:
        """Write nothing after this returns: the directory may come to belong to another log."""
        with self._saving:
            self._saved, self._begun, self._placed = self._entries, None, None

    def replace(self, entries: Iterable[EpochEntry]) -> None:
        taken = list(entries)
        if taken != self._entries:
            self._entries = taken
            self.latest_epoch = taken[-1][0] if taken else None
            self.on_unsaved()

    def truncate_from_end(self, offset: int) -> None:
        """Forget the epochs that begin at or after `offset` (EP-4); nothing for a negative one."""
        kept = bisect_left(self._entries, offset, key=_start)
        if offset >= 0 and kept < len(self._entries):
            self.replace(self._entries[:kept])

    def truncate_from_start(self, offset: int) -> None:
        """Forget the epochs that end at or before `offset`; the one it lies in now begins there (EP-5)."""
        slot = bisect_right(self._entries, offset, key=_start) - 1
        if slot >= 0:
            self.replace([(self._entries[slot][0], offset), *self._entries[slot + 1 :]])

    def clear(self) -> None:
        self.replace(())

    def end_offset_for(self, epoch: int, log_end_offset: int) -> EpochEndOffset:
        """Return the greatest known epoch up to `epoch`, and the offset where it ends (EP-6)."""
        if epoch < 0 or not self._entries or epoch > self._entries[-1][0]:
            return UNDEFINED_EPOCH_END
        if epoch == self._entries[-1][0]:
            return EpochEndOffset(epoch, log_end_offset)
        following = bisect_right(self._entries, epoch, key=_epoch)
        if following == 0:
            return EpochEndOffset(epoch, self._entries[0][1])
        return EpochEndOffset(self._entries[following - 1][0], self._entries[following][1])

    def epoch_for_offset(self, offset: int) -> int | None:
        """Return the epoch that `offset` lies in (EP-7); None below the first."""
        slot = bisect_right(self._entries, offset, key=_start) - 1
        return self._entries[slot][0] if slot >= 0 else None

    @property
    def latest(self) -> EpochEntry | None:
        return self._entries[-1] if self._entries else None


def save_all(caches: Iterable[LeaderEpochCache], fd: int) -> dict[LeaderEpochCache, ReplogError]:
    """Save all caches together; they are on the file system of `fd`. Return those that failed, and why."""
    together = GroupCommit(caches)
    written = together.each(LeaderEpochCache.begin_save)
    durable = written if together.are_durable(fd) else {}
    together.each(lambda cache: cache.put_in_place(durable.get(cache)))
    durable = durable if durable and together.are_durable(fd) else {}
    together.each(lambda cache: cache.finish_save(durable.get(cache)))
    return together.failures
