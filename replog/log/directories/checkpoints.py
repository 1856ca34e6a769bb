"""The checkpoints of a log directory: offsets of its logs, with which a start opens them, and below which compacted
logs are clean (1.1, 1.3, CL-1)."""

import threading
from collections.abc import Callable, Collection, Mapping
from contextlib import AbstractContextManager
from pathlib import Path

from replog.log.formats.checkpoint import (
    HIGH_WATERMARK_CHECKPOINT,
    LOG_START_CHECKPOINT,
    RECOVERY_POINT_CHECKPOINT,
    DamagedCheckpoint,
    OffsetCheckpoint,
)
from replog.log.log import Log
from replog.topic import TopicPartition

Report = Callable[[str], None]
OfAll = Mapping[TopicPartition, int]


class Checkpoints:
    """Reads the checkpoints at a start and writes them from any thread."""

    def __init__(
        self, path: Path, logs: Callable[[], Mapping[TopicPartition, Log]], failed: Collection[TopicPartition]
    ) -> None:
        """`logs` returns the logs to write. The `failed` could not be loaded, and keep their entries."""
        self.are_read = False  # nothing is written before they are read, or after the end (HW-12)
        self._logs = logs
        self._failed = failed
        self._recovery_points = OffsetCheckpoint(path / RECOVERY_POINT_CHECKPOINT)
        self._log_starts = OffsetCheckpoint(path / LOG_START_CHECKPOINT)
        self._high_watermarks = OffsetCheckpoint(path / HIGH_WATERMARK_CHECKPOINT)
        self._writing = threading.Lock()  # otherwise an older writer could be the last
        self._raised: dict[Log, TopicPartition] = {}  # their starts are higher than the checkpoint says

    def read(self, report: Report) -> tuple[OfAll, OfAll, OfAll]:
        """Return recovery points, log starts and high watermarks. An unreadable checkpoint counts as empty (D64)."""
        every = self._recovery_points, self._log_starts, self._high_watermarks
        recovery_points, log_starts, high_watermarks = (_read_or_empty(each, report) for each in every)
        return recovery_points, log_starts, high_watermarks

    def write_all(self) -> None:
        self.write_recovery_points()
        self.write_log_starts()
        self.write_high_watermarks()

    def write_recovery_points(self) -> None:
        self._write(self._recovery_points, lambda: {tp: log.recovery_point for tp, log in self._logs().items()})

    def write_high_watermarks(self) -> None:
        """Write the high watermarks (HW-11)."""
        self._write(self._high_watermarks, lambda: {tp: log.high_watermark for tp, log in self._logs().items()})

    def write_log_starts(self) -> None:
        """Write the log starts that differ from the base of the first segment (1.1)."""

        def starts() -> dict[TopicPartition, int]:
            bounds = {tp: (log.log_start_offset, log.bases[0]) for tp, log in self._logs().items()}
            return {tp: start for tp, (start, base) in bounds.items() if start > base}

        self._write(self._log_starts, starts)

    def note_raised(self, tp: TopicPartition, log: Log) -> None:
        """Note that the log start was raised, for `save_log_starts`."""
        self._raised[log] = tp

    def save_log_starts(self) -> list[tuple[TopicPartition, Log, int]]:
        """Make raised log starts durable, and return them for `Log.log_start_saved`."""
        raised = dict(self._raised)
        for log in raised:
            self._raised.pop(log, None)
        starts = [(tp, log, log.log_start_offset) for log, tp in raised.items()]
        if starts:
            try:
                self.write_log_starts()
            except BaseException:
                self._raised.update(raised)
                raise
        return starts

    def _write(self, checkpoint: OffsetCheckpoint, take: Callable[[], dict[TopicPartition, int]]) -> None:
        with self._writing:
            if not self.are_read:
                return
            before = _read_or_empty(checkpoint, lambda _: None) if self._failed else {}
            kept = {tp: at for tp, at in before.items() if tp in self._failed}
            checkpoint.write(kept | take())


def _read_or_empty(checkpoint: OffsetCheckpoint, report: Report) -> OfAll:
    try:
        return checkpoint.read()
    except DamagedCheckpoint as damage:
        report(f"{damage.message}; taking it as empty")
        return {}


class CleanedOffsets:
    """The offsets in memory and on disk. A lost entry costs one more cleaning. An entry that is too high would bring
    old values of deleted keys back. So entries are lowered durably, and raised only after the swaps are durable."""

    def __init__(self, path: Path, lock: AbstractContextManager[bool]) -> None:
        """A thread that writes the file holds the `lock`."""
        self._checkpoint = OffsetCheckpoint(path)
        self._offsets: dict[TopicPartition, int] = {}
        self._writing = lock

    def load(self) -> None:
        """Read the file. Raises DamagedCheckpoint."""
        self._offsets = self._checkpoint.read()

    def keep(self, partitions: Collection[TopicPartition]) -> None:
        """Drop all other partitions' entries durably: a new replica may get such a name."""
        kept = {tp: offset for tp, offset in self._offsets.items() if tp in partitions}
        if len(kept) < len(self._offsets):
            self._offsets = kept
            self.write()

    def get(self, tp: TopicPartition) -> int | None:
        return self._offsets.get(tp)

    def raise_to(self, tp: TopicPartition, offset: int) -> None:
        """A cleaning has reached `offset`; `write` makes that durable."""
        self._offsets[tp] = offset

    def lower_to(self, tp: TopicPartition, offset: int) -> None:
        """The log was truncated to a segment that begins there. Durable if the log was clean beyond."""
        if self._offsets.get(tp, 0) > offset:
            self._offsets[tp] = offset
            self.write()

    def forget(self, tp: TopicPartition) -> None:
        """The replica is deleted. Durable: a new one may get its name."""
        if self._offsets.pop(tp, None) is not None:
            self.write()

    def write(self) -> None:
        """Make the entries durable, in any thread."""
        with self._writing:
            self._checkpoint.write(dict(self._offsets))
