"""Record batches, format v2 (magic 2): the 61-byte header, its checks, and walks over batches in memory.

Nothing here touches the records; brokers work on headers alone. The digest of a run of batches is the sum of a hash of
each modulo 2^64. A sum can be subtracted: two replicas whose segments begin at different offsets compare any interval
between two offsets that both have indexed. The payload enters through its CRC."""

import struct
from collections.abc import Iterator
from hashlib import blake2b
from typing import NamedTuple

from crc32c import crc32c

from replog.log.errors import CorruptRecord
from replog.log.offsets import Buffer

HEADER_SIZE = 61
LEAST_RECORD_BYTES = 7  # one uncompressed record: size, attributes, deltas, sizes of key and value, count of headers
LOG_OVERHEAD = 12  # baseOffset and batchLength, which batchLength does not count
CRC_START = 21  # attributes: the first byte that the CRC covers
MAGIC = 2
HEADER = struct.Struct(">qiibIhiqqqhii")

CODEC_MASK = 0x07
LOG_APPEND_TIME = 0x08
TRANSACTIONAL = 0x10
CONTROL = 0x20
DELETE_HORIZON = 0x40  # tombstones, or the marker, stay until the base timestamp (CL-6)
MAX_CODEC = 4  # zstd
MAX_BASE_OFFSET = 2**63 - 2**32  # so that all later offsets of a batch fit 64 bits


class BatchHeader(NamedTuple):
    """The header's fields in file order (2.1)."""

    base_offset: int
    length: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    records_count: int

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        return self.base_offset + self.last_offset_delta + 1

    @property
    def size(self) -> int:
        """The bytes of the whole batch (RB-1)."""
        return self.length + LOG_OVERHEAD


_new = tuple.__new__  # the core of `BatchHeader._make`


def parse_header(buffer: Buffer, position: int = 0) -> BatchHeader:
    """Parse the header at `position`. Raises CorruptRecord if it is cut short or no batch of ours could have it.

    Stricter than Kafka (which reads any magic of 2 or more and any delta): base offset ≥ 0, length ≥ 49, magic exactly
    2, last offset delta ≥ 0, and no more records than offsets. These bytes are outside of the CRC (RB-2)."""
    try:
        fields = HEADER.unpack_from(buffer, position)
    except struct.error:
        raise CorruptRecord(f"{len(buffer) - position} bytes are too few for a batch header of 61") from None
    base_offset, length, _, magic, _, _, last_offset_delta, _, _, _, _, _, records_count = fields
    if length < HEADER_SIZE - LOG_OVERHEAD:
        raise CorruptRecord(f"batch length {length} is less than the {HEADER_SIZE - LOG_OVERHEAD} of a header")
    if magic != MAGIC:
        raise CorruptRecord(f"batch magic {magic} is not 2")
    if not 0 <= base_offset < MAX_BASE_OFFSET:
        raise CorruptRecord(f"batch base offset {base_offset} is negative, or has no room for offsets after it")
    if last_offset_delta < 0:
        raise CorruptRecord(f"batch last offset delta {last_offset_delta} is negative")
    if not 0 <= records_count <= last_offset_delta + 1:
        raise CorruptRecord(f"batch of {last_offset_delta + 1} offsets says that it holds {records_count} records")
    return _new(BatchHeader, fields)


def is_transactional(batch: Buffer) -> bool:
    """Return True if the bytes, sound or not, claim to be a batch of a transaction."""
    return len(batch) >= CRC_START + 2 and bool(batch[CRC_START + 1] & TRANSACTIONAL)


def producer_of(batch: Buffer) -> int:
    """Return the producer's id in the bytes, sound or not; -1 if they have none, or are no batch."""
    return int.from_bytes(batch[43:51], signed=True) if len(batch) >= HEADER_SIZE else -1


def iterate_batches(buffer: Buffer) -> Iterator[tuple[int, BatchHeader]]:
    """Yield position and header of each whole batch, in order (2.5); a trailing part of a batch ends the walk.

    Raises CorruptRecord at a header that cannot be right, however few bytes follow its length and magic."""
    position, end = 0, len(buffer)
    while end - position >= LOG_OVERHEAD:
        if end - position < HEADER_SIZE:
            _check_start(buffer, position)
            return
        header = parse_header(buffer, position)
        after = position + header.size
        if after > end:
            return
        yield position, header
        position = after


def _check_start(buffer: Buffer, position: int) -> None:
    """Refuse a cut-off header whose length or magic is already seen to be wrong (2.5)."""
    (length,) = struct.unpack_from(">i", buffer, position + 8)
    if length < HEADER_SIZE - LOG_OVERHEAD:
        raise CorruptRecord(f"batch length {length} is less than the {HEADER_SIZE - LOG_OVERHEAD} of a header")
    if len(buffer) - position >= 17 and buffer[position + 16] != MAGIC:
        raise CorruptRecord(f"batch magic {buffer[position + 16]} is not 2")


def with_crc(header: BatchHeader, payload: Buffer) -> BatchHeader:
    """Return the header with the CRC-32C that is right for it and its records section."""
    crc = crc32c(payload, crc32c(HEADER.pack(*header)[CRC_START:]))
    return _new(BatchHeader, (*header[:4], crc, *header[5:]))


def validate_crc(buffer: Buffer, position: int, header: BatchHeader) -> bool:
    """Return True if the CRC-32C of the batch at `position` is the one in its header."""
    end = position + header.length + LOG_OVERHEAD
    return end <= len(buffer) and bool(crc32c(memoryview(buffer)[position + CRC_START : end]) == header.crc)


_pack_digested = struct.Struct(">qqiI").pack


def batch_digest(header: BatchHeader) -> int:
    """Hash base offset, last offset, leader epoch and CRC with BLAKE2b (8 bytes, big-endian)."""
    base_offset = header.base_offset
    packed = _pack_digested(base_offset, base_offset + header.last_offset_delta, header.leader_epoch, header.crc)
    return int.from_bytes(blake2b(packed, digest_size=8).digest(), "big")


def add_digests(first: int, second: int) -> int:
    """Return the digest of two disjoint runs together."""
    return (first + second) % 2**64
