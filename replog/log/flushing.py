"""The fsyncs that make a stretch of a log durable, apart from the log, so that another thread can wait for the disk."""

from dataclasses import dataclass
from pathlib import Path

from replog.log.errors import storage_errors
from replog.log.files import fsync_directory, fsync_path


@dataclass(frozen=True, slots=True)
class FlushTask:
    """Files to fsync, in order, and the offset below which everything is durable then."""

    directory: Path
    paths: list[Path]
    up_to: int
    generation: int  # of the log: a truncation makes older tasks void

    def run(self) -> None:
        """fsync the files, then the directory (LG-18); files that were removed meanwhile are skipped."""
        with storage_errors(self.directory):
            for path in self.paths:
                try:
                    fsync_path(path)
                except FileNotFoundError:
                    continue
            fsync_directory(self.directory)
