"""Names, snapshots, the epoch checkpoint and the checkpoints of a log directory."""

import os

import pytest

from replog.errors import ReplogError
from replog.log.directories.identity import CLEAN_SHUTDOWN
from replog.log.directories.log_directory import LogDirectory
from replog.log.formats.checkpoint import RECOVERY_POINT_CHECKPOINT, OffsetCheckpoint
from replog.log_tools.verify.paths import is_partition, verify
from replog.log_tools.verify.segment import Options, VerifiedTotals
from tests.replog.log.batches import config, leader_batch
from tests.replog.log_tools.verify.directories import (
    FLIGHTS,
    SETTINGS,
    broker,
    faults,
    file,
    findings_in,
    notes,
    places,
)

EPOCHS = "leader-epoch-checkpoint"


def test_leftovers_and_strays_are_noted(data, flights):
    """FN-1, S-W-D11"""
    names = [f"{0:020d}.log.deleted", f"{6:020d}.log.cleaned", f"{0:020d}.log.swap", f"{77:020d}.index", "notes.txt"]
    names.append(f"{88:020d}.timeindex.stray")
    for name in names:
        (flights / name).write_bytes(b"")
    pending = data / f"gone-0.{'0' * 32}-delete"
    pending.mkdir()
    (data / "lost+found").mkdir()
    (data / "recovery-point-offset-checkpoint.tmp").write_text("")
    assert faults(data) == []
    assert sorted((kind, name) for kind, name, *_ in notes(data)) == [
        ("LEFTOVER", names[0]),
        ("LEFTOVER", names[2]),
        ("LEFTOVER", names[1]),
        ("LEFTOVER", "recovery-point-offset-checkpoint.tmp"),
        ("ORPHAN", names[3]),
        ("SET_ASIDE", pending.name),
        ("STRAY", "notes.txt"),
        ("STRAY_DIRECTORY", "lost+found"),
        ("STRAY_SEGMENT", names[5]),
    ]


def test_a_snapshot_beyond_the_log_end_is_noted(data, flights):
    """PS-8"""
    file(flights, 38, "snapshot").rename(file(flights, 99, "snapshot"))
    assert faults(data) == []
    assert notes(data) == [("SNAPSHOT_AHEAD", f"{99:020d}.snapshot", None, 99)]


@pytest.mark.parametrize(
    ("content", "flushed", "kind", "offset"),
    [
        ("0\n2\n0 0\n1 6\n", 26, "EPOCHS_BEHIND", 26),
        ("0\n2\n0 0\n1 6\n", None, "EPOCHS_BEHIND", 26),
        ("0\n3\n0 0\n1 6\n2 26\n", 20, "EPOCHS_BEHIND", 26),
        ("", None, "EPOCHS_BEHIND", None),
        ("0\n2\n0 0\n1 6\n", 27, "EPOCHS", 26),
        ("0\n3\n0 0\n1 6\n5 26\n", 26, "EPOCHS", 26),
        ("0\n2\n0 0\n4 26\n", 26, "EPOCHS", 6),
        ("", 6, "EPOCHS", None),
        ("0\n2\n0 0\n4 26\n", None, "EPOCHS", 6),  # not at the end
        ("0\n2\n1 6\n4 26\n", None, "EPOCHS", 4),  # no log start: the epochs of the batches change there
    ],
)
def test_epochs_that_a_crash_came_before(data, flights, content, flushed, kind, offset):
    """EP-9, divergence 31: of batches that were flushed the file says all, of later ones it may know too little."""
    (data / CLEAN_SHUTDOWN).unlink()
    OffsetCheckpoint(data / RECOVERY_POINT_CHECKPOINT).write({} if flushed is None else {FLIGHTS: flushed})
    (flights / EPOCHS).write_text(content)
    reported = (faults if kind == "EPOCHS" else notes)(data)
    assert reported == [(kind, EPOCHS, None, offset)], findings_in(data)
    assert len(findings_in(data)) == 1


def test_the_epochs_of_a_kafka_that_was_killed_say_all(data, flights):
    """EP-9: divergence 31 is ours, and so are digests."""
    (data / CLEAN_SHUTDOWN).unlink()
    OffsetCheckpoint(data / RECOVERY_POINT_CHECKPOINT).write({})
    (flights / EPOCHS).write_text("0\n2\n0 0\n1 6\n")
    assert notes(data) == [("EPOCHS_BEHIND", EPOCHS, None, 26)]
    for path in flights.glob("*.digest"):
        path.unlink()
    assert faults(data) == [("EPOCHS", EPOCHS, None, 26)]


def test_a_follower_that_is_killed_with_its_first_batch_of_an_epoch_is_sound(data):
    """EP-9: before the thread that saves epochs came to it, and after the next start."""
    settings = config(**SETTINGS)
    manager = LogDirectory(data, cluster_id="c", node_id=1, randbytes=os.urandom)
    manager.load(lambda _: settings)
    log = manager.logs[FLIGHTS]
    for epoch in (5, 7):
        log.append_as_follower(leader_batch(log.log_end_offset, epoch, b"a"))
    assert [kind for kind, *_ in places(findings_in(data))] == ["IN_USE", "EPOCHS_BEHIND"], "while it runs"
    manager.abandon()
    assert notes(data) == [("EPOCHS_BEHIND", EPOCHS, None, 38)]
    assert faults(data) == []
    with broker(data):
        pass
    assert findings_in(data) == []


