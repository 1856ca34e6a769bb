"""A log directory that fails takes its own replicas offline, and not the broker (CT-27), in virtual time; one that is
not mounted is not taken for a new one without a word."""

import errno
import os
from collections.abc import Sequence
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from replog.errors import ErrorCode, ReplogError
from replog.log.directories.identity import META_PROPERTIES
from replog.log.errors import LogStorageError
from replog.metadata.values import NO_LEADER, PartitionState
from replog.server.broker.disks.reopening import check_known
from replog.topic import TopicPartition
from tests.replog.server.broker.virtual_pair import VirtualPair

PARTITIONS = [TopicPartition("t", number) for number in range(4)]


def broken(monkeypatch: pytest.MonkeyPatch, directory: Path) -> None:
    """From now on nothing there can be written, fsynced or listed, and no name changed."""
    home, fails = str(directory), dict.fromkeys(("pwritev", "fsync", "rename", "replace", "mkdir", "open", "listdir"))

    def failing(name: str) -> None:
        real = getattr(os, name)

        def call(what: object, *rest: object, **options: object) -> object:
            path = os.readlink(f"/proc/self/fd/{what}") if isinstance(what, int) else str(what)
            if path.startswith(home) and not (name == "open" and rest and rest[0] in (os.O_RDONLY,)):
                raise OSError(errno.EIO, os.strerror(errno.EIO), path)
            return real(what, *rest, **options)

        monkeypatch.setattr(os, name, call)

    for name in fails:
        failing(name)


@pytest.fixture
def pair(make_pair):
    return make_pair(disks=2)


@pytest.fixture
def topic(pair):
    pair.create_topic(partitions=4, min_insync_replicas="1")
    for partition in range(4):
        pair.produce(100, partition=partition)
    return pair


def state(pair: VirtualPair, tp: TopicPartition) -> PartitionState:
    return pair.controller.state.image.partitions[tp]


def produce(pair: VirtualPair, tp: TopicPartition, broker_id: int) -> int:
    return int(pair.produced(tp, broker_id).error_code)


def stop(pair: VirtualPair, broker_id: int) -> None:
    pair.run(pair.brokers.pop(broker_id).stop(), pair.processes[broker_id])


def wait_until_in_sync(pair: VirtualPair, partitions: Sequence[TopicPartition]) -> None:
    def in_sync() -> dict[TopicPartition, set[int]]:
        return {tp: set(state(pair, tp).isr) for tp in partitions}

    everywhere = {tp: {1, 2} for tp in partitions}
    pair.until(lambda: in_sync() == everywhere)


def wait_for_leader(pair: VirtualPair, tp: TopicPartition, broker_id: int) -> None:
    replicas = pair.brokers[broker_id].replicas
    pair.until(lambda: not isinstance(replicas.leader(tp), ErrorCode))


def on_first(pair: VirtualPair, broker_id: int) -> list[TopicPartition]:
    first = pair.brokers[broker_id].logs.directories[0]
    return [tp for tp in PARTITIONS if tp in first.logs]


def test_a_leaders_failed_directory_gives_its_partitions_to_others_and_keeps_the_rest(topic, monkeypatch):
    pair, lost = topic, on_first(topic, 1)
    kept = [tp for tp in PARTITIONS if tp not in lost]
    assert len(lost) == len(kept) == 2
    broken(monkeypatch, pair.directory / "broker-1" / "0")
    assert produce(pair, lost[0], 1) == ErrorCode.KAFKA_STORAGE_ERROR
    assert not pair.brokers[1].failed
    pair.until(lambda: all(state(pair, tp).leader == 2 for tp in lost), 5)
    assert all(state(pair, tp).isr == (2,) for tp in lost)
    assert all(state(pair, tp).leader == 1 and state(pair, tp).isr == (1, 2) for tp in kept)
    for tp in lost:
        assert produce(pair, tp, 1) == ErrorCode.KAFKA_STORAGE_ERROR
        wait_for_leader(pair, tp, 2)
        assert produce(pair, tp, 2) == ErrorCode.NONE
    for tp in kept:
        assert produce(pair, tp, 1) == ErrorCode.NONE
    pair.wait(20)  # housekeeping leaves it alone
    assert not pair.brokers[1].failed
    assert all(state(pair, tp).isr == (2,) for tp in lost), "it does not come back by itself"


