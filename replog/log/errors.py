"""The log's refusals, under Kafka's names (storage errors, section 12)."""

import errno
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Protocol, TypeGuard

from replog.errors import ErrorCode, ReplogError

OUT_OF_DESCRIPTORS = frozenset({errno.EMFILE, errno.ENFILE})  # the process's limit, the system's limit
NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT})  # the disk is full, or this user's part
REMEDIES = {
    errno.EACCES: "look to its owner and its permissions",
    errno.EPERM: "look to its owner and its permissions",
    errno.ENOTDIR: "a file has the name of a directory; move it away",
    errno.EISDIR: "a directory has the name of a file; move it away",
    errno.EFBIG: "this process may write no larger files; raise that limit (ulimit -f, LimitFSIZE)",
}
# Errors of a device, its driver, a file system or a mount: no other file there is safer. All others (ENOTDIR, EACCES,
# ELOOP, EFBIG, unknown or no numbers) concern one name, and somebody can put that right.
_OF_THE_DISK = "EIO EROFS ENODEV ENXIO ESTALE EUCLEAN EBADMSG ENODATA EREMOTEIO ENOLINK ENOMEDIUM ETIMEDOUT ENOTCONN "
OF_THE_DISK = frozenset(getattr(errno, name) for name in (_OF_THE_DISK + "ESHUTDOWN EHOSTDOWN").split())


class _LogError(ReplogError):
    """A `ReplogError` whose class fixes the code."""

    _code = ErrorCode.UNKNOWN_SERVER_ERROR

    def __init_subclass__(cls, code: ErrorCode | None = None) -> None:
        cls._code = code or cls._code

    def __init__(self, message: str) -> None:
        super().__init__(self._code, message)


class OffsetOutOfRange(_LogError, code=ErrorCode.OFFSET_OUT_OF_RANGE):
    """The offset lies outside of what this log can answer for (LG-7, LG-16)."""


class CorruptRecord(_LogError, code=ErrorCode.CORRUPT_MESSAGE):
    """Bytes that are no batch, or whose CRC is wrong (RB-1)."""


class InvalidRecord(_LogError, code=ErrorCode.INVALID_RECORD):
    """A sound batch that may not be appended here (2.7), or records that do not decode (RB-3)."""

    def __init__(self, message: str, records: Sequence[int] = ()) -> None:
        """`records` are the places in the batch of those at fault, where some are known."""
        super().__init__(message)
        self.records = records


class OffsetsOutOfOrder(_LogError):
    """A replicated batch that does not continue the one before it, in offset or in leader epoch (2.8)."""


class UnexpectedAppendOffset(_LogError):
    """Replicated batches that do not begin at the log end (2.8, FT-13)."""

    def __init__(self, message: str, first_offset: int, last_offset: int) -> None:
        super().__init__(message)
        self.first_offset = first_offset
        self.last_offset = last_offset  # the first batch's


class IndexOffsetOverflow(_LogError):
    """An offset that a segment's 31-bit relative offsets cannot hold (IX-4)."""


class InvalidIndexOffset(_LogError):
    """An index entry that is not larger than the one before it (IX-10, IX-15)."""


class CorruptIndex(_LogError):
    """An index that disagrees with its log, or with itself; it is rebuilt (IX-13, IX-16, IX-19)."""


class CorruptSnapshot(_LogError):
    """A producer snapshot that cannot be used; an older one is (PS-7)."""


class LogUncleanable(_LogError):
    """A log that cannot be compacted within the cleaner's limits (CL-3); it stays as it is."""


class LogStorageError(_LogError, code=ErrorCode.KAFKA_STORAGE_ERROR):
    """A log's files failed: nothing is appended until the log is opened again. `path` is one of the files, if known."""

    def __init__(self, message: str, path: Path | None = None, *, of_the_disk: bool = False) -> None:
        super().__init__(message)
        self.path = path
        self.of_the_disk = of_the_disk


