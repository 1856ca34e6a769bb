"""`metadata-position`: the newest metadata of its cluster that the broker of a log directory knows (CT-24)."""

import re
from pathlib import Path
from typing import NamedTuple

from replog.config.properties import MAX_PROPERTIES_BYTES, parse_properties
from replog.errors import ErrorCode
from replog.log.errors import storage_errors
from replog.log.files.opening import read_regular
from replog.log.files.replacing import write_atomically

METADATA_POSITION = "metadata-position"
_HISTORY_ID = re.compile(r"([0-9a-f]{2}){0,64}")
_VERSION = re.compile(r"[0-9]{1,19}")


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
