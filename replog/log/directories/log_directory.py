"""One log directory of one broker: its lock, its identity, its logs and their checkpoints (1.1, FN-3).

A future log is an unfinished copy of a log in another directory of this broker (§7.7). It is recovered, checkpointed
and closed like a log, and nobody reads it."""

import os
import threading
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path
from types import MappingProxyType
from uuid import UUID

from replog.config.topic import TopicConfig
from replog.errors import ErrorCode, ReplogError
from replog.log.directories.changes import DirectoryChange, NewReplica, PendingDeletion, is_begun, keep_begun
from replog.log.directories.checkpoints import Checkpoints, CleanedOffsets, Report
from replog.log.directories.identity import (
    META_PROPERTIES,
    CleanStop,
    read_position,
    take_marker,
    verify_or_create,
    write_marker,
)
from replog.log.directories.lock import lock
from replog.log.directories.replica import Offsets, OpenedLog, Placed, open_replica
from replog.log.epochs import save_all
from replog.log.errors import LogStorageError, RetriableLogError, is_of_the_disk, storage_errors
from replog.log.files.deletion import remove
from replog.log.files.filesystem import GroupCommit
from replog.log.files.opening import fsync_directory, open_fd
from replog.log.formats.checkpoint import CLEANER_CHECKPOINT, DamagedCheckpoint
from replog.log.log import Log
from replog.topic import DELETE_SUFFIX, FUTURE_SUFFIX, SET_ASIDE, STRAY_SUFFIX, TopicPartition, parse_directory_name

MAX_FILE_NAME = 255
MAX_STRAYS = 10_000
TELL_EVERY = 1000  # directories, which take some seconds

RandomBytes = Callable[[int], bytes]


Opened = Callable[[Path, TopicPartition], OpenedLog | None]
# Returns what the metadata place here, if a directory that knew them up to this version must be of that topic.
PlacedHere = Callable[[TopicPartition, int], Placed | None]


