"""One partition's log: segments, offsets, the high watermark, leader epochs and producers, over the files of one
directory.

Not thread safe, and it reads no clock: times come in as `now_ms`. A disk error raises LogStorageError and leaves the
log unusable until it is opened again. Where room or descriptors are lacking, NoRoom or TooManyOpenFiles is raised, and
the log is as it was (LG-19).

A log does not wait for the disk if its owner runs its flush tasks: `on_flush_due` asks for that (LG-18, divergence 36).
Appends and truncations are visible at once, to readers too, and count once a task was run. Appended records count below
`promised_offset`. After a truncation nothing is appended before the log is `settled`."""

from collections.abc import Sequence
from functools import partial
from typing import ClassVar

from replog.log.durable import DurableLog
from replog.log.errors import NO_ROOM, CorruptIndex, CorruptRecord, LogStorageError, OffsetOutOfRange, RetriableLogError
from replog.log.files.cold import NOTHING, WaitingFor
from replog.log.formats.batch import CONTROL, BatchHeader
from replog.log.formats.control_batch import EndTransactionMarker, end_transaction_marker, marker_or_none
from replog.log.formats.validation import (
    check_keys,
    check_leader_batch,
    check_replicated_batches,
    check_times,
    epoch_starts,
    stamp,
    with_head,
)
from replog.log.offsets import (
    NO_TIMESTAMP,
    AppendInfo,
    AppendOrigin,
    Buffer,
    EpochEndOffset,
    FetchData,
    Isolation,
    OffsetMetadata,
)
from replog.log.producers.recovery import cut_back, start_over
from replog.log.recovery import cut_epochs
from replog.log.segment import Segment
from replog.log.swap import Swap
from replog.log.timestamps import ClaimingBatch, find_batch_by_timestamp


