"""The files of a log: how they are opened, made durable, and closed. A thread can wait for the disk (`FlushTask`)."""

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from replog.config.topic import TopicConfig
from replog.log.epochs import LeaderEpochCache
from replog.log.errors import DiskWork, LogStorageError, RetriableLogError, storage_errors
from replog.log.files.open_files import OpenFile, sync_all
from replog.log.files.opening import fsync_directory, fsync_path
from replog.log.loading import LoadedLog, load_log
from replog.log.offsets import Isolation, OffsetMetadata
from replog.log.producers.snapshot import ProducerSnapshotEntry
from replog.log.producers.state import ProducerStateManager
from replog.log.segment import Segment
from replog.topic import TopicPartition


@dataclass(slots=True)
class FlushTask:
    """Files to fsync, in order; then everything below `up_to` is durable. After a truncation it also does the rest of
    that.

    Files of segments are fsynced through the descriptors that wrote them: `open_files` says why."""

    directory: Path
    files: list[OpenFile]
    paths: list[Path]
    new_names: bool  # files were created or removed
    up_to: int
    generation: int  # the log's: a truncation makes older tasks void
    epochs: LeaderEpochCache
    remains: Callable[[], ProducerStateManager] | None
    producers: ProducerStateManager | None = None  # the result of a run that `settles`

    @property
    def settles(self) -> bool:
        """True if offsets became lower. Nothing may be appended before a checkpoint says so."""
        return self.remains is not None

    @classmethod
    def of(cls, log: "DurableLog", up_to: int) -> "FlushTask":
        """Collect the files that a log has written since its recovery point, up to an offset.

        For the active segment the `.log` is enough: a recovery rebuilds its indexes (LD-5). If a segment was sealed at
        the recovery point, its indexes are not durable yet."""
        segments, point, remains = log._segments, log.recovery_point, log._remains
        unflushed = segments.since(point - 1)
        files: list[OpenFile] = []
        for segment in unflushed:
            if segment.base_offset < up_to or remains is not None:
                files += [segment.file] if segment is segments.active else segment.files
        begun = [segment.base_offset for segment in unflushed if point <= segment.base_offset <= up_to]
        paths = [log._snapshots.path(base) for base in begun]
        if remains is not None:
            paths.append(log._snapshots.path(up_to))
        new_names = bool(begun) or remains is not None
        return cls(log.directory, files, paths, new_names, up_to, segments.generation, log.epochs, remains)

    def run(self) -> None:
        """Save the epochs that came with the batches (EP-9), fsync the files, then the directory if files are new
        (LG-18). Files that were removed meanwhile are skipped."""
        with storage_errors(self.directory):
            if self.remains is not None:
                self.producers = self.remains()
            self.epochs.save()
            sync_all(self.files)
            for path in self.paths:
                with suppress(FileNotFoundError):
                    fsync_path(path)
            if self.new_names:
                fsync_directory(self.directory)


def run_all(
    tasks: Mapping[TopicPartition, FlushTask], checkpoint: Callable[[Collection[TopicPartition]], None]
) -> dict[TopicPartition, LogStorageError | RetriableLogError]:
    """Run all tasks, then `checkpoint` those that settle, in one call. Return those that failed, and why."""
    failures: dict[TopicPartition, LogStorageError | RetriableLogError] = {}
    for tp, task in tasks.items():
        try:
            task.run()
        except (LogStorageError, RetriableLogError) as error:
            failures[tp] = error
    settled = [tp for tp, task in tasks.items() if task.settles and tp not in failures]
    if settled:
        try:
            checkpoint(settled)
        except (LogStorageError, RetriableLogError) as error:
            failures.update(dict.fromkeys(settled, error))
    return failures


