"""One segment: a `.log` file, its three indexes, and its transaction index if it has aborted transactions.

`add` decides the index entries batch by batch, for appends and for recovery, from the bytes of the segment and
`index.interval.bytes` alone. While a segment is active, its time and digest indexes hold only entries made together
with an offset-index entry. `seal` adds the final ones when the next segment begins (SG-11), and `unseal` removes them.
So closing, reopening, truncating or recovering leaves no trace in the files: segments of two replicas are identical if
they begin at the same offset and end at the same offset. A truncation to the base of a segment keeps it, empty: the
segment before it ends there, although it may continue at the leader."""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import ClassVar

from replog.config.topic import TopicConfig
from replog.log.errors import NO_ROOM, CorruptIndex, CorruptRecord, IndexOffsetOverflow, TooManyOpenFiles
from replog.log.files.names import (
    DIGEST_SUFFIX,
    INDEX_SUFFIX,
    LOG_SUFFIX,
    TIME_INDEX_SUFFIX,
    TRANSACTION_INDEX_SUFFIX,
    segment_file_name,
)
from replog.log.files.open_files import OpenFile
from replog.log.files.opening import make_file
from replog.log.formats.batch import LOG_OVERHEAD, BatchHeader, add_digests, batch_digest
from replog.log.formats.segment_file import read_headers
from replog.log.formats.validation import continues
from replog.log.indexes.index import MAX_RELATIVE_OFFSET, DigestIndex, OffsetIndex, OffsetPosition, TimeIndex
from replog.log.indexes.transaction_index import TransactionIndex
from replog.log.offsets import NO_EPOCH, NO_TIMESTAMP, Buffer, FetchData, OffsetMetadata

READ_AHEAD = 64 << 10  # bytes that the disk may read ahead while it seeks the first header: records follow
MAX_RECENT = 16  # batches whose place is kept in memory, at 0.3 KiB each: followers and the high watermark ask for them
UNWRITTEN_ENTRIES = 8  # so many are written together: to write one costs as much as to write its batch
SEGMENT_SUFFIXES = (LOG_SUFFIX, INDEX_SUFFIX, TIME_INDEX_SUFFIX, DIGEST_SUFFIX, TRANSACTION_INDEX_SUFFIX)

Headers = Callable[[int], Iterator[tuple[int, BatchHeader]]]  # yields the log's headers from a position on


