"""Several log directories of one broker, and logs that move between them (1.1, FN-1, FN-3, FN-4, §7.7)."""

import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from follower.future_replica import FutureReplica
from replog.errors import ErrorCode, ReplogError
from replog.log import manager as manager_module
from replog.log.batch import iterate_batches
from replog.log.directories import LogDirectories
from replog.log.epoch_cache import EpochEntry
from replog.log.errors import InconsistentTopicId, LogStorageError
from replog.log.log import Log
from replog.log.offsets import Isolation
from replog.topic import TopicPartition
from tests.replog.log.batches import append, client_batch, config, files_of
from tests.replog.log.kills import killed_after

TP = TopicPartition("a-b", 12)
OTHER = TopicPartition("t", 0)
ID = bytes(range(16))
PAIR = client_batch(b"a", b"b")
CONFIG = config(segment_bytes=300)


def take(*disks: Path, chance: int = 1) -> LogDirectories:
    return LogDirectories(disks, cluster_id="c", node_id=3, randbytes=random.Random(chance).randbytes)


def start(*disks: Path, chance: int = 1) -> LogDirectories:
    directories = take(*disks, chance=chance)
    directories.load(lambda tp: CONFIG)
    return directories


@pytest.fixture
def disks(tmp_path: Path) -> tuple[Path, Path]:
    return tmp_path / "one", tmp_path / "two"


def place(directories: LogDirectories, tp: TopicPartition = TP) -> Path:
    log = directories.get(tp)
    assert log is not None
    return log.directory.parent


def filled(directories: LogDirectories) -> Log:
    """Four segments, three epochs, the last one without a record; offsets below 3 deleted."""
    log = append(directories.create(TP, ID, CONFIG), *[PAIR] * 6, epoch=1)
    append(log, *[PAIR] * 6, epoch=4)
    log.assign_epoch_start(5)
    log.update_high_watermark(20)
    log.maybe_increment_log_start_offset(3)
    directories.checkpoint_log_starts()
    return log


def copied(directories: LogDirectories, slice_bytes: int = 200) -> FutureReplica:
    current, future = directories.get(TP), directories.future(TP)
    assert current is not None
    assert future is not None
    replica = FutureReplica(TP, current, future, backoff_ms=1)
    directories.on_truncated = lambda _tp, offset: replica.current_truncated(offset)
    for now_ms in range(0, 4000, 10):
        replica.copy(slice_bytes, now_ms)
        if replica.caught_up:
            return replica
    raise AssertionError(f"{future.log_end_offset} of {current.log_end_offset}")


def told(log: Log) -> tuple[int, int, tuple[EpochEntry, ...], list[bytes]]:
    """All that a reader can know of a log."""
    records = []
    offset = log.log_start_offset
    while offset < log.log_end_offset:
        data = log.read(offset, 1 << 20, Isolation.LOG_END, min_one_message=True).records
        records += [bytes(data[at : at + header.size]) for at, header in iterate_batches(memoryview(data))]
        offset = [header for _, header in iterate_batches(memoryview(data))][-1].next_offset
    return log.log_start_offset, log.log_end_offset, log.epochs.entries, records


# -- several directories


def test_a_new_log_goes_where_the_fewest_are(tmp_path: Path) -> None:
    """As in Kafka, the first of equals; logs on their way count."""
    directories = start(*(tmp_path / name for name in "abc"))
    places = [place_of(directories, number) for number in range(6)]
    assert places == ["a", "b", "c", "a", "b", "c"]
    directories.delete(TopicPartition("t", 1), 0)
    directories.move(TopicPartition("t", 0), str(tmp_path / "b"))
    assert place_of(directories, 7) == "a", "b has one, and one on its way"


def place_of(directories: LogDirectories, number: int) -> str:
    return directories.create(TopicPartition("t", number), ID, CONFIG).directory.parent.name


def test_all_directories_are_one_to_the_broker(disks: tuple[Path, Path]) -> None:
    directories = start(*disks)
    logs = {tp: directories.create(tp, ID, CONFIG) for tp in (TP, OTHER)}
    assert directories.logs == logs
    assert [log.directory.parent for log in logs.values()] == [*disks]
    assert directories.create(TP, ID, CONFIG) is logs[TP]
    with pytest.raises(InconsistentTopicId):
        directories.create(TP, bytes(15) + b"1", CONFIG)
    assert directories.topic_id(OTHER) == ID
    for log in logs.values():
        append(log, *[PAIR] * 9).update_high_watermark(18)
    directories.high_watermark_task()()
    directories.close(7)
    again = take(*disks)
    assert again.previous_broker_epoch == 7
    again.load(lambda tp: CONFIG)
    assert {tp: log.high_watermark for tp, log in again.logs.items()} == {TP: 18, OTHER: 18}
    again.delete(OTHER, 0)
    assert again.get(OTHER) is None
    assert again.delete_expired(10**9) >= 1
    assert [path.name for path in disks[1].iterdir() if path.is_dir()] == []


