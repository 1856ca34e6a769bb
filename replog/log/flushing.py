"""The fsyncs that make a stretch of a log durable, apart from the log, so that another thread can wait for the disk."""

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from replog.log.epoch_cache import LeaderEpochCache
from replog.log.errors import storage_errors
from replog.log.files import fsync_directory, fsync_path
from replog.log.open_file import OpenFile, sync_all
from replog.log.producers.recovery import ProducerSnapshots
from replog.log.segments import Segments


@dataclass(frozen=True, slots=True)
class FlushTask:
    """Files to fsync, in order, and the offset below which everything is durable then.

    Those of segments are fsynced through the descriptors that wrote them: `open_files` says what that is good for.
    """

    directory: Path
    files: list[OpenFile]
    paths: list[Path]
    up_to: int
    generation: int  # of the log: a truncation makes older tasks void
    epochs: LeaderEpochCache

    @classmethod
    def of(
        cls,
        directory: Path,
        segments: Segments,
        snapshots: ProducerSnapshots,
        epochs: LeaderEpochCache,
        recovery_point: int,
        up_to: int,
    ) -> "FlushTask":
        """What a log has written since its recovery point, up to an offset."""
        unflushed = segments.since(recovery_point)
        files = [file for segment in unflushed if segment.base_offset < up_to for file in segment.files]
        begun = [segment.base_offset for segment in unflushed if recovery_point <= segment.base_offset <= up_to]
        return cls(directory, files, [snapshots.path(base) for base in begun], up_to, segments.generation, epochs)

    def run(self) -> None:
        """Save the epochs that came with the batches (EP-9), fsync the files, then the directory (LG-18); files that
        were removed meanwhile are skipped."""
        self.epochs.save()
        with storage_errors(self.directory):
            sync_all(self.files)
            for path in self.paths:
                with suppress(FileNotFoundError):
                    fsync_path(path)
            fsync_directory(self.directory)
