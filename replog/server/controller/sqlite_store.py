"""The metadata store in one SQLite file: write-ahead log, fsync before every commit returns."""

import asyncio
import fcntl
import os
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TextIO

import structlog
from crc32c import crc32c
from google.protobuf.message import DecodeError

from replog.errors import ErrorCode, ReplogError
from replog.log.files.opening import fsync_directory, fsync_path, read_regular
from replog.rpc.v1 import metadata_pb2 as pb
from replog.server.controller.store import LeadershipLostError, VersionConflictError

log = structlog.get_logger()

DATABASE_NAME = "metadata.sqlite"
LOCK_NAME = ".lock"
APPLICATION_ID = 0x52504C47  # "RPLG", in the file's header
FORMAT = 2  # a store of format 2 is in WAL mode only while it is open
WAL_SUFFIX = "-wal"
_WAL_MODE, _WHOLE = 2, 1  # values of byte 18 of the file
_NOTHING_WRITTEN = (sqlite3.SQLITE_FULL, sqlite3.SQLITE_BUSY)  # a COMMIT that fails so has written nothing

_CREATE = """CREATE TABLE metadata (
    key TEXT PRIMARY KEY, version INTEGER NOT NULL UNIQUE, record BLOB NOT NULL, crc INTEGER NOT NULL
) STRICT, WITHOUT ROWID"""
_RESTORE = "restore it from a copy: replog controller restore --help"
_PUT = """INSERT INTO metadata (key, version, record, crc) VALUES (?, ?, ?, ?)
    ON CONFLICT (key) DO UPDATE SET version = excluded.version, record = excluded.record, crc = excluded.crc"""


