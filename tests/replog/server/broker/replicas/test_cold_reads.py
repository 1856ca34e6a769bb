"""What fetches lack in memory is brought by a thread of each disk. One disk hangs, also while a file is read for an
audit. Look-ups by time rest (docs/limits.md)."""

import asyncio
import os
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from benchmarks.attackers import packed
from replog.errors import ErrorCode, ReplogError
from replog.log.files.cold import ColdRead
from replog.log.formats.batch import parse_header
from replog.log.timestamps import ClaimingBatch
from replog.rpc import methods
from replog.rpc.peer import anonymous, handling
from replog.rpc.v1 import inspection_pb2, log_pb2
from replog.server.broker.replicas import look_ups
from replog.server.broker.replicas.fetch_sessions import MOST_READS, ColdReads
from replog.server.broker.replicas.look_ups import LONG_RESTS, RESTS
from replog.topic import TopicPartition
from tests.replog.log.hanging import Hanging
from tests.replog.server.broker.conftest import CALL_S, TP, InProcessCluster, batch, eventually


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


S = 60.0


async def ask(cluster: InProcessCluster, *topics: str) -> Sequence[log_pb2.ListOffsetsPartitionResult]:
    named = [log_pb2.ListOffsetsPartition(topic=topic, partition=0, timestamp=1001) for topic in topics]
    request = log_pb2.ListOffsetsRequest(partitions=named)
    response = await cluster.any_channel().call(methods.Log["list_offsets"], request, CALL_S)
    partitions: Sequence[log_pb2.ListOffsetsPartitionResult] = response.partitions
    return partitions


async def test_a_batch_is_looked_into_as_far_as_a_leader_looks_into_what_it_is_sent(cluster):
    """Sixteen times `max.message.bytes`; one that expands to more stands for its first record."""
    await cluster.start_broker(1)
    for topic, size, offset in (("small", 1_500_000, 1), ("large", 1_700_000, 0)):
        await cluster.create_topic(topic, replication_factor=1, max_message_bytes="100000")
        error, _, message = await cluster.produce(TopicPartition(topic, 0), packed(size))
        assert error is ErrorCode.NONE, message
        assert [(r.timestamp, r.offset) for r in await ask(cluster, topic)] == [(1001, offset)]


async def test_a_partition_is_named_once_in_a_request(cluster):
    await cluster.begin(1)
    await cluster.produce(TopicPartition("t", 0), batch(b"x"))
    with pytest.raises(ReplogError, match="names each partition once") as raised:
        await ask(cluster, "t", "t")
    assert raised.value.code is ErrorCode.INVALID_REQUEST


async def test_a_request_that_takes_too_long_is_told_so_partition_by_partition(cluster, monkeypatch):
    await cluster.start_broker(1)
    for topic in ("t", "u"):
        await cluster.create_topic(topic, replication_factor=1)
        await cluster.produce(TopicPartition(topic, 0), packed(100))
    with monkeypatch.context() as impatient:
        impatient.setattr("replog.server.broker.clients.log_service.LOOK_UP_S", 0.2)
        async with cluster.brokers[1]._look_ups.searching:  # for somebody else, and it takes long
            results = await ask(cluster, "t", "u")
    assert [result.error_code for result in results] == [ErrorCode.REQUEST_TIMED_OUT] * 2
    for result in results:
        assert result.error_message.startswith(f"looking for time 1001 in {result.topic}-0: ")
        assert "name fewer partitions in one" in result.error_message
    assert [result.offset for result in await ask(cluster, "t", "u")] == [1, 1]


@pytest.mark.parametrize(("long_s", "rests"), [(S, RESTS), (0.0, LONG_RESTS)], ids=["short", "long"])
async def test_after_each_look_up_they_rest_for_longer_than_it_took(monkeypatch, long_s, rests):
    least_s, loop, ours = 0.05, asyncio.get_running_loop(), look_ups.LookUps()
    monkeypatch.setattr(look_ups, "LONG_S", long_s)
    monkeypatch.setattr(ClaimingBatch, "find", lambda _: time.sleep(least_s))
    data = packed(1)
    batch = ClaimingBatch(parse_header(data), data, timestamp=1001, start_offset=0, max_message_bytes=1 << 20)
    begun_s = loop.time()
    await ours.find(batch)
    rests_until_s, most_s = ours.rests_until_s, loop.time() - begun_s
    assert least_s * (1 + rests) <= rests_until_s - begun_s <= most_s * (1 + rests)
    await ours.find(batch)
    assert loop.time() > rests_until_s


async def test_a_call_that_is_cancelled_while_its_file_is_opened_leaves_no_descriptor(
    cluster: InProcessCluster, monkeypatch: pytest.MonkeyPatch
):
    broker = await cluster.begin(1)
    path = cluster.log(1, TP).directory / f"{0:020d}.timeindex"
    hanging = Hanging(path, monkeypatch)
    before = _open(path)
    handling(anonymous("127.0.0.1"))
    request = inspection_pb2.ReadFileRequest(topic=TP.topic, partition=TP.partition, file=inspection_pb2.TIME_INDEX)
    read = asyncio.ensure_future(anext(broker.inspection.read_file(request)))
    await eventually(hanging.is_opened.is_set)
    read.cancel()
    await asyncio.sleep(0)
    hanging.go_on()
    with pytest.raises(asyncio.CancelledError):
        await read
    await eventually(lambda: _open(path) == before, what=lambda: _open(path))


def _open(path: Path) -> list[str]:
    """Descriptors of this process on it."""
    found = []
    for name in os.listdir("/proc/self/fd"):
        with suppress(OSError):
            if os.readlink(f"/proc/self/fd/{name}") == str(path):
                found.append(name)
    return found
