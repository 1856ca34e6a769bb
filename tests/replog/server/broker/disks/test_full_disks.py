"""A disk that is full for a while (LG-19), in virtual time: what needs room is refused, the rest goes on."""

import errno
import os

import pytest

from replog.errors import ErrorCode
from tests.replog.server.broker.conftest import fetch_request
from tests.replog.server.broker.virtual_pair import TP, VirtualPair


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
def pair(pair):
    pair.create_topic(min_insync_replicas="1")
    pair.produce(*[100] * 10)
    return pair


def test_a_full_leader_refuses_produces_and_says_why_serves_reads_and_goes_on_once_there_is_room(pair, monkeypatch):
    disk = FullDisk(pair, 1, monkeypatch)
    for _ in range(3):
        refused = pair.produced()
        assert refused.error_code == ErrorCode.KAFKA_STORAGE_ERROR
        assert "t-0: No space left on device" in refused.error_message
        assert "make room, and it goes on by itself" in refused.error_message
    assert pair.run(pair.ask("fetch_once", fetch_request(TP))).error_code == ErrorCode.NONE
    pair.wait(20)  # checkpoints and the like find no room either
    assert not pair.brokers[1].failed
    disk.on = False
    assert pair.produced().error_code == ErrorCode.NONE
    assert pair.log(1).log_end_offset == 11


def test_a_full_follower_leaves_the_isr_by_its_lag_and_comes_back_once_there_is_room(pair, monkeypatch):
    disk = FullDisk(pair, 2, monkeypatch)
    pair.produce(*[100] * 5)  # waits until the follower is out
    assert pair.isr == {1}
    assert not pair.brokers[2].failed
    disk.on = False
    pair.until(lambda: pair.isr == {1, 2})
    assert pair.log(2).log_end_offset == 15


def test_a_replica_without_room_for_its_files_comes_once_there_is_some(pair, monkeypatch):
    disk = FullDisk(pair, 2, monkeypatch)

    async def create() -> None:
        async with pair.admin("another") as admin:
            await admin.create_topic("u", partitions=1, replication_factor=2)

    creating = pair.loop.spawn(pair.client, create())
    pair.wait(5)
    assert not pair.brokers[2].failed
    assert not (pair.directory / "broker-2" / "u-0").exists()
    disk.on = False
    pair.until((pair.directory / "broker-2" / "u-0").exists, 60)
    pair.until(creating.done, 60)
