"""What a survey says a replica holds is what the next start of the broker makes of its files."""

import os
import shutil
from uuid import UUID

import pytest

from replog.errors import ErrorCode, ReplogError
from replog.log.directories.identity import verify_or_create, write_marker
from replog.log.directories.lock import lock
from replog.log.directories.partition_metadata import PARTITION_METADATA, write_topic_id
from replog.log.errors import LogStorageError
from replog.log.formats.checkpoint import CLEANER_CHECKPOINT, RECOVERY_POINT_CHECKPOINT, OffsetCheckpoint
from replog.log_tools.survey import SurveyedReplica, survey
from replog.topic import TopicPartition
from tests.damage.vocabulary import flip, segment_file
from tests.replog.log.batches import client_batch, fixture_t, open_log

TP = TopicPartition("t", 0)
ID = b"1" * 16


@pytest.fixture
def directory(tmp_path):
    """Fixture T, 20 records in four segments and three epochs, on broker 7, closed cleanly."""
    path = tmp_path / "data"
    (path / "t-0").mkdir(parents=True)
    verify_or_create(path, cluster_id="the-cluster", node_id=7, directory_id=UUID(int=1))
    fixture_t(path / "t-0", index_interval_bytes=100).close()
    write_topic_id(path / "t-0", ID)
    return path


def surveyed(directory) -> tuple[int, int]:
    (replica,) = survey(directory).replicas
    return replica.last_epoch, replica.log_end_offset


def loaded(directory, scratch, *, clean: bool, recovery_point: int = 0) -> tuple[int, int]:
    """What a start makes of a copy."""
    shutil.rmtree(scratch, ignore_errors=True)
    shutil.copytree(directory / "t-0", scratch)
    log = open_log(scratch, clean=clean, recovery_point=recovery_point, segment_bytes=300, index_interval_bytes=100)
    last = log.epochs.epoch_for_offset(log.log_end_offset - 1) if log.log_end_offset else None
    log.abandon()
    return (-1 if last is None else last), log.log_end_offset


def test_an_orderly_stop(directory):
    write_marker(directory, 9, 1)
    told = survey(directory)
    assert (told.cluster_id, told.broker_id, told.passed_over) == ("the-cluster", 7, [])
    assert told.replicas == [SurveyedReplica(TP, ID, 2, 20, 2, -1, compacted=False)]


def test_every_cut_of_the_last_segment_after_a_crash(directory, tmp_path):
    path = directory / "t-0" / segment_file(18, "log")
    whole = path.read_bytes()
    for size in range(len(whole), -1, -7):
        os.truncate(path, size)
        assert surveyed(directory) == loaded(directory, tmp_path / "copy", clean=False), f"cut to {size} bytes"
        path.write_bytes(whole)


@pytest.mark.parametrize("base", [0, 6, 12, 18])
def test_a_flipped_byte_ends_the_log_there_if_it_is_behind_the_recovery_point(directory, tmp_path, base):
    flip(directory / "t-0" / segment_file(base, "log"), 70)
    for recovery_point in (0, 6, 12, 18, 20):
        OffsetCheckpoint(directory / RECOVERY_POINT_CHECKPOINT).write({TP: recovery_point})
        expected = loaded(directory, tmp_path / "copy", clean=False, recovery_point=recovery_point)
        assert surveyed(directory) == expected, f"recovery point {recovery_point}"


def test_an_empty_last_segment_ends_where_the_one_before_it_does(directory):
    log = open_log(directory / "t-0", clean=True, segment_bytes=300)
    log.roll()
    log.close()
    write_marker(directory, 9, 1)
    assert surveyed(directory) == (2, 20)


def test_an_epoch_that_was_led_without_a_record_was_seen(directory):
    log = open_log(directory / "t-0", clean=True, segment_bytes=300)
    log.assign_epoch_start(11)
    log.close()
    write_marker(directory, 9, 1)
    (replica,) = survey(directory).replicas
    assert (replica.last_epoch, replica.seen_epoch) == (2, 11)


@pytest.mark.parametrize("clean", [True, False])
def test_the_highest_producer_id_is_that_of_the_snapshots_and_of_what_came_after(directory, clean):
    log = open_log(directory / "t-0", clean=True, segment_bytes=300)
    for producer_id in (4000, 17):
        batch = client_batch(b"v", producer_id=producer_id, producer_epoch=0, base_sequence=0)
        log.append_as_leader(batch, leader_epoch=2, now_ms=1)
    if clean:
        log.close()
        write_marker(directory, 9, 1)
    else:
        log.abandon()
    (replica,) = survey(directory).replicas
    assert (replica.producer_id, replica.log_end_offset) == (4000, 22)


def test_a_log_that_the_cleaners_checkpoint_names_is_compacted(directory):
    (directory / CLEANER_CHECKPOINT).write_text("0\n2\nt 0 0\nu 0 5\n")
    assert [replica.compacted for replica in survey(directory).replicas] == [True]
    (directory / CLEANER_CHECKPOINT).write_text("0\n7\n")
    told = survey(directory)
    assert [replica.compacted for replica in told.replicas] == [False]
    assert told.passed_over == [
        f"{directory / CLEANER_CHECKPOINT} announces 7 entries and has 0: which of its logs are compacted is not known"
    ]


def test_what_names_no_topic_id_is_passed_over_and_said(directory):
    (directory / "t-0" / PARTITION_METADATA).unlink()
    (directory / "u-0").mkdir()
    (directory / "u-0" / PARTITION_METADATA).write_text("version: 0\ntopic_id: ?\n")
    told = survey(directory)
    assert told.replicas == []
    assert [line.partition("does")[0] for line in told.passed_over] == [
        f"{directory / 't-0'} ",
        f"{directory / 'u-0' / PARTITION_METADATA} ",
    ]


def test_a_replica_that_was_set_aside_does_not_count_and_is_named(directory):
    (directory / "t-0").rename(directory / f"t-0.{'0' * 32}-stray")
    told = survey(directory)
    assert told.replicas == []
    (remark,) = told.passed_over
    assert "-stray was set aside" in remark


def test_the_directory_of_a_running_broker_and_what_is_none_are_refused(directory, tmp_path):
    held = lock(directory)
    with pytest.raises(LogStorageError, match="stop the broker"):
        survey(directory)
    os.close(held)
    (tmp_path / "meta.properties").write_text("version=1\n")
    with pytest.raises(ReplogError, match="does not name a cluster") as refused:
        survey(tmp_path)
    assert refused.value.code is ErrorCode.INVALID_REQUEST