@pytest.mark.parametrize(
    "fault", ["no marker", "another epoch", "a new directory", "a directory less", "a replica is gone"]
)
def test_a_stop_was_orderly_if_it_was_in_every_directory(disks: tuple[Path, Path], fault: str) -> None:
    """FN-3, FN-4, ISR-18: each recovers by its own marker, and the controller hears the worst. A directory that the
    broker has no longer had replicas, too."""
    directories = start(*disks)
    directories.create(TP, ID, CONFIG)
    append(directories.create(OTHER, ID, CONFIG), PAIR)
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
    assert again.previous_broker_epoch == -1
    assert again.managers[0].clean


def test_a_log_in_two_directories_is_refused_and_both_are_named(disks: tuple[Path, Path]) -> None:
    directories = start(*disks)
    append(directories.create(TP, ID, CONFIG), PAIR)
    directories.close(1)
    shutil.copytree(disks[0] / "a-b-12", disks[1] / "a-b-12")
    directories = take(*disks)
    with pytest.raises(LogStorageError) as raised:
        directories.load(lambda tp: CONFIG)
    assert all(str(disk / "a-b-12") in raised.value.message for disk in disks)
    directories.abandon()


def test_a_directory_that_cannot_be_taken_gives_the_others_back(disks: tuple[Path, Path]) -> None:
    holder = take(disks[1])
    with pytest.raises(LogStorageError, match="in use"):
        take(*disks)
    holder.abandon()
    take(*disks).abandon()


def test_a_creation_that_a_crash_interrupted_is_completed_where_it_began(disks: tuple[Path, Path]) -> None:
    directories = start(*disks)
    (disks[1] / "a-b-12").mkdir()
    directories.create(TP, ID, CONFIG)
    assert place(directories) == disks[1]


def test_names_come_from_the_randomness_handed_in(tmp_path: Path) -> None:
    """The same chance, the same names: in meta.properties, in deletions, in moves."""

    def names(run: str) -> list[str]:
        disks = tmp_path / run / "one", tmp_path / run / "two"
        directories = start(*disks, chance=9)
        directories.create(TP, ID, CONFIG)
        directories.move(TP, str(disks[1]))
        directories.create(OTHER, ID, CONFIG)
        directories.delete(OTHER, 0)
        properties = [(disk / "meta.properties").read_text() for disk in disks]
        assert properties[0] != properties[1]
        return [*properties, *sorted(path.name for disk in disks for path in disk.iterdir())]

    assert names("first") == names("second")


# -- moves


def test_a_moved_log_is_the_same_log(disks: tuple[Path, Path]) -> None:
    """§7.7, KAFKA-15608: batches, epochs (the one without a record too), log start and high watermark."""
    directories = start(*disks)
    before = filled(directories)
    expected, watermark = told(before), before.high_watermark
    directories.move(TP, str(disks[1]))
    copied(directories)
    log = directories.swap(TP, 0)
    assert directories.get(TP) is log
    assert (place(directories), log.directory.name) == (disks[1], "a-b-12")
    assert told(log) == expected
    assert log.high_watermark == watermark
    assert directories.future(TP) is None
    append(log, *[PAIR] * 5, epoch=5).roll()  # under the new name
    log.truncate_to(28)
    (deleted,) = disks[0].glob("a-b-12.*-delete")
    assert deleted.is_dir()
    directories.delete_expired(10**9)
    assert not deleted.exists()
    directories.close(3)
    again = start(*disks)
    assert again.previous_broker_epoch == 3
    assert told(again.logs[TP])[:2] == (3, 28)


@pytest.mark.parametrize("clean", [True, False])
def test_a_moved_log_knows_the_producers_whose_records_were_deleted(disks: tuple[Path, Path], clean: bool) -> None:
    """PS-11: a batch of theirs that is sent again is not appended again, by the next run neither."""
    directories = start(*disks)
    log = directories.create(TP, ID, CONFIG)
    idempotent = [client_batch(b"a", producer_id=7, producer_epoch=0, base_sequence=sequence) for sequence in (0, 1)]
    append(log, *idempotent, *[PAIR] * 12).flush()
    log.update_high_watermark(26)
    log.maybe_increment_log_start_offset(4)
    directories.checkpoint_log_starts()
    directories.move(TP, str(disks[1]))
    copied(directories)
    moved = directories.swap(TP, 0)
    assert moved.append_as_leader(idempotent[0], leader_epoch=0, now_ms=0).first_offset == 0
    append(moved, PAIR)
    if clean:
        directories.close(3)
    else:
        directories.abandon()
    again = start(*disks).logs[TP]
    assert again.append_as_leader(idempotent[1], leader_epoch=0, now_ms=0).first_offset == 1
    assert again.log_end_offset == 28


