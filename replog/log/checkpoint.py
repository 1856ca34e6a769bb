"""Checkpoint files: small text files of Kafka's format, replaced atomically (1.3).

A version line `0`, a line with the number of entries, one entry a line.
"""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from replog.log.errors import LogStorageError, storage_errors
from replog.log.files import write_atomically
from replog.topic import TopicPartition

RECOVERY_POINT_CHECKPOINT = "recovery-point-offset-checkpoint"
LOG_START_CHECKPOINT = "log-start-offset-checkpoint"
HIGH_WATERMARK_CHECKPOINT = "replication-offset-checkpoint"
CLEANER_CHECKPOINT = "cleaner-offset-checkpoint"
LEADER_EPOCH_CHECKPOINT = "leader-epoch-checkpoint"

MAX_CHECKPOINT_BYTES = 64 << 20


class DamagedCheckpoint(LogStorageError):
    """A checkpoint file that does not read as one."""


def read_entries(path: Path, fields: int) -> list[list[str]]:
    """The entries, each of `fields` words; none if the file is missing, empty or only a version line.

    Raises DamagedCheckpoint naming the file and what is wrong with it, LogStorageError if the disk fails.
    """
    with storage_errors(path):
        try:
            with path.open("rb") as file:
                raw = file.read(MAX_CHECKPOINT_BYTES + 1)
        except FileNotFoundError:
            return []
    if len(raw) > MAX_CHECKPOINT_BYTES:
        raise DamagedCheckpoint(f"{path} is larger than {MAX_CHECKPOINT_BYTES} bytes")
    try:
        lines = raw.decode("utf-8").split("\n")
    except UnicodeDecodeError as error:
        raise DamagedCheckpoint(f"{path} is not UTF-8 text: {error}") from None
    if lines[-1] == "":
        lines.pop()
    if not lines:
        return []
    if lines[0].strip() != "0":
        raise DamagedCheckpoint(f"{path}: version {lines[0][:40]!r} is not 0")
    if len(lines) == 1:
        return []
    count = lines[1].strip()
    if not (count.isascii() and count.isdigit()):
        raise DamagedCheckpoint(f"{path}: number of entries {count[:40]!r} is not a number")
    entries = [line.split() for line in lines[2:]]
    if len(entries) != int(count):
        raise DamagedCheckpoint(f"{path} announces {count} entries and has {len(entries)}")
    for number, entry in enumerate(entries, 3):
        if len(entry) != fields:
            raise DamagedCheckpoint(f"{path}:{number}: {lines[number - 1][:80]!r} has not {fields} fields")
    return entries


def write_entries(path: Path, entries: Iterable[Sequence[object]]) -> None:
    """Replace the file, durably, by `entries`."""
    lines = [" ".join(map(str, entry)) for entry in entries]
    with storage_errors(path):
        write_atomically(path, "\n".join(["0", str(len(lines)), *lines, ""]).encode())


def parse_number(path: Path, word: str) -> int:
    """A decimal that fits 64 bits, or DamagedCheckpoint."""
    digits = word.removeprefix("-")
    if digits.isascii() and digits.isdigit() and len(digits) <= 19 and int(digits) < 2**63:
        return int(word)
    raise DamagedCheckpoint(f"{path}: {word[:40]!r} is not a 64-bit number")


class OffsetCheckpoint:
    """One offset per partition: recovery points, log starts or high watermarks of a log directory."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def read(self) -> dict[TopicPartition, int]:
        """All offsets; raises DamagedCheckpoint if the file does not read as a checkpoint."""
        return {
            TopicPartition(topic, parse_number(self.path, partition)): parse_number(self.path, offset)
            for topic, partition, offset in read_entries(self.path, 3)
        }

    def write(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Replace all offsets, durably."""
        write_entries(self.path, [(tp.topic, tp.partition, offset) for tp, offset in sorted(offsets.items())])
