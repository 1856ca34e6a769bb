"""The fsyncs that make a part of a log durable. They are not in the log, so that a thread can wait for the disk."""

from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from replog.log.epochs import LeaderEpochCache
from replog.log.errors import LogStorageError, RetriableLogError, storage_errors
from replog.log.files.open_files import OpenFile, sync_all
from replog.log.files.replacing import fsync_directory, fsync_path
from replog.log.producers.recovery import ProducerSnapshots
from replog.log.producers.state import ProducerStateManager
from replog.log.segments import Segments
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
    def of(
        cls,
        directory: Path,
        segments: Segments,
        snapshots: ProducerSnapshots,
        epochs: LeaderEpochCache,
        recovery_point: int,
        up_to: int,
        remains: Callable[[], ProducerStateManager] | None,
    ) -> "FlushTask":
        """Collect the files that a log has written since its recovery point, up to an offset.

        For the active segment the `.log` is enough: a recovery rebuilds its indexes (LD-5). If a segment was sealed at
        the recovery point, its indexes are not durable yet."""
        unflushed = segments.since(recovery_point - 1)
        files: list[OpenFile] = []
        for segment in unflushed:
            if segment.base_offset < up_to or remains is not None:
                files += [segment.file] if segment is segments.active else segment.files
        begun = [segment.base_offset for segment in unflushed if recovery_point <= segment.base_offset <= up_to]
        paths = [snapshots.path(base) for base in begun]
        if remains is not None:
            paths.append(snapshots.path(up_to))
        new_names = bool(begun) or remains is not None
        return cls(directory, files, paths, new_names, up_to, segments.generation, epochs, remains)

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