def test_epochs_without_batches(data, flights):
    """EP-3, S-W-D16: at the log end one may begin; beyond it a start cuts them."""
    (flights / EPOCHS).write_text("0\n4\n0 0\n1 6\n4 26\n7 38\n")
    assert findings_in(data) == []
    (flights / EPOCHS).write_text("0\n4\n0 0\n1 6\n4 26\n7 39\n")
    assert faults(data) == []
    assert notes(data) == [("EPOCHS_AHEAD", EPOCHS, None, 39)]


@pytest.mark.parametrize("content", ["1\n0\n", "0\n2\n0 0\n", "0\n1\nx y\n", "0\n2\n1 5\n0 6\n", "\xff\n"])
def test_a_malformed_epoch_checkpoint(data, flights, content):
    """1.3"""
    (flights / EPOCHS).write_text(content, encoding="latin-1")
    assert faults(data) == faults(flights) == [("MALFORMED", EPOCHS, None, None)]


def test_a_malformed_partition_metadata(data, flights):
    """1.4"""
    (flights / "partition.metadata").write_text("version: 0\ntopic_id: x\n")
    assert faults(data) == [("MALFORMED", "partition.metadata", None, None)]


def test_what_a_crash_left_of_a_creation(data):
    """A broker passes it over, and starts it again if there is still such a topic (swarm 800132)."""
    for content in ("version: 0\ntopic_id: tq-rkqfMOu2", ""):
        (data / "torn-0").mkdir(exist_ok=True)
        (data / "torn-0" / "partition.metadata").write_text(content)
        assert (faults(data), notes(data)) == ([], [("NO_TOPIC_ID", "partition.metadata", None, None)])


@pytest.mark.parametrize(
    ("name", "offset", "clean", "expected"),
    [
        ("recovery-point-offset-checkpoint", 39, True, ["CHECKPOINT"]),
        ("recovery-point-offset-checkpoint", 39, False, ["CHECKPOINT"]),
        ("replication-offset-checkpoint", 39, True, ["CHECKPOINT"]),
        ("replication-offset-checkpoint", 39, False, ["CHECKPOINT_AHEAD"]),
        ("log-start-offset-checkpoint", 39, True, ["CHECKPOINT", "CHECKPOINT"]),
        ("log-start-offset-checkpoint", 38, True, []),
        ("recovery-point-offset-checkpoint", -5, True, ["MALFORMED"]),
    ],
)
def test_offsets_that_the_log_does_not_have(data, flights, name, offset, clean, expected):
    """13.1: log start ≤ high watermark ≤ log end, recovery point ≤ log end."""
    (data / name).write_text(f"0\n1\nflights 0 {offset}\n")
    if not clean:
        (data / CLEAN_SHUTDOWN).unlink()
    assert [kind for kind, *_ in faults(data) + notes(data)] == expected, findings_in(data)
    if "CHECKPOINT" in expected:
        assert "CHECKPOINT" in [kind for kind, *_ in faults(flights)]  # a partition alone is judged by them too


@pytest.mark.parametrize("content", ["0\n2\nflights 0 1\n", "9\n0\n", "0\n1\nflights 0\n"])
def test_a_malformed_checkpoint(data, content):
    """1.3"""
    (data / RECOVERY_POINT_CHECKPOINT).write_text(content)
    assert faults(data) == [("MALFORMED", RECOVERY_POINT_CHECKPOINT, None, None)]


def test_a_partition_that_only_a_checkpoint_knows(data):
    (data / RECOVERY_POINT_CHECKPOINT).write_text("0\n2\nflights 0 38\ngone 3 5\n")
    assert faults(data) == []
    assert notes(data) == [("MISSING_PARTITION", RECOVERY_POINT_CHECKPOINT, None, 5)]


def test_a_malformed_identity(data):
    """1.4"""
    (data / "meta.properties").write_text("version=1\n")
    assert faults(data) == [("MALFORMED", "meta.properties", None, None)]


def test_what_cannot_be_read_is_a_fault_and_the_rest_is_verified(data, flights):
    file(flights, 22, "index").unlink()
    file(flights, 22, "index").mkdir()
    (data / RECOVERY_POINT_CHECKPOINT).write_text("bad")
    assert {kind for kind, *_ in faults(data)} == {"UNREADABLE", "MALFORMED"}


def test_other_paths_are_refused_before_anything_is_read(data, tmp_path):
    (tmp_path / "other").mkdir()
    (tmp_path / "other.txt").write_text("")
    for path in (tmp_path / "other", tmp_path / "other.txt", tmp_path / "missing"):
        with pytest.raises(ReplogError, match=r"INVALID_REQUEST: .*other|no such file"):
            findings_in(data, path)


def test_a_segment_that_goes_while_this_runs_is_a_note(data):
    """A running broker deletes old segments; the check of what is left goes on."""
    findings = verify([data], Options(), VerifiedTotals())
    partition = data / FLIGHTS.directory_name
    (partition / "notes.txt").write_text("")
    assert next(findings).kind.name == "STRAY"  # the segments are listed by now
    for suffix in ("log", "index"):
        file(partition, 0, suffix).unlink()
    file(partition, 14, "snapshot").unlink()
    assert [(finding.kind.name, finding.file.name) for finding in findings] == [("VANISHED", f"{0:020d}.log")]


def test_a_directory_of_other_things_is_none_of_ours_whatever_their_names(tmp_path):
    """As /etc is, in which many a name ends in a number."""
    (tmp_path / "polkit-1" / "rules.d").mkdir(parents=True)
    with pytest.raises(ReplogError, match="is neither a log directory nor the directory of a partition"):
        is_partition(tmp_path)
