"""FIFOs, sockets and devices under the names of our files: nobody waits for them, and the error names the file."""

import errno
import os
import socket
from collections.abc import Callable
from pathlib import Path
from threading import Thread

import pytest

from replog.errors import ReplogError
from replog.log.directories.identity import (
    CLEAN_SHUTDOWN,
    META_PROPERTIES,
    METADATA_POSITION,
    Position,
    read_position,
    write_position,
)
from replog.log.directories.partition_metadata import PARTITION_METADATA
from replog.log.errors import is_of_the_disk, storage_error
from replog.log.files.filesystem import open_plain
from replog.log_tools.checker.findings import Severity
from replog.log_tools.survey import survey
from replog.log_tools.verify.paths import verify
from replog.log_tools.verify.segment import Options, VerifiedTotals
from replog.topic import TopicPartition
from tests.replog.log.batches import append
from tests.replog.log.directories.moving import CONFIG, ID, PAIR, created, open_directory

TP, OTHER = TopicPartition("t", 0), TopicPartition("t", 1)


def in_time(work: Callable[[], object]) -> object:
    """What it returns or raises; a test that hangs fails."""
    result: list[object] = []

    def run() -> None:
        try:
            result.append(work())
        except (ReplogError, OSError) as error:
            result.append(error)

    thread = Thread(target=run, daemon=True)
    thread.start()
    thread.join(60)
    assert result, "it waits"
    return result[0]


def bind(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as unix:
        at = os.open(path.parent, os.O_RDONLY)
        unix.bind(f"/proc/self/fd/{at}/{path.name}")
        os.close(at)


STRANGE = {"fifo": os.mkfifo, "socket": bind, "device": lambda path: path.symlink_to("/dev/zero")}


@pytest.fixture
def disk(tmp_path: Path) -> Path:
    directory = open_directory(tmp_path, CONFIG)
    for tp in (TP, OTHER):
        append(created(directory, tp, ID, CONFIG), *[PAIR] * 9).flush()
    directory.checkpoints.write_all()
    directory.close(1)
    write_position(tmp_path, Position("c", b"", 3))
    return tmp_path


def put(path: Path, kind: str) -> None:
    path.unlink(missing_ok=True)
    STRANGE[kind](path)


OF_DIRECTORY = (
    META_PROPERTIES,
    CLEAN_SHUTDOWN,
    "recovery-point-offset-checkpoint",
    "log-start-offset-checkpoint",
    "replication-offset-checkpoint",
    "cleaner-offset-checkpoint",
)
OF_REPLICA = (PARTITION_METADATA, "leader-epoch-checkpoint", "00000000000000000000.log", "00000000000000000000.index")


@pytest.mark.parametrize("kind", STRANGE)
@pytest.mark.parametrize("name", OF_DIRECTORY)
def test_in_place_of_a_file_of_the_directory_it_is_named(disk, name, kind):
    put(disk / name, kind)
    for tool in (lambda: list(verify([disk], Options(), VerifiedTotals())), lambda: survey(disk)):
        in_time(tool)
    error = in_time(lambda: open_directory(disk, CONFIG))
    assert isinstance(error, ReplogError), error
    assert (name in error.message, is_of_the_disk(error)) == (True, False), error


@pytest.mark.parametrize("kind", STRANGE)
@pytest.mark.parametrize("name", OF_REPLICA)
def test_in_place_of_a_file_of_a_replica_that_one_fails_or_makes_it_again(disk, name, kind):
    put(disk / "t-0" / name, kind)
    findings = in_time(lambda: list(verify([disk], Options(), VerifiedTotals())))
    assert isinstance(findings, list)
    assert any(finding.severity is Severity.FAULT and name in str(finding) for finding in findings), findings
    directory = in_time(lambda: open_directory(disk, CONFIG))
    assert not isinstance(directory, Exception), directory
    assert OTHER in directory.logs
    if TP not in directory.logs:
        assert name in directory.failed[TP].message
    directory.abandon()


@pytest.mark.parametrize("kind", STRANGE)
def test_in_place_of_the_known_metadata(disk, kind):
    put(disk / METADATA_POSITION, kind)
    error = in_time(lambda: read_position(disk))
    assert isinstance(error, ReplogError)
    assert METADATA_POSITION in error.message


@pytest.mark.parametrize("kind", STRANGE)
@pytest.mark.parametrize("flags", [os.O_RDONLY, os.O_RDWR, os.O_WRONLY | os.O_CREAT | os.O_TRUNC])
def test_neither_is_opened_to_read_nor_to_write(tmp_path, kind, flags):
    put(tmp_path / "x", kind)
    error = in_time(lambda: open_plain(tmp_path / "x", flags))
    assert isinstance(error, OSError)
    assert str(error) == f"[Errno 22] Not a regular file: '{tmp_path / 'x'}'"


@pytest.mark.parametrize(
    ("names", "of_the_disk"),
    [("EIO EROFS ENODEV ENXIO ESTALE EUCLEAN ENOTCONN ETIMEDOUT", True), ("EACCES ENOENT ENOTDIR ELOOP EFBIG", False)],
)
def test_only_what_speaks_of_a_device_or_a_mount_is_an_error_of_the_disk(tmp_path, names, of_the_disk):
    errors = [storage_error(tmp_path, OSError(getattr(errno, name), name)) for name in names.split()]
    assert {is_of_the_disk(error) for error in errors} == {of_the_disk}, errors
