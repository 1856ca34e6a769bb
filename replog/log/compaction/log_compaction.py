"""A log's side of its compaction: what a cleaner may do, and the swaps of what it has done (CL-1, CL-9)."""

from typing import TYPE_CHECKING

from replog.log.compaction.cleanable import Cleanable, find_cleanable
from replog.log.compaction.cleaning import CleanTask
from replog.log.compaction.swap import Swap
from replog.log.errors import DiskWork
from replog.log.segments import Segments

if TYPE_CHECKING:
    from replog.log.log import Log


class LogCompaction:
    """Belongs to a log, and to the log's thread."""

    def __init__(self, log: "Log", segments: Segments, working: DiskWork) -> None:
        self._log = log
        self._segments = segments
        self._working = working
        self.swapped_to = 0  # below it segments may have been replaced since the log was opened

    def cleanable(self, checkpoint: int | None, now_ms: int) -> Cleanable:
        """What the cleaner may touch, if the last cleaning came up to `checkpoint`."""
        with self._working:
            return find_cleanable(
                self._segments.all(),
                self._log.config,
                checkpoint=checkpoint,
                log_start_offset=self._log.log_start_offset,
                last_stable_offset=self._log.last_stable_offset,
                log_end_offset=self._log.log_end_offset,
                now_ms=now_ms,
            )

    def task(self, cleanable: Cleanable, now_ms: int, map_bytes: int) -> CleanTask:
        """What cleans that, anywhere (`cleaning`)."""
        return CleanTask.of(
            self._log.directory,
            self._log.config,
            self._segments.all(),
            cleanable,
            self._log.producers,
            now_ms,
            map_bytes,
            self._segments.generation,
        )

    def abort(self) -> None:
        """Make void whatever cleaning of this log is under way."""
        with self._working:
            self._segments.abort_cleaning()

    def is_void(self, task: CleanTask) -> bool:
        """Whether the log was truncated since, or the cleaning called off (CL-2)."""
        return task.generation != self._segments.generation

    def begin_swap(self, task: CleanTask, swap: Swap) -> bool:
        """Let a cleaned segment begin to replace its sources; make the directory durable, then `finish_swap`.

        False, and the segment is thrown away, if the task is void or its sources were removed since.
        """
        with self._working:
            if not self.is_void(task):
                self.swapped_to = max(self.swapped_to, swap.new.next_offset)
                return self._segments.begin_swap(swap)
            swap.cancel()
            return False

    def finish_swap(self, swap: Swap) -> bool:
        """Put it into their place; False if a truncation or a removal came in between, which has thrown it away."""
        with self._working:
            finished = self._segments.finish_swap(swap)
        self._log.forget_places()
        return finished
