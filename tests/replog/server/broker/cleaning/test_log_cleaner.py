"""The log cleaner of a broker: compacted topics through the whole cluster (CL-2, CL-8, CL-10)."""

import asyncio
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from replog.client.records import decode_fetched, encode_batch
from replog.errors import ErrorCode
from replog.log.compaction.cleaning import CleanTask
from replog.log.errors import CorruptRecord
from replog.rpc.v1 import inspection_pb2 as pb
from replog.server.broker.broker import Broker
from replog.server.broker.cleaning.cleaning_child import CleaningRequest
from replog.server.broker.cleaning.cleaning_process import CleaningProcess
from replog.server.broker.cleaning.log_cleaner import FIRST_MS, LogCleaner
from replog.topic import TopicPartition
from tests.damage.vocabulary import flip
from tests.replog.log.compaction.compacting import latest_of, records_of
from tests.replog.log.directories.moving import deleted
from tests.replog.server.broker.conftest import TP, InProcessCluster, eventually

COMPACTED = {"cleanup_policy": "compact", "segment_bytes": "4000", "min_cleanable_dirty_ratio": "0.01"}
SOON, NEVER = {"log_cleaner_backoff_ms": 20}, {"log_cleaner_backoff_ms": 10_000_000}


def keyed(*pairs: tuple[str, bytes | None]) -> bytes:
    return bytes(encode_batch([(1000, key.encode(), value, []) for key, value in pairs]))


def checkpoint(cluster: InProcessCluster, broker_id: int) -> Path:
    return cluster.directory / f"broker-{broker_id}" / "cleaner-offset-checkpoint"


async def fill(cluster: InProcessCluster, rounds: int, tp: TopicPartition = TP) -> dict[bytes, bytes]:
    """Five keys, again and again; one of them is deleted at the end."""
    for number in range(rounds):
        pairs = [(f"k{key}", b"%d" % number + bytes(200)) for key in range(5)]
        assert (await cluster.produce(tp, keyed(*pairs)))[0] is ErrorCode.NONE
    await cluster.produce(tp, keyed(("k4", None)))
    return {f"k{key}".encode(): b"%d" % (rounds - 1) + bytes(200) for key in range(4)}


async def begin(cluster: InProcessCluster) -> tuple[Broker, dict[bytes, bytes]]:
    """A broker whose log has much to clean, which nobody does but the test; and what has to be left."""
    return await cluster.begin(1, brokers=NEVER, **COMPACTED), await fill(cluster, 40)


@asynccontextmanager
async def cleaner_of(broker: Broker, worker: CleaningProcess) -> AsyncIterator[LogCleaner]:
    assert broker.logs is not None
    try:
        yield LogCleaner(broker.manager, broker.logs, worker)
    finally:
        await worker.close()


async def test_every_replica_compacts_on_its_own_and_consumers_read_what_is_left(cluster):
    """CL-10, CL-8; the checkpoint says how far, and goes with the replica."""
    await cluster.begin(3, brokers=SOON, **COMPACTED)
    latest = await fill(cluster, 40)
    logs = [cluster.log(broker_id, TP) for broker_id in (1, 2, 3)]
    await eventually(
        lambda: all(len(records_of(log)) < 60 for log in logs), what=lambda: [log.segments for log in logs]
    )
    assert [latest_of(log) for log in logs] == [latest] * 3
    assert {log.log_end_offset for log in logs} == {201}
    await eventually(lambda: all(checkpoint(cluster, i).read_text()[-3:] != " 0\n" for i in (1, 2, 3)))
    for broker_id in (1, 2, 3):
        written = int(checkpoint(cluster, broker_id).read_text().split()[-1])
        inspection = cluster.brokers[broker_id].inspection
        (described,) = (await inspection.describe_replicas(pb.DescribeReplicasRequest(topic="t"))).replicas
        assert described.cleaned_to >= written > 0, "the broker knows of cleanings under way too"

    seen: dict[bytes, bytes | None] = {}
    offset, rounds = 0, 0
    while offset < 201:
        result, records = await cluster.fetch(TP, offset)
        assert result.error_code == ErrorCode.NONE
        decoded = decode_fetched(records, "t", 0, offset)
        seen |= {record.key or b"": record.value for record in decoded.records}
        offset = decoded.next_offset
        rounds += 1
        assert rounds < 100, f"no progress at {offset}"
    assert {key: value for key, value in seen.items() if value is not None} == latest