class Segment:
    """The whole batches that `add` has seen: `size`, `next_offset` and the rest describe them."""

    WATCHED: ClassVar = frozenset({"next_offset"})  # the simulator's checks run after each assignment

    def __init__(self, directory: Path, base_offset: int, suffix: str = "", *, new: bool = False) -> None:
        """Name the files, each with `suffix` at its end; nothing is read. Follow with `create`, `restore` or `recover`,
        or with `begin` if it is `new`, as its directory is."""

        def named(kind: str) -> str:
            return f"{directory}/{segment_file_name(base_offset, kind)}{suffix}"

        self.base_offset = base_offset
        self.file = OpenFile(named(LOG_SUFFIX))
        self.index = OffsetIndex(named(INDEX_SUFFIX), base_offset, new=new)
        self.time_index = TimeIndex(named(TIME_INDEX_SUFFIX), base_offset, new=new)
        self.digest_index = DigestIndex(named(DIGEST_SUFFIX), base_offset, new=new)
        self.transaction_index = TransactionIndex(named(TRANSACTION_INDEX_SUFFIX), base_offset, new=new)
        self.forget()

    def forget(self) -> None:
        """Return to the state of an empty segment, in memory."""
        self.size = 0
        self.next_offset = self.base_offset
        self.last_epoch = NO_EPOCH
        self.first_timestamp = NO_TIMESTAMP  # the first batch's max timestamp: time rolls count from it (SG-6)
        self.max_timestamp = NO_TIMESTAMP
        self.max_timestamp_offset = self.base_offset  # the last offset of the first batch that has it
        self.digest = 0
        self.since_entry = 0  # bytes since the last index entry (SG-1)
        self._file_size = 0
        self.recent: list[tuple[int, BatchHeader]] = []  # position and header of the last batches added

    @property
    def path(self) -> Path:
        return Path(self.file.path)

    @property
    def indexes(self) -> tuple[OffsetIndex, TimeIndex, DigestIndex]:
        return self.index, self.time_index, self.digest_index

    @property
    def all_indexes(self) -> tuple[OffsetIndex, TimeIndex, DigestIndex, TransactionIndex]:
        return *self.indexes, self.transaction_index

    @property
    def all_files(self) -> list[OpenFile]:
        """The log and its indexes, log first. The transaction index, which is the last, need not exist."""
        return [self.file, *(index.file for index in self.all_indexes)]

    @property
    def paths(self) -> list[Path]:
        return [Path(file.path) for file in self.all_files]

    @property
    def files(self) -> list[OpenFile]:
        """All files, with the transaction index only if it has entries."""
        return self.all_files if self.transaction_index.count else self.all_files[:-1]

    def renamed(self, directory: Path) -> None:
        for file in self.all_files:
            file.path = str(directory / Path(file.path).name)

    def rename(self, suffix: str) -> None:
        """Rename the files to their plain names and `suffix`, the log first."""
        for file, kind in zip(self.all_files, SEGMENT_SUFFIXES, strict=True):
            path = Path(file.path)
            file.path = str(path.with_name(segment_file_name(self.base_offset, kind) + suffix))
            if path.exists():
                path.rename(file.path)

    def create(self) -> None:
        """Begin with empty files. Existing ones are replaced."""
        self.forget()
        self.file.create()
        for index in self.all_indexes:
            index.reset()

    def begin(self) -> None:
        """Make empty files in a new directory, and leave them closed: of very many, most are not written to soon."""
        for file in self.files:
            make_file(file.path)
        for index in self.indexes:
            index.missing = False

    @contextmanager
    def held(self) -> Iterator[None]:
        """Keep the log and its first three indexes open, so that no lack of descriptors ends the work half way.

        Raises TooManyOpenFiles before anything has begun."""
        with ExitStack() as files:
            for file in self.all_files[:-1]:
                files.enter_context(file)
            yield

    # -- appending

    def should_roll(self, header: BatchHeader, config: TopicConfig) -> bool:
        """Return True if this batch begins a new segment (SG-6), by bytes, times, index space and offsets alone."""
        if header.base_offset + header.last_offset_delta - self.base_offset > MAX_RELATIVE_OFFSET:
            return True
        if self.size == 0:
            return False
        return (
            self.size > config.segment_bytes - header.length - LOG_OVERHEAD
            or (self.first_timestamp >= 0 and header.max_timestamp - self.first_timestamp > config.roll_ms)
            or self.index.count >= config.segment_index_bytes // OffsetIndex.layout.size
            or self.time_index.count >= config.segment_index_bytes // TimeIndex.layout.size - 1  # IX-14
        )

    def add(self, header: BatchHeader, interval: int) -> None:
        """Account for one batch at the end, its index entries included (SG-1 as of Kafka 4: per batch)."""
        last_offset = header.base_offset + header.last_offset_delta  # the properties take twice the time
        position, size = self.size, header.length + LOG_OVERHEAD
        if not 0 <= last_offset - self.base_offset <= MAX_RELATIVE_OFFSET:
            raise IndexOffsetOverflow(
                f"offset {last_offset} does not fit the segment that begins at {self.base_offset}"
            )
        if position == 0:
            self.first_timestamp = header.max_timestamp
        self._observe(header)
        if self.since_entry > interval:
            self.index.append(last_offset, position)
            self.time_index.maybe_append(self.max_timestamp, self.max_timestamp_offset)
            self.digest_index.append(last_offset, self.digest)
            self.since_entry = 0
        self.recent.append((position, header))
        if len(self.recent) > MAX_RECENT:
            del self.recent[: MAX_RECENT // 2]
        self.since_entry += size
        self.size = position + size

    def _observe(self, header: BatchHeader) -> None:
        last_offset = header.base_offset + header.last_offset_delta
        if header.max_timestamp > self.max_timestamp:
            self.max_timestamp = header.max_timestamp
            self.max_timestamp_offset = last_offset
        self.digest = add_digests(self.digest, batch_digest(header))
        self.next_offset = last_offset + 1
        self.last_epoch = header.leader_epoch

    def write(self, buffers: Sequence[Buffer]) -> None:
        """Write the bytes of batches, added already or to be added next, behind those written before."""
        self._file_size += self.file.write(buffers, self._file_size, promised=True)

    def append(self, batches: Buffer) -> None:
        """Write batches that are read soon, as `write` does. Do not change the buffer any more."""
        self.file.write_and_keep(batches, self._file_size)
        self._file_size += len(batches)

    def write_indexes_in_time(self) -> None:
        """Write the index entries once there are enough. The first three indexes are written together: a reader of a
        running broker's files takes an entry in one as a sign that the others have it (`log_tools.checker`)."""
        if len(self.index.pending) >= UNWRITTEN_ENTRIES * OffsetIndex.layout.size or self.transaction_index.pending:
            self.write_indexes()

    def write_indexes(self) -> None:
        """Write the entries of written batches. Where descriptors or room are lacking, they wait for the next call."""
        for index in self.all_indexes:
            try:
                index.write()
            except TooManyOpenFiles:
                pass
            except OSError as error:
                if error.errno not in NO_ROOM:
                    raise

    def write_all_indexes(self) -> None:
        """Write all entries now. Raises OSError or TooManyOpenFiles."""
        for index in self.all_indexes:
            index.write()

    def discard(self) -> None:
        """Remove its files: nothing was written to them."""
        self.close()
        for path in self.paths:
            path.unlink(missing_ok=True)

    def seal(self) -> None:
        """Add the final time and digest entries (SG-11); nothing changes if they are there."""
        assert self._file_size == self.size, f"{self.path}: {self._file_size} bytes written for {self.size}"
        self.recent.clear()
        if not self._final_entries_match():
            self.unseal()
            self.time_index.maybe_append(self.max_timestamp, self.max_timestamp_offset)
            if self.size and self.digest_index.last_offset != self.next_offset - 1:
                self.digest_index.append(self.next_offset - 1, self.digest)
        self.write_all_indexes()

    def unseal(self) -> None:
        """Keep only the time and digest entries that were made together with an offset-index entry."""
        self.time_index.truncate_to(self._last_indexed + 1)
        self.digest_index.truncate_to(self._last_indexed + 1)

    @property
    def _last_indexed(self) -> int:
        return self.base_offset - 1 if self.index.last_offset is None else self.index.last_offset

    def _final_entries_match(self) -> bool:
        times, digests = self.time_index, self.digest_index
        time_right = self.max_timestamp == NO_TIMESTAMP or (
            times.count > 0 and times.get(times.count - 1) == (self.max_timestamp, self.max_timestamp_offset)
        )
        digest_right = not self.size or (
            digests.count > 0 and digests.get(digests.count - 1) == (self.next_offset - 1, self.digest)
        )
        return time_right and digest_right

    # -- reading

    def batches_from(self, position: int) -> Iterator[tuple[int, BatchHeader]]:
        with self.file as fd:
            yield from read_headers(fd, self.size, position)

    def translate(self, offset: int) -> tuple[int, BatchHeader] | None:
        """Find the first batch with a last offset of `offset` or more, and its position (SG-3).

        Raises CorruptRecord if the batches contradict each other: damage must not look like a hole."""
        if self.recent and offset >= self.recent[0][1].base_offset:
            holder = None
            for batch in reversed(self.recent):  # most readers are near the end
                if batch[1].last_offset < offset:
                    break
                holder = batch
            return holder
        next_offset = self.base_offset
        batches = self._batches_near(offset)
        for position, header in batches:
            if header.base_offset < next_offset:
                raise CorruptRecord(f"{self.path} at {position}: offset {header.base_offset} after {next_offset - 1}")
            next_offset = header.next_offset
            if header.last_offset >= offset:
                if header.base_offset > offset:  # a hole, or a wrong offset: the next batch shows which
                    after = next(batches, None)
                    if after is not None and after[1].base_offset < next_offset:
                        raise CorruptRecord(f"{self.path} at {position}: offset {header.base_offset} is out of order")
                return position, header
        if self.size and offset < self.next_offset:  # Kafka's cleaner may leave a segment without a batch
            raise CorruptRecord(f"{self.path}: no batch reaches offset {offset}, and it ends at {self.next_offset}")
        return None

    def last_below(self, offset: int) -> BatchHeader | None:
        """Find the last batch that begins below `offset`."""
        last = None
        for _, header in self._batches_near(offset - 1):
            if header.base_offset >= offset:
                break
            last = header
        return last

    def _batches_near(self, offset: int) -> Iterator[tuple[int, BatchHeader]]:
        """Yield batches from one at or before `offset` on: from an index entry's, or all if the entry is wrong."""
        try:
            indexed, position = self.index.lookup(offset)
        except CorruptIndex:  # damaged since it was loaded; the next load repairs it
            indexed, position = OffsetPosition(self.base_offset, 0)
        with self.file as fd:
            os.posix_fadvise(fd, position, READ_AHEAD, os.POSIX_FADV_WILLNEED)
        if 0 < position < self.size:
            batches = self.batches_from(position)
            try:
                first = next(batches, None)
            except CorruptRecord:
                first = None
            if first is not None and first[1].base_offset <= indexed <= first[1].last_offset:
                yield first
                yield from batches
                return
        yield from self.batches_from(0)

    def read(self, offset: int, max_bytes: int, max_position: int | None, *, min_one_message: bool) -> FetchData | None:
        """Read bytes from the batch that holds `offset` on (SG-4, SG-5); None if this segment has no such batch."""
        batch = self.translate(offset)
        if batch is None:
            return None
        position, header = batch
        metadata = OffsetMetadata(offset, self.base_offset, position)
        size = header.size
        limit = max(max_bytes, size) if min_one_message else max_bytes
        if limit == 0 or max_position is None:
            return FetchData(metadata, b"")
        length = min(max_position - position, limit)
        if length <= 0:
            return FetchData(metadata, b"")
        return FetchData(metadata, self.file.read(position, length), limit < size)

    def age_ms(self, timestamp: int, now_ms: int) -> int:
        """Return the age of a timestamp that batches claim. If it is in the future, or none, return that of the file
        (LG-20); a file from the future is dated as written now, so that its age grows."""
        if NO_TIMESTAMP < timestamp <= now_ms:
            return now_ms - timestamp
        written_ms = self.written_ms()
        if written_ms > now_ms:
            os.utime(self.path, ns=(now_ms * 1_000_000, now_ms * 1_000_000))
        return max(now_ms - written_ms, 0)

    def written_ms(self) -> int:
        """The time when the file was last written; long ago, if somebody has removed it."""
        try:
            return os.stat(self.path).st_mtime_ns // 1_000_000
        except FileNotFoundError:
            return NO_TIMESTAMP

    # -- loading, truncation

    def restore(self, config: TopicConfig) -> None:
        """Take the files as they are, after the cheap checks: the shape of the indexes; the last two offset-index
        entries, and the time and digest entries made with them, against the batches there; the batches after them; and
        every entry of the transaction index, which is small.

        Raises CorruptIndex or CorruptRecord if the segment must be recovered."""
        for index in self.indexes:
            index.check_shape()
        end = self.file.size()
        self._restore_state(end, config)
        if self.size != end:
            raise CorruptRecord(f"{self.path} ends with {end - self.size} bytes that are no batch")
        for index in self.indexes[1:]:
            beside = index.slot_up_to(self._last_indexed) + 1
            if index.count - beside > 1 or (index is self.digest_index and beside != self.index.count):
                raise CorruptIndex(f"{index.path} has {index.count} entries, {self.index.path} {self.index.count}")
        self.transaction_index.check(self.next_offset)

    def _restore_state(self, end: int, config: TopicConfig | None) -> None:
        """Restore the state that `add` would have at `end`, from the last index entry but one and the batches after it.

        With a `config`, offsets must continue, and the last entries must be as `add` would have made them."""
        self.forget()
        with self.file as fd:
            self._restore_by(partial(read_headers, fd, end), config)

    def _restore_by(self, headers: Headers, config: TopicConfig | None) -> None:
        _, first = next(headers(0), (0, None))
        if first is not None:
            if config is not None and not continues(first, self.base_offset, holes=config.compacted):
                raise CorruptRecord(f"{self.path} begins with offset {first.base_offset}, not with that of its name")
            self.first_timestamp = first.max_timestamp
            self.next_offset = first.base_offset
        slot = self.index.count - 2
        start = self._restore_from_entry(headers, slot) if slot >= 0 else 0
        slot = max(slot, -1)
        for position, header in headers(start):
            if config is not None and not continues(header, self.next_offset, holes=config.compacted):
                raise CorruptRecord(f"{self.path} at {position}: offset {header.base_offset}, not {self.next_offset}")
            self._observe(header)
            entry = self.index.get(slot + 1) if slot + 1 < self.index.count else None
            indexed = entry == (header.last_offset, position)
            if config is not None and indexed != (self.since_entry > config.index_interval_bytes):
                raise CorruptIndex(f"{self.index.path}: entry {entry} does not follow from the batch at {position}")
            if indexed:
                slot += 1
                if config is not None:
                    self._check_entries_beside(slot)
                self.since_entry = 0
            self.since_entry += header.size
            self.size = self._file_size = position + header.size
        if slot != self.index.count - 1:
            raise CorruptIndex(
                f"{self.index.path}: no batch is at its last entry, {self.index.get(self.index.count - 1)}"
            )

    def _restore_from_entry(self, headers: Headers, slot: int) -> int:
        """Restore the state at an index entry. Return the position after the entry's batch."""
        offset, position = self.index.get(slot)
        _, header = next(headers(position), (0, None)) if position > 0 else (0, None)
        if header is None or header.last_offset != offset:
            raise CorruptIndex(
                f"{self.index.path}: no batch ends with offset {offset} at {position}, as entry {slot} says"
            )
        time_slot = self.time_index.slot_up_to(offset)
        if time_slot >= 0:
            self.max_timestamp, self.max_timestamp_offset = self.time_index.get(time_slot)
        self.digest = self.digest_index.lookup(offset).digest
        self.next_offset = header.next_offset
        self.since_entry = header.size
        return position + header.size

    def _check_entries_beside(self, slot: int) -> None:
        """Check that the time and digest entries made with an offset-index entry agree with the batches up to it."""
        offset = self.next_offset - 1
        digests, times = self.digest_index, self.time_index
        if slot >= digests.count or digests.get(slot) != (offset, self.digest):
            raise CorruptIndex(f"{digests.path}: entry {slot} is not the digest of the batches up to offset {offset}")
        time_slot = times.slot_up_to(offset)
        known = times.get(time_slot) if time_slot >= 0 else (NO_TIMESTAMP, self.base_offset)
        if known != (self.max_timestamp, self.max_timestamp_offset):
            raise CorruptIndex(f"{times.path} does not have the greatest timestamp up to offset {offset}")

    def truncate_to(self, offset: int) -> int:
        """Cut at the batch that holds `offset`, whole batches only (SG-10), and unseal. Return the bytes removed."""
        batch = self.translate(offset)
        if batch is None:  # a hole follows
            self.unseal()
            return 0
        return self.cut_at(batch[0], batch[1].base_offset)

    def cut_at(self, position: int, base_offset: int) -> int:
        """Cut before a batch, which need not be in the file. Return the bytes removed."""
        removed = self.size - position
        self.file.truncate(position)
        self.index.truncate_to(base_offset)
        self.transaction_index.truncate_to(base_offset)
        self.unseal()
        self._restore_state(position, None)
        return removed

    def cut_file(self) -> None:
        """Cut the file behind the batches accounted for."""
        if self.file.size() != self.size:
            self.file.truncate(self.size)
        self._file_size = self.size

    def flush(self) -> None:
        """fsync the log, then its indexes (SG-13)."""
        self.file.sync()
        for index in self.all_indexes:
            index.flush()

    def close(self) -> None:
        """Close the files; reading opens them again. Unsynced data are given up: see `open_files`."""
        for file in (self.file, *self.all_indexes):
            file.close()
