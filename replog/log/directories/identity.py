"""A log directory's own small files: the cluster and the broker that it belongs to (`meta.properties`, 1.4), the newest
metadata that this broker knows (`metadata-position`, CT-24), and the marker of a clean shutdown, which exists only
between an orderly stop and the next start (`.kafka_cleanshutdown`, FN-3, FN-4)."""

import base64
import json
import re
from pathlib import Path
from typing import NamedTuple
from uuid import UUID

from replog.config.properties import MAX_PROPERTIES_BYTES, parse_properties
from replog.errors import ErrorCode
from replog.log.errors import storage_errors
from replog.log.files.opening import fsync_directory, fsync_path, read_regular, write_atomically

META_PROPERTIES = "meta.properties"
METADATA_POSITION = "metadata-position"
_HISTORY_ID = re.compile(r"([0-9a-f]{2}){0,64}")
_VERSION = re.compile(r"[0-9]{1,19}")
CLEAN_SHUTDOWN = ".kafka_cleanshutdown"
MAX_BYTES = 4096


def load_identity(directory: Path) -> dict[str, str]:
    """Read `meta.properties`. Raises INVALID_CONFIG."""
    path = directory / META_PROPERTIES
    try:
        return parse_properties(path, read_regular(path, MAX_PROPERTIES_BYTES + 1))
    except OSError as error:
        raise ErrorCode.INVALID_CONFIG.error(f"cannot read {path}: {error}") from error


def verify_or_create(directory: Path, *, cluster_id: str, node_id: int, directory_id: UUID) -> None:
    """Make sure that the directory belongs to this broker; one without the file is given to it, under that id.

    Raises INCONSISTENT_CLUSTER_ID or INVALID_CONFIG, naming both identities, if it belongs to another, and OSError."""
    path = directory / META_PROPERTIES
    if not path.exists():
        _create(path, cluster_id, node_id, directory_id)
        return
    properties = parse_properties(path, read_regular(path, MAX_PROPERTIES_BYTES + 1))
    if properties.get("version") != "1":
        raise ErrorCode.INVALID_CONFIG.error(f"{path}: version {properties.get('version')!r} is not 1")
    if properties.get("cluster.id") != cluster_id:
        raise ErrorCode.INCONSISTENT_CLUSTER_ID.error(
            f"{directory} belongs to cluster {properties.get('cluster.id')!r} and the controller's is {cluster_id!r}; "
            "correct the controller's address, or give this broker another log directory"
        )
    if properties.get("node.id") != str(node_id):
        raise ErrorCode.INVALID_CONFIG.error(
            f"{directory} belongs to broker {properties.get('node.id')!r} and this is broker {node_id}; "
            "correct node.id or log.dirs"
        )


def _create(path: Path, cluster_id: str, node_id: int, directory_id: UUID) -> None:
    lines = [
        "# The identity of this log directory: do not copy it to another broker",
        "#",
        f"cluster.id={cluster_id}",
        f"directory.id={base64.urlsafe_b64encode(directory_id.bytes).decode().rstrip('=')}",
        f"node.id={node_id}",
        "version=1",
        "",
    ]
    with storage_errors(path):
        write_atomically(path, "\n".join(lines).encode())


class Position(NamedTuple):
    """A version in a history of a cluster's metadata, which includes everything before it. Version 0: nothing."""

    cluster_id: str = ""
    history_id: bytes = b""
    version: int = 0


def read_position(directory: Path) -> Position:
    """Read the position; version 0 if there is no such file. Raises INVALID_CONFIG if it is damaged, and
    LogStorageError."""
    path = directory / METADATA_POSITION
    with storage_errors(path):
        if not path.exists():
            return Position()
        properties = parse_properties(path, read_regular(path, MAX_PROPERTIES_BYTES + 1))
    cluster_id, history = properties.get("cluster.id", ""), properties.get("history.id", "?")
    version = properties.get("metadata.version", "?")
    if not cluster_id or not _HISTORY_ID.fullmatch(history) or not _VERSION.fullmatch(version):
        raise ErrorCode.INVALID_CONFIG.error(
            f"{path} is damaged; it guards against a controller whose store is an older copy: be sure that it is the "
            "newest one, then remove the file"
        )
    return Position(cluster_id, bytes.fromhex(history), int(version))


def write_position(directory: Path, position: Position) -> None:
    """Replace it, durably. Raises LogStorageError."""
    lines = [
        "# The newest metadata that this broker knows: it obeys no controller that knows less",
        f"cluster.id={position.cluster_id}",
        f"history.id={position.history_id.hex()}",
        f"metadata.version={position.version}",
        "",
    ]
    path = directory / METADATA_POSITION
    with storage_errors(path):
        write_atomically(path, "\n".join(lines).encode())


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
