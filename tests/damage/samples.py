"""Partitions to be damaged, as their files.

The plain one: segments [0:390 10:390 20:390 30:156] of 17 batches of 78 bytes with two records each, an index entry
beside each batch but the first of a segment; epochs (0,0)(1,12)(3,24); LEO 34. Batch i begins at offset 2i, so at
position 78 * (i % 5).
"""

from pathlib import Path

from replog.log.log import Log
from tests.damage.vocabulary import segment_file
from tests.replog.log.batches import append, client_batch, files_of, layout, open_log

SETTINGS = {"segment_bytes": 390, "index_interval_bytes": 70}
FULL = [(0, 390), (10, 390), (20, 390), (30, 156)]
EPOCHS = ((0, 0), (1, 12), (3, 24))
END = 34
BATCH = 78
CLEAN = None  # how the broker stopped: so, or by a crash with a recovery point of some offset
INDEXES = ("index", "timeindex", "digest")


def write_log(directory: Path) -> dict[str, bytes]:
    """The whole log, closed; its files by name."""
    log = open_log(directory, **SETTINGS)
    for number in range(17):
        value = bytes([65 + number])
        epoch = max(epoch for epoch, start in EPOCHS if start <= 2 * number)
        append(log, client_batch(value, value, timestamps=[1000 + 100 * number, 1100 + 100 * number]), epoch=epoch)
    assert (layout(log), log.epochs.entries, log.log_end_offset) == (FULL, EPOCHS, END)
    log.close()
    return {path.name: path.read_bytes() for path in directory.iterdir()}


def put_back(directory: Path, files: dict[str, bytes]) -> None:
    """The files as they were, and no others."""
    directory.mkdir(exist_ok=True)
    for path in directory.iterdir():
        if path.name not in files:
            path.unlink()
    for name, content in files.items():
        (directory / name).write_bytes(content)


def reopen(directory: Path, stop: int | None, report: list[str] | None = None, **overrides: object) -> Log:
    """Start after a stop (`CLEAN`, or the recovery point of a crash)."""
    lines = [] if report is None else report
    recovery_point = END if stop is None else stop
    settings = {"recovery_point": recovery_point, **SETTINGS, **overrides}
    return open_log(directory, clean=stop is None, on_progress=lines.append, **settings)


def log_bytes(files: dict[str, bytes], end: int = END) -> bytes:
    """The batches below `end`."""
    return b"".join(files[segment_file(base, "log")] for base, _ in FULL)[: end // 2 * BATCH]


def assert_as_if_never_damaged(log: Log, files: dict[str, bytes], end: int) -> None:
    """What is left is a prefix of the log; with the rest fetched again every file is what it was, and stays so."""
    directory = log.directory
    assert b"".join(segment.path.read_bytes() for segment in log.segments) == log_bytes(files, end)
    log.append_as_follower(log_bytes(files)[end // 2 * BATCH :])
    log.write_indexes()
    segments = {name: content for name, content in files.items() if name.endswith(("log", *INDEXES))}
    assert files_of(directory) == segments
    assert log.epochs.entries == EPOCHS
    log.close()
    lines: list[str] = []
    again = reopen(directory, CLEAN, lines)
    assert (again.log_end_offset, lines, files_of(directory)) == (END, [], segments)
    again.close()