class LogDirectory:
    """Take the directory with `LogDirectory(...)`, `load` it, and give it back with `close` (or `abandon`)."""

    def __init__(self, path: Path, *, cluster_id: str, node_id: int, randbytes: RandomBytes, log_dirs: int = 1) -> None:
        """Lock the directory (created if missing), check its identity, and find out how the last stop was.

        `randbytes` makes the identifiers in names. `log_dirs` is the number of the broker's directories: one of several
        is `offline` if its disk fails. Raises LogStorageError if the only one cannot be used or another process has it,
        INCONSISTENT_CLUSTER_ID or INVALID_CONFIG if it belongs to another broker."""
        self.path = path
        self.failed: dict[TopicPartition, ReplogError] = {}  # the errors of directories that could not be loaded
        self.offline: LogStorageError | None = None  # its disk failed: nothing here is read or written any more (CT-27)
        self.on_truncated: Callable[[TopicPartition, Log], None] = lambda _tp, _log: None
        self.on_flush_due: Callable[[TopicPartition, Log], None] = lambda _tp, log: log.flush_now()
        self.cleaned_offsets = CleanedOffsets(path / CLEANER_CHECKPOINT, threading.Lock())
        self._logs: dict[TopicPartition, Log] = {}
        self._topic_ids: dict[TopicPartition, bytes] = {}
        self._futures: dict[TopicPartition, OpenedLog] = {}
        self._randbytes = randbytes
        self._log_dirs = log_dirs
        self.on_unsaved: Callable[[], None] = lambda: None  # must have `save_epochs` and `save_log_starts` called soon
        self._unsaved: dict[Log, None] = {}  # logs that have noted epochs in memory
        self._gone: dict[TopicPartition, None] = {}  # deleted, but perhaps still in the checkpoints
        self._pending_deletions: list[tuple[Path, int, int]] = []  # directory, since when it waits, for how long (ms)
        self._strays: dict[Path, None] = {}  # replicas that were set aside (CT-26)
        self.checkpoints = Checkpoints(path, self._all, self.failed)
        self._known = 0  # the newest version of the metadata that was known here before
        self._forgetting = threading.Lock()  # otherwise the second caller returns before all are forgotten
        self._held = ExitStack()  # descriptors, until the end
        self.clean, self.previous_stop = False, CleanStop()
        try:
            self._take(cluster_id, node_id)
        except ReplogError as error:
            self._lose(error)

    def _take(self, cluster_id: str, node_id: int) -> None:
        path = self.path
        with storage_errors(path):
            missing = [place for place in (path, *path.parents) if not place.exists()]
            path.mkdir(parents=True, exist_ok=True)
            for made in missing:
                fsync_directory(made.parent)  # otherwise a crash removes all that is flushed below
            self._held.callback(os.close, lock(path))
            verify_or_create(path, cluster_id=cluster_id, node_id=node_id, directory_id=self._new_id())
            self._fd = open_fd(path, os.O_RDONLY)  # fsyncs names, even when no descriptor is left
            self._held.callback(os.close, self._fd)
            self.clean, self.previous_stop = take_marker(path, self._log_dirs)

    def _lose(self, error: ReplogError) -> None:
        """Go offline for a failed disk, if the broker has other directories; any other error ends the start."""
        self.abandon()
        if self._log_dirs == 1 or not isinstance(error, LogStorageError) or not isinstance(error.__cause__, OSError):
            raise error
        for lost in (self._logs, self._topic_ids, self._futures, self.failed):
            lost.clear()
        self.previous_stop = CleanStop()
        self.offline = error

    @property
    def is_gone(self) -> bool:
        """True if its identity is missing, as after its disk was unmounted: then a missing name means nothing."""
        return not os.path.lexists(self.path / META_PROPERTIES)

    @property
    def logs(self) -> Mapping[TopicPartition, Log]:
        return MappingProxyType(self._logs)

    @property
    def futures(self) -> Mapping[TopicPartition, OpenedLog]:
        return MappingProxyType(self._futures)

    def get(self, tp: TopicPartition) -> Log | None:
        return self._logs.get(tp)

    def topic_id(self, tp: TopicPartition) -> bytes | None:
        return self._topic_ids.get(tp)

    def _all(self) -> dict[TopicPartition, Log]:
        """All logs and future logs; no partition has both here. Any thread may ask while the loop changes them."""
        return {**self._logs, **{tp: future.log for tp, future in list(self._futures.items())}}

    def _new_id(self) -> UUID:
        return UUID(bytes=self._randbytes(16), version=4)

    def load(
        self,
        configs: Callable[[TopicPartition], TopicConfig],
        on_progress: Report | None = None,
        placed: PlacedHere = lambda _tp, _version: None,
    ) -> dict[TopicPartition, Log]:
        """Open the log of every partition directory, recovering what an unclean stop may have torn. Nothing is opened
        if it is `offline`, or goes offline because its disk fails.

        A directory that cannot be loaded is reported, kept in `failed`, and left as it is, for `reopen`. One that is
        missing makes the last stop count as unclean for the controller (`previous_stop`)."""
        report = on_progress or (lambda _: None)
        if self.offline is None:
            try:
                self._load(configs, placed, report)
            except ReplogError as error:
                self._lose(error)
        return dict(self._logs)

    def _load(self, configs: Callable[[TopicPartition], TopicConfig], placed: PlacedHere, report: Report) -> None:
        checkpoints = self.checkpoints.read(report)
        recovery_points = checkpoints[0]
        try:
            self.cleaned_offsets.load()
        except DamagedCheckpoint as damage:
            report(f"{damage.message}; taking it as empty: compacted logs are cleaned from their beginning")
        with storage_errors(self.path):
            directories = sorted(path for path in self.path.iterdir() if path.is_dir() or path.is_symlink())

        with suppress(ReplogError):
            self._known = read_position(self.path).version

        def opened(path: Path, tp: TopicPartition) -> OpenedLog | None:
            offsets = Offsets(*(each.get(tp, 0) for each in checkpoints))
            cleaned, certain = self.cleaned_offsets.get(tp) is not None, lambda: placed(tp, self._known)
            return open_replica(path, configs(tp), offsets, self.clean, cleaned, certain, report)

        for number, path in enumerate(directories, 1):
            self._load_directory(path, opened, report)
            if number % TELL_EVERY == 0:
                report(f"{number} of {len(directories)} directories in {self.path} are loaded")
        if not self.clean:
            keep_begun([log for tp, log in self._all().items() if tp not in recovery_points], self._fd)
        for tp in recovery_points.keys() - self._all().keys() - self.failed.keys():
            report(f"{self.path / tp.directory_name} is missing")
            self.previous_stop = CleanStop()
        self.cleaned_offsets.keep(self._logs.keys() | self.failed.keys())
        self.checkpoints.are_read = True
        if {tp for each in checkpoints for tp in each} - self._all().keys() - self.failed.keys():
            # a new replica of such a name must not inherit anything after a crash
            self.checkpoints.write_all()
        elif any(log.recovery_point < recovery_points.get(tp, 0) for tp, log in self._all().items()):
            self.checkpoints.write_recovery_points()  # otherwise later appends count as durable after a crash
        for tp, log in self._logs.items():
            self.cleaned_offsets.lower_to(tp, log.segments[-1].base_offset)  # the next records there are dirty

    def _load_directory(self, path: Path, opened: Opened, report: Report) -> None:
        """Handle one subdirectory: a log, a future log, the rest of a deletion, or something else."""
        set_aside = SET_ASIDE.fullmatch(path.name)
        is_future = set_aside is not None and set_aside["suffix"] == FUTURE_SUFFIX
        if set_aside is not None and not is_future:
            pending = set_aside["suffix"] == DELETE_SUFFIX
            if not pending:
                self._strays[path] = None
            report(f"{'removing' if pending else 'passing over'} {path}, which was set aside")
            if pending:
                self._discard(path)
            return
        try:
            tp = parse_directory_name(set_aside["replica"] if set_aside is not None else path.name)
        except ValueError as error:
            report(f"passing over {path}: {error}")
            return
        try:
            loaded, reason = opened(path, tp), "it was never begun"
        except ReplogError as error:
            if is_of_the_disk(error):
                raise
            loaded, reason = None, error.message
            if not is_future:
                report(f"cannot load {path}: {reason}")
                self.failed[tp] = error
        if loaded is not None and is_future:
            self._attend(tp, loaded.log)
            self._futures[tp] = loaded
        elif loaded is not None:
            self._add(tp, loaded.topic_id, loaded.log)
        elif not is_future and tp not in self.failed and is_begun(path):
            report(f"removing {path}: its creation was interrupted")
            self._discard(path)
        elif is_future:  # the replica itself is elsewhere
            report(f"removing {path}, a copy in the making: {reason}")
            self._discard(path)

    def _discard(self, path: Path) -> None:
        with suppress(RetriableLogError):
            remove([path])
        if os.path.lexists(path):
            self._pending_deletions.append((path, 0, 0))

    def _add(self, tp: TopicPartition, topic_id: bytes, log: Log) -> None:
        self._attend(tp, log)
        self._logs[tp] = log
        self._topic_ids[tp] = topic_id

    def _attend(self, tp: TopicPartition, log: Log) -> None:
        log.on_truncated = lambda: self.on_truncated(tp, log)
        log.on_recovery_point_lowered = partial(self.checkpoint_truncated, {tp: log})
        log.on_flush_due = lambda: self.on_flush_due(tp, log)
        log.epochs.on_unsaved = partial(self._note_unsaved, log)
        log.on_log_start_raised = partial(self._note_raised, tp, log)

    def _note_unsaved(self, log: Log) -> None:
        self._unsaved[log] = None
        self.on_unsaved()

    def _note_raised(self, tp: TopicPartition, log: Log) -> None:
        self.checkpoints.note_raised(tp, log)
        self.on_unsaved()

    def checkpoint_truncated(self, logs: Mapping[TopicPartition, Log]) -> None:
        """Make lowered offsets durable, in any thread."""
        self.checkpoints.write_recovery_points()
        self.checkpoints.write_log_starts()
        for tp, log in logs.items():
            self.cleaned_offsets.lower_to(tp, log.bases[1])

    # -- replicas

    def change(self) -> DirectoryChange:
        """Return an empty change: fill it, run it in any thread, commit it."""
        return DirectoryChange(self.path, self._fd, self.forget_gone, self._attend)

    def plan_deletion(
        self, tp: TopicPartition, change: DirectoryChange, deletion_id: str | None = None, *, keep: bool = False
    ) -> None:
        """Forget the replica, or future log, at once. The change renames its directory (FN-1), with `deletion_id` if
        given. `keep`: if it has records it is a stray from now on, and nobody deletes it (CT-26).

        Raises LogStorageError if there are too many strays."""
        future = self._futures.pop(tp, None)
        log = future.log if future is not None else self._logs.pop(tp, None)
        topic_id = future.topic_id if future is not None else self._topic_ids.pop(tp, bytes(16))
        if log is not None:
            log.abandon()
        self.failed.pop(tp, None)
        self._gone[tp] = None
        holds_any = log is None or log.log_end_offset > log.log_start_offset
        is_stray = future is None and holds_any and (keep or log is None)
        tail = f"-{tp.partition}.{deletion_id or self._new_id().hex}{STRAY_SUFFIX if is_stray else DELETE_SUFFIX}"
        renamed = self.path / (tp.topic[: MAX_FILE_NAME - len(tail)] + tail)
        delay_ms: int | None = log.config.file_delete_delay_ms if log is not None and future is None else 0
        if is_stray:
            delay_ms = None
            if len(self._strays) + sum(each.delay_ms is None for each in change.pending) >= MAX_STRAYS:
                raise LogStorageError(
                    f"{self.path} has {MAX_STRAYS} directories that end in {STRAY_SUFFIX}, and that is the most; look "
                    "whether they have anything that is missed, and move them away"
                )
        directory = log.directory if log is not None else self.path / tp.directory_name
        change.pending.append(PendingDeletion(tp, topic_id, log, directory, renamed, delay_ms))

    def commit(self, change: DirectoryChange, now_ms: int) -> None:
        """Make known what the change, which was run, has created or could not delete."""
        for each in change.pending:
            if each.tp not in change.kept:
                if each.delay_ms is None:
                    self._strays[each.renamed] = None
                else:
                    self._pending_deletions.append((each.renamed, now_ms, each.delay_ms))
            elif each.log is None:
                self.failed[each.tp] = change.kept[each.tp]
            elif each.directory.name.endswith(FUTURE_SUFFIX):
                self._futures[each.tp] = OpenedLog(each.log, each.topic_id)
            else:
                self._logs[each.tp], self._topic_ids[each.tp] = each.log, each.topic_id
        for tp, log in change.logs.items():
            new = change.new[tp]
            if new.copy_name:
                self._futures[tp] = OpenedLog(log, new.topic_id)
            else:
                self._logs[tp], self._topic_ids[tp] = log, new.topic_id

    def reopen(self, tp: TopicPartition, config: TopicConfig, placed: PlacedHere, report: Report) -> OpenedLog | None:
        """Open a failed replica again, as after a crash, in any thread; None if nothing is left of it. Then call
        `reopened`. Raises ReplogError."""
        failed = self._logs.get(tp)
        if failed is not None:
            failed.abandon()
            failed.epochs.close()  # otherwise a late thread may write there
        path = self.path / tp.directory_name
        if not os.path.lexists(path):
            return None
        cleaned, certain = self.cleaned_offsets.get(tp) is not None, lambda: placed(tp, self._known)
        offsets = Offsets(*(each.get(tp, 0) for each in self.checkpoints.read(report)))
        opened = open_replica(path, config, offsets, False, cleaned, certain, report)
        if opened is not None:
            self.cleaned_offsets.lower_to(tp, opened.log.segments[-1].base_offset)
        return opened

    def reopened(self, tp: TopicPartition, opened: OpenedLog | None) -> None:
        """Add the replica once `checkpoints.write_all` has noted its offsets; None: forget it."""
        self.failed.pop(tp, None)
        if opened is not None:
            self._add(tp, opened.topic_id, opened.log)
            return
        self._gone[tp] = None
        self._logs.pop(tp, None)
        self._topic_ids.pop(tp, None)

    def forget(self, tp: TopicPartition) -> None:
        """Forget the replica, or future log, of an offline directory. Its files stay."""
        future = self._futures.pop(tp, None)
        log = self._logs.pop(tp) if future is None else future.log
        self._topic_ids.pop(tp, None)
        log.abandon()

    def take_offline(self, error: LogStorageError) -> None:
        """Fail each log with this error."""
        self.offline = error
        for log in self._all().values():
            if log.failure is None:
                log.work.fail(error)

    def forget_gone(self) -> None:
        """Remove deleted replicas from the checkpoints, in any thread."""
        with self._forgetting:
            gone = list(self._gone)
            for tp in gone:
                del self._gone[tp]  # a partition may be created and deleted again meanwhile
            try:
                for tp in gone:
                    self.cleaned_offsets.forget(tp)
                if gone:
                    self.checkpoints.write_all()
            except ReplogError:
                self._gone.update(dict.fromkeys(gone))
                raise

    # -- future logs (§7.7)

    def plan_future(self, tp: TopicPartition, topic_id: bytes, config: TopicConfig) -> NewReplica:
        """Plan an empty log, to be filled from another directory.

        Raises INVALID_TOPIC_EXCEPTION if its name would be too long, INVALID_REQUEST if something is in its way."""
        name = f"{tp.directory_name}.{self._new_id().hex}{FUTURE_SUFFIX}"
        if len(name) > MAX_FILE_NAME:
            raise ErrorCode.INVALID_TOPIC_EXCEPTION.error(f"topic name {tp.topic!r} is too long to be moved")
        try:
            self.check_room_for(tp)
        except LogStorageError as error:
            raise ErrorCode.INVALID_REQUEST.error(error.message) from None
        return NewReplica(topic_id, config, copy_name=name)

    def check_room_for(self, tp: TopicPartition) -> None:
        """Raise LogStorageError if something has the name of this replica."""
        if os.path.lexists(path := self.path / tp.directory_name):
            raise LogStorageError(f"{path} is in the way; move it away", path)

    def promote_future(self, tp: TopicPartition) -> Log:
        """Make it the partition's log, and give its directory the plain name, durably."""
        future = self._futures.pop(tp)
        path = self.path / tp.directory_name
        with storage_errors(path):
            future.log.directory.rename(path)
            fsync_directory(self.path)
        future.log.renamed(path)
        self._add(tp, future.topic_id, future.log)
        return future.log

    # -- upkeep

    def strays(self) -> list[float]:
        """Return the times in seconds when replicas here were set aside, in any thread. Those moved away or removed no
        longer count."""
        since = []
        for path in list(self._strays):
            try:
                since.append(path.lstat().st_ctime)  # a rename changes it
            except OSError:
                self._strays.pop(path, None)
        return since

    def take_expired(self, now_ms: int) -> list[Path]:
        """Return the directories of deleted replicas whose delay has passed, to be removed (LG-17)."""
        expired = [path for path, since, delay in self._pending_deletions if now_ms - since >= delay]
        self._pending_deletions = [each for each in self._pending_deletions if now_ms - each[1] < each[2]]
        return expired

    def save_epochs(self) -> None:
        """Make noted epochs durable, in any thread. A log that is renamed meanwhile is saved the next time."""
        logs = {log: log.epochs.path for log in list(self._unsaved) if log.failure is None}
        for log in logs:
            self._unsaved.pop(log, None)
        failures = save_all((log.epochs for log in logs), self._fd)
        failed = [log for log in logs if log.epochs in failures]
        self._unsaved.update(dict.fromkeys(failed))
        for log in failed:
            if log.epochs.path == logs[log] and log in self._all().values():
                raise failures[log.epochs]

    # -- the end

    def close(self, broker_epoch: int, incarnation_id: bytes = b"") -> None:
        """Stop in order (FN-3): close every log durably, write the checkpoints, then the marker; unlock.

        If a log cannot be closed, the others are, no marker is written, and the error is raised. A log that failed
        before is abandoned; without a marker the next start recovers it."""
        logs = GroupCommit(log for log in self._all().values() if log.failure is None)
        offline = any(log.failure is not None for log in self._all().values())
        try:
            save_all((log.epochs for log in self._unsaved), self._fd)  # failures come again when the logs are closed
            logs.each(lambda log: log.begin_close())
            durable = logs.are_durable(self._fd)
            logs.each(lambda log: log.finish_close(durable=durable))
            self.checkpoints.write_all()
            if not logs.failures and not offline and (self.clean or (self.checkpoints.are_read and not self.failed)):
                with storage_errors(self.path):
                    write_marker(self.path, broker_epoch, self._log_dirs, incarnation_id)
        finally:
            self.abandon()
        for failure in logs.failures.values():
            raise failure

    def abandon(self) -> None:
        """Release everything without writing, as a crash would: for a failed disk."""
        self.checkpoints.are_read = False  # otherwise a late thread may write a checkpoint
        for log in self._all().values():
            log.abandon()
        self._held.close()