async def test_a_cleaning_that_failed_is_tried_again_later_and_later_until_the_log_is_mended(cluster, monkeypatch):
    broker, latest = await begin(cluster)
    log, now_ms = cluster.log(1, TP), broker.manager.context.clock.monotonic_ms()
    monkeypatch.setattr(broker.manager.context.clock, "monotonic_ms", lambda: now_ms)
    path = log.segments[0].path
    flip(path, 100)
    async with cleaner_of(broker, CleaningProcess()) as cleaner:
        for wait_ms in (FIRST_MS, 2 * FIRST_MS, 4 * FIRST_MS):
            assert not await cleaner._clean_dirtiest()
            cleaner._count_uncleanable()
            assert broker.manager.context.traffic.uncleanable == {log.directory.parent: 1}
            now_ms += wait_ms - 1
            assert await cleaner._dirtiest() is None
            now_ms += 1
        flip(path, 100)
        assert await cleaner._clean_dirtiest()
        cleaner._count_uncleanable()
    assert (latest_of(log), broker.manager.context.traffic.uncleanable) == (latest, {})
    assert broker.manager.context.traffic.damage["cleaning"] == 1, "of one log it is counted once"
    assert not broker.failed, "damage is no reason to stop the broker (CL-2)"


async def test_each_segment_that_was_cleaned_is_noted_at_once(cluster):
    """A crash during a cleaning leaves no hole in a log that the checkpoint does not name (CL-8), and what comes next
    is right."""
    broker, latest = await begin(cluster)
    log, noted = cluster.log(1, TP), []

    class Noting(CleaningProcess):
        async def ask(self, request: CleaningRequest) -> int:
            if not isinstance(request, CleanTask):
                path = checkpoint(cluster, 1)
                noted.append((request.group[0].base_offset, path.read_text().split()[-1]))
                if len(noted) == 3:
                    raise CorruptRecord("a crash, as far as the checkpoint goes")
            return await super().ask(request)

    async with cleaner_of(broker, Noting()) as cleaner:
        assert not await cleaner._clean_dirtiest()
    assert [int(offset) for _, offset in noted] == [base for base, _ in noted], "clean up to where it goes on"
    async with cleaner_of(broker, CleaningProcess()) as cleaner:
        assert await cleaner._clean_dirtiest()
    assert latest_of(log) == latest
    keys = [record.key for record in records_of(log) if record.offset < log.segments[-1].base_offset]
    assert len(keys) == len(set(keys)), keys


async def test_cl_8_a_log_is_known_as_compacted_before_there_is_anything_to_clean(cluster):
    """If the metadata are lost, only the disks tell."""
    broker = await cluster.begin(1, brokers=NEVER, **COMPACTED)
    await cluster.create_topic("plain", replication_factor=1)
    await cluster.led(TopicPartition("plain", 0))
    async with cleaner_of(broker, CleaningProcess()) as cleaner:
        assert not await cleaner._clean_dirtiest()
    assert checkpoint(cluster, 1).read_text() == "0\n1\nt 0 0\n"


async def test_a_topic_that_is_deleted_during_its_cleaning_is_no_failure(cluster):
    broker, _ = await begin(cluster)
    logs = broker.logs
    assert logs is not None
    asked = []

    class Deleting(CleaningProcess):
        async def ask(self, request: CleaningRequest) -> int:
            asked.append(request)
            if len(asked) == 2:
                deleted(logs, TP, 0)
            return await super().ask(request)

    async with cleaner_of(broker, Deleting()) as cleaner:
        assert not await cleaner._clean_dirtiest()
    assert len(asked) == 2
    assert not broker.failed


async def test_a_cleaning_process_that_is_killed_fails_nobody(cluster):
    """What it has left is removed when the log is cleaned again, by another process."""
    broker, latest = await begin(cluster)
    log, killed = cluster.log(1, TP), []

    class Killed(CleaningProcess):
        async def ask(self, request: CleaningRequest) -> int:
            if not isinstance(request, CleanTask) and not killed:
                assert self._child is not None
                killed.append(self._child.pid)
                self._child.kill()
                (log.directory / "00000000000000000000.log.cleaned").write_bytes(b"half of")
            return await super().ask(request)

    async with cleaner_of(broker, Killed()) as cleaner:
        assert not await cleaner._clean_dirtiest()
        assert (cleaner._uncleanable, broker.failed, len(killed)) == ({}, False, 1)
        assert await cleaner._clean_dirtiest()
    assert latest_of(log) == latest
    assert not list(log.directory.glob("*.cleaned"))


