"""Checkpoint files: small text files of Kafka's format, replaced atomically (1.3).

A version line `0`, a line with the number of entries, one entry a line."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from io import BytesIO
from pathlib import Path

from replog.config.properties import number_in
from replog.log.errors import LogStorageError, storage_errors
from replog.log.files.opening import read_regular, write_atomically
from replog.topic import TopicPartition

RECOVERY_POINT_CHECKPOINT = "recovery-point-offset-checkpoint"
LOG_START_CHECKPOINT = "log-start-offset-checkpoint"
HIGH_WATERMARK_CHECKPOINT = "replication-offset-checkpoint"
CLEANER_CHECKPOINT = "cleaner-offset-checkpoint"
OFFSET_CHECKPOINTS = (RECOVERY_POINT_CHECKPOINT, LOG_START_CHECKPOINT, HIGH_WATERMARK_CHECKPOINT, CLEANER_CHECKPOINT)
LEADER_EPOCH_CHECKPOINT = "leader-epoch-checkpoint"

MAX_CHECKPOINT_BYTES = 64 << 20


class DamagedCheckpoint(LogStorageError):
    """A checkpoint file that cannot be read as one."""


def read_entries(path: Path, fields: int) -> list[list[str]]:
    """Return the entries, each of `fields` words; none if the file is missing, empty or only a version line.

    Raises DamagedCheckpoint naming the file and what is wrong with it, LogStorageError if the disk fails."""
    with storage_errors(path):
        try:
            raw = read_regular(path, MAX_CHECKPOINT_BYTES + 1)
        except FileNotFoundError:
            return []
    return parse_entries(path, raw, fields)


def parse_entries(path: Path, raw: bytes, fields: int) -> list[list[str]]:
    """Return the entries in the content of a checkpoint file; see `read_entries`."""
    if len(raw) > MAX_CHECKPOINT_BYTES:
        raise DamagedCheckpoint(f"{path} is larger than {MAX_CHECKPOINT_BYTES} bytes")
    try:
        return list(_entries(path, BytesIO(raw), fields))
    except UnicodeDecodeError as error:
        raise DamagedCheckpoint(f"{path} is not UTF-8 text: {error}") from None


def _entries(path: Path, lines: BytesIO, fields: int) -> Iterator[list[str]]:
    version, count = lines.readline().decode(), lines.readline().decode()
    if version and version.strip() != "0":
        raise DamagedCheckpoint(f"{path}: version {version.strip()[:40]!r} is not 0")
    if not count:
        return
    announced, number = parse_number(path, count.strip()), 0
    for number, line in enumerate(lines, 1):
        entry = line.decode().split()
        if len(entry) != fields:
            raise DamagedCheckpoint(f"{path}:{number + 2}: {line[:80]!r} has not {fields} fields")
        yield entry
    if number != announced:
        raise DamagedCheckpoint(f"{path} announces {announced} entries and has {number}")


def write_entries(path: Path, entries: Iterable[Sequence[object]]) -> None:
    """Replace the file, durably, by `entries`."""
    with storage_errors(path):
        write_atomically(path, format_entries(entries))


def format_entries(entries: Iterable[Sequence[object]]) -> bytes:
    """Return the content of a checkpoint file."""
    lines = [" ".join(map(str, entry)) for entry in entries]
    return "\n".join(["0", str(len(lines)), *lines, ""]).encode()


def parse_number(path: Path, word: str) -> int:
    """Parse a decimal from 0 to 2^63 - 1, or raise DamagedCheckpoint: nothing in these files is negative."""
    if (number := number_in(word)) is not None:
        return number
    raise DamagedCheckpoint(f"{path}: {word[:40]!r} is not a 64-bit number of 0 or more")


class OffsetCheckpoint:
    """One offset per partition: recovery points, log starts or high watermarks of a log directory."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._written: dict[TopicPartition, int] | None = None  # the file's content, if this object wrote it

    def read(self) -> dict[TopicPartition, int]:
        """Read all offsets; raises DamagedCheckpoint if the file cannot be read as a checkpoint."""
        return {
            TopicPartition(topic, parse_number(self.path, partition)): parse_number(self.path, offset)
            for topic, partition, offset in read_entries(self.path, 3)
        }

    def write(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Replace all offsets, durably; nothing is done if they are those that were written last."""
        if offsets == self._written:
            return
        self._written = None
        write_entries(self.path, [(tp.topic, tp.partition, offset) for tp, offset in sorted(offsets.items())])
        self._written = dict(offsets)
