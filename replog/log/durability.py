"""What of a log is on its disk, what has to be, and the flushes that bring it there (LG-18, divergence 36).

The log itself waits for no disk if somebody else runs its tasks: `on_due` asks for that. What has been appended, or cut
off, is there at once, for readers too; it counts once a task was run: appended records below `promised_offset`, and
after a truncation nothing is appended before the log is `settled`.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

from replog.log.errors import DiskWork, LogStorageError
from replog.log.flushing import FlushTask
from replog.log.producers.recovery import ProducerSnapshots
from replog.log.producers.state import ProducerStateManager
from replog.log.segments import Segments

if TYPE_CHECKING:
    from replog.log.log import Log


class LogDurability:
    """Of one log."""

    def __init__(self, log: "Log", segments: Segments, snapshots: ProducerSnapshots, working: DiskWork) -> None:
        self._log = log
        self._segments = segments
        self._snapshots = snapshots
        self._working = working
        self._remains: Callable[[], ProducerStateManager] | None = None  # what is left to be done of a truncation
        self._settled_start = -1  # the log start that was made durable then
        self.on_due: Callable[[], None] = self.flush_now  # or have somebody run a `task` soon

    @property
    def promised_offset(self) -> int:
        """Up to where the flush setting lets records count: fewer than `flush.messages` lie behind the recovery
        point."""
        log = self._log
        return min(log.log_end_offset, log.recovery_point + log.config.flush_messages - 1)

    @property
    def settled(self) -> bool:
        """Whether what was cut off is off the disk too: what a crash brought back might fit behind what is appended
        (LG-10)."""
        return self._remains is None

    @property
    def hides_all(self) -> bool:
        """Whether the log start is at the log end, after a crash too."""
        return self.settled and self._settled_start == self._log.log_start_offset == self._log.log_end_offset

    def ask(self) -> None:
        """If more is to be durable than is: after an append, and when the flush setting is a new one."""
        if self.promised_offset < self._log.log_end_offset or not self.settled:
            self.on_due()

    def cut(self, remains: Callable[[], ProducerStateManager] | None) -> None:
        """Offsets became lower, or hidden. `remains` says what is known of the producers, in any thread; None: nothing
        is left to be done."""
        self._remains = remains
        self._log.on_truncated()
        if remains is not None:
            self.on_due()

    def task(self, up_to: int | None = None) -> FlushTask | None:
        """What makes the log durable below `up_to` (the log end if None), and settles it; None if that is done.

        Run it anywhere, have the offsets checkpointed if it `settles`, and then it is `done`.
        """
        log = self._log
        up_to = log.log_end_offset if up_to is None or not self.settled else min(up_to, log.log_end_offset)
        if up_to <= log.recovery_point and self.settled:
            return None
        files = (log.directory, self._segments, self._snapshots, log.epochs)
        return FlushTask.of(*files, log.recovery_point, up_to, self._remains)

    def done(self, task: FlushTask) -> None:
        """Raise the recovery point, unless a truncation came in between."""
        if task.generation == self._segments.generation:
            self._log.recovery_point = max(self._log.recovery_point, task.up_to)
            if task.producers is not None:
                self._log.replace_producers(task.producers)
                self._remains, self._settled_start = None, self._log.log_start_offset

    def failed(self, error: LogStorageError) -> None:
        """A task has met this error: the disk failed."""
        self._working.fail(error)

    def flush(self, up_to: int | None = None) -> None:
        """A task, now."""
        if (task := self.task(up_to)) is not None:
            with self._working:
                task.run()
                if task.settles:
                    self._log.on_recovery_point_lowered()
            self.done(task)

    def begin_close(self) -> None:
        """The first half of an orderly stop, in any thread (FN-3): what is in memory alone is written. It waits for the
        disk only to settle a truncation, or if epochs are not saved."""
        self._log.on_failure = lambda _: None  # it is raised
        if not self.settled:
            self.flush()
        with self._working:
            self._log.epochs.save()
            self._snapshots.take(self._log.log_end_offset, self._log.producers)

    def finish_close(self, *, durable: bool = False) -> None:
        """The second: fsync everything, an empty active segment too, unless all that was written is `durable`."""
        if not durable:
            self.flush()
            with self._working:
                for segment in self._segments.since(self._log.recovery_point - 1):
                    segment.flush()
                self._snapshots.sync()
        self._log.recovery_point = self._log.log_end_offset

    def flush_now(self) -> None:
        """The same where that cannot be left for later."""
        with self._working.no_way_back():  # what is in the log is not refused
            self.flush()
