"""What fetches lack in memory is brought by a thread of each disk. One disk hangs."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from replog.log.files.cold import ColdRead
from replog.server.broker.replicas.fetch_sessions import MOST_READS, ColdReads
from replog.topic import TopicPartition
from tests.replog.log.hanging import Hanging
from tests.replog.server.broker.conftest import eventually


class Session:
    """What is brought for it, in the order in which it hears of that."""

    def __init__(self) -> None:
        self.brought: list[int] = []
        self.looks = 0

    def on_brought(self, tp: TopicPartition, cold: ColdRead) -> None:
        self.brought.append(tp.partition)

    def look(self) -> None:
        self.looks += 1


class Disks:
    """Two directories with a log each, and what runs on them."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.paths = [root / "disk1", root / "disk2"]
        for path in self.paths:
            (path / "t-0").mkdir(parents=True)
            (path / "t-0" / "file").write_bytes(b"data")
        self.slow = self.paths[0] / "t-0" / "slow"
        self.slow.write_bytes(b"data")
        self._hanging = Hanging(self.slow, monkeypatch)
        self.reads = ColdReads(lambda sessions: [session.look() for session in sessions])  # type: ignore[attr-defined]

    def ask(self, session: Any, number: int, path: Path) -> None:
        cold = ColdRead(0, 4)
        cold.path = str(path)
        self.reads.ask(TopicPartition("t", number), session, cold)

    def file(self, disk: int) -> Path:
        return self.paths[disk] / "t-0" / "file"

    async def go_on(self) -> None:
        """Let the reader that waits for the slow file have it."""
        await eventually(self._hanging.is_opened.is_set)
        self._hanging.go_on()


@asynccontextmanager
async def running(root: Path) -> AsyncIterator[Disks]:
    with pytest.MonkeyPatch.context() as monkeypatch:
        disks = Disks(root, monkeypatch)
        task = asyncio.create_task(disks.reads.run(disks.paths))
        yield disks
        task.cancel()
        await asyncio.wait([task])


async def test_a_disk_that_hangs_holds_up_nobody_elsewhere(tmp_path):
    session = Session()
    async with running(tmp_path) as disks:
        disks.ask(session, 0, disks.slow)
        disks.ask(session, 1, disks.file(1))
        await eventually(lambda: session.brought == [1])
        await disks.go_on()
        await eventually(lambda: session.brought == [1, 0])
    assert session.looks == 2


async def test_who_wants_little_does_not_wait_for_all_that_another_wants(tmp_path):
    greedy, modest = Session(), Session()
    async with running(tmp_path) as disks:
        disks.ask(greedy, 0, disks.slow)
        await asyncio.sleep(0)
        for number in range(1, 10 * MOST_READS):
            disks.ask(greedy, number, disks.file(0))
        disks.ask(modest, 0, disks.file(0))
        heard: list[int] = []
        modest.look = lambda: heard.append(len(greedy.brought))  # type: ignore[method-assign]
        await disks.go_on()
        await eventually(lambda: len(greedy.brought) == 10 * MOST_READS)
        assert modest.brought == [0]
        assert heard[0] <= 2 * MOST_READS
        assert sorted(greedy.brought) == list(range(10 * MOST_READS))


async def test_what_is_wanted_no_more_is_not_brought(tmp_path):
    gone, other = Session(), Session()
    async with running(tmp_path) as disks:
        disks.ask(other, 0, disks.slow)
        await asyncio.sleep(0)
        for number in range(5):
            disks.ask(gone, number, disks.file(0))
        for number in range(6):
            disks.reads.forget(TopicPartition("t", number), gone)  # type: ignore[arg-type]
        disks.ask(other, 1, disks.file(0))
        await disks.go_on()
        await eventually(lambda: other.brought == [0, 1])
    assert gone.brought == []
    assert not any(disk.wanted for disk in disks.reads._disks.values())