def test_a_copy_from_the_first_offset_has_the_same_files(disks: tuple[Path, Path]) -> None:
    """Divergence 2."""
    directories = start(*disks)
    append(directories.create(TP, ID, CONFIG), *[PAIR] * 30)
    directories.move(TP, str(disks[1]))
    copied(directories, slice_bytes=1)
    log = directories.swap(TP, 0)
    (old,) = disks[0].glob("*-delete")
    assert len(files_of(log.directory)) > 10
    assert files_of(log.directory) == files_of(old)


def test_how_far_a_log_is_clean_goes_with_it(disks: tuple[Path, Path]) -> None:
    directories = start(*disks)
    filled(directories)
    directories.cleaned_offsets(TP).raise_to(TP, 8)
    directories.move(TP, str(disks[1]))
    copied(directories)
    directories.swap(TP, 0)
    assert directories.cleaned_offsets(TP).get(TP) == 8
    assert [(disk / "cleaner-offset-checkpoint").read_text() for disk in disks] == ["0\n0\n", "0\n1\na-b 12 8\n"]


def test_a_move_calls_off_the_cleaning_under_way(disks: tuple[Path, Path]) -> None:
    """What a cleaning removes while it is copied, its tombstone too, would come back (CL-5)."""
    directories = start(*disks)
    log = filled(directories)
    task = log.compaction.task(log.compaction.cleanable(0, 0), 0, 1 << 20)
    assert not log.compaction.is_void(task)
    directories.move(TP, str(disks[1]))
    assert log.compaction.is_void(task)


def test_where_a_log_may_move(disks: tuple[Path, Path]) -> None:
    directories = start(*disks)
    filled(directories)

    def refused(tp: TopicPartition, directory: str) -> ErrorCode:
        with pytest.raises(ReplogError) as raised:
            directories.move(tp, directory)
        return raised.value.code

    assert refused(TP, "/nowhere") is ErrorCode.LOG_DIR_NOT_FOUND
    assert refused(OTHER, str(disks[0])) is ErrorCode.REPLICA_NOT_AVAILABLE
    directories.create(OTHER, ID, CONFIG)
    assert place(directories, OTHER) == disks[0], "as wished, not where the fewest are"
    (disks[1] / "t-0").mkdir()
    assert refused(OTHER, str(disks[1])) is ErrorCode.INVALID_REQUEST
    directories.move(TP, f"{disks[1]}/../two/")
    assert directories.future(TP) is not None
    directories.move(TP, str(disks[0]))
    assert directories.future(TP) is None, "called off"


def test_copies_of_what_is_not_here_are_dropped_at_start(disks: tuple[Path, Path]) -> None:
    directories = start(*disks)
    filled(directories)
    directories.move(TP, str(disks[1]))
    directories.close(1)
    shutil.rmtree(disks[0] / "a-b-12")
    again = start(*disks)
    assert again.previous_broker_epoch == -1
    assert (again.get(TP), again.future(TP)) == (None, None)
    assert not list(disks[1].glob("*-future"))


# -- crashes


@pytest.fixture
def quick_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """A killed process loses nothing that it wrote, fsynced or not."""
    monkeypatch.setattr(os, "fsync", lambda fd: None)


def restarted(directories: LogDirectories, *disks: Path) -> LogDirectories:
    directories.abandon()
    again = start(*disks, chance=2)
    plain = [disk for disk in disks if (disk / TP.directory_name).exists()]
    assert len(plain) == 1, "never two directories of the plain name, and never none"
    return again


def finish(directories: LogDirectories, target: Path) -> Log:
    """Go on with what the start found: a move under way, none, or a finished one."""
    if place(directories) != target:
        directories.move(TP, str(target))
        copied(directories)
        directories.swap(TP, 0)
    log = directories.get(TP)
    assert log is not None
    assert place(directories) == target
    return log


def every_crash(
    tmp_path: Path, prepare: Callable[[LogDirectories, Path], Callable[[], object]], least: int, step: int = 1
) -> None:
    """`prepare`, end what it returns after 0, 1, 2… changes of files, start; compare, finish the move, compare."""
    ended_where = set()
    for calls in range(0, 200, step):
        disks = tmp_path / f"{calls}-one", tmp_path / f"{calls}-two"
        directories = start(*disks)
        log_start, log_end, (*epochs, _), records = told(filled(directories))
        expected = log_start, log_end, tuple(epochs), records  # loading forgets an epoch without a record
        work = prepare(directories, disks[1])
        done = False
        with killed_after(calls):
            work()
            done = True
        again = restarted(directories, *disks)
        log = again.get(TP)
        assert log is not None
        assert told(log) == expected, f"after {calls} changes of files"
        ended_where.add((log.directory.parent == disks[1], again.future(TP) is not None))
        assert told(finish(again, disks[1])) == expected
        again.close(1)
        last = start(*disks, chance=3)
        assert told(last.logs[TP]) == expected
        last.abandon()
        if done:
            assert calls >= least, "the work has become less; is it still all of it?"
            assert len(ended_where) > 1
            return
    raise AssertionError("the work never ends")


