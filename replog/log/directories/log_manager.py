"""The log directories of one broker, one for each disk, and how a log moves from one to another (§7.7).

A future log in the other directory is filled with the batches of the current one. When it has all of them, they are
swapped:

1. Preparation, in a thread, while both logs go on: the future log becomes as durable as the current one, and the
   checkpoints of its directory get its offsets. It is repeated if it no longer holds at the next step.
2. `<topic>-<partition>` is renamed as a deletion would do it, with the identifier of the future log's directory; fsync.
3. `<topic>-<partition>.<identifier>-future` gets the plain name; fsync.
4. In a thread, the checkpoints forget the old log, and note how far the new one is clean. A crash before that leaves
   entries without a log, which the next start drops, and costs one more cleaning.

A crash before step 2 leaves the current log, and a future log to continue with. After step 2 a deleted directory has
the identifier of the future log. This says that the swap was decided, and the next start finishes it. So a start never
finds two directories of a partition's plain name, and leaves exactly one."""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from replog.config.topic import TopicConfig
from replog.errors import ErrorCode, ReplogError
from replog.log.directories.changes import DirectoryChange, LogChange, NewReplica
from replog.log.directories.checkpoints import Checkpoints, CleanedOffsets, Report
from replog.log.directories.identity import CleanStop
from replog.log.directories.log_directory import LogDirectory, PlacedHere, RandomBytes
from replog.log.directories.replica import OpenedLog
from replog.log.errors import LogStorageError, storage_errors
from replog.log.files.opening import fsync_directory
from replog.log.log import Log
from replog.log.producers.snapshot import ProducerSnapshotEntry
from replog.topic import DELETE_SUFFIX, FUTURE_SUFFIX, SET_ASIDE, TopicPartition

MAX_WISHES = 10_000


@dataclass(slots=True)
class SwapPreparation:
    """Work that comes before a swap: `run` it in any thread, while the future log stays as it is, then call `done`."""

    future: Log
    log_start_offset: int
    missing: list[ProducerSnapshotEntry]  # producers of which no batch was left to copy (PS-11)
    checkpoint: Callable[[], None]

    def run(self) -> None:
        self.future.remember(self.missing)
        self.checkpoint()

    def done(self) -> None:
        self.future.producers.learn(self.missing)


