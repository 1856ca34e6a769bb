"""Applies a change of metadata to a broker's files: replicas are deleted, are created, or begin to lead.

`LogManager` plans a `LogChange`. Its `steps` wait for the disks, in any thread. `LogManager.commit` then makes the new
replicas known. A crash in between leaves replicas without records, or epochs that begin at the log end."""

import os
import shutil
from collections import deque
from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from replog.config.topic import TopicConfig
from replog.errors import ReplogError
from replog.log.directories.partition_metadata import PARTITION_METADATA, write_topic_id
from replog.log.epochs import save_all
from replog.log.errors import LogStorageError, RetriableLogError, is_of_the_disk, storage_errors
from replog.log.files.filesystem import GroupCommit
from replog.log.files.names import base_offset_of
from replog.log.files.opening import fsync_directory, fsync_path, has_records, make_file
from replog.log.formats.checkpoint import LEADER_EPOCH_CHECKPOINT
from replog.log.loading import empty_log
from replog.log.log import Log
from replog.topic import TopicPartition

STEP = 4  # so many replicas take 1 to 3 ms


class NewReplica(NamedTuple):
    """A replica to be created. `leads_in` is its first epoch, if it leads. `copy_name` is the name of its directory, if
    it is an unfinished copy (§7.7)."""

    topic_id: bytes
    config: TopicConfig
    leads_in: int | None = None
    copy_name: str = ""


class PendingDeletion(NamedTuple):
    """A replica that goes, its directory's name from now on, and how long that stays; None: it is never deleted."""

    tp: TopicPartition
    topic_id: bytes
    log: Log | None  # None if it could not be loaded
    directory: Path
    renamed: Path
    delay_ms: int | None


@dataclass(slots=True)
class DirectoryChange:
    """The part of a change in one log directory. Deletions are durable before creations: names may be the same."""

    directory: Path
    fd: int  # the directory's: its fsync needs no new descriptor
    forget_gone: Callable[[], None]  # writes the checkpoints: a new replica must inherit nothing
    attend: Callable[[TopicPartition, Log], None]  # connects a new log with its directory
    pending: list[PendingDeletion] = field(default_factory=list)
    new: dict[TopicPartition, NewReplica] = field(default_factory=dict)
    leading: dict[TopicPartition, Log] = field(default_factory=dict)  # their new epochs must become durable
    logs: dict[TopicPartition, Log] = field(default_factory=dict)  # new replicas' logs, once they are created
    failures: dict[TopicPartition, ReplogError] = field(default_factory=dict)  # why some cannot be created, or lead,
    kept: dict[TopicPartition, ReplogError] = field(default_factory=dict)  # or be deleted: these are there as before

    def steps(self) -> Iterator[None]:
        """Carry the change out, a few replicas a step. Raises LogStorageError if the directory takes no change.
        `failures` has the replicas that cannot be created, cannot lead or cannot be deleted."""
        try:
            yield from self._take_away()
            self.forget_gone()
            if self.new:
                yield from self._create()
        except ReplogError as error:
            if is_of_the_disk(error):
                raise
            self.abandon()
            self.failures = dict.fromkeys(self.new, error)
        self.failures |= self.kept
        unsaved = save_all((log.epochs for log in self.leading.values()), self.fd)
        self.failures |= {tp: unsaved[log.epochs] for tp, log in self.leading.items() if log.epochs in unsaved}

    def take_away(self) -> None:
        """Carry out the deletions, durably. Raises LogStorageError."""
        deque(self._take_away(), maxlen=0)

    def _take_away(self) -> Iterator[None]:
        for number, pending in enumerate(self.pending, 1):
            try:
                _set_aside(pending)
            except (LogStorageError, RetriableLogError) as error:
                if is_of_the_disk(error):
                    raise
                self.kept[pending.tp] = error
            if number % STEP == 0:
                yield
        if self.pending:
            with storage_errors(self.directory):
                os.fsync(self.fd)
            yield

    def _create(self) -> Iterator[None]:
        """Write all files before the first fsync, which then makes most of them durable."""
        replicas = GroupCommit(self.new)
        for number, _ in enumerate(replicas.steps(self._begin, self.logs), 1):
            if number % STEP == 0:
                yield
        if not replicas.are_durable(self.fd):
            replicas.each(lambda tp: finish_log(self.logs[tp]))
            with storage_errors(self.directory):
                os.fsync(self.fd)
        self.failures |= replicas.failures
        for tp in replicas.failures:
            self.logs.pop(tp, None)

    def _begin(self, tp: TopicPartition) -> Log:
        new = self.new[tp]
        log = begin_log(self.directory / (new.copy_name or tp.directory_name), new)
        self.attend(tp, log)
        return log

    def abandon(self) -> None:
        """Close the files that were created."""
        for log in self.logs.values():
            log.abandon()
        self.logs.clear()