@pytest.mark.usefixtures("quick_disk")
def test_a_swap_survives_a_crash_between_any_two_changes_of_files(tmp_path: Path) -> None:
    """§7.7."""

    def prepare(directories: LogDirectories, target: Path) -> Callable[[], object]:
        directories.move(TP, str(target))
        copied(directories)
        return lambda: directories.swap(TP, 0)

    every_crash(tmp_path, prepare, least=14)


@pytest.mark.usefixtures("quick_disk")
def test_a_copy_survives_a_crash_between_any_two_changes_of_files(tmp_path: Path) -> None:
    def prepare(directories: LogDirectories, target: Path) -> Callable[[], object]:
        def work() -> None:
            directories.move(TP, str(target))
            copied(directories, slice_bytes=10_000)
            directories.swap(TP, 0)

        return work

    every_crash(tmp_path, prepare, least=60, step=3)


@pytest.mark.usefixtures("quick_disk")
def test_calling_a_move_off_survives_a_crash_between_any_two_changes_of_files(tmp_path: Path) -> None:
    def prepare(directories: LogDirectories, target: Path) -> Callable[[], object]:
        directories.move(TP, str(target))
        copied(directories)
        return lambda: directories.move(TP, str(place(directories)))

    every_crash(tmp_path, prepare, least=7)


def test_each_step_of_a_swap_is_durable_before_the_next(
    disks: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The order that the recovery of an interrupted swap relies on, at a loss of power too."""
    directories = start(*disks)
    filled(directories).flush()
    directories.move(TP, str(disks[1]))
    future = copied(directories).log
    steps: list[str] = []
    rename, fsync = Path.rename, manager_module.fsync_directory

    def noted_rename(path: Path, target: Path) -> Path:
        steps.append(
            f"{path.parent.name}: {path.name[6:].partition('.')[2][32:]} to {target.name[6:].partition('.')[2][32:]}"
        )
        assert future.recovery_point == 24, "it is durable itself"
        assert "a-b 12 24" in (disks[1] / "recovery-point-offset-checkpoint").read_text()
        assert "a-b 12 3" in (disks[1] / "log-start-offset-checkpoint").read_text()
        return rename(path, target)

    def noted_fsync(directory: Path) -> None:
        steps.append(f"{directory.name}: fsync")
        fsync(directory)

    monkeypatch.setattr(Path, "rename", noted_rename)
    monkeypatch.setattr(manager_module, "fsync_directory", noted_fsync)
    directories.swap(TP, 0)
    assert steps == ["one:  to -delete", "one: fsync", "two: -future to ", "two: fsync"]


def test_a_swap_that_was_decided_is_finished_at_start_and_no_other(disks: tuple[Path, Path]) -> None:
    """Only the identifier of the deleted directory says so."""
    directories = start(*disks)
    expected = told(filled(directories))
    directories.move(TP, str(disks[1]))
    copied(directories)
    directories.abandon()
    (future,) = disks[1].glob("*-future")
    identifier = future.name.removesuffix("-future")[-32:]
    (disks[0] / "a-b-12").rename(disks[0] / f"a-b-12.{identifier}-delete")
    lines: list[str] = []
    again = take(*disks)
    again.load(lambda tp: CONFIG, lines.append)
    assert f"finishing the move of a-b-12 to {disks[1]}" in lines
    assert told(again.logs[TP])[1] == expected[1]
    again.move(TP, str(disks[0]))
    copied(again)
    again.abandon()
    (disks[1] / "a-b-12").rename(disks[1] / f"a-b-12.{'0' * 32}-delete")
    last = start(*disks)
    assert (last.get(TP), last.future(TP)) == (None, None), "the replica was deleted, and its copy goes too"
    assert not [path for disk in disks for path in disk.glob("a-b-12*") if not path.name.endswith("-delete")]


def test_os_level_names_are_those_of_kafka(disks: tuple[Path, Path]) -> None:
    """FN-1."""
    directories = start(*disks)
    filled(directories)
    directories.move(TP, str(disks[1]))
    (name,) = (name for name in os.listdir(disks[1]) if "a-b" in name)
    assert name.startswith("a-b-12.")
    assert name.endswith("-future")
    assert len(name) == len("a-b-12.") + 32 + len("-future")
