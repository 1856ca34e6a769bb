"""Puts one segment in place of its neighbours: a crash at any point leaves all of the old or all of the new (CL-9).

1. The new segment is written and fsynced under `.cleaned` names. A crash: they are removed (LD-1).
2. `begin` renames them to `.swap`. A crash before the last: some `.cleaned` is left, and all of them are removed.
3. The directory is fsynced: from here on a crash ends with the new segment (LD-2), never with neither.
4. `finish` renames the old files to `.deleted`, then the new ones to their names, the log first. A crash: a `.log.swap`
   replaces the old files that are left in its range of offsets. If other `.swap` files have no `.log.swap`, their log
   has its name already: they get theirs.
5. The directory is fsynced, and only then may the checkpoint say that this part of the log is clean.

The last batch of the old segments is kept, if only as a bare header, so the new log covers all of their offsets."""

import os
from collections.abc import Sequence
from pathlib import Path

from replog.config.topic import TopicConfig
from replog.log.files.deletion import DeletedFiles
from replog.log.files.names import (
    DELETED_SUFFIX,
    LOG_SUFFIX,
    NEW_SUFFIX,
    SNAPSHOT_SUFFIX,
    STRAY_SUFFIX,
    segment_file_name,
)
from replog.log.files.opening import files_by_offset, fsync_directory, open_regular
from replog.log.formats.segment_file import read_headers
from replog.log.segment import Segment

CLEANED_SUFFIX = ".cleaned"
SWAP_SUFFIX = ".swap"


def cleaned_segment(directory: Path, base_offset: int) -> Segment:
    """Make an empty segment under `.cleaned` names."""
    segment = Segment(directory, base_offset, CLEANED_SUFFIX)
    segment.create()
    return segment


def written_swap(directory: Path, replaced: Sequence[int], config: TopicConfig) -> "Swap":
    """Return the swap of a cleaned segment that another process has written for these base offsets.

    Raises CorruptRecord or CorruptIndex if its files are not those of a sound segment."""
    segment = Segment(directory, replaced[0], CLEANED_SUFFIX)
    segment.restore(config)
    segment.close()
    return Swap(segment, replaced)


def remove_cleaned(directory: Path) -> None:
    """Remove the files of an earlier, failed cleaning: with them, a crash would undo a later swap."""
    for path in directory.glob(f"*{CLEANED_SUFFIX}"):
        path.unlink()


class Swap:
    """A segment `new`, written and closed, that will replace those with these base offsets. The first is its own."""

    def __init__(self, new: Segment, replaced: Sequence[int]) -> None:
        self.new = new
        self.replaced = tuple(replaced)

    def begin(self) -> None:
        """Rename `.cleaned` to `.swap`; fsync the directory before `finish`."""
        self.new.rename(SWAP_SUFFIX)

    def finish(self, old: Sequence[Segment], deleted: DeletedFiles) -> None:
        """Rename the old files, and snapshots in their range, to `.deleted`, and the new ones to their names."""
        for segment in old:
            segment.close()
            deleted.set_aside(segment.paths)
        directory = self.new.path.parent
        deleted.set_aside(directory / segment_file_name(base, SNAPSHOT_SUFFIX) for base in self.replaced[1:])
        self.new.rename("")

    def cancel(self) -> None:
        """Remove the new files, the log last: while it is there, a crash completes the swap."""
        self.new.close()
        log, *others = self.new.paths
        for path in (*others, log):
            path.unlink(missing_ok=True)


def finish_swaps(directory: Path) -> None:
    """Undo or complete a deletion, or a cleaner's replacement, that a crash interrupted (LD-1, LD-2)."""
    files = files_by_offset(directory)
    undo_from = min((base for base, name in files if name.endswith(CLEANED_SUFFIX)), default=None)
    swaps = []
    for base, name in sorted(files, key=lambda file: file[1].endswith(CLEANED_SUFFIX)):  # they show a crash: last
        undone = name.endswith(SWAP_SUFFIX) and undo_from is not None and base >= undo_from
        if name.endswith((DELETED_SUFFIX, CLEANED_SUFFIX, NEW_SUFFIX)) or undone:
            (directory / name).unlink()
        elif name.endswith(SWAP_SUFFIX):
            swaps.append((directory / name, base))
    if not swaps:
        return
    logs = [(path, base) for path, base in swaps if path.name.endswith(LOG_SUFFIX + SWAP_SUFFIX)]
    if logs:
        low, high = min(base for _, base in logs), max(_end_of(path, base) for path, base in logs)
        for base, name in files:
            if not name.endswith((SWAP_SUFFIX, STRAY_SUFFIX)) and low <= base < high:
                (directory / name).unlink(missing_ok=True)
    for path, _ in sorted(swaps, key=lambda swap: swap not in logs):  # logs first
        path.rename(path.with_suffix(""))
    fsync_directory(directory)


def _end_of(path: Path, base: int) -> int:
    """Return the offset after the last batch of a log."""
    end = base
    with open_regular(path) as fd:
        for _, header in read_headers(fd, os.fstat(fd).st_size, 0):
            end = header.next_offset
    return end