class SqliteStore:
    """The store `directory`/metadata.sqlite, for one process at a time, by a lock on `directory`/.lock.

    While it is open its newest changes are in `metadata.sqlite-wal`; `close` takes them over. So the file itself says
    whether it is whole, and a copy of it alone, from an open store, is refused.

    Calls may come from different threads, but one at a time."""

    def __init__(self, directory: Path, *, read_only: bool = False) -> None:
        """Open the store. Only `create_store` makes one: an empty directory may be a volume that is not mounted.
        `read_only` reads it as of one moment, also while a controller has it open.

        Raises KAFKA_STORAGE_ERROR if there is none, if it is in use, damaged, not a metadata store, a copy that lacks
        its newest changes, or cannot be written."""
        self.path = directory / DATABASE_NAME
        if not self.path.exists():
            raise self._error(
                "is not there. If its volume is not mounted, or metadata.log.dir is wrong, mend that; if the store is "
                "lost, restore a copy (replog controller restore --help). Only a new cluster begins with: "
                "replog controller format"
            )
        uri = f"{self.path.absolute().as_uri()}?mode={'ro' if read_only else 'rw'}"
        with ExitStack() as undo, self._explained("open"):
            self._lock = undo.enter_context(_lock(directory)) if not read_only else None
            self._db = sqlite3.connect(uri, uri=True, isolation_level=None, check_same_thread=False)
            undo.callback(self._db.close)
            self._check_sound()
            if not read_only:
                self._prepare()
            undo.pop_all()

    def _check_sound(self) -> None:
        wal = self.path.with_name(DATABASE_NAME + WAL_SUFFIX)
        lacks_wal = not wal.exists()  # SQLite makes one below
        mode = read_regular(self.path, 19)[18:]
        in_wal_mode = mode == bytes([_WAL_MODE])
        if mode == bytes([_WHOLE]) and not lacks_wal and wal.stat().st_size:
            raise self._error(
                f"is whole by itself, and so {wal.name} beside it is another store's, whose changes would be put upon "
                "it; find out which of them you want, and move the other away"
            )
        (application_id,) = self._db.execute("PRAGMA application_id").fetchone()
        (file_format,) = self._db.execute("PRAGMA user_version").fetchone()
        if application_id != APPLICATION_ID:
            raise self._error(
                "is a SQLite database but not a metadata store; set metadata.log.dir to another directory"
            )
        if file_format > FORMAT:
            raise self._error(f"has format {file_format}, newer than {FORMAT}; start a newer release of replog")
        (verdict,) = self._db.execute("PRAGMA quick_check(1)").fetchone()
        if verdict != "ok":
            raise self._error(f"is damaged ({verdict}); {_RESTORE}")
        if in_wal_mode and lacks_wal:
            raise self._error(
                f"was copied from an open store without {DATABASE_NAME}{WAL_SUFFIX}, which has the newest; copy "
                f"both, or use `replog controller backup`. (If it is no copy, make an empty file of that name.)"
            )

    def _prepare(self) -> None:
        self._db.execute("PRAGMA journal_mode = WAL")
        self._db.execute("PRAGMA synchronous = FULL")
        with self._transaction():
            self._db.execute(f"PRAGMA user_version = {FORMAT}")
        fsync_directory(self.path.parent)
        self._inodes = self._inodes_now()

    def _inodes_now(self) -> tuple[int, int]:
        """Return the inodes of the file and of its WAL; 0 for one that does not exist."""
        files = self.path, self.path.with_name(DATABASE_NAME + WAL_SUFFIX)
        there, newest = (os.stat(file).st_ino if file.exists() else 0 for file in files)
        return there, newest

    def _check_names(self) -> None:
        """Notice files that were removed while this process has them open: the next start would not find the changes.

        Those of a removed WAL are taken over into the file, and a new WAL begins. Raises KAFKA_STORAGE_ERROR if the
        file itself is gone."""
        now = self._inodes_now()
        if now == self._inodes:
            return
        if now[0] != self._inodes[0]:
            raise self._error(
                "was removed or replaced while it was open; put it back (it is still open in this process: "
                f"/proc/{os.getpid()}/fd), or end this process and restore a copy (replog controller restore --help)"
            )
        log.error("its newest changes were removed while it was open, and are written again", store=str(self.path))
        self._db.execute("PRAGMA journal_mode = DELETE")
        self._prepare()

    def load(self) -> list[pb.MetadataRecord]:
        """Return all records in version order. Raises KAFKA_STORAGE_ERROR that names the key of a damaged one."""
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
            raise self._error(f"is damaged: the record of {key!r} does not match its checksum; {_RESTORE}")
        return record

    def commit(self, expected_version: int, records: Sequence[pb.MetadataRecord], forgotten: Sequence[str] = ()) -> int:
        """Commit like `MetadataStore.commit`. All is on the disk when it returns."""
        rows = []
        for version, record in enumerate(records, expected_version + 1):
            assert record.version == version, f"{record.key} is numbered {record.version}, not {version}"
            rows.append(_row(record))
        with self._explained("write"):
            self._check_names()
        with self._explained("write"), self._outcome_known(), self._transaction():
            (stored_version,) = self._db.execute("SELECT coalesce(max(version), 0) FROM metadata").fetchone()
            if stored_version != expected_version:
                raise VersionConflictError(expected_version, stored_version)
            self._db.executemany("DELETE FROM metadata WHERE key BETWEEN ? AND ?", map(_range, forgotten))
            self._db.executemany(_PUT, rows)
        return expected_version + len(rows)

    @contextmanager
    def _outcome_known(self) -> Iterator[None]:
        """Raises LeadershipLostError if the outcome of a commit is not known: an fsync fails after the change was
        written to the WAL. This process would not see a change that the next one sees."""
        try:
            yield
        except sqlite3.Error as error:
            if self._committing and error.sqlite_errorcode & 0xFF not in _NOTHING_WRITTEN:
                raise LeadershipLostError(
                    f"the metadata store {self.path} failed in the middle of a commit ({error}); look to its disk, "
                    "then start this controller: what it then finds there counts"
                ) from error
            raise

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        self._committing = False
        self._db.execute("BEGIN IMMEDIATE")
        try:
            yield
            self._committing = True
            self._db.execute("COMMIT")
        except BaseException:
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")
            raise

    def close(self) -> None:
        with suppress(sqlite3.Error):  # it fails while another process reads the store
            if self._lock is not None:
                self._db.execute("PRAGMA journal_mode = DELETE")
        self._db.close()
        if self._lock is not None:
            self._lock.close()

    @contextmanager
    def _explained(self, verb: str) -> Iterator[None]:
        """Turn errors of SQLite into KAFKA_STORAGE_ERROR with the file's name."""
        try:
            yield
        except sqlite3.Error as error:
            raise self._error(
                f"cannot {verb}: {error}; check that the file is a metadata store, undamaged and writable, "
                "and that its disk has room"
            ) from error

    def _error(self, what: str) -> ReplogError:
        return ErrorCode.KAFKA_STORAGE_ERROR.error(f"metadata store {self.path} {what}")


