"""Partition directories that replog writes, one for each of the things that can be in one, and what is in them."""

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from replog.client.records import encode_batch
from replog.log.log import Log
from replog.log.retention import delete_old_segments
from tests.replog.log.batches import append, client_batch, open_log
from tests.replog.log.compaction.compacting import clean, records_of
from tests.replog.log.producers.writes import end, transact

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
SETTINGS = {"segment_bytes": 6_000, "index_interval_bytes": 400}
NOW = 1_700_000_000_000
Sent = tuple[int, bytes | None, bytes | None, Sequence[tuple[str, bytes | None]]]  # as `encode_batch` takes it


class Expected(NamedTuple):
    """A record, as the console consumer tells of it."""

    timestamp: int
    offset: int
    headers: str
    key: str
    value: str


def batch_of(number: int) -> list[Sent]:
    """Records with and without key, value and headers; timestamps go to and fro."""
    return [
        (
            NOW + 10 * number + (7 * index) % 5,
            None if index % 3 == 0 else b"key %d" % (index % 7),
            None if index % 11 == 5 else b"value %d of batch %d; " % (index, number) * (1 + number % 4),
            [("source", b"replog"), ("nothing", None)] if index % 4 == 1 else [],
        )
        for index in range(1 + number % 23)
    ]


def send(log: Log, numbers: range, an_epoch: int) -> list[Expected]:
    """Append batches, of every codec in turn, so many in each leader epoch."""
    sent: list[Expected] = []
    for number in numbers:
        records = batch_of(number)
        offset = log.log_end_offset
        append(log, bytes(encode_batch(records, CODECS[number % 5])), epoch=number // an_epoch, now_ms=NOW)
        sent += [expected(offset + index, record) for index, record in enumerate(records)]
    log.update_high_watermark(log.log_end_offset)
    return sent


def expected(offset: int, record: Sent) -> Expected:
    timestamp, key, value, headers = record
    shown = ",".join(f"{name}:{text(content)}" for name, content in headers) or "NO_HEADERS"
    return Expected(timestamp, offset, shown, text(key), text(value))


def text(content: bytes | None) -> str:
    return "null" if content is None else content.decode()


def every_codec(directory: Path, an_epoch: int) -> list[Expected]:
    """Many segments; stopped in order and opened again in between."""
    log = open_log(directory, **SETTINGS)
    sent = send(log, range(60), an_epoch)
    log.close()
    log = open_log(directory, **SETTINGS, recovery_point=log.log_end_offset)
    sent += send(log, range(60, 120), an_epoch)
    assert len(log.segments) > 5
    log.close()
    return sent


def stamped_by_the_broker(directory: Path) -> None:
    log = open_log(directory, **SETTINGS, message_timestamp_type="LogAppendTime")
    for number in range(120):
        append(log, bytes(encode_batch(batch_of(number), CODECS[number % 5])), now_ms=NOW + 10_000 + number // 3)
    log.close()


def recovered(directory: Path) -> None:
    """A log whose end was torn in a crash, recovered and continued."""
    log = open_log(directory, **SETTINGS)
    send(log, range(60), 30)
    log.abandon()
    last = log.segments[-1].path
    last.write_bytes(last.read_bytes()[:-7])
    for path in directory.glob("*.index"):
        path.unlink()
    log = open_log(directory, clean=False, **SETTINGS)
    send(log, range(60, 120), 30)
    log.close()


def truncated(directory: Path) -> None:
    """A follower that had to go back, and whose leader went on in another epoch; its first segments are gone."""
    log = open_log(directory, **SETTINGS)
    send(log, range(90), 30)
    log.truncate_to(log.log_end_offset * 2 // 3)
    send(log, range(90, 150), 30)
    log.maybe_increment_log_start_offset(log.log_end_offset // 2)
    assert delete_old_segments(log, NOW) > 1
    log.close()


def transactions(directory: Path) -> tuple[list[int], list[int]]:
    """Committed, aborted and open transactions of several producers, interleaved: the offsets of all data records,
    and of the committed ones below the last stable offset."""
    log = open_log(directory, segment_bytes=1000, index_interval_bytes=200)
    everything: list[int] = []
    committed: list[int] = []
    sequences = {4001: 0, 4002: 0, 4003: 0}
    for number in range(40):
        owners: dict[int, list[int]] = {pid: [] for pid in sequences}
        for pid in sorted(sequences, key=lambda pid: (pid + number) % 3):
            for count in (1, 2):
                owners[pid] += range(log.log_end_offset, log.log_end_offset + count)
                transact(log, pid, sequences[pid], count)
                sequences[pid] += count
        for pid in sorted(sequences):
            commit = (number + pid) % 4 != 0
            end(log, pid, commit=commit, coordinator_epoch=number // 20)
            everything += owners[pid]
            committed += owners[pid] if commit else []
        everything.append(log.log_end_offset)
        committed.append(log.log_end_offset)
        append(log, client_batch(b"without transaction"))
        log.update_high_watermark(log.log_end_offset)
    everything.append(log.log_end_offset)
    transact(log, 4001, sequences[4001])  # stays open
    everything.append(log.log_end_offset)
    append(log, client_batch(b"behind an open transaction"))
    log.update_high_watermark(log.log_end_offset)
    assert len(log.segments) > 5
    log.close()
    return sorted(everything), sorted(committed)


def compacted(directory: Path) -> tuple[dict[str, str], list[Expected]]:
    """Cleaned twice, so that there are holes, batches of several codecs with delete horizons, and batches without
    records; then continued. The latest value of each key, and all that is left."""
    settings = {**SETTINGS, "cleanup_policy": "compact", "delete_retention_ms": 1000}
    log = open_log(directory, **settings)
    latest: dict[str, str] = {}
    for number in range(300):
        records: list[Sent] = []
        for index in range(4):
            key = (number * number + index * 3) % (90 if number < 200 else 40)
            value = None if (number + index) % 9 == 0 else b"value %d.%d, " % (number, index) * 6
            records.append((NOW + number, b"key %d" % key, value, [("number", b"%d" % number)]))
            latest[f"key {key}"] = text(value)
        append(log, bytes(encode_batch(records, CODECS[number % 5])), epoch=number // 150, now_ms=NOW)
        log.update_high_watermark(log.log_end_offset)
        if number == 200:
            log.roll()
            end = clean(log, NOW + 10_000)
        if number == 260:
            log.roll()
            clean(log, NOW + 10_500, checkpoint=end)  # tombstones are known to be old from 11 000 on
    assert len(log.segments) > 2
    left = [expected(r.offset, (r.timestamp, r.key, r.value, r.headers)) for r in records_of(log)]
    log.close()
    return latest, left


def rebuilt(directory: Path, original: Path) -> None:
    """A copy whose indexes were lost, and made again by a start."""
    shutil.copytree(original, directory)
    for path in directory.iterdir():
        if path.suffix in (".index", ".timeindex", ".txnindex", ".digest"):
            path.unlink()
    open_log(directory, **SETTINGS).close()


def write_all(root: Path) -> list[Path]:
    """One of each."""
    every_codec(root / "codecs-0", 24)
    stamped_by_the_broker(root / "stamped-0")
    recovered(root / "recovered-0")
    truncated(root / "truncated-0")
    transactions(root / "transactions-0")
    compacted(root / "compacted-0")
    rebuilt(root / "rebuilt-0", root / "codecs-0")
    rebuilt(root / "rebuilt-transactions-0", root / "transactions-0")
    return sorted(root.iterdir())
