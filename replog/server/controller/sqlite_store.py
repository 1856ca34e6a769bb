"""The metadata store in one SQLite file: write-ahead log, fsync before every commit returns."""

import fcntl
import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from crc32c import crc32c
from google.protobuf.message import DecodeError

from replog.errors import ErrorCode, ReplogError
from replog.log.files.replacing import fsync_directory
from replog.rpc.v1 import metadata_pb2 as pb
from replog.server.controller.store import VersionConflictError

DATABASE_NAME = "metadata.sqlite"
LOCK_NAME = ".lock"
APPLICATION_ID = 0x52504C47  # "RPLG", in the file's header
FORMAT = 1

_CREATE = """CREATE TABLE metadata (
    key TEXT PRIMARY KEY, version INTEGER NOT NULL UNIQUE, record BLOB NOT NULL, crc INTEGER NOT NULL
) STRICT, WITHOUT ROWID"""
_PUT = """INSERT INTO metadata (key, version, record, crc) VALUES (?, ?, ?, ?)
    ON CONFLICT (key) DO UPDATE SET version = excluded.version, record = excluded.record, crc = excluded.crc"""


class SqliteStore:
    """`directory`/metadata.sqlite. One process at a time, held by a lock on `directory`/.lock.

    Not thread-safe: calls may come from different threads, but one at a time.
    """

    def __init__(self, directory: Path) -> None:
        """Open the store, creating it if there is none.

        Raises KAFKA_STORAGE_ERROR when it is in use, damaged, not a metadata store, or cannot be written.
        """
        self.path = directory / DATABASE_NAME
        self._lock = _lock(directory)
        try:
            with self._explained("open"):
                self._db = sqlite3.connect(self.path, isolation_level=None, check_same_thread=False)
            try:
                with self._explained("open"):
                    self._prepare()
            except BaseException:
                self._db.close()
                raise
        except BaseException:
            self._lock.close()
            raise

    def _prepare(self) -> None:
        (application_id,) = self._db.execute("PRAGMA application_id").fetchone()
        (file_format,) = self._db.execute("PRAGMA user_version").fetchone()
        (tables,) = self._db.execute("SELECT count(*) FROM sqlite_master").fetchone()
        is_new = application_id == 0 and tables == 0
        if not is_new and application_id != APPLICATION_ID:
            raise self._error(
                "is a SQLite database but not a metadata store; set metadata.log.dir to another directory"
            )
        if file_format > FORMAT:
            raise self._error(f"has format {file_format}, newer than {FORMAT}; start a newer release of replog")
        (verdict,) = self._db.execute("PRAGMA quick_check(1)").fetchone()
        if verdict != "ok":
            raise self._error(f"is damaged ({verdict}); restore it from a copy")
        self._db.execute("PRAGMA journal_mode = WAL")
        self._db.execute("PRAGMA synchronous = FULL")
        if is_new:
            with self._transaction():
                self._db.execute(f"PRAGMA application_id = {APPLICATION_ID}")
                self._db.execute(f"PRAGMA user_version = {FORMAT}")
                self._db.execute(_CREATE)
            fsync_directory(self.path.parent)

    def load(self) -> list[pb.MetadataRecord]:
        """Raises KAFKA_STORAGE_ERROR when a record is damaged, naming its key."""
        with self._explained("read"):
            rows = self._db.execute("SELECT key, version, record, crc FROM metadata ORDER BY version").fetchall()
        return [self._decoded(*row) for row in rows]

    def _decoded(self, key: str, version: int, blob: bytes, crc: int) -> pb.MetadataRecord:
        try:
            record = pb.MetadataRecord.FromString(blob)
            sound = crc32c(blob) == crc and record.key == key and record.version == version
        except DecodeError:
            sound = False
        if not sound:
            raise self._error(f"is damaged: the record of {key!r} does not match its checksum; restore it from a copy")
        return record

    def commit(self, expected_version: int, records: Sequence[pb.MetadataRecord], forgotten: Sequence[str] = ()) -> int:
        """As `MetadataStore.commit`; on the disk when it returns."""
        rows = []
        for version, record in enumerate(records, expected_version + 1):
            assert record.version == version, f"{record.key} is numbered {record.version}, not {version}"
            blob = record.SerializeToString()
            rows.append((record.key, version, blob, crc32c(blob)))
        with self._explained("write"), self._transaction():
            (stored_version,) = self._db.execute("SELECT coalesce(max(version), 0) FROM metadata").fetchone()
            if stored_version != expected_version:
                raise VersionConflictError(expected_version, stored_version)
            self._db.executemany("DELETE FROM metadata WHERE key BETWEEN ? AND ?", map(_range, forgotten))
            self._db.executemany(_PUT, rows)
        return expected_version + len(rows)

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        self._db.execute("BEGIN IMMEDIATE")
        try:
            yield
            self._db.execute("COMMIT")
        except BaseException:
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")
            raise

    def close(self) -> None:
        self._db.close()
        self._lock.close()

    @contextmanager
    def _explained(self, verb: str) -> Iterator[None]:
        """Turn what SQLite raises into KAFKA_STORAGE_ERROR with the file's name."""
        try:
            yield
        except sqlite3.Error as error:
            raise self._error(
                f"cannot {verb}: {error}; check that the file is a metadata store, undamaged and writable, "
                "and that its disk has room"
            ) from error

    def _error(self, what: str) -> ReplogError:
        return ReplogError(ErrorCode.KAFKA_STORAGE_ERROR, f"metadata store {self.path} {what}")


def _range(key: str) -> tuple[str, str]:
    """The first and the last key that may be meant: itself, or all that begin with it."""
    return key, f"{key}\U0010ffff" if key.endswith("/") else key


def _lock(directory: Path) -> TextIO:
    """Hold `directory` for this process; the system lets go of it when the process ends, however it ends."""
    path = directory / LOCK_NAME
    try:
        directory.mkdir(parents=True, exist_ok=True)
        file = path.open("a+", encoding="ascii")
    except OSError as error:
        raise ReplogError(
            ErrorCode.KAFKA_STORAGE_ERROR,
            f"cannot use {directory} for metadata: {error}; set metadata.log.dir to a directory this user may write",
        ) from None
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        file.seek(0)
        owner = file.read(20).strip() or "unknown"
        file.close()
        raise ReplogError(
            ErrorCode.KAFKA_STORAGE_ERROR,
            f"another controller (process {owner}) holds {path}; stop it, or give this one its own metadata.log.dir",
        ) from None
    file.truncate(0)
    file.write(f"{os.getpid()}\n")
    file.flush()
    return file
