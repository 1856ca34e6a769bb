"""Shows the files of a partition or of a log directory, ours or Apache Kafka's, row by row. Read only.

Damage is a row too (`Unreadable`), so that a dump shows everything before it. Memory stays bounded, whatever the size
of a file and whatever it says of itself."""

import struct
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from replog.errors import ErrorCode, ReplogError
from replog.log.directories.partition_metadata import PARTITION_METADATA, format_topic_id, read_topic_id
from replog.log.epochs import LeaderEpochCache
from replog.log.errors import CorruptSnapshot, LogStorageError, storage_errors
from replog.log.files.names import (
    DIGEST_SUFFIX,
    INDEX_SUFFIX,
    LOG_SUFFIX,
    SNAPSHOT_SUFFIX,
    TIME_INDEX_SUFFIX,
    TRANSACTION_INDEX_SUFFIX,
    base_offset_of,
)
from replog.log.formats.batch import CODEC_MASK, CONTROL, DELETE_HORIZON, LOG_APPEND_TIME, TRANSACTIONAL, BatchHeader
from replog.log.formats.checkpoint import LEADER_EPOCH_CHECKPOINT, OFFSET_CHECKPOINTS, OffsetCheckpoint
from replog.log.formats.compression import CODEC_NAMES
from replog.log.formats.records import LogRecord, iterate_records
from replog.log.formats.segment_file import open_file
from replog.log.formats.walk import MAX_BATCH_IN_MEMORY, Break, LogFile
from replog.log.indexes.entries import IndexFile
from replog.log.indexes.index import DigestEntry, OffsetPosition, TimestampOffset
from replog.log.indexes.transaction_index import AbortedTxn
from replog.log.producers.snapshot import ProducerSnapshotEntry, read_snapshot
from replog.topic import TopicPartition

LEFTOVER_SUFFIXES = (".deleted", ".cleaned", ".swap", ".stray")
CONTROL_TYPES = [
    "ABORT",
    "COMMIT",
    "LEADER_CHANGE",
    "SNAPSHOT_HEADER",
    "SNAPSHOT_FOOTER",
    "KRAFT_VERSION",
    "KRAFT_VOTERS",
]


class BatchRow(NamedTuple):
    """One batch of a `.log` file; `control` is the kind of a control batch (2.3)."""

    position: int
    header: BatchHeader
    crc_valid: bool
    control: str | None = None

    @property
    def codec(self) -> str:
        codec = self.header.attributes & CODEC_MASK
        return CODEC_NAMES[codec] if codec < len(CODEC_NAMES) else f"unknown({codec})"

    @property
    def timestamp_type(self) -> str:
        return "LogAppendTime" if self.header.attributes & LOG_APPEND_TIME else "CreateTime"

    @property
    def transactional(self) -> bool:
        return bool(self.header.attributes & TRANSACTIONAL)

    @property
    def delete_horizon(self) -> int | None:
        """The time from which on the batch's tombstones may go, if the cleaner has set it (CL-6)."""
        return self.header.base_timestamp if self.header.attributes & DELETE_HORIZON else None

    def named(self) -> dict[str, Any]:
        """Return its values under the names that Kafka's DumpLogSegments has for them."""
        header = self.header
        fields = {
            "position": self.position,
            "baseOffset": header.base_offset,
            "lastOffset": header.last_offset,
            "count": header.records_count,
            "size": header.size,
            "partitionLeaderEpoch": header.leader_epoch,
            "timestampType": self.timestamp_type,
            "baseTimestamp": header.base_timestamp,
            "maxTimestamp": header.max_timestamp,
            "compression": self.codec,
            "producerId": header.producer_id,
            "producerEpoch": header.producer_epoch,
            "baseSequence": header.base_sequence,
            "isTransactional": self.transactional,
            "isControl": self.control is not None,
            "deleteHorizonMs": self.delete_horizon,
            "crc": header.crc,
            "isValid": self.crc_valid,
        }
        return fields if self.control is None else {**fields, "control": self.control}


class EpochRow(NamedTuple):
    """One line of `leader-epoch-checkpoint`."""

    epoch: int
    start_offset: int


class CheckpointRow(NamedTuple):
    """One line of an offset checkpoint."""

    partition: TopicPartition
    offset: int


class TopicIdRow(NamedTuple):
    """The content of `partition.metadata`."""

    topic_id: str


class Unused(NamedTuple):
    """Zeros at an index's end: space for later entries, which Kafka allocates ahead (IX-2)."""

    position: int
    size: int


class Unreadable(NamedTuple):
    """Bytes that are none of the file's rows; `size` counts to the end of the file or of the batch."""

    position: int
    size: int
    reason: str


IndexRow = OffsetPosition | TimestampOffset | DigestEntry | AbortedTxn
StateRow = ProducerSnapshotEntry | EpochRow | CheckpointRow | TopicIdRow
DumpedRow = BatchRow | LogRecord | IndexRow | StateRow | Unused | Unreadable


def files_of(path: Path) -> list[Path]:
    """Return the files that `dump_file` takes: `path` itself, or those of a directory and its directories, in order."""
    if not path.is_dir():
        return [path]
    children = sorted(path.iterdir(), key=_order)
    here = [child for child in children if child.is_file() and _dumper(child) is not None]
    return here + [file for child in children if child.is_dir() for file in files_of(child)]


