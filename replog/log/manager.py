"""One log directory of one broker: its lock, its identity, its logs and their checkpoints (1.1, FN-3)."""

import os
import re
import shutil
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from types import MappingProxyType
from uuid import uuid4

from replog.config import TopicConfig
from replog.errors import ReplogError
from replog.log.checkpoint import (
    CLEANER_CHECKPOINT,
    HIGH_WATERMARK_CHECKPOINT,
    LOG_START_CHECKPOINT,
    RECOVERY_POINT_CHECKPOINT,
    DamagedCheckpoint,
    OffsetCheckpoint,
)
from replog.log.clean_shutdown import take_marker, write_marker
from replog.log.compaction.cleaned_offsets import CleanedOffsets
from replog.log.directory_lock import lock
from replog.log.errors import InconsistentTopicId, LogStorageError, storage_errors
from replog.log.files import LOG_SUFFIX, fsync_directory
from replog.log.log import Log
from replog.log.meta_properties import verify_or_create
from replog.log.partition_metadata import format_topic_id, read_topic_id, write_topic_id
from replog.topic import TopicPartition, parse_directory_name

DELETE_SUFFIX = "-delete"
SET_ASIDE = re.compile(r".+\.[0-9a-f]{32}-(delete|future|stray)")
MAX_FILE_NAME = 255

Report = Callable[[str], None]