def is_of_the_disk(error: BaseException) -> TypeGuard[LogStorageError]:
    """Return True if the disk itself failed: its whole directory goes offline then (CT-27). Any other failure concerns
    one replica or file, which is tried again (D57)."""
    return isinstance(error, LogStorageError) and error.of_the_disk


class RetriableLogError(_LogError):
    """An error before anything was done, on a sound disk: a later try may succeed."""


class TooManyOpenFiles(RetriableLogError, code=ErrorCode.THROTTLING_QUOTA_EXCEEDED):
    """No descriptor is left, although files of logs were closed for it (`open_files`)."""


class NoRoom(RetriableLogError, code=ErrorCode.KAFKA_STORAGE_ERROR):
    """The disk is full, or this user's part of it (LG-19)."""


@contextmanager
def storage_errors(path: Path) -> Iterator[None]:
    """Turn an `OSError` into a `LogStorageError` that names `path`, or into a `RetriableLogError`."""
    try:
        yield
    except OSError as error:
        raise storage_error(path, error) from error


class OnDisk(Protocol):
    """A log, whose work may fail."""

    directory: Path
    failure: LogStorageError | None
    on_failure: Callable[[LogStorageError], None]


class DiskWork:
    """A context for a log's work on its files. It notes and reports a disk error inside as the log's failure, and
    refuses to be entered again after one.

    A lack of descriptors or of room is no failure."""

    def __init__(self, log: OnDisk) -> None:
        self._log = log

    def __enter__(self) -> None:
        if self._log.failure is not None:
            raise self._log.failure

    @contextmanager
    def no_way_back(self) -> Iterator[None]:
        """Make a lack of descriptors or of room a failure from here on: the work inside cannot be undone."""
        try:
            yield
        except RetriableLogError as error:
            raise self._half_changed(error.message) from error

    @contextmanager
    def renames(self) -> Iterator[None]:
        """Make a lack of room a failure: the names inside change one after the other."""
        try:
            yield
        except OSError as error:
            raise self._half_changed(str(error), of_the_disk=error.errno in OF_THE_DISK) from error

    def _half_changed(self, why: str, *, of_the_disk: bool = False) -> LogStorageError:
        message = f"{self._log.directory} was left half changed: {why}"
        return LogStorageError(message, self._log.directory, of_the_disk=of_the_disk)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if error is None:
            return
        if isinstance(error, LogStorageError):
            error.path = error.path or self._log.directory
            self.fail(error)
        elif isinstance(error, OSError):
            failure = storage_error(self._log.directory, error)
            if isinstance(failure, LogStorageError):
                self.fail(failure)
            raise failure from error

    def fail(self, failure: LogStorageError) -> None:
        """Note a disk error that this or another thread has met, such as a task's."""
        self._log.failure = failure
        self._log.on_failure(failure)


def storage_error(path: Path, error: OSError) -> LogStorageError | RetriableLogError:
    if error.errno in OUT_OF_DESCRIPTORS:
        return TooManyOpenFiles(
            f"{path} cannot be opened: {error.strerror}; raise the limit of descriptors (ulimit -n, LimitNOFILE) or "
            "let fewer clients connect"
        )
    if error.errno in NO_ROOM:
        free = "no"
        with suppress(OSError):
            free = str(shutil.disk_usage(next(place for place in (path, *path.parents) if place.exists())).free)
        return NoRoom(f"{path}: {error.strerror}; {free} bytes are free there; make room, and it goes on by itself")
    if error.errno in OF_THE_DISK:
        trouble = f"{path}: {error}; the disk needs attention, then restart the broker"
        return LogStorageError(trouble, path, of_the_disk=True)
    remedy = REMEDIES.get(error.errno or 0, "see what is there, and put it right")
    return LogStorageError(f"{error.filename or path}: {error.strerror or error}; {remedy}", path)