class Log(DurableLog):
    """Open one with `Log.open`; offsets obey logStart ≤ LSO ≤ HW ≤ LEO at all times."""

    # the simulator's checks run after each assignment of these
    WATCHED: ClassVar = frozenset({"high_watermark", "log_end_offset", "log_start_offset"})

    # -- state

    def limit(self, isolation: Isolation) -> int:
        """Return the offset below which one may read."""
        if isolation is Isolation.LOG_END:
            return self.log_end_offset
        return self.high_watermark if isolation is Isolation.HIGH_WATERMARK else self.last_stable_offset

    def bound(self, isolation: Isolation) -> OffsetMetadata:
        """Return `limit` with its place (LG-0), or without if damage hides that (5.6). Raises ColdRead instead of
        waiting for the disk (`files.cold`)."""
        if isolation is Isolation.LOG_END:
            return self._segments.end()
        with self.work, WaitingFor(NOTHING):
            try:
                return self._bound(isolation)
            except CorruptRecord:
                return OffsetMetadata(self.limit(isolation))

    def end_offset_for_epoch(self, epoch: int) -> EpochEndOffset:
        """Find the end of an epoch by EP-6, with this log's end."""
        return self.epochs.end_offset_for(epoch, self.log_end_offset)

    def assign_epoch_start(self, epoch: int, *, save: bool = True) -> None:
        """Note that `epoch` begins at the log end. Without `save`, call `epochs.save` before a leader serves (EP-3)."""
        with self.work:
            self.epochs.assign(epoch, self.log_end_offset)
            if save:
                self.epochs.save()

    # -- appending

    def append_as_leader(
        self,
        records: Buffer,
        *,
        leader_epoch: int,
        now_ms: int,
        apart_ms: int = 0,
        origin: AppendOrigin = AppendOrigin.CLIENT,
    ) -> AppendInfo:
        """Append one batch at the log end, stamped with its offset and `leader_epoch` (2.7).

        Empty `records` change nothing. A duplicate of one of the producer's last batches is not written: the answer has
        the offsets of that batch (PS-3). A refusal leaves the log unchanged: see `check_leader_batch` and
        `ProducerStateManager.check`. ValueError if earlier batches have a higher leader epoch. The payload is read for
        its CRC only. `records` belong to the log from now on: if possible they are stamped in place, not copied."""
        if not records:
            return AppendInfo.nothing(self.log_start_offset)
        if leader_epoch < (self.epochs.latest_epoch or 0):
            raise ValueError(
                f"leader epoch {leader_epoch} is below {self.epochs.latest_epoch}, which {self.directory} has seen"
            )
        with self.work:
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
            if origin is AppendOrigin.CLIENT:  # duplicates are in the log: they were not refused
                check_times(header, self.config, now_ms, apart_ms)
            append_time = now_ms if self.config.message_timestamp_type == "LogAppendTime" else None
            stamped, head = stamp(
                header, records, base_offset=self.log_end_offset, leader_epoch=leader_epoch, append_time=append_time
            )
            if leader_epoch != self.epochs.latest_epoch:
                self._begin_epoch(leader_epoch)
            active = self._active_for(stamped)
            active.append(with_head(head, records))  # nothing has changed yet, in case descriptors or room are lacking
            active.add(stamped, self.config.index_interval_bytes)
            if stamped.producer_id >= 0:
                self._follow_producer(active, stamped, marker)
            active.write_indexes_in_time()
            self.log_end_offset = active.next_offset
            self.ask_for_flush()
        first, last, greatest = stamped.base_offset, stamped.last_offset, stamped.max_timestamp
        time = NO_TIMESTAMP if append_time is None else append_time
        return AppendInfo(first, last, greatest, time, self.log_start_offset, stamped.size)

    def _begin_epoch(self, epoch: int) -> None:
        before = self.epochs.entries
        self.epochs.assign(epoch, self.log_end_offset)
        try:
            self.epochs.save()
        except RetriableLogError:
            self.epochs.replace(before)
            raise

    def append_as_follower(self, records: Buffer) -> None:
        """Append replicated batches unchanged (2.8); a trailing part of a batch is dropped.

        The batches must continue the log, without a hole unless compaction may have left it (CL-8), and with leader
        epochs that never fall. The batches before the first bad one are appended, then its fault is raised (FT-11:
        nothing from that batch on). After an error the caller continues from `log_end_offset`. UnexpectedAppendOffset
        if the first does not begin at the log end (FT-13)."""
        batches, fault = check_replicated_batches(
            records, self.log_end_offset, self.epochs.latest_epoch or 0, holes=self.config.compacted
        )
        if batches:
            with self.work:
                self._write_replicated(memoryview(records), batches)
                self.ask_for_flush()
        if fault is not None:
            raise fault

    def _write_replicated(self, records: memoryview, batches: Sequence[tuple[int, BatchHeader]]) -> None:
        """Add the batches that follow each other in `records`, with one write for each segment. They roll as on the
        leader, so the files are the same. A lack of descriptors or of room may end this between two segments."""
        first, log_end = 0, self.log_end_offset
        try:
            while first < len(batches):
                start, header = batches[first]
                active, after = self._active_for(header), first
                size_before = active.size
                with active.file:
                    for position, header in batches[first:]:
                        if after > first and active.should_roll(header, self.config):
                            break
                        active.add(header, self.config.index_interval_bytes)
                        after, end = after + 1, position + header.size
                    try:
                        active.write([records[start:end]])
                    except OSError as error:
                        if error.errno in NO_ROOM:
                            with self.work.no_way_back():  # not by `truncate_to`: the added ones are not in the file
                                active.cut_at(size_before, batches[first][1].base_offset)
                        raise
                    for position, header in batches[first:after]:
                        if header.producer_id >= 0:
                            self._follow_producer(active, header, marker_or_none(records, header, position))
                    active.write_indexes_in_time()
                first, self.log_end_offset = after, active.next_offset
        finally:
            if first and batches[first - 1][1].leader_epoch != self.epochs.latest_epoch:  # epochs never fall
                self.epochs.assign_all(epoch_starts(batches[:first], log_end))

    def _active_for(self, header: BatchHeader) -> Segment:
        """Return the segment that takes this batch: a new one if it is time (SG-6)."""
        active = self._segments.active
        if not active.should_roll(header, self.config):
            return active
        self._start_segment(header.base_offset)
        return self._segments.active

    def _follow_producer(self, active: Segment, header: BatchHeader, marker: EndTransactionMarker | None) -> None:
        """Follow a batch of the active segment; `marker` is its content if it ends a transaction. An aborted
        transaction is noted in the segment that holds its marker (IX-19)."""
        aborted = self.producers.update(header, marker)
        if aborted is not None:
            active.transaction_index.append(aborted)

    def _start_segment(self, base_offset: int) -> None:
        """Continue in a new segment, with a snapshot of the producers next to it (LG-5)."""
        is_new = self._snapshots.take(base_offset, self.producers)  # the next flush makes it durable
        try:
            self._segments.start(base_offset)
        except (OSError, RetriableLogError):
            if is_new:
                self._snapshots.drop(base_offset)
            raise

    # -- reading

    def read(self, offset: int, max_bytes: int, isolation: Isolation, *, min_one_message: bool) -> FetchData:
        """Read up to `max_bytes` of whole batches from that of `offset` on, below the bound of `isolation` (LG-7).

        With `min_one_message` the first batch comes whole, however large. Empty at or past the bound. TXN_COMMITTED
        names the aborted transactions that are to be skipped (LG-9). Raises OffsetOutOfRange below the log start and
        above the log end."""
        if not self.log_start_offset <= offset <= self.log_end_offset:
            raise OffsetOutOfRange(
                f"offset {offset} is not in {self.log_start_offset} to {self.log_end_offset} of {self.directory.name}"
            )
        if max_bytes < 0:
            raise ValueError(f"max_bytes={max_bytes} is negative")
        with self.work:
            bound = self._bound(isolation)
            data = self._segments.read(offset, max_bytes, bound, min_one_message=min_one_message)
            if isolation is Isolation.TXN_COMMITTED and (aborted := self._segments.aborted_transactions(data)):
                data = data._replace(aborted=aborted)
            return data

    def batch_for_timestamp(self, timestamp: int, start_offset: int) -> ClaimingBatch | None:
        """Find the first batch from there on that claims at least this timestamp; see `timestamps` (SG-7)."""
        start, limit = max(start_offset, self.log_start_offset), self.config.max_message_bytes
        with self.work:
            return find_batch_by_timestamp(self._segments.all(), timestamp, start, limit)

    # -- high watermark

    def maybe_increment_high_watermark(self, offset: int) -> bool:
        """Raise it to `offset` if that is higher, as a leader does."""
        if offset <= self.high_watermark:
            return False
        self.high_watermark = offset
        self._check_bounds()
        self.producers.replicated_to(offset)
        return True

    def maybe_increment_log_start_offset(self, offset: int) -> bool:
        """Hide all records below `offset` (LG-16). False if they are hidden already. OffsetOutOfRange above the HW.

        The recovery point stays: a torn segment that is hidden would end the log at the next start (divergence 4)."""
        if offset > self.high_watermark:
            raise OffsetOutOfRange(f"log start {offset} would be above high watermark {self.high_watermark}")
        if offset <= self.log_start_offset:
            return False
        with self.work:
            self.epochs.truncate_from_start(offset)
            self.log_start_offset = offset
        self._check_bounds()
        if offset > self.kept_start_offset:
            self.on_log_start_raised()
        return True

    # -- truncation, rolling

    def truncate_to(self, offset: int) -> bool:
        """Remove everything from `offset` on (LG-10). False if there was nothing to remove.

        Only whole batches are removed: for an offset inside a batch, the log ends at the batch's base offset, and no
        hole arises (unlike Kafka, LG-11). Nothing is appended before the log is `settled`. If damage hides the place,
        this log fails with LogStorageError, and the next start recovers that segment. Slow work, such as producers and
        fsyncs, is left to a thread (`flush_task`). This reads some KiB, however long the log is, from what was written
        last: few truncations wait for a disk."""
        if offset < 0:
            raise ValueError(f"cannot truncate to negative offset {offset}")
        if offset >= self.log_end_offset:
            cut_epochs(self.epochs, self._segments.all(), self.log_start_offset)
            return False
        if offset < self._segments.first.base_offset:
            self.truncate_fully_and_start_at(offset)
            if self.settled:  # nothing was there, but the checkpoint still names a higher offset as durable
                self._cut(lambda: self.producers)
            return True
        with self.work, self.work.renames():
            self._truncate_segments(offset)
        self._ended_at(self._segments.active.next_offset)
        cut_epochs(self.epochs, self._segments.all(), self.log_start_offset)
        self.log_start_offset = min(self.log_start_offset, self.log_end_offset)
        self._kept_start = min(self._kept_start, self.log_start_offset)
        self._check_bounds()
        producers, bounds = self.producers.cut_to(self.log_end_offset), (self.log_start_offset, self.log_end_offset)
        cut = partial(cut_back, producers, self._snapshots, self._segments.all(), *bounds)
        self._cut(partial(cut, none_known=self.producers.empty))
        return True

    def _truncate_segments(self, offset: int) -> None:
        try:
            self._segments.truncate_to(offset)
        except (CorruptRecord, CorruptIndex) as damage:
            self.recovery_point = min(self.recovery_point, self._segments.active.base_offset)
            self.on_recovery_point_lowered()
            trouble = f"{self.directory} cannot be truncated to {offset}: {damage.message}; restart the broker"
            raise LogStorageError(f"{trouble}, which then recovers that segment") from damage

    def truncate_fully_and_start_at(self, offset: int) -> None:
        """Remove everything and continue empty at `offset` (LG-12): at once if a crash could bring nothing back."""
        was_empty = not self.size and self.settled
        with self.work:
            if was_empty:
                self._snapshots.clear()
            with self.work.renames():
                self._segments.replace_all(offset)
        self.log_start_offset = self._kept_start = offset
        self._ended_at(offset)
        self.high_watermark = offset
        self.epochs.clear()
        self.producers.clear()
        if was_empty:
            self.recovery_point = offset
        self._check_bounds()
        self._cut(None if was_empty else partial(start_over, self._snapshots))

    def hide_all(self) -> None:
        """Hide all records. Once that is settled, a crash does not show them again."""
        self.update_high_watermark(self.log_end_offset)
        self.maybe_increment_log_start_offset(self.log_end_offset)
        self._cut(lambda: self.producers)

    def _ended_at(self, offset: int) -> None:
        self.log_end_offset = offset
        self.recovery_point = min(self.recovery_point, offset)
        self.high_watermark = min(self.high_watermark, offset)
        self._places.clear()

    def roll(self) -> None:
        """Begin a new segment at the log end; nothing if the active one is empty (LG-5)."""
        with self.work:
            self._start_segment(self.log_end_offset)

    def remove_first(self, count: int) -> None:
        """Remove the oldest segments (LG-15): their files are renamed, and are in `deleted` from then on."""
        with self.work:
            first_kept = self.segments[count].base_offset
            self.log_start_offset = max(self.log_start_offset, first_kept)
            self.recovery_point = max(self.recovery_point, first_kept)
            self.epochs.truncate_from_start(self.log_start_offset)
            with self.work.renames():
                self._segments.remove_first(count)
        self._check_bounds()

    # -- compaction

    def abort_cleaning(self) -> None:
        with self.work:
            self._segments.abort_cleaning()

    def begin_swap(self, generation: int, swap: Swap) -> bool:
        """Let a cleaned segment begin to replace its sources; make the directory durable, then `finish_swap` (CL-9).

        False, and the segment is removed, if `generation`, of which it was made, is over or its sources are gone."""
        with self.work, self.work.renames():
            if generation == self._segments.generation:
                self.swapped_to = max(self.swapped_to, swap.new.next_offset)
                return self._segments.begin_swap(swap)
            swap.cancel()
            return False

    def finish_swap(self, swap: Swap) -> bool:
        """Put the cleaned segment in place. False if a truncation or a removal has discarded it meanwhile."""
        with self.work, self.work.renames():
            finished = self._segments.finish_swap(swap)
        self._places.clear()
        return finished

    def _bound(self, isolation: Isolation) -> OffsetMetadata:
        """Find a bound and its place, once: the batch that holds the offset (LG-6). Raises CorruptRecord."""
        if isolation is Isolation.LOG_END:
            return self._segments.end()
        offset, place = self.limit(isolation), self._places.get(isolation)
        if offset == self.log_end_offset:
            return self._segments.end()
        if place is None or place.offset != offset:
            place = self._places[isolation] = self._segments.locate(offset)
        return place
