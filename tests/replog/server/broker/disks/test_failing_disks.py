"""A disk that fails while the broker runs (§1.4), in virtual time: the partition is led no more. One that is full for a
while (LG-19): what needs room is refused, the rest goes on."""

import asyncio
import errno
import os
import shutil

import pytest
import structlog

from replog.errors import ErrorCode
from replog.log.fetch import FetchPartition
from replog.log.log import Log
from replog.rpc.v1 import log_pb2 as pb
from tests.replog.server.broker.conftest import fetch_request, produce_request
from tests.replog.server.broker.virtual_pair import ONE, TP, VirtualPair


def break_files(log: Log) -> None:
    """From now on the active segment can be neither read nor written, no epoch noted and no segment begun."""
    memory = os.open("/proc/self/mem", os.O_RDWR)  # nothing is mapped at its beginning: EIO
    log._segments.active.file._forget_tail()
    with log._segments.active.file as file:
        os.dup2(memory, file)
    os.close(memory)
    (log.directory / "leader-epoch-checkpoint.tmp").mkdir()
    (log.directory / f"{log.log_end_offset:020d}.log").mkdir()


@pytest.fixture
def pair(pair):
    pair.create_topic()
    pair.produce(*[100] * 10)
    return pair


async def ask(pair: VirtualPair, what: str) -> int:
    """The error code that broker 1 answers."""
    look_up = pb.ListOffsetsRequest(partitions=[pb.ListOffsetsPartition(topic="t", partition=0, timestamp=1)])
    requests = {"produce_once": produce_request(TP, ONE), "fetch_once": fetch_request(TP), "list_offsets": look_up}
    code: int = (await pair.ask(what, requests[what])).error_code
    return code


@pytest.mark.parametrize("met_by", ["produce_once", "fetch_once", "list_offsets"])
def test_whoever_meets_it_the_broker_stops_and_nobody_waits_on_in_vain_pr_10(pair, met_by):
    """PR-10 case A: what waits is told at once, and not of a high watermark that moves afterwards."""
    pair.cut()
    waiting = pair.loop.spawn(pair.client, ask(pair, "produce_once"))
    pair.wait(0.5)
    assert not waiting.done()
    break_files(pair.log(1))
    assert not pair.brokers[1].failed
    assert pair.run(ask(pair, met_by)) == ErrorCode.KAFKA_STORAGE_ERROR
    assert pair.brokers[1].failed
    pair.until(waiting.done, 0.5)
    assert waiting.result() == ErrorCode.KAFKA_STORAGE_ERROR


def test_a_followers_disk_that_failed_is_told_before_any_epoch(pair):
    hosted, replicas = pair.hosted(2), pair.brokers[2].replicas
    assert replicas.leader_for_epoch(TP, 9) is ErrorCode.UNKNOWN_LEADER_EPOCH
    assert replicas.reader_for_fetch(TP, FetchPartition(0, 1)) is hosted.follower
    break_files(hosted.log)
    pair.network.block("broker-1", "broker-2")

    async def append() -> None:
        await asyncio.sleep(0)
        hosted.log.roll()

    with pytest.raises(Exception, match="KAFKA_STORAGE_ERROR"):
        pair.run(append(), pair.processes[2])
    assert not pair.brokers[2].failed, "it is one replica that cannot begin a segment"
    assert replicas.leader_for_epoch(TP, 9) is ErrorCode.KAFKA_STORAGE_ERROR
    assert replicas.reader_for_fetch(TP, FetchPartition(0, 1)) is ErrorCode.KAFKA_STORAGE_ERROR


def test_a_copy_from_the_beginning_meets_it(pair):
    pair.kill(2)
    shutil.rmtree(pair.directory / "broker-2")
    break_files(pair.log(1))
    pair.start(2)
    pair.until(lambda: pair.brokers[1].failed, 5)


class FullDisk:
    """Of one broker: nothing of it grows any more."""

    def __init__(self, pair: VirtualPair, broker_id: int, monkeypatch: pytest.MonkeyPatch) -> None:
        self.on = True
        home, pwritev, open_ = str(pair.directory / f"broker-{broker_id}"), os.pwritev, os.open

        def refuse(path: str) -> None:
            if self.on and path.startswith(home):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)

        def write(fd: int, buffers: list[bytes], position: int) -> int:
            refuse(os.readlink(f"/proc/self/fd/{fd}"))
            return pwritev(fd, buffers, position)

        def opened(path: object, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
            if flags & os.O_CREAT and not os.path.exists(str(path)):
                refuse(str(path))
            return open_(path, flags, mode, dir_fd=dir_fd)

        monkeypatch.setattr(os, "pwritev", write)
        monkeypatch.setattr(os, "open", opened)


@pytest.fixture
def loose(make_pair):
    pair = make_pair()
    pair.create_topic(min_insync_replicas="1")
    pair.produce(*[100] * 10)
    return pair


def test_a_full_leader_refuses_produces_and_says_why_serves_reads_and_goes_on_once_there_is_room(loose, monkeypatch):
    disk = FullDisk(loose, 1, monkeypatch)
    for _ in range(3):
        refused = loose.produced()
        assert refused.error_code == ErrorCode.KAFKA_STORAGE_ERROR
        assert "t-0: No space left on device" in refused.error_message
        assert "make room, and it goes on by itself" in refused.error_message
    assert loose.run(loose.ask("fetch_once", fetch_request(TP))).error_code == ErrorCode.NONE
    loose.wait(20)  # checkpoints and the like find no room either
    assert not loose.brokers[1].failed
    disk.on = False
    assert loose.produced().error_code == ErrorCode.NONE
    assert loose.log(1).log_end_offset == 11


def test_a_full_follower_leaves_the_isr_by_its_lag_and_comes_back_once_there_is_room(loose, monkeypatch):
    disk = FullDisk(loose, 2, monkeypatch)
    with structlog.testing.capture_logs() as told:
        loose.produce(*[100] * 5)  # waits until the follower is out
    assert [line["partition"] for line in told if line["event"] == "replication"] == ["t-0"], "not at each try"
    assert loose.isr == {1}
    assert not loose.brokers[2].failed
    disk.on = False
    loose.until(lambda: loose.isr == {1, 2})
    assert loose.log(2).log_end_offset == 15


def test_a_start_on_a_full_disk_waits_says_so_once_and_serves_when_there_is_room(loose, monkeypatch):
    loose.kill(2)
    disk = FullDisk(loose, 2, monkeypatch)
    loose.loop.call_later(30, setattr, disk, "on", False)
    with structlog.testing.capture_logs() as told:
        loose.start(2)
    loose.until(lambda: loose.isr == {1, 2})
    full = [line["event"] for line in told if "No space left on device" in line.get("reason", "")]
    assert full == ["replica offline, to be tried again", "the newest metadata cannot be noted, trying again"]


def test_a_replica_without_room_for_its_files_comes_once_there_is_some(loose, monkeypatch):
    disk = FullDisk(loose, 2, monkeypatch)

    async def create() -> None:
        async with loose.admin("another") as admin:
            await admin.create_topic("u", partitions=1, replication_factor=2)

    creating = loose.loop.spawn(loose.client, create())
    loose.wait(5)
    assert not loose.brokers[2].failed
    assert not (loose.directory / "broker-2" / "u-0").exists()
    disk.on = False
    loose.until((loose.directory / "broker-2" / "u-0").exists, 60)
    loose.until(creating.done, 60)