def _order(path: Path) -> tuple[bool, str, int, str]:
    """Sort segments by base offset, each with its `.log` first; then the rest by name."""
    base = base_offset_of(path.name)
    suffixes = list(_SEGMENT_FILES)
    rank = suffixes.index(_suffix(path)) if _suffix(path) in suffixes else len(suffixes)
    return base is None, path.name.partition(".")[0], rank, path.name


def _suffix(path: Path) -> str:
    """Return the file's own suffix, without one that says that it waits for something."""
    return Path(path.stem).suffix if path.suffix in LEFTOVER_SUFFIXES else path.suffix


def dump_file(path: Path, *, records: bool = False) -> Iterator[DumpedRow]:
    """Yield the rows of a file, by its name; `records` adds those of a `.log`. INVALID_REQUEST for other names."""
    dumper = _dumper(path)
    if dumper is None:
        raise ErrorCode.INVALID_REQUEST.error(
            f"{path} is not <20 digits>{', '.join(_SEGMENT_FILES)}, and not {', '.join(_NAMED_FILES)}"
        )
    return dump_log(path, records=True) if records and dumper is dump_log else dumper(path)


def _dumper(path: Path) -> "Callable[[Path], Iterator[DumpedRow]] | None":
    if base_offset_of(path.name) is not None:
        return _SEGMENT_FILES.get(_suffix(path))
    return _NAMED_FILES.get(path.name)


def dump_log(path: Path, *, records: bool = False) -> Iterator[BatchRow | LogRecord | Unreadable]:
    """Yield every batch, each followed by its records if asked for."""
    with storage_errors(path), open_file(path) as file:
        log = LogFile(file)
        for step in log.walk():
            if isinstance(step, Break):
                reason = f"part of a batch: {step.reason}" if step.cut_short else step.reason
                yield Unreadable(step.position, log.size - step.position, reason)
                return
            position, header = step
            data = log.read(position, header.size) if header.size <= MAX_BATCH_IN_MEMORY else None
            control = _control_type(header, data) if header.attributes & CONTROL else None
            yield BatchRow(position, header, log.crc(position, header) == header.crc, control)
            if records and data is None:
                yield Unreadable(position, header.size, "the batch is too large for its records to be shown")
            elif records and data is not None:
                yield from _records(position, header, data)


def _control_type(header: BatchHeader, data: memoryview | None) -> str:
    try:
        record = next(iterate_records(data, header), None) if data is not None else None
        number = struct.unpack_from(">hh", (record and record.key) or b"")[1]
    except (ReplogError, struct.error):
        return "unknown"
    return CONTROL_TYPES[number] if 0 <= number < len(CONTROL_TYPES) else f"unknown({number})"


def _records(position: int, header: BatchHeader, data: memoryview) -> Iterator[LogRecord | Unreadable]:
    try:
        yield from iterate_records(data, header)
    except ReplogError as damage:
        yield Unreadable(position, header.size, damage.message)


def dump_entries(path: Path) -> Iterator[IndexRow | Unused | Unreadable]:
    """Yield the entries of an index, with absolute offsets."""
    suffix, base = _suffix(path), base_offset_of(path.name) or 0
    with storage_errors(path), open_file(path) as file:
        index = IndexFile(file, suffix)
        for entry in index:
            if suffix == INDEX_SUFFIX:
                yield OffsetPosition(entry[0] + base, entry[1])
            elif suffix == TIME_INDEX_SUFFIX:
                yield TimestampOffset(entry[0], entry[1] + base)
            elif suffix == DIGEST_SUFFIX:
                yield DigestEntry(entry[0] + base, entry[1])
            else:
                yield AbortedTxn._make(entry[1:])
    size = index.layout.size
    if index.unused:
        yield Unused(index.count * size, index.unused * size)
    if index.surplus:
        yield Unreadable(file.size - index.surplus, index.surplus, "part of an entry")


def _whole(read: Callable[[Path], Iterable[StateRow]], path: Path) -> Iterator[StateRow | Unreadable]:
    """Yield the rows of a file that is read as a whole, or the reason why it cannot be read."""
    with storage_errors(path):
        size = path.stat().st_size
        try:
            yield from read(path)
        except (LogStorageError, CorruptSnapshot) as damage:
            yield Unreadable(0, size, damage.message)


def _epochs(path: Path) -> Iterator[EpochRow]:
    return (EpochRow(*entry) for entry in LeaderEpochCache.load(path).entries)


def _checkpoint(path: Path) -> Iterator[CheckpointRow]:
    return (CheckpointRow(*entry) for entry in OffsetCheckpoint(path).read().items())


def _topic_id(path: Path) -> list[TopicIdRow]:
    return [TopicIdRow(format_topic_id(read_topic_id(path.parent) or b""))]


_INDEXES = INDEX_SUFFIX, TIME_INDEX_SUFFIX, TRANSACTION_INDEX_SUFFIX, DIGEST_SUFFIX
_SEGMENT_FILES: dict[str, Callable[[Path], Iterator[DumpedRow]]] = {
    LOG_SUFFIX: dump_log,
    **dict.fromkeys(_INDEXES, dump_entries),
    SNAPSHOT_SUFFIX: partial(_whole, read_snapshot),
}
_NAMED_FILES: dict[str, Callable[[Path], Iterator[DumpedRow]]] = {
    LEADER_EPOCH_CHECKPOINT: partial(_whole, _epochs),
    PARTITION_METADATA: partial(_whole, _topic_id),
    **dict.fromkeys(OFFSET_CHECKPOINTS, partial(_whole, _checkpoint)),
}
