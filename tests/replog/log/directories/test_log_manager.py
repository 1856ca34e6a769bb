"""Several log directories of one broker, and logs that move between them (1.1, FN-1, FN-3, FN-4, §7.7)."""

import re
import shutil
from pathlib import Path

import pytest

from replog.errors import ErrorCode, ReplogError
from replog.log.compaction.cleaning import CleanTask, find_cleanable
from replog.log.directories import log_manager
from replog.log.directories.checkpoints import Checkpoints
from replog.log.directories.log_directory import LogDirectory
from replog.log.directories.log_manager import LogManager
from replog.log.errors import LogStorageError
from replog.log.files.deletion import remove
from replog.topic import TopicPartition
from tests.replog.log.batches import append, client_batch
from tests.replog.log.directories.moving import (
    CONFIG,
    ID,
    OTHER,
    PAIR,
    TP,
    copied,
    created,
    deleted,
    filled,
    move,
    place,
    start,
    swapped,
    take,
    told,
)


@pytest.fixture
def disks(tmp_path: Path) -> tuple[Path, Path]:
    return tmp_path / "one", tmp_path / "two"


def test_a_new_log_goes_where_the_fewest_are(tmp_path):
    """As in Kafka, the first of equals; logs on their way count."""
    directories = start(*(tmp_path / name for name in "abc"))
    places = [place_of(directories, number) for number in range(6)]
    assert places == ["a", "b", "c", "a", "b", "c"]
    deleted(directories, TopicPartition("t", 1), 0)
    move(directories, TopicPartition("t", 0), str(tmp_path / "b"))
    assert place_of(directories, 7) == "a", "b has one, and one on its way"


def place_of(directories: LogManager, number: int) -> str:
    return created(directories, TopicPartition("t", number), ID, CONFIG).directory.parent.name


def test_all_directories_are_one_to_the_broker(disks):
    directories = start(*disks)
    logs = {tp: created(directories, tp, ID, CONFIG) for tp in (TP, OTHER)}
    assert directories.logs == logs
    assert [log.directory.parent for log in logs.values()] == [*disks]
    assert directories.topic_id(OTHER) == ID
    for log in logs.values():
        append(log, *[PAIR] * 9).update_high_watermark(18)
    directories.checkpoint(Checkpoints.write_high_watermarks)
    directories.close(7)
    again = take(*disks)
    assert again.previous_stop.broker_epoch == 7
    again.load(lambda tp: CONFIG)
    assert {tp: log.high_watermark for tp, log in again.logs.items()} == {TP: 18, OTHER: 18}
    deleted(again, OTHER, 0)
    assert again.get(OTHER) is None
    assert remove(again.take_expired(10**9)) >= 1
    assert [path.name for path in disks[1].iterdir() if path.is_dir()] == []


@pytest.mark.parametrize(
    "fault", ["no marker", "another epoch", "a new directory", "a directory less", "a replica is gone"]
)
def test_a_stop_was_orderly_if_it_was_in_every_directory(disks, fault):
    """FN-3, FN-4, ISR-18: each recovers by its own marker, and the controller hears the worst. A directory that the
    broker has no longer had replicas, too."""
    directories = start(*disks)
    created(directories, TP, ID, CONFIG)
    append(created(directories, OTHER, ID, CONFIG), PAIR)
    directories.close(7)
    two = disks[1]
    if fault == "no marker":
        (two / ".kafka_cleanshutdown").unlink()
    elif fault == "another epoch":
        (two / ".kafka_cleanshutdown").write_text('{"version":0,"brokerEpoch":6}')
    elif fault == "a new directory":
        two = two.with_name("three")
    elif fault == "a replica is gone":
        shutil.rmtree(two / "t-0")
    again = start(disks[0]) if fault == "a directory less" else start(disks[0], two)
    assert again.previous_stop.broker_epoch == -1
    assert again.directories[0].clean


def test_a_log_in_two_directories_is_refused_and_both_are_named(disks):
    directories = start(*disks)
    append(created(directories, TP, ID, CONFIG), PAIR)
    directories.close(1)
    shutil.copytree(disks[0] / "a-b-12", disks[1] / "a-b-12")
    directories = take(*disks)
    with pytest.raises(LogStorageError) as raised:
        directories.load(lambda tp: CONFIG)
    assert all(str(disk / "a-b-12") in raised.value.message for disk in disks)
    directories.abandon()


