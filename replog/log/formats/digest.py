"""The digest of a run of batches: a sum of per-batch hashes modulo 2^64.

A sum can be subtracted: two replicas whose segments begin at different offsets compare any interval between two
offsets that both have indexed. The payload enters through its CRC."""

import os
import struct
from hashlib import blake2b
from pathlib import Path

from replog.log.files.filesystem import read_exactly
from replog.log.files.opening import open_regular
from replog.log.formats.batch import BatchHeader

MODULUS_MASK = 2**64 - 1
DIGEST_ENTRY = struct.Struct(">IQ")  # a digest index's: offset from the segment's base, digest of the batches up to it
_pack = struct.Struct(">qqiI").pack


def batch_digest(header: BatchHeader) -> int:
    """Hash base offset, last offset, leader epoch and CRC with BLAKE2b (8 bytes, big-endian)."""
    base_offset = header.base_offset
    packed = _pack(base_offset, base_offset + header.last_offset_delta, header.leader_epoch, header.crc)
    return int.from_bytes(blake2b(packed, digest_size=8).digest(), "big")


def add_digests(first: int, second: int) -> int:
    """Return the digest of two disjoint runs together."""
    return (first + second) & MODULUS_MASK


def sealed_digest(path: Path, base_offset: int, next_base: int) -> int | None:
    """Return a whole sealed segment's digest, from the last entry of its digest index; None if that does not say."""
    try:
        with open_regular(path) as fd:
            last = read_exactly(fd, os.fstat(fd).st_size - DIGEST_ENTRY.size, DIGEST_ENTRY.size)
        relative, digest = DIGEST_ENTRY.unpack(last)
    except (OSError, struct.error):
        return None
    return int(digest) if base_offset + relative == next_base - 1 else None