class StoreInThread:
    """Calls a store in a thread of its own, otherwise heartbeats would wait for the disk."""

    def __init__(self, store: SqliteStore) -> None:
        self.blocking = store
        self._executor = ThreadPoolExecutor(1, "metadata-store")
        self._call = partial(asyncio.get_running_loop().run_in_executor, self._executor)

    async def load(self) -> list[pb.MetadataRecord]:
        return await self._call(self.blocking.load)

    async def commit(
        self, expected_version: int, records: Sequence[pb.MetadataRecord], forgotten: Sequence[str] = ()
    ) -> int:
        return await self._call(self.blocking.commit, expected_version, records, forgotten)

    async def close(self) -> None:
        await self._call(self.blocking.close)
        self._executor.shutdown()


def create_store(directory: Path, records: Iterable[pb.MetadataRecord]) -> None:
    """Make a store of these records, durably; a crash leaves none. Raises KAFKA_STORAGE_ERROR, also if one exists."""
    path = directory / DATABASE_NAME
    with _lock(directory):
        if path.exists():
            raise ErrorCode.KAFKA_STORAGE_ERROR.error(f"there is a metadata store already: {path}")
        if remains := sorted(directory.glob(f"{DATABASE_NAME}-*")):
            raise ErrorCode.KAFKA_STORAGE_ERROR.error(
                f"{remains[0]} is what is left of another store, and would count as changes of this one; move all of "
                f"{DATABASE_NAME}* to another directory first"
            )
        begun = path.with_name(path.name + ".tmp")
        try:
            begun.unlink(missing_ok=True)
            begun.touch(mode=0o600)  # it has the brokers' passwords (D40); SQLite's other files get the same mode
            with closing(sqlite3.connect(begun, isolation_level=None)) as db:
                db.execute(f"PRAGMA application_id = {APPLICATION_ID}")
                db.execute(f"PRAGMA user_version = {FORMAT}")
                db.execute("BEGIN")
                db.execute(_CREATE)
                db.executemany(_PUT, map(_row, records))
                db.execute("COMMIT")
            fsync_path(begun)
            begun.rename(path)
            fsync_directory(directory)
        except (OSError, sqlite3.Error) as error:
            raise ErrorCode.KAFKA_STORAGE_ERROR.error(f"cannot make {path}: {error}") from error


def _row(record: pb.MetadataRecord) -> tuple[str, int, bytes, int]:
    blob = record.SerializeToString()
    return record.key, record.version, blob, crc32c(blob)


def _range(key: str) -> tuple[str, str]:
    """Return the first and the last key meant: the key itself, or all that begin with it if it ends in "/"."""
    return key, f"{key}\U0010ffff" if key.endswith("/") else key


def _lock(directory: Path) -> TextIO:
    """Lock `directory` for this process. The system releases it when the process ends, however it ends."""
    path = directory / LOCK_NAME
    try:
        directory.mkdir(parents=True, exist_ok=True)
        file = path.open("a+", encoding="ascii")
    except OSError as error:
        raise ErrorCode.KAFKA_STORAGE_ERROR.error(
            f"cannot use {directory} for metadata: {error}; set metadata.log.dir to a directory this user may write"
        ) from None
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        file.seek(0)
        owner = file.read(20).strip() or "unknown"
        file.close()
        raise ErrorCode.KAFKA_STORAGE_ERROR.error(
            f"another controller (process {owner}) holds {path}; stop it, or give this one its own metadata.log.dir"
        ) from None
    file.truncate(0)
    file.write(f"{os.getpid()}\n")
    file.flush()
    return file
