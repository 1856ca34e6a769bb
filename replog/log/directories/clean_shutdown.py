"""The clean-shutdown marker: there only between an orderly stop and the next start (FN-3, FN-4)."""

import json
from pathlib import Path

from replog.log.files.replacing import fsync_directory, fsync_path

CLEAN_SHUTDOWN = ".kafka_cleanshutdown"
MAX_BYTES = 4096


def take_marker(directory: Path, log_dirs: int) -> tuple[bool, int]:
    """Remove the marker. Returns whether the last stop was orderly, and the broker epoch that the marker names.

    The epoch is -1 if it is unknown, or if the broker had another number of directories than `log_dirs`: replicas may
    have been in a missing one (ISR-18). The marker is removed durably before anything is loaded, so a crash while
    loading counts as an unclean stop.
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
    """Recovery needs the marker's existence alone; its content may be damaged."""
    try:
        marker = json.loads(content)
    except (ValueError, RecursionError):
        return -1
    if not isinstance(marker, dict) or marker.get("logDirs", log_dirs) != log_dirs:
        return -1
    epoch = marker.get("brokerEpoch")
    return epoch if type(epoch) is int and 0 <= epoch < 2**63 else -1


def write_marker(directory: Path, broker_epoch: int, log_dirs: int) -> None:
    """Say that everything is closed and durable. `log_dirs` is the number of the broker's directories."""
    path = directory / CLEAN_SHUTDOWN
    marker = {"version": 0, "brokerEpoch": broker_epoch, "logDirs": log_dirs}
    path.write_text(json.dumps(marker, separators=(",", ":")))
    fsync_path(path)
    fsync_directory(directory)