def test_a_directory_that_cannot_be_taken_gives_the_others_back(disks):
    holder = take(disks[1])
    with pytest.raises(LogStorageError, match="in use"):
        take(*disks)
    holder.abandon()
    take(*disks).abandon()


def test_a_creation_that_a_crash_interrupted_is_completed_where_it_began(disks):
    directories = start(*disks)
    (disks[1] / "a-b-12").mkdir()
    created(directories, TP, ID, CONFIG)
    assert place(directories) == disks[1]


def test_names_come_from_the_randomness_handed_in(tmp_path):
    """The same random numbers, the same names: in meta.properties, in deletions, in moves."""

    def names(run: str) -> list[str]:
        disks = tmp_path / run / "one", tmp_path / run / "two"
        directories = start(*disks, rng=9)
        created(directories, TP, ID, CONFIG)
        move(directories, TP, str(disks[1]))
        created(directories, OTHER, ID, CONFIG)
        deleted(directories, OTHER, 0)
        properties = [(disk / "meta.properties").read_text() for disk in disks]
        assert properties[0] != properties[1]
        return [*properties, *sorted(path.name for disk in disks for path in disk.iterdir())]

    assert names("first") == names("second")


# -- moves


def test_a_moved_log_is_the_same_log(disks):
    """§7.7, KAFKA-15608: batches, epochs (the one without a record too), log start and high watermark."""
    directories = start(*disks)
    before = filled(directories)
    expected, watermark = told(before), before.high_watermark
    move(directories, TP, str(disks[1]))
    copied(directories)
    log = swapped(directories)
    assert directories.get(TP) is log
    assert (place(directories), log.directory.name) == (disks[1], "a-b-12")
    assert told(log) == expected
    assert log.high_watermark == watermark
    assert directories.future(TP) is None
    append(log, *[PAIR] * 5, epoch=5).roll()  # under the new name
    log.truncate_to(28)
    (deleted,) = disks[0].glob("a-b-12.*-delete")
    assert deleted.is_dir()
    remove(directories.take_expired(10**9))
    assert not deleted.exists()
    directories.close(3)
    again = start(*disks)
    assert again.previous_stop.broker_epoch == 3
    assert told(again.logs[TP])[:2] == (3, 28)


def test_a_log_that_has_changed_is_prepared_anew(disks):
    """A crash after the swap must not bring back what was deleted before it, nor forget a producer (LG-16, PS-11)."""
    directories = start(*disks)
    log = filled(directories)
    move(directories, TP, str(disks[1]))
    copied(directories)
    preparation = directories.preparation(TP)
    preparation.run()
    preparation.done()
    append(log, PAIR, epoch=5)
    copied(directories)
    assert directories.is_prepared(TP, preparation)
    log.maybe_increment_log_start_offset(9)
    copied(directories)
    assert not directories.is_prepared(TP, preparation)
    swapped(directories)
    directories.abandon()
    assert start(*disks).logs[TP].log_start_offset == 9


def test_a_log_that_moves_back_inherits_nothing_from_when_it_was_there(disks):
    """If the checkpoints could not forget it, as on a full disk: its copy would count as durable (LD-5)."""
    directories = start(*disks)
    filled(directories).flush()
    directories.checkpoint(Checkpoints.write_recovery_points)
    move(directories, TP, str(disks[1]))
    copied(directories)
    points = disks[0] / "recovery-point-offset-checkpoint"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(LogDirectory, "forget_gone", lambda _: None)
        swapped(directories)
    assert "a-b 12 24" in points.read_text()
    move(directories, TP, str(disks[0]))
    assert "a-b 12" not in points.read_text()


def test_what_the_checkpoints_could_not_forget_they_forget_the_next_time(disks, monkeypatch):
    directories = start(*disks)
    append(created(directories, TP, ID, CONFIG), PAIR).flush()
    directories.checkpoint(Checkpoints.write_recovery_points)

    def failing(*_: object) -> None:
        raise LogStorageError("input/output error", of_the_disk=True)

    with monkeypatch.context() as patch:
        patch.setattr(Checkpoints, "write_all", failing)
        with pytest.raises(LogStorageError):
            deleted(directories, TP)
    directories.directories[0].forget_gone()
    assert "a-b" not in (disks[0] / "recovery-point-offset-checkpoint").read_text()