class LogManager:
    """One `LogDirectory` for each directory: take them with `LogManager(...)`, `load` them, and give them back with
    `close` (or `abandon`)."""

    def __init__(self, paths: Sequence[Path], *, cluster_id: str, node_id: int, randbytes: RandomBytes) -> None:
        """Take every directory, or none, except those of several whose disks fail: these are `offline`.

        Raises what `LogDirectory` does, and LogStorageError if no disk works."""
        self.directories: list[LogDirectory] = []
        self.on_truncated: Callable[[TopicPartition, Log], None] = lambda _tp, _log: None
        self.on_unsaved: Callable[[], None] = lambda: None
        self._wishes: dict[TopicPartition, LogDirectory] = {}  # the directories in which replicas will be created
        try:
            for path in paths:
                directory = LogDirectory(
                    path, cluster_id=cluster_id, node_id=node_id, randbytes=randbytes, log_dirs=len(paths)
                )
                directory.on_truncated = lambda tp, log: self.on_truncated(tp, log)
                directory.on_unsaved = lambda: self.on_unsaved()
                self.directories.append(directory)
            self._check_any_works()
        except ReplogError:
            self.abandon()
            raise

    @property
    def logs(self) -> Mapping[TopicPartition, Log]:
        """The logs of all directories, without future logs."""
        return {tp: log for directory in self.directories for tp, log in directory.logs.items()}

    @property
    def futures(self) -> Mapping[TopicPartition, OpenedLog]:
        return {tp: future for directory in self.directories for tp, future in directory.futures.items()}

    @property
    def failed(self) -> Mapping[TopicPartition, ReplogError]:
        return {tp: error for directory in self.directories for tp, error in directory.failed.items()}

    @property
    def previous_stop(self) -> CleanStop:
        """The broker's last stop, if that was orderly in every directory."""
        stops = {directory.previous_stop for directory in self.directories}
        return stops.pop() if len(stops) == 1 else CleanStop()

    @property
    def working(self) -> Sequence[LogDirectory]:
        return [directory for directory in self.directories if directory.offline is None]

    @property
    def offline(self) -> Mapping[Path, LogStorageError]:
        return {each.path: each.offline for each in self.directories if each.offline is not None}

    def _check_any_works(self) -> None:
        if not self.working:
            raise next(iter(self.offline.values()))

    def directory_of(self, path: Path | None) -> LogDirectory | None:
        """Return the directory that `path` lies in."""
        return next((d for d in self.directories if path is not None and path.is_relative_to(d.path)), None)

    def partition_at(self, path: Path | None) -> TopicPartition | None:
        """Return the replica that this file belongs to."""
        home = self.directory_of(path)
        if home is None or path is None or path == home.path:
            return None
        directory = home.path / path.relative_to(home.path).parts[0]
        return next((tp for tp, log in home.logs.items() if log.directory == directory), None)

    def get(self, tp: TopicPartition) -> Log | None:
        home = self._home(tp)
        return home.get(tp) if home is not None else None

    def topic_id(self, tp: TopicPartition) -> bytes | None:
        home = self._home(tp)
        return home.topic_id(tp) if home is not None else None

    def future(self, tp: TopicPartition) -> Log | None:
        """Return the log that will replace this partition's, if it is being moved."""
        target = self._future_home(tp)
        return target.futures[tp].log if target is not None else None

    def cleaned_offsets(self, tp: TopicPartition) -> CleanedOffsets:
        """Return those of the directory with this partition's log."""
        home = self._home(tp)
        assert home is not None, f"{tp} is not here"
        return home.cleaned_offsets

    def _home(self, tp: TopicPartition) -> LogDirectory | None:
        return next((directory for directory in self.directories if tp in directory.logs), None)

    def _failed_home(self, tp: TopicPartition) -> LogDirectory | None:
        return next((directory for directory in self.working if tp in directory.failed), None)

    def _future_home(self, tp: TopicPartition) -> LogDirectory | None:
        return next((directory for directory in self.directories if tp in directory.futures), None)

    # -- loading

    def load(
        self,
        configs: Callable[[TopicPartition], TopicConfig],
        on_progress: Report | None = None,
        placed: PlacedHere = lambda _tp, _version: None,
    ) -> None:
        """Finish the swaps that a crash interrupted, then `load` every directory.

        Raises LogStorageError, naming both, if two directories have a log of the same partition, and if no disk
        works."""
        self._finish_swaps(on_progress or (lambda _: None))
        homes: dict[TopicPartition, LogDirectory] = {}
        for directory in self.directories:
            directory.load(configs, on_progress, placed)
            for tp in (*directory.logs, *directory.failed):
                if tp in homes:
                    raise LogStorageError(
                        f"both {homes[tp].path / tp.directory_name} and {directory.path / tp.directory_name} "
                        "are there; move the one away that is not to be used"
                    )
                homes[tp] = directory
        self._check_any_works()
        moving: dict[TopicPartition, LogDirectory] = {}
        void = LogChange()
        for directory in self.directories:
            for tp, future in list(directory.futures.items()):
                home = homes.get(tp)
                if home is not None and tp in home.failed:
                    continue  # the copy may be used once the replica can be read
                if home in (None, directory) or tp in moving or home.topic_id(tp) != future.topic_id:
                    directory.plan_deletion(tp, self._part(void, directory))  # a copy of a log that is gone
                moving[tp] = directory
        void.run()
        self.commit(void, 0)

    def _finish_swaps(self, report: Report) -> None:
        """Give a future log the plain name if a deleted directory has its identifier."""
        paths = [directory.path for directory in self.working]
        with storage_errors(paths[0]):
            names = [(path, SET_ASIDE.fullmatch(name)) for path in paths for name in sorted(os.listdir(path))]
            deleted = {match["id"] for _, match in names if match is not None and match["suffix"] == DELETE_SUFFIX}
            for path, match in names:
                if match is None or match["suffix"] != FUTURE_SUFFIX or match["id"] not in deleted:
                    continue
                if not any((other / match["replica"]).exists() for other in paths):
                    report(f"finishing the move of {match['replica']} to {path}")
                    (path / match[0]).rename(path / match["replica"])
                    fsync_directory(path)

    # -- replicas

    def plan_deletion(self, tp: TopicPartition, change: LogChange, *, keep: bool = False) -> None:
        """Delete the replica and its future log. They are forgotten at once. Raises and keeps as
        `LogDirectory.plan_deletion`."""
        for directory in (self._home(tp) or self._failed_home(tp), self._future_home(tp)):
            if directory is not None and directory.offline is not None:
                directory.forget(tp)
            elif directory is not None:
                directory.plan_deletion(tp, self._part(change, directory), keep=keep)

    def plan_creation(self, tp: TopicPartition, replica: NewReplica, change: LogChange) -> None:
        """Create the replica, perhaps after the deletion of one with the same name."""
        self._part(change, self._place(tp, change)).new[tp] = replica

    def plan_leadership(self, tp: TopicPartition, epoch: int, change: LogChange) -> None:
        """Lead in a new epoch, which begins at the log end. Nothing may be appended before that is durable."""
        home = self._home(tp)
        if home is not None and home.offline is None:
            log = home.logs[tp]
            log.assign_epoch_start(epoch, save=False)
            self._part(change, home).leading[tp] = log

    def commit(self, change: LogChange, now_ms: int) -> None:
        """Make known what the change, which was run, has created."""
        for directory in self.directories:
            if directory.path in change.directories:
                directory.commit(change.directories[directory.path], now_ms)

    @staticmethod
    def _part(change: LogChange, directory: LogDirectory) -> DirectoryChange:
        return change.directories.setdefault(directory.path, directory.change())

    def _place(self, tp: TopicPartition, change: LogChange) -> LogDirectory:
        """Return the directory where the replica is, was begun or is wished, else the one with the fewest replicas."""
        for directory in self.working if len(self.directories) > 1 else ():
            if tp in directory.logs or tp in directory.failed or (directory.path / tp.directory_name).exists():
                return directory

        def replicas(directory: LogDirectory) -> int:
            planned = change.directories.get(directory.path)
            return len(directory.logs) + len(directory.futures) + (len(planned.new) if planned is not None else 0)

        wished = self._wishes.pop(tp, None)
        return (
            wished
            if wished is not None and wished.offline is None
            else min(self.working or self.directories, key=replicas)
        )

    def reopening(self, tp: TopicPartition) -> LogDirectory | None:
        """Return the directory where this replica may be reopened, if it has failed and its disk works."""
        home = self._home(tp) or self._failed_home(tp)
        return home if home is not None and home.offline is None else None

    # -- moves

    def plan_move(self, tp: TopicPartition, directory: str, change: LogChange) -> None:
        """Move the partition's log to `directory`: create a future log there, to be filled.

        If the log is there already, a move under way is cancelled. Raises LOG_DIR_NOT_FOUND, or REPLICA_NOT_AVAILABLE
        if there is no log of it here: it will then be created in `directory`."""
        target = self._named(directory)
        home, moving_to = self._home(tp), self._future_home(tp)
        if target.offline is not None:
            raise target.offline
        if home is None:
            if tp not in self._wishes and len(self._wishes) >= MAX_WISHES:
                raise ErrorCode.INVALID_REQUEST.error(f"{MAX_WISHES} replicas to come have a directory already")
            self._wishes[tp] = target
            raise ErrorCode.REPLICA_NOT_AVAILABLE.error(
                f"{tp} is not on this broker; it will be created in {directory}"
            )
        if target not in (home, moving_to):
            topic_id = home.topic_id(tp)
            assert topic_id is not None
            self._part(change, target).new[tp] = target.plan_future(tp, topic_id, home.logs[tp].config)
        if moving_to is not target:
            self.plan_no_move(tp, change)

    def bytes_to_copy(self, tp: TopicPartition, directory: str) -> int:
        """Return how many bytes such a move would copy; 0 if nothing new begins. Raises LOG_DIR_NOT_FOUND."""
        target, home = self._named(directory), self._home(tp)
        if home is None or target in (home, self._future_home(tp)):
            return 0
        return home.logs[tp].size

    def plan_no_move(self, tp: TopicPartition, change: LogChange) -> None:
        """Delete its future log, if there is one. It is forgotten at once."""
        target = self._future_home(tp)
        if target is not None and target.offline is not None:
            target.forget(tp)
        elif target is not None:
            target.plan_deletion(tp, self._part(change, target))

    def _named(self, path: str) -> LogDirectory:
        for directory in self.directories:
            if os.path.abspath(directory.path) == os.path.abspath(path):
                return directory
        known = ", ".join(os.path.abspath(directory.path) for directory in self.directories)
        raise ErrorCode.LOG_DIR_NOT_FOUND.error(f"{path!r} is none of this broker's log.dirs: {known}")

    def preparation(self, tp: TopicPartition) -> SwapPreparation:
        """Return the preparation for `swap`, once the future log has every batch and is flushed."""
        _, target, current, future = self._moving(tp)
        missing = future.log.producers.missing_from(current.producers)
        return SwapPreparation(future.log, future.log.log_start_offset, missing, target.checkpoints.write_all)

    def is_prepared(self, tp: TopicPartition, prepared: SwapPreparation) -> bool:
        """Return True if the preparation still holds: a crash after the swap must cost no more than one before it."""
        _, _, current, future = self._moving(tp)
        same_start = prepared.log_start_offset == current.log_start_offset
        return same_start and not future.log.producers.missing_from(current.producers)

    def swap(self, tp: TopicPartition, now_ms: int) -> Log:
        """Let the prepared future log replace the current one, which is deleted. `swapped` comes next.

        It takes over the epochs (KAFKA-15608), the high watermark, the log start, the producers, and how far the log is
        clean. Raises LogStorageError; if something is in the way, before anything has changed."""
        home, target, current, future = self._moving(tp)
        future.log.update_high_watermark(current.high_watermark)
        future.log.maybe_increment_log_start_offset(current.log_start_offset)
        future.log.epochs.replace(current.epochs.entries)
        future.log.replace_producers(current.producers)
        cleaned = home.cleaned_offsets.get(tp)
        target.check_room_for(tp)
        change = home.change()
        home.plan_deletion(tp, change, future.id)
        change.take_away()
        home.commit(change, now_ms)
        for failure in change.kept.values():
            raise failure
        log = target.promote_future(tp)
        if cleaned is not None:
            target.cleaned_offsets.raise_to(tp, min(cleaned, log.segments[-1].base_offset))
        return log

    def swapped(self) -> None:
        """Write the checkpoints, in any thread."""
        for directory in self.working:
            directory.forget_gone()
            directory.cleaned_offsets.write()

    def _moving(self, tp: TopicPartition) -> tuple[LogDirectory, LogDirectory, Log, OpenedLog]:
        """Return the directories that it moves from and to, and the two logs."""
        home, target = self._home(tp), self._future_home(tp)
        assert home is not None, f"{tp} is not here"
        assert target is not None, f"{tp} does not move"
        return home, target, home.logs[tp], target.futures[tp]

    # -- upkeep, for all directories that work

    def take_expired(self, now_ms: int) -> list[Path]:
        return [path for directory in self.working for path in directory.take_expired(now_ms)]

    def checkpoint(self, write: Callable[[Checkpoints], None]) -> None:
        """Write some of the checkpoints of each, in any thread."""
        for directory in self.working:
            write(directory.checkpoints)

    # -- the end

    def close(self, broker_epoch: int, incarnation_id: bytes = b"") -> None:
        """Close every directory. If one fails the others are closed, and its error is raised."""
        failure: ReplogError | None = None
        for directory in self.directories:
            if directory.offline is not None:
                directory.abandon()
                continue
            try:
                directory.close(broker_epoch, incarnation_id)
            except ReplogError as error:
                failure = error
        if failure is not None:
            raise failure

    def abandon(self) -> None:
        for directory in self.directories:
            directory.abandon()