async def test_a_cleaning_process_that_cannot_be_started_fails_nobody(cluster, monkeypatch):
    """No memory or no process left is not the disk's fault; the log is cleaned when there is some."""
    broker, latest = await begin(cluster)
    async with cleaner_of(broker, CleaningProcess()) as cleaner:
        with monkeypatch.context() as patch:
            patch.setattr(sys, "executable", "/dev/null")
            assert not await cleaner._clean_dirtiest()
        assert (cleaner._uncleanable, broker.failed) == ({}, False)
        assert await cleaner._clean_dirtiest()
    assert latest_of(cluster.log(1, TP)) == latest


async def test_segments_that_change_or_vanish_during_a_cleaning(cluster):
    """CL-2: after a truncation the log is cleaned some other time; a file that the disk has lost fails the replica,
    instead of being tried for ever before all other logs."""
    broker, _ = await begin(cluster)
    async with cleaner_of(broker, CleaningProcess()) as cleaner:
        log = cluster.log(1, TP)
        await cleaner._name_compacted()  # what is left is the cleaning
        running = asyncio.create_task(cleaner._clean_dirtiest())
        await asyncio.sleep(0)
        log.truncate_to(log.segments[0].size // 1000)
        broker.manager.replicas.hosted[TP].leader._reached = 0  # as if it had been elected just now
        assert not await running
        assert (cleaner._uncleanable, broker.failed) == ({}, False)
        assert await cleaner._dirtiest() is None
        await eventually(lambda: log.settled)  # else its leader appends nothing
        await fill(cluster, 40)
        log.segments[1].path.unlink()
        assert not await cleaner._clean_dirtiest()
        assert (log.failure is not None, broker.failed) == (True, False)


async def test_a_broker_that_stops_does_not_wait_for_a_cleaning(cluster):
    """And the one that starts again finds nothing of it."""
    broker = await cluster.start_broker(1, log_cleaner_backoff_ms=10)
    process = broker._cleaning
    assert isinstance(process, CleaningProcess)
    child = await process._start()
    child.send_signal(signal.SIGSTOP)  # it would work for long
    process._idle = unasked = asyncio.get_running_loop().call_later(600, lambda: None)
    await cluster.create_topic("t", replication_factor=1, cleanup_policy="compact", segment_bytes="300000")
    log = cluster.log(1, TP)
    records = keyed(*[(f"k{number % 700}", bytes(100)) for number in range(2000)])
    while len(log.segments) < 2:
        await cluster.produce(TP, records)
    await eventually(unasked.cancelled, what=lambda: log.segments)
    (log.directory / "00000000000000000000.log.cleaned").write_bytes(b"half of")
    async with asyncio.timeout(40):
        await cluster.stop_broker(1)
    assert child.returncode == -signal.SIGKILL
    await cluster.start_broker(1, log_cleaner_enable=False)
    again = cluster.log(1, TP)
    assert again.log_end_offset == log.log_end_offset
    assert len(latest_of(again)) == 700
    assert not [path for path in log.directory.iterdir() if path.suffix in (".cleaned", ".swap")]


def test_the_cleaning_process_dies_with_its_broker():
    """However that ends: two cleaners in one directory would write to each other's files."""
    start = (
        "import asyncio\n"
        "from replog.server.broker.cleaning.cleaning_process import CleaningProcess\n"
        "async def main():\n"
        "    child = await CleaningProcess()._start()\n"
        "    print(child.pid, flush=True)\n"
        "    await asyncio.sleep(600)\n"
        "asyncio.run(main())\n"
    )
    with subprocess.Popen([sys.executable, "-c", start], stdout=subprocess.PIPE, text=True) as broker:
        assert broker.stdout is not None
        child = Path("/proc") / next(line for line in broker.stdout if line.strip().isdecimal()).strip()
        broker.kill()
    deadline = time.monotonic() + 60
    while child.exists() and "\nState:\tZ" not in (child / "status").read_text():
        assert time.monotonic() < deadline, (child / "status").read_text()
        time.sleep(0.01)