@pytest.mark.parametrize("clean", [True, False])
def test_a_moved_log_knows_the_producers_whose_records_were_deleted(disks, clean):
    """PS-11: a batch of theirs that is sent again is not appended again, by the next run neither."""
    directories = start(*disks)
    log = created(directories, TP, ID, CONFIG)
    idempotent = [client_batch(b"a", producer_id=7, producer_epoch=0, base_sequence=sequence) for sequence in (0, 1)]
    append(log, *idempotent, *[PAIR] * 12).flush()
    log.update_high_watermark(26)
    log.maybe_increment_log_start_offset(4)
    directories.checkpoint(Checkpoints.write_log_starts)
    move(directories, TP, str(disks[1]))
    copied(directories)
    preparation = directories.preparation(TP)
    preparation.run()
    preparation.done()
    append(log, *[PAIR] * 6)  # a new segment, and a snapshot of it
    copied(directories)
    assert directories.is_prepared(TP, preparation)
    moved = swapped(directories)
    assert moved.append_as_leader(idempotent[0], leader_epoch=0, now_ms=0).first_offset == 0
    append(moved, PAIR)
    if clean:
        directories.close(3)
    else:
        directories.abandon()
    again = start(*disks).logs[TP]
    assert again.append_as_leader(idempotent[1], leader_epoch=0, now_ms=0).first_offset == 1
    assert again.log_end_offset == 40


def test_how_far_a_log_is_clean_goes_with_it(disks):
    directories = start(*disks)
    filled(directories)
    directories.cleaned_offsets(TP).raise_to(TP, 8)
    move(directories, TP, str(disks[1]))
    copied(directories)
    swapped(directories)
    assert directories.cleaned_offsets(TP).get(TP) == 8
    assert [(disk / "cleaner-offset-checkpoint").read_text() for disk in disks] == ["0\n0\n", "0\n1\na-b 12 8\n"]


def test_a_move_calls_off_the_cleaning_under_way(disks):
    """What a cleaning removes while it is copied, its tombstone too, would come back (CL-5)."""
    directories = start(*disks)
    log = filled(directories)
    task = CleanTask.of(log, find_cleanable(log, 0, 0), 0, 1 << 20)
    assert task.generation == log.generation
    move(directories, TP, str(disks[1]))
    copied(directories)
    assert task.generation != log.generation


def test_where_a_log_may_move(disks):
    directories = start(*disks)
    filled(directories)

    def refused(tp: TopicPartition, directory: str) -> ErrorCode:
        with pytest.raises(ReplogError) as raised:
            move(directories, tp, directory)
        return raised.value.code

    assert refused(TP, "/nowhere") is ErrorCode.LOG_DIR_NOT_FOUND
    assert refused(OTHER, str(disks[0])) is ErrorCode.REPLICA_NOT_AVAILABLE
    created(directories, OTHER, ID, CONFIG)
    assert place(directories, OTHER) == disks[0], "as wished, not where the fewest are"
    (disks[1] / "t-0").mkdir()
    assert refused(OTHER, str(disks[1])) is ErrorCode.INVALID_REQUEST
    move(directories, TP, f"{disks[1]}/../two/")
    assert directories.future(TP) is not None
    move(directories, TP, str(disks[0]))
    assert directories.future(TP) is None, "called off"


def test_so_many_replicas_to_come_have_a_directory_chosen_and_no_more(disks, monkeypatch):
    monkeypatch.setattr(log_manager, "MAX_WISHES", 2)
    directories = start(*disks)

    def wish(number: int, disk: Path, said: str) -> None:
        with pytest.raises(ReplogError, match=said):
            move(directories, TopicPartition("new", number), str(disk))

    wish(0, disks[0], "REPLICA_NOT_AVAILABLE")
    wish(1, disks[0], "REPLICA_NOT_AVAILABLE")
    wish(2, disks[0], "INVALID_REQUEST: 2 replicas")
    wish(0, disks[1], "REPLICA_NOT_AVAILABLE")


def test_copies_of_what_is_not_here_are_dropped_at_start(disks):
    directories = start(*disks)
    filled(directories)
    move(directories, TP, str(disks[1]))
    [future] = disks[1].glob("a-b-12*")
    assert re.fullmatch(r"a-b-12\.[0-9a-f]{32}-future", future.name), "FN-1: as in Kafka"
    directories.close(1)
    shutil.rmtree(disks[0] / "a-b-12")
    again = start(*disks)
    assert again.previous_stop.broker_epoch == -1
    assert (again.get(TP), again.future(TP)) == (None, None)
    assert not list(disks[1].glob("*-future"))
