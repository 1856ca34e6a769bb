"""What is in the files of a partition directory, row by row; read only, ours or Apache Kafka's.

Damage is a row too (`Unreadable`), so that a dump shows all that there is before it.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from replog.errors import ErrorCode, ReplogError
from replog.log.batch import CODEC_MASK, CONTROL, LOG_APPEND_TIME, TRANSACTIONAL, BatchHeader, validate_crc
from replog.log.checkpoint import LEADER_EPOCH_CHECKPOINT
from replog.log.compression import CODEC_NAMES
from replog.log.epoch_cache import LeaderEpochCache
from replog.log.errors import CorruptRecord, storage_errors
from replog.log.files import DIGEST_SUFFIX, INDEX_SUFFIX, LOG_SUFFIX, TIME_INDEX_SUFFIX, base_offset_of
from replog.log.index import DigestEntry, DigestIndex, Index, OffsetIndex, OffsetPosition, TimeIndex, TimestampOffset
from replog.log.records import Record, iterate_records
from replog.log.scan import BatchReader


class BatchRow(NamedTuple):
    """One batch of a `.log` file."""

    position: int
    header: BatchHeader
    crc_valid: bool

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
    def control(self) -> bool:
        return bool(self.header.attributes & CONTROL)


class EpochRow(NamedTuple):
    """One line of `leader-epoch-checkpoint`."""

    epoch: int
    start_offset: int


class Unreadable(NamedTuple):
    """Bytes that are none of the file's rows; `size` counts to the end of the file or of the batch."""

    position: int
    size: int
    reason: str


Row = BatchRow | Record | OffsetPosition | TimestampOffset | DigestEntry | EpochRow | Unreadable


def dump_file(path: Path, *, records: bool = False) -> Iterator[Row]:
    """The rows of a file, by its name. INVALID_REQUEST for a file of another kind; `records` adds those of a `.log`."""
    if path.name == LEADER_EPOCH_CHECKPOINT:
        return dump_epochs(path)
    if base_offset_of(path.name) is None or path.suffix not in _KINDS:
        raise ReplogError(
            ErrorCode.INVALID_REQUEST,
            f"{path} is not <20 digits>.log, .index, .timeindex or .digest, and not {LEADER_EPOCH_CHECKPOINT}",
        )
    return dump_log(path, records=records) if path.suffix == LOG_SUFFIX else _KINDS[path.suffix](path)


def dump_log(path: Path, *, records: bool = False) -> Iterator[BatchRow | Record | Unreadable]:
    """Every batch, each followed by its records if asked for."""
    with storage_errors(path), path.open("rb") as file:
        end = path.stat().st_size
        position = 0
        try:
            for position, header, data in BatchReader(file.fileno(), end).batches(0):
                crc_valid = validate_crc(data, 0, header)
                yield BatchRow(position, header, crc_valid)
                if records:
                    yield from _records(position, header, data)
                position += header.size
        except CorruptRecord as damage:
            yield Unreadable(position, end - position, damage.message)
        else:
            if position < end:
                yield Unreadable(position, end - position, "part of a batch")


def _records(position: int, header: BatchHeader, data: memoryview) -> Iterator[Record | Unreadable]:
    try:
        yield from iterate_records(data, header)
    except ReplogError as damage:
        yield Unreadable(position, header.size, damage.message)


def _entries(path: Path, kind: type[Index]) -> Iterator[tuple[int, ...] | Unreadable]:
    """The entries as stored, up to the zeros that a preallocating writer leaves behind in a crash (IX-2)."""
    with storage_errors(path):
        content = path.read_bytes()
    size = kind.layout.size
    whole = len(content) // size * size
    for position in range(0, whole, size):
        if position and not any(content[position : position + size]):
            yield Unreadable(position, len(content) - position, "preallocated space")
            return
        yield kind.layout.unpack_from(content, position)
    if whole < len(content):
        yield Unreadable(whole, len(content) - whole, "part of an entry")


def dump_index(path: Path) -> Iterator[OffsetPosition | Unreadable]:
    """Offset index entries, with absolute offsets."""
    base = base_offset_of(path.name) or 0
    for entry in _entries(path, OffsetIndex):
        yield entry if isinstance(entry, Unreadable) else OffsetPosition(entry[0] + base, entry[1])


def dump_time_index(path: Path) -> Iterator[TimestampOffset | Unreadable]:
    """Time index entries, with absolute offsets."""
    base = base_offset_of(path.name) or 0
    for entry in _entries(path, TimeIndex):
        yield entry if isinstance(entry, Unreadable) else TimestampOffset(entry[0], entry[1] + base)


def dump_digest(path: Path) -> Iterator[DigestEntry | Unreadable]:
    """Digest index entries, with absolute offsets."""
    base = base_offset_of(path.name) or 0
    for entry in _entries(path, DigestIndex):
        yield entry if isinstance(entry, Unreadable) else DigestEntry(entry[0] + base, entry[1])


def dump_epochs(path: Path) -> Iterator[EpochRow]:
    """Leader epochs and their start offsets. Raises DamagedCheckpoint if the file does not read as a checkpoint."""
    yield from (EpochRow(*entry) for entry in LeaderEpochCache.load(path).entries)


_KINDS: dict[str, Callable[[Path], Iterator[Row]]] = {
    LOG_SUFFIX: dump_log,
    INDEX_SUFFIX: dump_index,
    TIME_INDEX_SUFFIX: dump_time_index,
    DIGEST_SUFFIX: dump_digest,
}
