"""`meta.properties`: the cluster and the broker that a log directory belongs to (1.4)."""

import base64
from pathlib import Path
from uuid import UUID

from replog.config.properties import MAX_PROPERTIES_BYTES, parse_properties
from replog.errors import ErrorCode
from replog.log.errors import storage_errors
from replog.log.files.opening import read_regular
from replog.log.files.replacing import write_atomically

META_PROPERTIES = "meta.properties"


def load_identity(directory: Path) -> dict[str, str]:
    """Read the file. Raises INVALID_CONFIG."""
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