def test_a_followers_failed_directory_leaves_the_isr_at_once(topic, monkeypatch):
    pair, lost = topic, on_first(topic, 2)
    broken(monkeypatch, pair.directory / "broker-2" / "0")
    before = pair.loop.time()
    pair.produce(100, partition=lost[0].partition)
    assert pair.loop.time() - before < 1, "nobody waited for its lag"
    pair.until(lambda: all(state(pair, tp).isr == (1,) for tp in lost), 5)
    assert not pair.brokers[2].failed


@pytest.mark.parametrize("at_a_start", [False, True])
def test_new_replicas_go_to_the_directories_that_work_and_deleted_ones_are_forgotten(topic, monkeypatch, at_a_start):
    pair, lost = topic, on_first(topic, 2)
    if at_a_start:
        pair.kill(2)
    broken(monkeypatch, pair.directory / "broker-2" / "0")
    if at_a_start:
        pair.start(2)
        assert set(pair.brokers[2].replicas.unreachable) == set(lost)
    else:
        pair.produce(100, partition=lost[0].partition)
    pair.administer(
        lambda admin: admin.delete_topic("t"),
        lambda admin: admin.create_topic("t", partitions=4, replication_factor=2),
        name="another",
    )
    wait_until_in_sync(pair, PARTITIONS)
    assert set(pair.brokers[2].logs.directories[1].logs) == set(PARTITIONS)
    assert not pair.brokers[2].replicas.unreachable
    assert not pair.brokers[2].failed


def test_the_last_directory_ends_the_broker(topic, monkeypatch):
    pair = topic
    for disk in (0, 1):
        broken(monkeypatch, pair.directory / "broker-1" / str(disk))
    for tp in PARTITIONS:
        assert produce(pair, tp, 1) == ErrorCode.KAFKA_STORAGE_ERROR
    assert pair.brokers[1].failed


@pytest.mark.parametrize("at_a_start", [False, True])
def test_a_partition_without_another_replica_waits_for_the_disk_without_a_leader(pair, monkeypatch, at_a_start):
    pair.create_topic(assignment=[(2,)], min_insync_replicas="1")
    tp = PARTITIONS[0]
    wait_for_leader(pair, tp, 2)
    assert produce(pair, tp, 2) == ErrorCode.NONE
    home = pair.log(2).directory.parent
    if at_a_start:
        stop(pair, 2)
    with monkeypatch.context() as patched:
        broken(patched, home)
        if at_a_start:
            pair.start(2)
        assert produce(pair, tp, 2) == ErrorCode.KAFKA_STORAGE_ERROR
        pair.until(lambda: state(pair, tp).leader == NO_LEADER, 5)
        pair.wait(5)
        assert state(pair, tp).leader == NO_LEADER
        stop(pair, 2)
    assert (home / ".kafka_cleanshutdown").exists() == at_a_start, "of the stop before the failure"
    pair.start(2)
    wait_for_leader(pair, tp, 2)
    assert produce(pair, tp, 2) == ErrorCode.NONE
    assert pair.log(2).log_end_offset == 2


