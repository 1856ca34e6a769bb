"""The clean-shutdown marker: there only between an orderly stop and the next start (FN-3, FN-4)."""

import json
from pathlib import Path

from replog.log.files.replacing import fsync_directory, fsync_path

CLEAN_SHUTDOWN = ".kafka_cleanshutdown"
MAX_BYTES = 4096


def take_marker(directory: Path, log_dirs: int) -> tuple[bool, int]:
    """Whether the last stop was orderly, and the broker epoch it had; the marker is gone then.

    The epoch is -1 if it is not known, or if the broker then had not `log_dirs` directories: replicas in another one
    may be gone with it (ISR-18).

    It goes before anything is loaded, durably, so that a crash while loading counts as unclean.
    """
    path = directory / CLEAN_SHUTDOWN
    try:
        with path.open("rb") as file:
            content = file.read(MAX_BYTES)
    except FileNotFoundError:
        return False, -1
    path.unlink()
    fsync_directory(directory)
    return True, _broker_epoch(content, log_dirs)


def _broker_epoch(content: bytes, log_dirs: int) -> int:
    """Only the marker's existence counts for recovery; what it says may be missing."""
    try:
        marker = json.loads(content)
    except (ValueError, RecursionError):
        return -1
    if not isinstance(marker, dict) or marker.get("logDirs", log_dirs) != log_dirs:
        return -1
    epoch = marker.get("brokerEpoch")
    return epoch if type(epoch) is int and 0 <= epoch < 2**63 else -1


def write_marker(directory: Path, broker_epoch: int, log_dirs: int) -> None:
    """Everything is closed and durable: say so. `log_dirs`: how many directories the broker has."""
    path = directory / CLEAN_SHUTDOWN
    marker = {"version": 0, "brokerEpoch": broker_epoch, "logDirs": log_dirs}
    path.write_text(json.dumps(marker, separators=(",", ":")))
    fsync_path(path)
    fsync_directory(directory)
