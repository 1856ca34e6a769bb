"""Damage to a broker's log directory: checkpoints, identities, the marker, leftovers; files that cannot be read."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from replog.errors import ErrorCode, ReplogError
from replog.log.directories.log_directory import LogDirectory
from replog.log.formats.checkpoint import OffsetCheckpoint
from replog.topic import TopicPartition
from tests.damage.samples import SETTINGS, write_log
from tests.damage.vocabulary import both, cut, directory_instead, longer, missing, sparse, written
from tests.replog.log.batches import append, client_batch, config, files_of
from tests.replog.log.directories.moving import created, open_directory

TP = TopicPartition("t", 0)
OTHER = TopicPartition("t", 1)
ID = bytes(range(16))
MARKER = ".kafka_cleanshutdown"
RECOVERY_POINTS = "recovery-point-offset-checkpoint"
LOG_STARTS = "log-start-offset-checkpoint"
HIGH_WATERMARKS = "replication-offset-checkpoint"
METADATA = "t-0/partition.metadata"
HEX = "0123456789abcdef" * 2


def start(directory: Path, said: list[str] | None = None) -> LogDirectory:
    return open_directory(directory, config(**SETTINGS), None if said is None else said.append)


@pytest.fixture
def disk(memory: Path) -> Path:
    """Two replicas after an orderly stop in broker epoch 5: t-0 of 34 records, log start 3, HW 20; t-1 of two."""
    directory = memory.parent
    manager = start(directory)
    created(manager, TP, ID, config(**SETTINGS))
    manager.close(4)
    for name in files_of(directory / "t-0"):
        (directory / "t-0" / name).unlink()
    write_log(directory / "t-0")
    manager = start(directory)
    log = manager.logs[TP]
    log.update_high_watermark(20)
    log.maybe_increment_log_start_offset(3)
    append(created(manager, OTHER, ID, config(**SETTINGS)), client_batch(b"a", b"b"))
    manager.close(5)
    return directory


def bounds(manager: LogDirectory) -> tuple[int, int, int, int]:
    log = manager.logs[TP]
    return log.log_start_offset, log.high_watermark, log.log_end_offset, log.recovery_point


def test_without_damage(disk):
    said: list[str] = []
    manager = start(disk, said)
    assert (said, bounds(manager), manager.previous_stop.broker_epoch) == ([], (3, 20, 34, 34), 5)
    manager.abandon()


TORN = b"0\n2\nt 0 3"  # whatever else a checkpoint may be is in test_checkpoint


@pytest.mark.parametrize(
    ("name", "expected"),
    [(RECOVERY_POINTS, (3, 20, 34, 0)), (LOG_STARTS, (0, 20, 34, 0)), (HIGH_WATERMARKS, (3, 3, 34, 0))],
)
def test_an_unreadable_checkpoint_counts_as_none(disk, name, expected):
    """1.3, D64: after a crash everything is recovered. HW is at the log start (LD-11) until a leader says more, or the
    replicas in sync (HW-11). It is written again though a replica that cannot be loaded keeps its entries."""
    missing(MARKER, *([RECOVERY_POINTS] if name != RECOVERY_POINTS else []))(disk)
    written(name, TORN)(disk)
    (disk / "broken-0").mkdir()
    (disk / "broken-0" / "partition.metadata").write_text("who knows")
    said: list[str] = []
    manager = start(disk, said)
    assert bounds(manager) == expected
    assert any(name in line and "taking it as empty" in line for line in said), said
    assert sum("the broker did not stop cleanly" in line for line in said) == 5, said
    manager.checkpoints.write_high_watermarks()
    assert OffsetCheckpoint(disk / HIGH_WATERMARKS).read()[TP] == expected[1]
    manager.abandon()


@pytest.mark.parametrize(
    ("damage", "expected"),
    [
        (missing(RECOVERY_POINTS), (3, 20, 34, 34)),
        (written(RECOVERY_POINTS), (3, 20, 34, 34)),
        (written(RECOVERY_POINTS, b"0\n1\nt 0 999\n"), (3, 20, 34, 34)),
        (missing(LOG_STARTS), (0, 20, 34, 34)),
        (written(LOG_STARTS, b"0\n1\nt 0 99\n"), (99, 99, 99, 99)),
        (missing(HIGH_WATERMARKS), (3, 3, 34, 34)),
        (written(HIGH_WATERMARKS, b"0\n1\nt 0 999\n"), (3, 34, 34, 34)),
        (both(*(written(f"{name}.tmp", b"torn") for name in (RECOVERY_POINTS, LOG_STARTS, HIGH_WATERMARKS))), None),
        (written("cleaner-offset-checkpoint", b"garbage"), None),
    ],
)
def test_checkpoints_that_are_missing_or_beyond_the_log(disk, damage, expected):
    """LD-8, LD-9, LD-11, S-W-D13, S-W-D15: log start, HW, LEO and recovery point after a clean stop."""
    damage(disk)
    manager = start(disk)
    assert bounds(manager) == (expected or (3, 20, 34, 34))
    end = manager.logs[TP].log_end_offset
    assert append(manager.logs[TP], client_batch(b"z"), epoch=9).log_end_offset == end + 1
    manager.close(6)
    again = start(disk)
    assert again.logs[TP].log_end_offset == end + 1
    again.abandon()


@pytest.mark.parametrize(
    ("content", "code", "said"),
    [
        (b"", ErrorCode.INVALID_CONFIG, "version None is not 1"),
        (b"\xff\xfe", ErrorCode.INVALID_CONFIG, "cannot read"),
        (b"version=2\ncluster.id=c\nnode.id=3\n", ErrorCode.INVALID_CONFIG, "version '2' is not 1"),
        (b"version=1\ncluster.id=c2\nnode.id=3\n", ErrorCode.INCONSISTENT_CLUSTER_ID, "belongs to cluster 'c2'"),
        (b"version=1\ncluster.id=c\nnode.id=4\n", ErrorCode.INVALID_CONFIG, "belongs to broker '4'"),
        (bytes(2 << 20), ErrorCode.INVALID_CONFIG, "is larger than"),
    ],
    ids=lambda value: repr(value[:30]) if isinstance(value, bytes) else None,
)
def test_a_directory_whose_identity_is_damaged_is_left_alone(disk, content, code, said):
    """1.4: the marker too, so that the next start, with the file put right, is a clean one."""
    before = (disk / "meta.properties").read_bytes()
    written("meta.properties", content)(disk)
    with pytest.raises(ReplogError, match=said) as caught:
        start(disk)
    assert caught.value.code is code
    assert "meta.properties" in caught.value.message or str(disk) in caught.value.message
    written("meta.properties", before)(disk)
    manager = start(disk)
    assert manager.clean
    manager.abandon()


def test_a_missing_identity_is_written_anew(disk):
    """1.4."""
    missing("meta.properties")(disk)
    manager = start(disk)
    assert (manager.clean, bounds(manager)) == (True, (3, 20, 34, 34))
    manager.abandon()


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (missing(METADATA), "has records and no partition.metadata"),
        (written(METADATA), "does not name a topic id"),
        (cut(METADATA, 1), "does not name a topic id"),
        (longer(METADATA, b"\nmore"), "does not name a topic id"),
        (written(METADATA, b"version: -1\ntopic_id: AAECAwQFBgcICQoLDA0ODw"), "does not name a topic id"),
        (written(METADATA, b"version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAA"), "does not name a topic id"),
        (written(METADATA, bytes(61)), "does not name a topic id"),
        (sparse(METADATA, 1 << 40), "does not name a topic id"),
        (directory_instead(METADATA), "Is a directory"),
        (directory_instead("t-0/leader-epoch-checkpoint"), "Is a directory"),
        *((directory_instead(f"t-0/00000000000000000030.{kind}"), "Is a directory") for kind in ("log", "index")),
    ],
)
def test_a_replica_that_cannot_be_loaded_does_not_keep_the_others(disk, damage, said):
    """1.4: it is told, kept as it is, and not marked clean before somebody has looked."""
    damage(disk)
    before = {path.name: path.stat().st_size for path in (disk / "t-0").iterdir()}
    lines: list[str] = []
    manager = start(disk, lines)
    assert set(manager.logs) == {OTHER}
    assert said in manager.failed[TP].message
    assert any("cannot load" in line and "t-0" in line for line in lines), lines
    manager.close(6)
    assert {path.name: path.stat().st_size for path in (disk / "t-0").iterdir()} == before
    assert OffsetCheckpoint(disk / RECOVERY_POINTS).read() == {TP: 34, OTHER: 2}, "it keeps its checkpoint"


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\xff",
        b'{"version":0,"brokerEpoch":"x"}',
        b"[" * 4096,  # deeper than the JSON reader goes
        bytes(1 << 20),
    ],
    ids=lambda content: repr(content[:30]),
)
def test_a_marker_of_any_content_says_that_the_stop_was_clean(disk, content):
    """FN-3: but not in which broker epoch."""
    written(MARKER, content)(disk)
    manager = start(disk)
    assert (manager.clean, manager.previous_stop.broker_epoch, bounds(manager)) == (True, -1, (3, 20, 34, 34))
    manager.abandon()


@pytest.mark.parametrize("name", [MARKER, "meta.properties", ".lock", RECOVERY_POINTS, LOG_STARTS, HIGH_WATERMARKS])
def test_a_directory_in_place_of_a_file_is_an_error_that_names_it(disk, name):
    directory_instead(name)(disk)
    with pytest.raises(ReplogError, match=f"{name}.*Is a directory|Is a directory.*{name}"):
        start(disk)


def test_what_was_set_aside_is_not_loaded(disk):
    """FN-1, LD-12: deleted replicas go, whatever is in them; others, and all that has no such name, stay unread."""
    names = {
        f"t-0.{HEX}-delete": False,
        f"t-9.{HEX}-delete": False,
        f"t-0.{HEX}-future": True,
        f"t-9.{HEX}-stray": True,
        f"t-9.{HEX[1:]}-delete": True,
        "t-9.-delete": True,
        "no_partition": True,
        "t-": True,
        "-7": True,
        "t-x": True,
        "t-007": True,
    }
    for name in names:
        shutil.copytree(disk / "t-1", disk / name)
    (disk / f"t-8.{HEX}-delete").write_bytes(b"a file, not a directory")
    (disk / f"t-8.{HEX}-future").mkdir()  # a copy that was never begun
    said: list[str] = []
    manager = start(disk, said)
    assert len(said) == len(names) + 1
    assert not (disk / f"t-8.{HEX}-future").exists()
    assert (set(manager.logs), manager.failed) == ({TP, OTHER}, {})
    assert {name: (disk / name).exists() for name in names} == names
    manager.close(6)


def test_leftovers_in_a_replicas_directory(disk):
    """S-W-D11, LD-1: of deletions, cleanings and checkpoints; what is no name of ours stays."""
    ours = ["00000000000000000003.log.deleted", "00000000000000000010.log.cleaned", "00000000000000000077.timeindex"]
    others = ["notes.txt", "3.log", "leader-epoch-checkpoint.tmp", "0000000000000000000x.log"]
    before = files_of(disk / "t-0")
    for name in (*ours, *others):
        (disk / "t-0" / name).write_bytes(b"leftover")
    manager = start(disk)
    assert bounds(manager) == (3, 20, 34, 34)
    left = {path.name for path in (disk / "t-0").iterdir()}
    assert not left & set(ours)
    assert left >= set(others) - {"leader-epoch-checkpoint.tmp"}
    assert {name: data for name, data in files_of(disk / "t-0").items() if name in before} == before
    manager.abandon()


@contextmanager
def as_nobody(directory: Path) -> Iterator[None]:
    """Root may read everything: be somebody else, to whom the directory belongs."""
    if os.geteuid() != 0:
        yield
        return
    for path in (directory, *directory.rglob("*")):
        os.chown(path, 65534, 65534)
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


@pytest.mark.parametrize(
    ("name", "raises"),
    [
        ("meta.properties", True),
        (MARKER, True),
        (RECOVERY_POINTS, True),
        (HIGH_WATERMARKS, True),
        (METADATA, False),
        ("t-0/00000000000000000030.log", False),
        ("t-0/00000000000000000010.log", False),
        ("t-0/00000000000000000030.index", False),
        ("t-0/leader-epoch-checkpoint", False),
        ("t-0", False),
    ],
)
def test_a_file_that_may_not_be_read_is_an_error_that_names_it(disk, name, raises):
    """LD-1: of the directory, or of the one replica."""
    start(disk).close(5)  # everything that is needed has been imported
    with as_nobody(disk):
        (disk / name).chmod(0)
        if raises:
            with pytest.raises(ReplogError, match=f"{name}.*Permission denied|Permission denied.*{name}"):
                start(disk)
        else:
            manager = start(disk)
            assert set(manager.logs) == {OTHER}
            assert "Permission denied" in manager.failed[TP].message
            assert name in manager.failed[TP].message
            manager.abandon()
        (disk / name).chmod(0o700)