def test_a_broker_starts_without_a_disk_that_is_dead_and_takes_it_back_when_it_is_repaired(topic, monkeypatch):
    pair, lost = topic, on_first(topic, 2)
    kept = [tp for tp in PARTITIONS if tp not in lost]
    pair.kill(2)
    pair.produce(*(100 for _ in range(3)), partition=lost[0].partition)
    with monkeypatch.context() as patched:
        broken(patched, pair.directory / "broker-2" / "0")
        pair.start(2)
        broker = pair.brokers[2]
        assert [directory.path.name for directory in broker.logs.working] == ["1"]
        wait_until_in_sync(pair, kept)
        pair.wait(20)
        assert all(state(pair, tp).isr == (1,) for tp in lost), "it may be on the dead disk, so no other one is made"
        assert set(broker.logs.logs) == set(kept)
        assert produce(pair, lost[0], 2) == ErrorCode.KAFKA_STORAGE_ERROR
        assert not broker.failed
        stop(pair, 2)
    pair.start(2)
    wait_until_in_sync(pair, PARTITIONS)
    assert on_first(pair, 2) == lost
    assert pair.hosted(2, lost[0].partition).log.log_end_offset == 4


def test_a_disk_whose_files_cannot_be_read_is_dead_too(topic):
    pair = topic
    pair.kill(2)
    for name in ("meta.properties", "metadata-position"):
        path = pair.directory / "broker-2" / "0" / name
        path.unlink()
        path.mkdir()
    pair.start(2)
    assert [directory.path.name for directory in pair.brokers[2].logs.working] == ["1"]


def test_a_broker_that_cannot_read_what_metadata_it_knew_does_not_start(topic):
    """CT-24: it would follow a controller with an older copy."""
    pair = topic
    pair.kill(2)
    for disk in (0, 1):
        path = pair.directory / "broker-2" / str(disk) / "metadata-position"
        path.unlink()
        path.mkdir()
    with pytest.raises(LogStorageError, match="metadata-position"):
        pair.start(2)


def test_a_broker_does_not_start_without_any_disk(topic, monkeypatch):
    pair = topic
    pair.kill(2)
    for disk in (0, 1):
        broken(monkeypatch, pair.directory / "broker-2" / str(disk))
    with pytest.raises(LogStorageError, match="the disk needs attention"):
        pair.start(2)


PLACED = [TopicPartition("t", number) for number in range(4)]


@pytest.mark.parametrize(
    ("known", "placed", "missing"),
    [
        ((), [], None),  # a new broker
        (("d1", "d2"), PLACED, None),
        (("d1",), PLACED, 3),
        (("d1",), [], 0),
        ((), PLACED, 3),
    ],
)
def test_an_empty_directory_is_told_where_it_should_not_be_and_refused_if_that_is_required(
    tmp_path, known, placed, missing
):
    directories = [tmp_path / "d1", tmp_path / "d2"]
    (tmp_path / "d1" / "t-0").mkdir(parents=True)
    for name in known:
        (tmp_path / name).mkdir(exist_ok=True)
        (tmp_path / name / META_PROPERTIES).touch()
    with capture_logs() as told:
        check_known(directories, placed, required=False)
    reasons = [line["reason"] for line in told]
    if missing is None:
        assert reasons == []
        check_known(directories, placed, required=True)
        return
    said = f"{tmp_path / 'd2'} is empty, and the cluster places {missing} replicas on it; is its disk mounted?"
    assert reasons[-1] == said
    assert len(reasons) == 2 - len(known)
    with pytest.raises(ReplogError, match=r"log\.dirs\.require\.known=false"):
        check_known(directories, placed, required=True)


async def test_a_start_that_is_refused_leaves_the_directory_as_it_was_so_the_next_is_refused_too(cluster):
    await cluster.start_broker(1, log_dirs_require_known=True)
    await cluster.create_topic("t", replication_factor=1)
    await cluster.stop_broker(1)
    home = cluster.directory / "broker-1"
    home.rename(home.with_name("not mounted"))
    home.mkdir()
    for _ in range(2):
        broker = cluster.new_broker(1, log_dirs_require_known=True)
        with pytest.raises(ReplogError, match="places 1 replicas on it; is its disk mounted"):
            await broker.start()
        assert not any(home.iterdir())