class LogChange:
    """A change in all log directories, and after its steps the failures."""

    def __init__(self) -> None:
        self.directories: dict[Path, DirectoryChange] = {}
        self.failures: dict[TopicPartition, ReplogError] = {}  # the reasons why replicas cannot be created, or lead
        self.broken: list[LogStorageError] = []  # the reasons why directories took no change

    def __bool__(self) -> bool:
        return bool(self.directories)

    def steps(self) -> Iterator[None]:
        """Carry it out, a few replicas a step. After the last step all of it is durable, except in directories that
        failed."""
        for change in self.directories.values():
            try:
                yield from change.steps()
            except LogStorageError as error:
                error.path = error.path or change.directory
                change.abandon()
                change.failures = dict.fromkeys((*change.new, *change.leading), error)
                self.broken.append(error)
            self.failures |= change.failures

    def run(self) -> None:
        """Carry out all steps at once. Raises LogStorageError if a directory failed."""
        deque(self.steps(), maxlen=0)
        if self.broken:
            raise self.broken[0]

    def abandon(self) -> None:
        """Give the change up: it will not be committed."""
        for change in self.directories.values():
            change.abandon()


def _set_aside(pending: PendingDeletion) -> None:
    with storage_errors(pending.directory):
        if pending.log is not None:
            pending.log.epochs.close()
        with suppress(FileNotFoundError):  # another process may have removed it
            pending.directory.rename(pending.renamed)
        if pending.log is not None:
            pending.log.renamed(pending.renamed)  # a late flush must not touch a new replica of the old name


def begin_log(path: Path, replica: NewReplica) -> Log:
    """Write the files of an empty log under their final names, without waiting for the disk.

    A crash may leave a directory without records and with half a topic id; the next start ignores it. Raises
    LogStorageError or a RetriableLogError, and leaves nothing new then."""
    with storage_errors(path):
        _make_directory(path)
    try:
        with storage_errors(path):
            write_topic_id(path, replica.topic_id, make_file)
            epochs = [] if replica.leads_in is None else [(replica.leads_in, 0)]
            return Log(path, replica.config, empty_log(path, epochs))
    except ReplogError:
        shutil.rmtree(path, ignore_errors=True)
        raise


def _make_directory(path: Path) -> None:
    """Make the directory, in place of one that an interrupted creation left there."""
    try:
        path.mkdir()
    except FileExistsError:
        if path.is_symlink() or not path.is_dir():
            raise LogStorageError(f"{path} is in the way, and is no directory; move it away", path) from None
        if has_records(path):
            raise LogStorageError(f"{path} is in the way, with records in it; move it away", path) from None
        shutil.rmtree(path)
        path.mkdir()


def finish_log(log: Log) -> None:
    """Make topic id, first epoch and names durable; the other files are empty. Raises as `begin_log`."""
    try:
        with storage_errors(log.directory):
            fsync_path(log.directory / PARTITION_METADATA)
            if log.epochs.entries:
                fsync_path(log.epochs.path)
            fsync_directory(log.directory)
    except ReplogError:
        log.abandon()
        shutil.rmtree(log.directory, ignore_errors=True)
        raise


def is_begun(directory: Path) -> bool:
    """Return True if a directory without records holds only what a creation begins with. Raises OSError."""
    ours = (PARTITION_METADATA, LEADER_EPOCH_CHECKPOINT)
    return all(name in ours or base_offset_of(name) == 0 for name in os.listdir(directory))


def keep_begun(logs: Collection[Log], fd: int) -> None:
    """Make logs durable that no checkpoint names, in the directory of `fd`. A kill may have interrupted their creation,
    and a log with records must not lose its topic id in a power loss. Raises LogStorageError."""
    if GroupCommit(logs).are_durable(fd):
        return
    for log in logs:
        with storage_errors(log.directory):
            fsync_path(log.directory / PARTITION_METADATA)
            fsync_directory(log.directory)
            os.fsync(fd)
