"""Compacted logs for tests: a cleaning from beginning to end, and what is left of a log."""

from collections.abc import Iterator
from pathlib import Path

from replog.log.compaction.cleaning import Cleaning, CleanTask, find_cleanable
from replog.log.files.opening import fsync_directory
from replog.log.formats.batch import CONTROL, BatchHeader
from replog.log.formats.records import LogRecord, iterate_records
from replog.log.formats.segment_file import open_file
from replog.log.formats.walk import Break, LogFile
from replog.log.log import Log
from replog.log.swap import Swap
from tests.replog.log.batches import append, client_batch, open_log

MAP_BYTES = 1 << 20
T = 1_000_000  # ms: the time at which most happens


def compacted(directory: Path, **settings: object) -> Log:
    return open_log(directory, cleanup_policy="compact", **settings)


def keyed(*keys: str, value: bytes | None = b"v", time: int = T, **fields: int) -> bytes:
    return client_batch(*[(key.encode(), value) for key in keys], timestamps=[time] * len(keys), **fields)


def sealed(log: Log, *batches: bytes, epoch: int = 0) -> Log:
    """Append, roll, and let the high watermark follow."""
    append(log, *batches, epoch=epoch).roll()
    log.update_high_watermark(log.log_end_offset)
    return log


def clean(log: Log, now_ms: int | None = 0, *, checkpoint: int | None = None, map_bytes: int = MAP_BYTES) -> int:
    """One cleaning of all that is cleanable; where the next begins."""
    cleanable = find_cleanable(log, checkpoint, now_ms)
    task = CleanTask.of(log, cleanable, now_ms, map_bytes)
    cleaning = Cleaning(task)
    cleaning.map_keys()
    for group in task.groups(cleaning.end_offset):
        swap = cleaning.rewrite(group)
        if swap is not None:
            assert log.begin_swap(task.generation, swap)
            fsync_directory(log.directory)
            assert log.finish_swap(swap)
            fsync_directory(log.directory)
    return cleaning.end_offset


def rewritten(log: Log) -> tuple[CleanTask, Swap]:
    """The first group of all that is cleanable, to be swapped."""
    task = CleanTask.of(log, find_cleanable(log, None, T), T, MAP_BYTES)
    cleaning = Cleaning(task)
    cleaning.map_keys()
    swap = cleaning.rewrite(task.groups(cleaning.end_offset)[0])
    assert swap is not None
    return task, swap


def batches_of(log: Log) -> Iterator[tuple[BatchHeader, bytes]]:
    """Every batch in the files of the log."""
    for segment in log.segments:
        with open_file(segment.path) as file:
            log_file = LogFile(file)
            for step in log_file.walk(end=segment.size):
                assert not isinstance(step, Break)
                yield step[1], bytes(log_file.read(step[0], step[1].size))


def records_of(log: Log) -> list[LogRecord]:
    """Every data record in the log."""
    return [
        record
        for header, data in batches_of(log)
        if not header.attributes & CONTROL
        for record in iterate_records(data, header)
    ]


def offsets_of(log: Log) -> list[int]:
    return [record.offset for record in records_of(log)]


def ranges_of(log: Log) -> list[tuple[int, int]]:
    """(base, last) offset of every batch."""
    return [(header.base_offset, header.last_offset) for header, _ in batches_of(log)]


def latest_of(log: Log) -> dict[bytes, bytes]:
    """The latest value of each key that has one."""
    latest: dict[bytes, bytes] = {}
    for record in records_of(log):
        assert record.key is not None
        if record.value is None:
            latest.pop(record.key, None)
        else:
            latest[record.key] = record.value
    return latest


def names_in(directory: Path) -> set[str]:
    return {path.name for path in directory.iterdir()}