class DurableLog:
    """A log's state and files. `Log` appends to them, reads them and cuts them."""

    def __init__(self, directory: Path, config: TopicConfig, loaded: LoadedLog) -> None:
        self.directory = directory
        self.config = config  # may be replaced: the new one counts from then on
        self.epochs = loaded.epochs
        self.producers = loaded.producers
        self.lost_data = loaded.lost_data  # opening found batches missing, or dropped unsound ones
        self.log_end_offset = loaded.segments.active.next_offset
        self.log_start_offset = loaded.log_start_offset
        self._kept_start = self.log_start_offset
        self.recovery_point = 0
        self.on_truncated: Callable[[], None] = lambda: None
        # may instead have it saved soon, and then call `log_start_saved`
        self.on_log_start_raised: Callable[[], None] = lambda: self.log_start_saved(self.log_start_offset)
        self.on_recovery_point_lowered: Callable[[], None] = lambda: None  # must make it and the log start durable
        self.deleted = loaded.segments.deleted  # files that wait for `file.delete.delay.ms` (LG-15)
        self._segments = loaded.segments
        self._snapshots = loaded.snapshots
        self.high_watermark = self.log_start_offset
        self._places: dict[Isolation, OffsetMetadata] = {}  # the places of bounds below the log end, as last found
        self.on_failure: Callable[[LogStorageError], None] = lambda _: None  # gets every disk error
        self.failure: LogStorageError | None = None  # the disk error that ended its work, which `work` notes
        self.work = DiskWork(self)
        self.on_flush_due: Callable[[], None] = self.flush_now  # may instead have a `flush_task` run soon
        self._remains: Callable[[], ProducerStateManager] | None = None  # computes the rest of a truncation
        self._settled_start = -1  # the log start when a truncation was last settled
        self.swapped_to = 0  # the cleaner may have replaced segments below it since the log was opened

    @classmethod
    def open(
        cls,
        directory: Path,
        config: TopicConfig,
        *,
        clean: bool,
        cleaned: bool = False,
        recovery_point: int = 0,
        log_start_offset: int = 0,
        high_watermark: int = 0,
        on_progress: Callable[[str], None] | None = None,
    ) -> Self:
        """Load the log of `directory`, which is created if missing. The offsets come from the checkpoints.

        `clean`: the last stop was clean. If not, everything from `recovery_point` on is verified. `cleaned`: the
        cleaner was here, so holes are no damage, whatever `config` says (CL-8). Damage is repaired from the batches, or
        cut off (LD-1 to LD-11); `on_progress` gets a line for each. Raises LogStorageError if the disk fails."""
        report = on_progress or (lambda _: None)
        with storage_errors(directory):
            loaded = load_log(
                directory,
                config.model_copy(update={"cleanup_policy": "compact"}) if cleaned else config,
                clean=clean,
                recovery_point=recovery_point,
                log_start_offset=log_start_offset,
                report=report,
            )
        log = cls(directory, config, loaded)
        log.recovery_point = log.log_end_offset if clean else min(recovery_point, log.log_end_offset)  # LD-9
        log.update_high_watermark(high_watermark)
        return log

    # -- state

    @property
    def kept_start_offset(self) -> int:
        """The log start that survives a crash: the one that was saved last, or the first segment's base."""
        return min(max(self._kept_start, self._segments.first.base_offset), self.log_start_offset)

    @property
    def last_stable_offset(self) -> int:
        """The offset below which every transaction is decided, at most the high watermark (PS-5)."""
        unstable = self.producers.first_unstable_offset
        if unstable is None:
            return self.high_watermark
        return min(max(unstable, self.log_start_offset), self.high_watermark)

    @property
    def size(self) -> int:
        """The bytes of all segments' `.log` files."""
        return self._segments.size

    @property
    def segments(self) -> tuple[Segment, ...]:
        """The segments, oldest first; the last one is active. Do not change them."""
        return tuple(self._segments)

    @property
    def generation(self) -> int:
        """The number of truncations and cancelled cleanings: a cleaning of an earlier one is void (CL-2)."""
        return self._segments.generation

    @property
    def bases(self) -> tuple[int, int]:
        """The base offsets of the first segment and of the active one."""
        return self._segments.first.base_offset, self._segments.active.base_offset

    def update_high_watermark(self, offset: int) -> int:
        """Set it, clamped to [log start, log end]; it may fall (5.6). Returns the result."""
        clamped = min(max(offset, self.log_start_offset), self.log_end_offset)
        if clamped != self.high_watermark:
            self.high_watermark = clamped
        self._check_bounds()
        self.producers.replicated_to(clamped)
        return clamped

    def log_start_saved(self, offset: int) -> None:
        """A checkpoint has this log start, which counts unless a truncation has lowered it since."""
        self._kept_start = min(offset, self.log_start_offset)

    def _check_bounds(self) -> None:
        start, mark, end = self.log_start_offset, self.high_watermark, self.log_end_offset
        assert start <= mark <= end, f"{self.directory}: log start {start}, high watermark {mark}, log end {end}"

    # -- flushing

    @property
    def promised_offset(self) -> int:
        """The offset below which the flush setting lets records count: fewer than `flush.messages` lie behind the
        recovery point."""
        return min(self.log_end_offset, self.recovery_point + self.config.flush_messages - 1)

    @property
    def settled(self) -> bool:
        """True if truncated batches are gone from the disk, too. If a crash brought them back, they might fit behind
        newer ones (LG-10)."""
        return self._remains is None

    @property
    def hides_all(self) -> bool:
        """True if the log start is at the log end, and will be there after a crash."""
        return self.settled and self._settled_start == self.log_start_offset == self.log_end_offset

    def write_indexes(self) -> None:
        """Write the last entries of the indexes. Appends leave some for later: call it now and then."""
        with self.work:
            self._segments.active.write_indexes()

    def ask_for_flush(self) -> None:
        """Call `on_flush_due` if more must become durable: after an append, and after a new flush setting."""
        if self.promised_offset < self.log_end_offset or not self.settled:
            self.on_flush_due()

    def _cut(self, remains: Callable[[], ProducerStateManager] | None) -> None:
        """Offsets became lower, or hidden. `remains` computes the producers' state, in any thread; None: nothing is
        left to do."""
        self._remains = remains
        self.on_truncated()
        if remains is not None:
            self.on_flush_due()

    def flush_task(self, up_to: int | None = None) -> FlushTask | None:
        """Return a task that makes the log durable below `up_to` (None: the log end), and settles it; None if it is.

        Run it in any thread, checkpoint the offsets if it `settles`, then call `flushed`."""
        up_to = self.log_end_offset if up_to is None or not self.settled else min(up_to, self.log_end_offset)
        if up_to <= self.recovery_point and self.settled:
            return None
        return FlushTask.of(self, up_to)

    def flushed(self, task: FlushTask) -> None:
        """Raise the recovery point, unless there was a truncation meanwhile."""
        if task.generation == self._segments.generation:
            self.recovery_point = max(self.recovery_point, task.up_to)
            if task.producers is not None:
                self.replace_producers(task.producers)
                self._remains, self._settled_start = None, self.log_start_offset

    def flush(self, up_to: int | None = None) -> None:
        """fsync everything below `up_to` (the log end if None), now (LG-18)."""
        if (task := self.flush_task(up_to)) is not None:
            with self.work:
                task.run()
                if task.settles:
                    self.on_recovery_point_lowered()
            self.flushed(task)

    def flush_now(self) -> None:
        with self.work.no_way_back():  # the records are in the log already
            self.flush()

    # -- closing, moving

    def begin_close(self) -> None:
        """Do the first half of a clean stop, in any thread (FN-3): write what is only in memory. It waits for the disk
        only to settle a truncation, or if epochs are not saved."""
        self.on_failure = lambda _: None  # the caller gets the error instead
        if not self.settled:
            self.flush()
        with self.work:
            self.epochs.save()
            self._segments.active.write_all_indexes()
            self._snapshots.take(self.log_end_offset, self.producers)

    def finish_close(self, *, durable: bool = False) -> None:
        """Do the second half: fsync everything, even an empty active segment, unless all writes are `durable`."""
        if not durable:
            self.flush()
            with self.work:
                for segment in self._segments.since(self.recovery_point - 1):
                    segment.flush()
                self._snapshots.sync()
        self.recovery_point = self.log_end_offset

    def close(self) -> None:
        """Stop cleanly, in any thread: fsync everything, even an empty active segment (FN-3)."""
        if self.failure is None:
            self.begin_close()
            self.finish_close()
        self.abandon()

    def abandon(self) -> None:
        """Close the files without writing anything: for a failed disk (SG-12)."""
        self._segments.close()
        self.failure = self.failure or LogStorageError(f"{self.directory} is closed")

    def replace_producers(self, producers: ProducerStateManager) -> None:
        self.producers = producers
        producers.replicated_to(self.high_watermark)

    def remember(self, producers: Sequence[ProducerSnapshotEntry]) -> None:
        """Add producers that wrote before to all snapshots, durably. In any thread, while nothing is appended."""
        with self.work:
            self._snapshots.add(producers)

    def renamed(self, directory: Path) -> None:
        """The directory has this name from now on (§7.7)."""
        self.directory = self._snapshots.directory = directory
        self.epochs.path = directory / self.epochs.path.name
        self._segments.renamed(directory)
