"""Copies of the metadata store: taken at any time, checked, and read again (docs/backup.md)."""

import shutil
import tempfile
from contextlib import closing
from pathlib import Path

from replog.errors import ErrorCode
from replog.log.errors import storage_errors
from replog.log.files.replacing import fsync_directory
from replog.metadata.image import MetadataImage
from replog.metadata.records import change_of
from replog.rpc.v1.metadata_pb2 import MetadataRecord
from replog.server.controller.sqlite_store import DATABASE_NAME, WAL_SUFFIX, SqliteStore, create_store


def read_store(directory: Path) -> list[MetadataRecord]:
    """Read the store as of one moment, also while a controller runs on it. Raises KAFKA_STORAGE_ERROR."""
    with closing(SqliteStore(directory, read_only=True)) as opened:
        return opened.load()


def back_up(records: list[MetadataRecord], target: Path) -> tuple[Path, MetadataImage]:
    """Copy a store to a file in `target`, read it back, and return its path and content. Its name has the cluster id
    and the version. Raises KAFKA_STORAGE_ERROR."""
    image = MetadataImage()
    for record in records:
        image.put(change_of(record))
    path = target / f"replog-metadata-{image.cluster_id}-{image.version}.sqlite"
    with storage_errors(target), tempfile.TemporaryDirectory(prefix=".backup-", dir=_made(target)) as scratch:
        create_store(Path(scratch), records)
        if read_copy(Path(scratch) / DATABASE_NAME) != records:
            raise ErrorCode.KAFKA_STORAGE_ERROR.error(f"{path} reads otherwise than it was written")
        (Path(scratch) / DATABASE_NAME).rename(path)
        fsync_directory(target)
    return path, image


def read_copy(path: Path) -> list[MetadataRecord]:
    """Read the copy of a store. Nothing is written beside it. Raises KAFKA_STORAGE_ERROR."""
    if not path.is_file():
        what = "is a directory; name a file in it" if path.is_dir() else "is not there; name the file"
        raise ErrorCode.KAFKA_STORAGE_ERROR.error(f"{path} {what}: a copy by replog controller backup")
    with storage_errors(path), tempfile.TemporaryDirectory(prefix="replog-copy-") as scratch:
        shutil.copy(path, Path(scratch) / DATABASE_NAME)
        wal = path.with_name(path.name + WAL_SUFFIX)
        if wal.exists():
            shutil.copy(wal, Path(scratch) / (DATABASE_NAME + WAL_SUFFIX))
        with closing(SqliteStore(Path(scratch))) as opened:
            return opened.load()


def _made(directory: Path) -> Path:
    directory.mkdir(parents=True, exist_ok=True)
    return directory
