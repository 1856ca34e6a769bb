"""A log of 17 batches to be damaged, and the ways to damage its files.

Segments [0:390 10:390 20:390 30:156] of batches of 78 bytes with two records each, an index entry beside each batch
but the first of a segment; epochs (0,0)(1,12)(3,24); LEO 34. Batch i begins at offset 2i, so at position 78 * (i % 5).
"""

from collections.abc import Callable
from pathlib import Path

from replog.log.log import Log
from tests.replog.log.batches import append, client_batch, files_of, layout, open_log

SETTINGS = {"segment_bytes": 390, "index_interval_bytes": 70}
FULL = [(0, 390), (10, 390), (20, 390), (30, 156)]
EPOCHS = ((0, 0), (1, 12), (3, 24))
END = 34
BATCH = 78
CLEAN = None  # how the broker stopped: so, or by a crash with a recovery point of some offset
INDEXES = ("index", "timeindex", "digest")

Damage = Callable[[Path], None]


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


def segment_file(base: int, kind: str) -> str:
    return f"{base:020d}.{kind}"


def log_bytes(files: dict[str, bytes], end: int = END) -> bytes:
    """The batches below `end`."""
    return b"".join(files[segment_file(base, "log")] for base, _ in FULL)[: end // 2 * BATCH]


def assert_as_if_never_damaged(log: Log, files: dict[str, bytes], end: int) -> None:
    """What is left is a prefix of the log; with the rest fetched again every file is what it was, and stays so."""
    directory = log.directory
    assert b"".join(segment.path.read_bytes() for segment in log.segments) == log_bytes(files, end)
    log.append_as_follower(log_bytes(files)[end // 2 * BATCH :])
    segments = {name: content for name, content in files.items() if name.endswith(("log", *INDEXES))}
    assert files_of(directory) == segments
    assert log.epochs.entries == EPOCHS
    log.close()
    lines: list[str] = []
    again = reopen(directory, CLEAN, lines)
    assert (again.log_end_offset, lines, files_of(directory)) == (END, [], segments)
    again.close()


# -- damage


def changed(name: str, change: Callable[[bytes], bytes]) -> Damage:
    """The file `name` with its content changed; one that is missing counts as empty."""

    def damage(directory: Path) -> None:
        path = directory / name
        path.write_bytes(change(path.read_bytes() if path.exists() else b""))

    return damage


def written(name: str, content: bytes = b"") -> Damage:
    return changed(name, lambda _: content)


def cut(name: str, count: int) -> Damage:
    """Without its last `count` bytes."""
    return changed(name, lambda content: content[: len(content) - count])


def longer(name: str, tail: bytes) -> Damage:
    return changed(name, lambda content: content + tail)


def flipped(name: str, position: int, bits: int = 1) -> Damage:
    def flip(content: bytes) -> bytes:
        data = bytearray(content)
        data[position] ^= bits
        return bytes(data)

    return changed(name, flip)


def overwritten(name: str, position: int, content: bytes) -> Damage:
    """From `position`, which counts from the end if negative."""

    def write(data: bytes) -> bytes:
        start = position % len(data)
        return data[:start] + content + data[start + len(content) :]

    return changed(name, write)


def missing(*names: str) -> Damage:
    def damage(directory: Path) -> None:
        for name in names:
            (directory / name).unlink()

    return damage


def swapped(name: str, other: str) -> Damage:
    """Each with the content of the other."""

    def damage(directory: Path) -> None:
        first, second = ((directory / each).read_bytes() for each in (name, other))
        (directory / name).write_bytes(second)
        (directory / other).write_bytes(first)

    return damage


def sparse(name: str, size: int) -> Damage:
    """Grown to `size` by a hole."""

    def damage(directory: Path) -> None:
        with (directory / name).open("r+b") as file:
            file.truncate(size)

    return damage


def directory_instead(name: str) -> Damage:
    def damage(directory: Path) -> None:
        (directory / name).unlink(missing_ok=True)
        (directory / name).mkdir()

    return damage


def both(*damages: Damage) -> Damage:
    def damage(directory: Path) -> None:
        for one in damages:
            one(directory)

    return damage
