"""The producer snapshot file (7.5): a log's knowledge of each producer at the offset in the file's name."""

from collections.abc import Iterable
from pathlib import Path
from struct import Struct
from typing import NamedTuple

from crc32c import crc32c

from replog.log.errors import CorruptSnapshot
from replog.log.files.names import SNAPSHOT_SUFFIX
from replog.log.files.opening import files_by_offset, read_regular

HEADER = Struct(">hIi")  # version, CRC of all that follows it, number of entries
ENTRY = Struct(">qhiqiqiq")
VERSION = 1
CRC_END = 6
MAX_SNAPSHOT_BYTES = 1 << 28  # 5.8 million producers


class ProducerSnapshotEntry(NamedTuple):
    """One producer, with its last batch alone (PS-7); -1 where there is no batch, coordinator or open transaction."""

    producer_id: int
    epoch: int
    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp: int
    coordinator_epoch: int
    current_txn_first_offset: int


def format_snapshot(entries: Iterable[ProducerSnapshotEntry]) -> bytes:
    """Return the file's bytes, sorted by producer id, so that equal states make equal files."""
    ordered = sorted(entries)
    body = b"".join(ENTRY.pack(*entry) for entry in ordered)
    crc = crc32c(body, crc32c(len(ordered).to_bytes(4, "big")))
    return HEADER.pack(VERSION, crc, len(ordered)) + body


def parse_snapshot(data: bytes) -> list[ProducerSnapshotEntry]:
    """Return the entries in a file. Raises CorruptSnapshot unless version, CRC and length are right."""
    if len(data) < HEADER.size:
        raise CorruptSnapshot(f"a producer snapshot of {len(data)} bytes; {HEADER.size} are the least")
    version, crc, count = HEADER.unpack_from(data)
    if version != VERSION:
        raise CorruptSnapshot(f"the producer snapshot has version {version}, not {VERSION}")
    if len(data) != HEADER.size + count * ENTRY.size:
        raise CorruptSnapshot(f"{len(data)} bytes do not hold the {count} entries that the producer snapshot announces")
    if crc32c(data[CRC_END:]) != crc:
        raise CorruptSnapshot(f"the CRC of the producer snapshot is not {crc:08x}, as it says")
    return [ProducerSnapshotEntry._make(fields) for fields in ENTRY.iter_unpack(data[HEADER.size :])]


def read_snapshot(path: Path) -> list[ProducerSnapshotEntry]:
    """Read a file and parse it as `parse_snapshot` does. Raises CorruptSnapshot if it is too large to be one."""
    data = read_regular(path, MAX_SNAPSHOT_BYTES + 1)
    if len(data) > MAX_SNAPSHOT_BYTES:
        raise CorruptSnapshot(f"the producer snapshot is larger than {MAX_SNAPSHOT_BYTES} bytes")
    try:
        return parse_snapshot(data)
    except CorruptSnapshot as damage:
        raise CorruptSnapshot(f"{path}: {damage.message}") from None


def snapshot_offsets(directory: Path) -> list[int]:
    """Return the offsets of the snapshots in a partition directory, ascending."""
    return sorted(offset for offset, _ in files_by_offset(directory, SNAPSHOT_SUFFIX))
