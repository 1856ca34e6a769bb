"""Flips one bit in a replica, as a bad disk would, at a place where only a CRC shows it."""

import os
from pathlib import Path
from typing import NamedTuple

from replog.log.files.names import LOG_SUFFIX, base_offset_of
from replog.log.formats.batch import HEADER_SIZE, iterate_batches

FLIPPED = 0x01


class Corruption(NamedTuple):
    """The flipped bit, which an audit must report as these offsets."""

    path: Path
    position: int  # the byte in the file
    base_offset: int  # the batch's
    last_offset: int


def flip_payload_bit(replica: Path, below_offset: int) -> Corruption:
    """Flip one bit in the middle of a batch's payload, in the batch in the middle of those below `below_offset`.

    `replica` is a partition's directory, `below_offset` its high watermark, so that the batch is committed. Raises
    ValueError if the replica has no such batch."""
    candidates: list[tuple[Path, int, int, int, int]] = []
    for path in sorted(replica.glob(f"*{LOG_SUFFIX}")):
        if base_offset_of(path.name) is None:
            continue
        for position, header in iterate_batches(path.read_bytes()):
            if header.last_offset < below_offset and header.size > HEADER_SIZE:
                candidates.append((path, position, header.size, header.base_offset, header.last_offset))
    if not candidates:
        raise ValueError(f"{replica} has no batch with a payload below offset {below_offset}")
    path, start, size, base_offset, last_offset = candidates[len(candidates) // 2]
    position = start + HEADER_SIZE + (size - HEADER_SIZE) // 2
    fd = os.open(path, os.O_RDWR)
    try:
        (byte,) = os.pread(fd, 1, position)
        os.pwrite(fd, bytes([byte ^ FLIPPED]), position)
    finally:
        os.close(fd)
    return Corruption(path, position, base_offset, last_offset)