class LogManager:
    """Take the directory with `LogManager(...)`, `load` it, and give it back with `close` (or `abandon`)."""

    def __init__(self, directory: Path, *, cluster_id: str, node_id: int) -> None:
        """Lock the directory (created if missing), check whose it is, and see how the last stop was.

        Raises LogStorageError if it cannot be used or another process has it, INCONSISTENT_CLUSTER_ID or
        INVALID_CONFIG if it belongs to another broker.
        """
        self.directory = directory
        self.failed: dict[TopicPartition, ReplogError] = {}  # directories that could not be loaded, and why
        self.cleaned_offsets = CleanedOffsets(directory / CLEANER_CHECKPOINT, threading.Lock())
        self._logs: dict[TopicPartition, Log] = {}
        self._topic_ids: dict[TopicPartition, bytes] = {}
        self._doomed: list[tuple[Path, int, int]] = []  # directory, since when it waits, for how long (ms)
        self._loaded = False
        self._recovery_points = OffsetCheckpoint(directory / RECOVERY_POINT_CHECKPOINT)
        self._log_starts = OffsetCheckpoint(directory / LOG_START_CHECKPOINT)
        self._high_watermarks = OffsetCheckpoint(directory / HIGH_WATERMARK_CHECKPOINT)
        self._writing_high_watermarks = threading.Lock()
        with storage_errors(directory):
            directory.mkdir(parents=True, exist_ok=True)
            self._lock = lock(directory)
        try:
            verify_or_create(directory, cluster_id=cluster_id, node_id=node_id)
            with storage_errors(directory):
                self.clean, self.previous_broker_epoch = take_marker(directory)
        except ReplogError:
            os.close(self._lock)
            raise

    @property
    def logs(self) -> Mapping[TopicPartition, Log]:
        return MappingProxyType(self._logs)

    def get(self, tp: TopicPartition) -> Log | None:
        return self._logs.get(tp)

    def topic_id(self, tp: TopicPartition) -> bytes | None:
        return self._topic_ids.get(tp)

    # -- loading

    def load(
        self, configs: Callable[[TopicPartition], TopicConfig], on_progress: Report | None = None
    ) -> dict[TopicPartition, Log]:
        """Open the log of every partition directory, recovering what an unclean stop may have torn.

        A directory that cannot be loaded is reported, kept in `failed`, and left as it is. One that is missing makes
        the last stop count as unclean for the controller (`previous_broker_epoch` -1). An unreadable checkpoint of
        recovery points or log starts counts as empty; one of high watermarks raises DamagedCheckpoint (1.3).
        """
        report = on_progress or (lambda _: None)
        try:
            high_watermarks = self._high_watermarks.read()
        except DamagedCheckpoint as damage:
            raise DamagedCheckpoint(
                f"{damage.message}; remove the file: the high watermarks are learned again from the leaders, "
                "and no record is lost (HW-11)"
            ) from None
        recovery_points = _read_or_empty(self._recovery_points, report)
        log_starts = _read_or_empty(self._log_starts, report)
        with storage_errors(self.directory):
            directories = sorted(path for path in self.directory.iterdir() if path.is_dir())
        for path in directories:
            tp = self._partition_of(path, report)
            if tp is None:
                continue
            try:
                topic_id = read_topic_id(path)
                if topic_id is None and _has_data(path):
                    raise LogStorageError(f"{path} has records and no partition.metadata; move it away")
                if topic_id is None:
                    continue  # a creation that a crash interrupted: `create` completes it
                log = Log.open(
                    path,
                    configs(tp),
                    clean=self.clean,
                    recovery_point=recovery_points.get(tp, 0),
                    log_start_offset=log_starts.get(tp, 0),
                    high_watermark=high_watermarks.get(tp, 0),
                    on_progress=report,
                )
            except ReplogError as error:
                report(f"cannot load {path}: {error.message}")
                self.failed[tp] = error
                continue
            self._add(tp, topic_id, log)
        for tp in recovery_points.keys() - self._logs.keys() - self.failed.keys():
            report(f"{self.directory / tp.directory_name} is missing")
            self.previous_broker_epoch = -1
        try:
            self.cleaned_offsets.load(self._logs.keys() | self.failed.keys())
        except DamagedCheckpoint as damage:
            report(f"{damage.message}; taking it as empty: compacted logs are cleaned from their beginning")
        self._loaded = True
        gone = (recovery_points.keys() | log_starts.keys() | high_watermarks.keys()) - self._logs.keys()
        if gone - self.failed.keys():  # a new replica of such a name must not inherit anything after a crash
            self.checkpoint_recovery_points()
            self.checkpoint_log_starts()
            self.checkpoint_high_watermarks()
        elif any(log.recovery_point < recovery_points.get(tp, 0) for tp, log in self._logs.items()):
            self.checkpoint_recovery_points()  # or what is appended there would count as durable after a crash
        for tp, log in self._logs.items():
            self.cleaned_offsets.lower_to(tp, log.segments[-1].base_offset)  # what comes there next is dirty
        return dict(self._logs)

    def _partition_of(self, path: Path, report: Report) -> TopicPartition | None:
        """Whose directory it is; leftovers of deletions are removed, others without a partition are passed over."""
        set_aside = SET_ASIDE.fullmatch(path.name)
        if set_aside is not None:
            report(f"{'removing' if set_aside[1] == 'delete' else 'passing over'} {path}, which was set aside")
            if set_aside[1] == "delete":
                shutil.rmtree(path, ignore_errors=True)
            return None
        try:
            return parse_directory_name(path.name)
        except ValueError as error:
            report(f"passing over {path}: {error}")
            return None

    def _add(self, tp: TopicPartition, topic_id: bytes, log: Log) -> None:
        log.on_recovery_point_lowered = partial(self._truncated, tp, log)
        self._logs[tp] = log
        self._topic_ids[tp] = topic_id

    def _truncated(self, tp: TopicPartition, log: Log) -> None:
        """What has become lower must be so after a crash too."""
        self.checkpoint_recovery_points()
        if log.log_start_offset == log.log_end_offset:  # else it did not move
            self.checkpoint_log_starts()
        self.cleaned_offsets.lower_to(tp, log.segments[-1].base_offset)

    # -- replicas

    def create(self, tp: TopicPartition, topic_id: bytes, config: TopicConfig) -> Log:
        """The log of a replica placed here: the one there is, or an empty one, its topic id durable beside it.

        Raises InconsistentTopicId if the replica here is of another topic of that name, and the error of loading if
        there is a replica that could not be loaded.
        """
        if tp in self.failed:
            raise self.failed[tp]
        if tp in self._logs:
            if self._topic_ids[tp] != topic_id:
                raise InconsistentTopicId(
                    f"{self.directory / tp.directory_name} is of topic id {format_topic_id(self._topic_ids[tp])}, "
                    f"not {format_topic_id(topic_id)}; delete that replica first"
                )
            return self._logs[tp]
        path = self.directory / tp.directory_name
        with storage_errors(path):
            path.mkdir(exist_ok=True)
            write_topic_id(path, topic_id)
            fsync_directory(self.directory)
        self._add(tp, topic_id, Log.open(path, config, clean=True))
        return self._logs[tp]

    def delete(self, tp: TopicPartition, now_ms: int) -> None:
        """Take a replica away: its directory is renamed at once, and removed after `file.delete.delay.ms` (LG-17)."""
        log = self._logs.pop(tp)
        del self._topic_ids[tp]
        log.abandon()
        tail = f"-{tp.partition}.{uuid4().hex}{DELETE_SUFFIX}"
        doomed = self.directory / (tp.topic[: MAX_FILE_NAME - len(tail)] + tail)  # FN-1
        with storage_errors(log.directory):
            log.directory.rename(doomed)
            fsync_directory(self.directory)
        self._doomed.append((doomed, now_ms, log.config.file_delete_delay_ms))
        self.checkpoint_recovery_points()
        self.checkpoint_log_starts()
        self.checkpoint_high_watermarks()
        self.cleaned_offsets.forget(tp)

    def delete_expired(self, now_ms: int) -> int:
        """Remove deleted replicas and segments whose delay has passed; returns how many directories and files."""
        expired = [path for path, since, delay in self._doomed if now_ms - since >= delay]
        self._doomed = [waiting for waiting in self._doomed if waiting[0] not in expired]
        with storage_errors(self.directory):
            for path in expired:
                with suppress(FileNotFoundError):  # somebody was faster
                    shutil.rmtree(path)
            return len(expired) + sum(log.delete_expired_files(now_ms) for log in self._logs.values())

    def enforce_retention(self, now_ms: int) -> int:
        """`delete_old_segments` of every log that works; returns the number of segments deleted."""
        return sum(log.delete_old_segments(now_ms) for log in self._logs.values() if log.failure is None)

    def remove_expired_producers(self, now_ms: int, expiration_ms: int) -> int:
        """Have every log forget the producers that were silent for so long (PS-11); returns how many."""
        return sum(log.producers.remove_expired(now_ms, expiration_ms) for log in self._logs.values())

    # -- checkpoints

    def checkpoint_high_watermarks(self) -> None:
        """HW-11; nothing before everything is loaded (HW-12)."""
        self.high_watermark_task()()

    def high_watermark_task(self) -> Callable[[], None]:
        """The same in two steps: takes the offsets now; the call returned writes them, in any thread.

        Those of replicas that are gone by then stay out: a new replica of that name must not inherit one.
        """
        taken = [(tp, log, log.high_watermark) for tp, log in self._logs.items()]

        def write() -> None:
            with self._writing_high_watermarks:
                self._checkpoint(self._high_watermarks, {tp: hw for tp, log, hw in taken if self._logs.get(tp) is log})

        return write

    def checkpoint_recovery_points(self) -> None:
        self._checkpoint(self._recovery_points, {tp: log.recovery_point for tp, log in self._logs.items()})

    def checkpoint_log_starts(self) -> None:
        """Only those that the first segment's name does not tell (1.1)."""
        starts = {tp: log.log_start_offset for tp, log in self._logs.items()}
        hidden = {tp: start for tp, start in starts.items() if start > self._logs[tp].segments[0].base_offset}
        self._checkpoint(self._log_starts, hidden)

    def _checkpoint(self, checkpoint: OffsetCheckpoint, offsets: dict[TopicPartition, int]) -> None:
        """Replace the file; entries of replicas that could not be loaded stay as they are."""
        if not self._loaded:
            return
        kept = {tp: offset for tp, offset in checkpoint.read().items() if tp in self.failed} if self.failed else {}
        checkpoint.write(kept | offsets)

    # -- the end

    def close(self, broker_epoch: int) -> None:
        """An orderly stop (FN-3): close every log, all durable, write the checkpoints, then the marker, unlock.

        If a log cannot be closed the others are, no marker is written, and its error is raised.
        """
        failure: ReplogError | None = None
        try:
            for log in self._logs.values():
                failure = log.failure or failure
                try:
                    log.close()
                except LogStorageError as error:
                    failure = error
            self.checkpoint_recovery_points()
            self.checkpoint_log_starts()
            self.checkpoint_high_watermarks()
            if failure is None and (self.clean or (self._loaded and not self.failed)):
                with storage_errors(self.directory):
                    write_marker(self.directory, broker_epoch)
        finally:
            self.abandon()
        if failure is not None:
            raise failure

    def abandon(self) -> None:
        """Let go of everything without writing: for a failed disk, and as a crash would."""
        self._loaded = False  # no checkpoint is written any more, by a thread that is late either
        for log in self._logs.values():
            log.abandon()
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1


def _read_or_empty(checkpoint: OffsetCheckpoint, report: Report) -> dict[TopicPartition, int]:
    try:
        return checkpoint.read()
    except DamagedCheckpoint as damage:
        report(f"{damage.message}; taking it as empty")
        return {}


def _has_data(directory: Path) -> bool:
    return any(path.suffix == LOG_SUFFIX and path.stat().st_size for path in directory.iterdir())
