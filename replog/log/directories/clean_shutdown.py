"""The clean-shutdown marker, which exists only between an orderly stop and the next start (FN-3, FN-4)."""

import json
from pathlib import Path
from typing import NamedTuple

from replog.log.files.opening import read_regular
from replog.log.files.replacing import fsync_directory, fsync_path

CLEAN_SHUTDOWN = ".kafka_cleanshutdown"
MAX_BYTES = 4096


class CleanStop(NamedTuple):
    """The process that wrote the marker: the controller knows by this that it stopped in order (ISR-18)."""

    broker_epoch: int = -1  # unknown
    incarnation_id: bytes = b""


def take_marker(directory: Path, log_dirs: int) -> tuple[bool, CleanStop]:
    """Remove the marker. Return True if the last stop was orderly, and what the marker says of it.

    The epoch is -1 if it is unknown, or if the broker had another number of directories than `log_dirs`: replicas may
    have been in a missing one (ISR-18). The marker is removed durably before anything is loaded, so a crash while
    loading counts as an unclean stop."""
    path = directory / CLEAN_SHUTDOWN
    try:
        content = read_regular(path, MAX_BYTES)
    except FileNotFoundError:
        return False, CleanStop()
    path.unlink()
    fsync_directory(directory)
    marker = _parsed(content)
    epoch = marker.get("brokerEpoch")
    if marker.get("logDirs", log_dirs) != log_dirs or type(epoch) is not int or not 0 <= epoch < 2**63:
        return True, CleanStop()
    try:
        return True, CleanStop(epoch, bytes.fromhex(str(marker.get("incarnationId", ""))))
    except ValueError:
        return True, CleanStop(epoch)


def log_dirs_of(directory: Path) -> int:
    """Return how many log directories the broker had at its last stop, by the marker; 0 if unknown."""
    try:
        count = _parsed(read_regular(directory / CLEAN_SHUTDOWN, MAX_BYTES)).get("logDirs")
    except FileNotFoundError:
        return 0
    return count if type(count) is int and count > 0 else 0


def _parsed(content: bytes) -> dict[str, object]:
    """Read the marker's content, which may be damaged: recovery needs only its existence."""
    try:
        marker = json.loads(content)
    except (ValueError, RecursionError):
        return {}
    return marker if isinstance(marker, dict) else {}


def write_marker(directory: Path, broker_epoch: int, log_dirs: int, incarnation_id: bytes = b"") -> None:
    """Say that everything is closed and durable. `log_dirs` is the number of the broker's directories."""
    path = directory / CLEAN_SHUTDOWN
    marker: dict[str, object] = {"version": 0, "brokerEpoch": broker_epoch, "logDirs": log_dirs}
    if incarnation_id:
        marker["incarnationId"] = incarnation_id.hex()
    path.touch(mode=0o600)  # its readers can claim that this broker stopped in order
    path.write_text(json.dumps(marker, separators=(",", ":")))
    fsync_path(path)
    fsync_directory(directory)
