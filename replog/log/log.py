"""One partition's log: segments, offsets, the high watermark, leader epochs and producers, over the files of one
directory.

Not thread safe, and it reads no clock: times come in as `now_ms`. A disk error raises LogStorageError and leaves the
log unusable until it is opened again.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from replog.config import TopicConfig
from replog.log.batch import CONTROL, HEADER_SIZE, BatchHeader
from replog.log.cold import NOTHING, ColdRead, WaitingFor
from replog.log.compaction.keys import check_keys
from replog.log.compaction.log_compaction import LogCompaction
from replog.log.durability import LogDurability
from replog.log.errors import (
    CorruptIndex,
    CorruptRecord,
    DiskWork,
    LogStorageError,
    OffsetOutOfRange,
    TooManyOpenFiles,
    storage_errors,
)
from replog.log.loading import LoadedLog, load_log
from replog.log.offsets import (
    NO_TIMESTAMP,
    AppendInfo,
    AppendOrigin,
    Buffer,
    EpochEndOffset,
    FetchData,
    Isolation,
    OffsetMetadata,
    OffsetSnapshot,
)
from replog.log.producers.control import end_transaction_marker
from replog.log.producers.recovery import cut_back, start_over
from replog.log.producers.snapshot import ProducerSnapshotEntry
from replog.log.producers.state import ProducerStateManager
from replog.log.reading import aborted_transactions, read_below
from replog.log.recovery import cut_epochs
from replog.log.retention import expired_segments
from replog.log.segments import SegmentView
from replog.log.timestamps import ClaimingBatch, find_batch_by_timestamp
from replog.log.validation import check_leader_batch, check_replicated_batches, stamp
from replog.log.writing import LogWriter


class Log:
    """Open one with `Log.open`; offsets obey logStart ≤ LSO ≤ HW ≤ LEO at all times."""

    def __init__(self, directory: Path, config: TopicConfig, loaded: LoadedLog) -> None:
        self.directory = directory
        self.config = config  # may be replaced: what follows goes by the new one
        self.epochs = loaded.epochs
        self.producers = loaded.producers
        self.lost_data = loaded.lost_data  # opening found batches missing, or dropped unsound ones
        self.log_end_offset = loaded.segments.active.next_offset
        self.log_start_offset = loaded.log_start_offset
        self.recovery_point = 0
        self.on_truncated: Callable[[], None] = lambda: None
        self.on_recovery_point_lowered: Callable[[], None] = lambda: None  # must make it durable, and the log start
        self.deleted = loaded.segments.deleted  # files that wait for `file.delete.delay.ms` (LG-15)
        self._segments = loaded.segments
        self._snapshots = loaded.snapshots
        self._writer = LogWriter(loaded.segments, loaded.epochs, loaded.producers, loaded.snapshots)
        self._high_watermark = OffsetMetadata(self.log_start_offset)
        self._last_stable = OffsetMetadata(-1)  # with its place, as last found
        self.on_failure: Callable[[LogStorageError], None] = lambda _: None  # is told of disk errors, whoever met them
        self._working = DiskWork(directory, lambda failure: self.on_failure(failure))
        self.durability = LogDurability(self, self._segments, self._snapshots, self._working)
        self.compaction = LogCompaction(self, self._segments, self._working)

    @classmethod
    def open(
        cls,
        directory: Path,
        config: TopicConfig,
        *,
        clean: bool,
        recovery_point: int = 0,
        log_start_offset: int = 0,
        high_watermark: int = 0,
        on_progress: Callable[[str], None] | None = None,
    ) -> "Log":
        """Load the log of `directory`, which is created if missing; the offsets are those of the checkpoints.

        `clean` says that the last stop was orderly; if not, everything from `recovery_point` on is verified. What is
        found damaged is repaired from the batches, or cut off (LD-1 to LD-11). `on_progress` gets a line for each
        such thing. Raises LogStorageError if the disk fails.
        """
        report = on_progress or (lambda _: None)
        with storage_errors(directory):
            loaded = load_log(
                directory,
                config,
                clean=clean,
                recovery_point=recovery_point,
                log_start_offset=log_start_offset,
                report=report,
            )
        log = cls(directory, config, loaded)
        log.recovery_point = log.log_end_offset if clean else min(recovery_point, log.log_end_offset)  # LD-9
        log.update_high_watermark(high_watermark)
        return log

    # -- what it holds

    @property
    def high_watermark(self) -> int:
        return self._high_watermark.offset

    @property
    def last_stable_offset(self) -> int:
        """Up to where every transaction is decided, the high watermark at most (PS-5)."""
        unstable = self.producers.first_unstable_offset
        if unstable is None:
            return self._high_watermark.offset
        return min(max(unstable, self.log_start_offset), self._high_watermark.offset)

    @property
    def latest_epoch(self) -> int | None:
        return latest[0] if (latest := self.epochs.latest()) else None

    @property
    def size(self) -> int:
        """Bytes of all segments' `.log` files."""
        return self._segments.size

    @property
    def segments(self) -> tuple[SegmentView, ...]:
        """Oldest first; the last one is active."""
        return self._segments.views()

    @property
    def bases(self) -> tuple[int, int]:
        """Where the first segment begins, and where the active one does."""
        return self._segments.first.base_offset, self._segments.active.base_offset

    @property
    def failure(self) -> LogStorageError | None:
        """The disk error that ended this log's work, if one did."""
        return self._working.failure

    def snapshot(self) -> OffsetSnapshot:
        """The four bounds, places resolved (LG-0); the offsets alone where damage hides a place (5.6), or only the disk
        knows it (divergence 34)."""
        with self._working, WaitingFor(NOTHING):
            try:
                high_watermark = stable = self._bound(Isolation.HIGH_WATERMARK)
                if self.last_stable_offset < high_watermark.offset:
                    stable = self._bound(Isolation.TXN_COMMITTED)
            except (CorruptRecord, ColdRead):
                high_watermark, stable = OffsetMetadata(self.high_watermark), OffsetMetadata(self.last_stable_offset)
            return OffsetSnapshot(self.log_start_offset, self._segments.end(), high_watermark, stable)

    def end_offset_for_epoch(self, epoch: int) -> EpochEndOffset:
        """EP-6 with this log's end."""
        return self.epochs.end_offset_for(epoch, self.log_end_offset)

    def assign_epoch_start(self, epoch: int, *, save: bool = True) -> None:
        """Note that `epoch` begins at the log end: durably, or `epochs.save` follows before a leader serves (EP-3)."""
        with self._working:
            self.epochs.assign(epoch, self.log_end_offset)
            if save:
                self.epochs.save()

    # -- appending

    def append_as_leader(
        self, records: Buffer, *, leader_epoch: int, now_ms: int, origin: AppendOrigin = AppendOrigin.CLIENT
    ) -> AppendInfo:
        """Append one batch at the log end, stamped with its offset and `leader_epoch` (2.7).

        Nothing happens for no bytes; a duplicate of one of its producer's last batches is answered with that one's
        offsets, and nothing is written (PS-3). Refusals leave the log as it was: for them see `check_leader_batch` and
        `ProducerStateManager.check`; ValueError for a leader epoch below that of earlier batches. The payload is
        neither read beyond its CRC nor copied.
        """
        if not records:
            return AppendInfo.nothing(self.log_start_offset)
        if leader_epoch < (self.latest_epoch or 0):
            raise ValueError(
                f"leader epoch {leader_epoch} is below {self.latest_epoch}, which {self.directory} has seen"
            )
        with self._working:
            header = check_leader_batch(records, self.config, origin)
            if self.config.compacted and origin is AppendOrigin.CLIENT:
                check_keys(records, header, self.config)
            marker = None
            if header.producer_id >= 0:
                marker = end_transaction_marker(records, header) if header.attributes & CONTROL else None
                duplicate = self.producers.check(header, origin, marker)
                if duplicate is not None:
                    first, last, timestamp = duplicate.first_offset, duplicate.last_offset, duplicate.timestamp
                    return AppendInfo(first, last, timestamp, timestamp, self.log_start_offset, 0)  # LG-2
            append_time = now_ms if self.config.message_timestamp_type == "LogAppendTime" else None
            stamped, head = stamp(
                header, records, base_offset=self.log_end_offset, leader_epoch=leader_epoch, append_time=append_time
            )
            self._writer.write(self.config, stamped, [head, memoryview(records)[HEADER_SIZE:]], marker)
            self._appended(stamped)
        first, last, greatest = stamped.base_offset, stamped.last_offset, stamped.max_timestamp
        time = NO_TIMESTAMP if append_time is None else append_time
        return AppendInfo(first, last, greatest, time, self.log_start_offset, stamped.size)

    def append_as_follower(self, records: Buffer) -> AppendInfo:
        """Append replicated batches unchanged (2.8); a trailing part of a batch is dropped.

        The batches must continue the log, without a hole unless compaction may have left it (CL-8), and with leader
        epochs that never go back. Those before the first bad one are appended; then its fault is raised (FT-11:
        nothing from that batch on), so on an error the caller goes on from `log_end_offset`. UnexpectedAppendOffset
        if the first does not begin at the log end (FT-13).
        """
        checked = check_replicated_batches(
            records, self.log_end_offset, self.latest_epoch or 0, holes=self.config.compacted
        )
        if checked.batches:
            with self._working:
                try:
                    self._writer.write_all(self.config, records, checked.batches)
                except TooManyOpenFiles:
                    self.log_end_offset = self._segments.active.next_offset
                    raise
                self._appended(checked.batches[-1][1])
        if checked.fault is not None:
            raise checked.fault
        return checked.info(self.log_start_offset)

    def _appended(self, last: BatchHeader) -> None:
        self.log_end_offset = last.next_offset
        self.durability.ask()

    # -- reading

    def read(self, offset: int, max_bytes: int, isolation: Isolation, *, min_one_message: bool) -> FetchData:
        """Up to `max_bytes` of whole log from the batch that holds `offset`, below the bound of `isolation` (LG-7).

        With `min_one_message` the first batch comes whole, however large. Empty at or past the bound. TXN_COMMITTED
        names the aborted transactions that are to be passed over (LG-9). Raises OffsetOutOfRange below the log start
        and above the log end.
        """
        if not self.log_start_offset <= offset <= self.log_end_offset:
            raise OffsetOutOfRange(
                f"offset {offset} is not in {self.log_start_offset} to {self.log_end_offset} of {self.directory.name}"
            )
        if max_bytes < 0:
            raise ValueError(f"max_bytes={max_bytes} is negative")
        with self._working:
            bound = self._bound(isolation)
            data = read_below(self._segments, offset, max_bytes, bound, min_one_message=min_one_message)
            if isolation is Isolation.TXN_COMMITTED and (aborted := aborted_transactions(self._segments, data)):
                data = replace(data, aborted=aborted)
            return data

    def batch_for_timestamp(self, timestamp: int, start_offset: int) -> ClaimingBatch | None:
        """The first batch from there on that claims a timestamp of at least `timestamp`; see `timestamps` (SG-7)."""
        start, limit = max(start_offset, self.log_start_offset), self.config.max_message_bytes
        with self._working:
            return find_batch_by_timestamp(self._segments.all(), timestamp, start, limit)

    # -- high watermark

    def update_high_watermark(self, offset: int) -> int:
        """Set it, clamped to [log start, log end]; it may go back (5.6). Returns the result."""
        clamped = min(max(offset, self.log_start_offset), self.log_end_offset)
        if clamped != self._high_watermark.offset:
            self._high_watermark = OffsetMetadata(clamped)
        self.producers.replicated_to(clamped)
        return clamped

    def maybe_increment_high_watermark(self, offset: int) -> bool:
        """Raise it to `offset` if that is higher (a leader's way). ValueError if that is beyond the log end."""
        if offset > self.log_end_offset:
            raise ValueError(f"high watermark {offset} would be beyond log end offset {self.log_end_offset}")
        if offset <= self._high_watermark.offset:
            return False
        self._high_watermark = OffsetMetadata(offset)
        self.producers.replicated_to(offset)
        return True

    def maybe_increment_log_start_offset(self, offset: int) -> bool:
        """Hide what lies below `offset` (LG-16); False if it is hidden already. OffsetOutOfRange above the HW.

        The recovery point stays: a torn segment that is hidden would end the log at the next start (divergence 4).
        """
        if offset > self.high_watermark:
            raise OffsetOutOfRange(f"log start {offset} would be above high watermark {self.high_watermark}")
        if offset <= self.log_start_offset:
            return False
        with self._working:
            self.epochs.truncate_from_start(offset)
            self.log_start_offset = offset
        return True

    # -- truncation, rolling, retention

    def truncate_to(self, offset: int) -> bool:
        """Remove everything from `offset` on (LG-10); False if that is nothing.

        Whole batches go: inside a batch the log then ends at that batch's base offset, so that no hole can arise
        (unlike Kafka, LG-11). Nothing is appended before `durability` has settled that.
        Where damage hides the place, this log fails with LogStorageError, and the next start recovers that segment.
        """
        if offset < 0:
            raise ValueError(f"cannot truncate to negative offset {offset}")
        if offset >= self.log_end_offset:
            cut_epochs(self.epochs, self._segments.all(), self.log_start_offset)
            return False
        if offset < self._segments.first.base_offset:
            self.truncate_fully_and_start_at(offset)
            if self.durability.settled:  # nothing was there, but the checkpoint says more than is durable from now on
                self.durability.cut(lambda: self.producers)
            return True
        with self._working:
            self._truncate_segments(offset)
        self._ended_at(self._segments.active.next_offset)
        cut_epochs(self.epochs, self._segments.all(), self.log_start_offset)
        self.log_start_offset = min(self.log_start_offset, self.log_end_offset)
        producers, bounds = self.producers.cut_to(self.log_end_offset), (self.log_start_offset, self.log_end_offset)
        cut = partial(cut_back, producers, self._snapshots, self._segments.all(), *bounds)
        self.durability.cut(partial(cut, none_known=self.producers.empty))
        return True

    def _truncate_segments(self, offset: int) -> None:
        try:
            self._segments.truncate_to(offset)
        except (CorruptRecord, CorruptIndex) as damage:
            self.recovery_point = min(self.recovery_point, self._segments.active.base_offset)
            self.on_recovery_point_lowered()
            trouble = f"{self.directory} cannot be truncated to {offset}: {damage.message}; restart the broker"
            raise LogStorageError(f"{trouble}, which then recovers that segment") from damage

    def truncate_fully_and_start_at(self, offset: int, log_start_offset: int | None = None) -> None:
        """Remove everything, go on empty at `offset` (LG-12): at once if nothing was there that a crash brings back."""
        was_empty = not self.size and self.durability.settled
        with self._working:
            if was_empty:
                self._snapshots.clear()
            self._segments.replace_all(offset)
        self.log_start_offset = offset if log_start_offset is None else log_start_offset
        self._ended_at(offset)
        self._high_watermark = self._segments.end()
        self.epochs.clear()
        self.producers.clear()
        if was_empty:
            self.recovery_point = offset
        self.durability.cut(None if was_empty else partial(start_over, self._snapshots))

    def hide_all(self) -> None:
        """Nobody may read any more what it has, after a crash neither, once that is settled."""
        self.update_high_watermark(self.log_end_offset)
        self.maybe_increment_log_start_offset(self.log_end_offset)
        self.durability.cut(lambda: self.producers)

    def _ended_at(self, offset: int) -> None:
        self.log_end_offset = offset
        self.recovery_point = min(self.recovery_point, offset)
        self._high_watermark = OffsetMetadata(min(self.high_watermark, offset))
        self._last_stable = OffsetMetadata(-1)

    def forget_places(self) -> None:
        """A cleaner has replaced segments: where the bounds lie is found again."""
        self._high_watermark = OffsetMetadata(self.high_watermark)
        self._last_stable = OffsetMetadata(-1)

    def roll(self) -> None:
        """Begin a new segment at the log end; nothing if the active one is empty (LG-5)."""
        with self._working:
            self._writer.start_segment(self.log_end_offset)

    def delete_old_segments(self, now_ms: int) -> int:
        """Remove segments by log start, `retention.bytes` and `retention.ms` (LG-13 to LG-15); returns how many.

        Their files are renamed, and are in `deleted` from then on. None while a truncation is being settled.
        """
        if not self.durability.settled:
            return 0
        with self._working:
            bounds = (self.log_start_offset, self.high_watermark, self.log_end_offset)
            expired = expired_segments(self._segments.all(), self.config, *bounds, now_ms)
            if expired == len(self._segments):
                self._writer.start_segment(self.log_end_offset)
            if expired:
                first_kept = self._segments.all()[expired].base_offset
                self.log_start_offset = max(self.log_start_offset, first_kept)
                self.recovery_point = max(self.recovery_point, first_kept)
                self.epochs.truncate_from_start(self.log_start_offset)
                self._segments.remove_first(expired)
                self._segments.deleted.seen(now_ms)
        return expired

    # -- flushing, closing

    def flush(self, up_to: int | None = None) -> None:
        """fsync everything below `up_to` (the log end if None), now (LG-18)."""
        self.durability.flush(up_to)

    def close(self) -> None:
        """An orderly stop, in any thread: everything is fsynced, an empty active segment too (FN-3)."""
        if self.failure is None:
            self.durability.begin_close()
            self.durability.finish_close()
        self.abandon()

    def abandon(self) -> None:
        """Let go of the files without writing anything: for a failed disk (SG-12)."""
        self._segments.close()
        self._working.failure = self.failure or LogStorageError(f"{self.directory} is closed")

    def replace_producers(self, producers: ProducerStateManager) -> None:
        """This is what is known of them."""
        self.producers = self._writer.producers = producers
        producers.replicated_to(self.high_watermark)

    def remember(self, producers: Sequence[ProducerSnapshotEntry]) -> None:
        """In all snapshots, durably, who wrote before them; in any thread, while nothing is appended."""
        with self._working:
            self._snapshots.add(producers)

    def renamed(self, directory: Path) -> None:
        """The directory has this name from now on (§7.7)."""
        self.directory = self._working.directory = self._snapshots.directory = directory
        self.epochs.path = directory / self.epochs.path.name
        self._segments.renamed(directory)

    # -- inside

    def _bound(self, isolation: Isolation) -> OffsetMetadata:
        """Up to where one may read, with its place, found once (LG-6: that of the batch that holds it)."""
        if isolation is Isolation.LOG_END:
            return self._segments.end()
        if isolation is Isolation.TXN_COMMITTED and self.last_stable_offset < self.high_watermark:
            if self._last_stable.offset != self.last_stable_offset:
                self._last_stable = self._segments.locate(self.last_stable_offset)
            return self._last_stable
        if self._high_watermark.offset == self.log_end_offset:
            return self._segments.end()
        if self._high_watermark.message_only:
            self._high_watermark = self._segments.locate(self._high_watermark.offset)
        return self._high_watermark
