"""Builds batches as clients send them, with an independent encoder (aiokafka), and as leaders stamp them."""

import struct
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from aiokafka.record.default_records import DefaultRecordBatchBuilder
from crc32c import crc32c

from replog.config.topic import TopicConfig
from replog.log.log import Log

NO_LIMIT = 2**31 - 1


def client_batch(
    *values: bytes | tuple[bytes | None, bytes | None], timestamps: Iterable[int] = (), **fields: int
) -> bytes:
    """One client batch: base offset 0, leader epoch -1. A value may be a (key, value) pair."""
    times = list(timestamps) or [1000] * len(values)
    builder = DefaultRecordBatchBuilder(
        magic=2,
        compression_type=fields.get("codec", 0),
        is_transactional=bool(fields.get("transactional", 0)),
        producer_id=fields.get("producer_id", -1),
        producer_epoch=fields.get("producer_epoch", -1),
        base_sequence=fields.get("base_sequence", -1),
        batch_size=NO_LIMIT,
    )
    for offset, (value, timestamp) in enumerate(zip(values, times, strict=True)):
        key, body = value if isinstance(value, tuple) else (None, value)
        builder.append(offset, timestamp, key, body, [])
    return stamped(bytes(builder.build()), 0, -1)


def stamped(batch: bytes, base_offset: int, leader_epoch: int) -> bytes:
    """The batch as a leader would write it."""
    data = bytearray(batch)
    struct.pack_into(">q", data, 0, base_offset)
    struct.pack_into(">i", data, 12, leader_epoch)
    return bytes(data)


def changed(batch: bytes, position: int, layout: str, value: int, *, fix_crc: bool = True) -> bytes:
    """The batch with another value of a field, under a right CRC unless not `fix_crc`."""
    data = bytearray(batch)
    struct.pack_into(layout, data, position, value)
    if fix_crc:
        struct.pack_into(">I", data, 17, crc32c(data[21:]))
    return bytes(data)


def leader_batch(base_offset: int, leader_epoch: int, *values: Any, **options: Any) -> bytes:
    """A batch as followers receive it."""
    return stamped(client_batch(*values, **options), base_offset, leader_epoch)


def config(**overrides: Any) -> TopicConfig:
    """Topic settings without their lower bounds, for logs of a few hundred bytes."""
    return TopicConfig.model_construct(**{**TopicConfig().model_dump(), **overrides})


def open_log(directory: Path, *, clean: bool = True, **overrides: Any) -> Log:
    """Open a log with the checkpoint offsets, and the settings, among `overrides`."""
    offsets = {
        name: overrides.pop(name)
        for name in ("recovery_point", "log_start_offset", "high_watermark", "on_progress")
        if name in overrides
    }
    return Log.open(directory, config(**overrides), clean=clean, **offsets)


def append(log: Log, *batches: bytes, epoch: int = 0, now_ms: int = 0) -> Log:
    """Append client batches one by one as leader."""
    for batch in batches:
        log.append_as_leader(batch, leader_epoch=epoch, now_ms=now_ms)
    return log


def layout(log: Log) -> list[tuple[int, int]]:
    """[(base offset, size)...] of the segments."""
    return [(segment.base_offset, segment.size) for segment in log.segments]


def files_of(directory: Path) -> dict[str, bytes]:
    """Every segment file's bytes by name; those waiting for deletion are left out."""
    suffixes = (".log", ".index", ".timeindex", ".digest", ".txnindex")
    return {path.name: path.read_bytes() for path in sorted(directory.iterdir()) if path.suffix in suffixes}


def fixture_t(directory: Path, **overrides: Any) -> Log:
    """Fixture T: segments [0:234 6:234 12:234 18:78] of 78-byte batches, epochs (0,0)(1,8)(2,16), HW 14."""
    log = open_log(directory, segment_bytes=300, **overrides)
    for number in range(10):
        batch = client_batch(b"a", b"b", timestamps=[1000 + 100 * number, 1100 + 100 * number])
        append(log, batch, epoch=(2 * number) // 8)
    log.update_high_watermark(14)
    return log
