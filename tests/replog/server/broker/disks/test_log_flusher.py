"""Group commit: flushes and truncations in a thread, and who waits for them (LG-18, LG-10, divergence 36)."""

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from replog.errors import ErrorCode
from replog.log.files.open_files import OpenFile
from replog.server.broker.disks import log_flusher
from replog.server.work import in_thread
from replog.topic import TopicPartition
from tests.replog.server.broker.conftest import batch, eventually
from tests.replog.server.broker.disks.test_failing_disks import ask

T0 = TopicPartition("t", 0)


class Syncs:
    """Counts fsyncs of `.log` files in a directory; they take until `go_on` is set, and then raise `error` if it is."""

    def __init__(self, directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count = 0
        self.begun, self.go_on = threading.Event(), threading.Event()
        self.error: OSError | None = None
        sync = OpenFile.sync

        def slow(file: OpenFile) -> None:
            if file.path.startswith(str(directory)) and file.path.endswith(".log"):
                self.count += 1
                self.begun.set()
                assert self.go_on.wait(60)
                if self.error is not None:
                    raise self.error
            sync(file)

        monkeypatch.setattr(OpenFile, "sync", slow)


@pytest.fixture
def syncs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Syncs:
    return Syncs(tmp_path, monkeypatch)


@pytest.mark.parametrize("acks", [1, -1])
async def test_acknowledgements_wait_for_a_flush_and_share_it_while_the_loop_goes_on(cluster, syncs, acks):
    await cluster.begin(1, flush_messages="1")
    produced = [asyncio.create_task(cluster.produce(T0, batch(b"x"), acks=acks)) for _ in range(10)]
    await eventually(lambda: syncs.begun.is_set() and cluster.log(1, T0).log_end_offset == 10)
    assert (cluster.log(1, T0).high_watermark, syncs.count) == (0, 1)
    result, records = await cluster.fetch(T0, 0, max_wait_ms=0)
    assert (result.error_code, records) == (0, b""), "nobody sees what is not flushed"
    assert not any(task.done() for task in produced)
    syncs.go_on.set()
    assert sorted(offset for _, offset, _ in await asyncio.gather(*produced)) == list(range(10))
    assert cluster.log(1, T0).recovery_point == 10
    assert syncs.count <= 3


async def test_so_many_logs_are_flushed_together_and_the_others_after_them(cluster, syncs, monkeypatch):
    """Who waits for one of them waits for all."""
    monkeypatch.setattr(log_flusher, "MOST", 2)
    monkeypatch.setattr(log_flusher, "in_thread", lambda work: together.append(len(work.args[0])) or in_thread(work))
    together: list[int] = []
    syncs.go_on.set()
    await cluster.begin(1, partitions=5, flush_messages="1")
    together.clear()
    produced = (cluster.produce(TopicPartition("t", number), batch(b"x"), acks=1) for number in range(5))
    assert [error for error, *_ in await asyncio.gather(*produced)] == [ErrorCode.NONE] * 5
    assert (sum(together), max(together)) == (5, 2)


async def test_an_acknowledgement_that_needs_no_flush_does_not_wait_for_one(cluster, syncs):
    """acks=0 asks for none, and of flush.messages=3 the first two records may be unflushed."""
    await cluster.begin(1, flush_messages="3")
    for offset in range(2):
        assert (await cluster.produce(T0, batch(b"x"), acks=1))[:2] == (ErrorCode.NONE, offset)
    assert (await cluster.produce(T0, batch(b"x"), acks=0))[0] == ErrorCode.NONE
    error, _, message = await cluster.produce(T0, batch(b"x"), acks=1, timeout_ms=200)
    assert (error, "it may be" in message) == (ErrorCode.REQUEST_TIMED_OUT, True), "PR-11: bounded"
    syncs.go_on.set()
    await eventually(lambda: cluster.log(1, T0).promised_offset == 4)


async def test_a_flush_that_fails_is_a_failed_disk_and_acknowledges_nothing(cluster, syncs):
    broker = await cluster.begin(1, flush_messages="1")
    waiting = asyncio.create_task(cluster.produce(T0, batch(b"x"), acks=1))
    await eventually(syncs.begun.is_set)
    syncs.error = OSError(5, "Input/output error")
    syncs.go_on.set()
    assert (await waiting)[0] == ErrorCode.KAFKA_STORAGE_ERROR
    assert broker.failed
    assert (await cluster.produce(T0, batch(b"x"), acks=1))[0] == ErrorCode.KAFKA_STORAGE_ERROR


async def test_a_log_whose_directory_gets_another_name_during_its_flush_is_flushed_anew(cluster, syncs):
    """§7.7: a copy takes its log's place. The disk is well, and what the thread did not find is not durable yet."""
    broker = await cluster.begin(1, flush_messages="1", segment_bytes="1024")
    produced = [asyncio.create_task(cluster.produce(T0, batch(b"x" * 900), acks=1)) for _ in range(3)]
    log = cluster.log(1, T0)
    await eventually(lambda: syncs.begun.is_set() and log.log_end_offset == 3)
    renamed = log.directory.with_name("u-0")
    log.directory.rename(renamed)
    log.renamed(renamed)
    for segment in log._segments:
        segment.close()
    syncs.go_on.set()
    assert [error for error, *_ in await asyncio.gather(*produced)] == [ErrorCode.NONE] * 3
    assert not broker.failed


async def call(work: Callable[[], object]) -> None:
    work()


def test_a_follower_counts_once_it_has_flushed(pair, monkeypatch):
    """It has the records, and its fetches say so: they are read on from there, and not committed (HW-3)."""
    pair.create_topic(flush_messages="1", min_insync_replicas="1")
    follower = pair.hosted(2).log
    on_due = follower.on_flush_due
    monkeypatch.setattr(follower, "on_flush_due", lambda: None)
    waiting = pair.loop.spawn(pair.client, ask(pair, "produce_once"))
    pair.wait(1)
    assert (pair.log(2).log_end_offset, pair.log(1).recovery_point) == (1, 1)
    assert (waiting.done(), pair.log(1).high_watermark) == (False, 0)
    monkeypatch.setattr(follower, "on_flush_due", on_due)
    pair.run(call(follower.ask_for_flush), pair.processes[2])
    assert pair.loop.run_until(waiting.done, pair.loop.time() + 0.4), "told at once, while another fetch waits"
    assert pair.log(1).high_watermark == 1


def test_a_follower_asks_for_nothing_before_its_truncation_is_settled(pair, monkeypatch):
    """LG-10: and then goes on."""
    pair.create_topic()
    pair.produce(*[100] * 3)
    log = pair.log(2)
    pair.until(lambda: log.log_end_offset == 3, 5)
    on_due = log.on_flush_due
    monkeypatch.setattr(log, "on_flush_due", lambda: None)
    pair.run(call(lambda: log.truncate_to(1)), pair.processes[2])
    pair.hosted(2).fetched_by.mark(T0)  # type: ignore[union-attr]
    pair.wait(2)
    assert log.log_end_offset == 1
    monkeypatch.setattr(log, "on_flush_due", on_due)
    pair.run(call(log.ask_for_flush), pair.processes[2])
    pair.until(lambda: log.log_end_offset == 3, 2)


def test_a_setting_that_is_altered_holds_for_what_is_there_already(pair):
    pair.create_topic()
    pair.produce(*[100] * 3)
    assert pair.log(1).recovery_point == 0

    pair.administer(lambda admin: admin.alter_topic_configs("t", {"flush.messages": "1"}))
    pair.until(lambda: pair.log(1).recovery_point == 3, 5)


async def test_a_replica_that_is_deleted_while_it_is_flushed_costs_nothing_but_itself(cluster, syncs):
    """LG-17 renames the directory under the flush (LG-18); the disk has not failed."""
    broker = await cluster.start_broker(1)
    await cluster.create_topic("doomed", replication_factor=1, flush_ms="1")
    await cluster.create_topic("kept", replication_factor=1, flush_ms="1")
    await cluster.produce(TopicPartition("doomed", 0), batch(b"x"))
    await eventually(syncs.begun.is_set)
    await cluster.delete_topic("doomed")
    await eventually(lambda: TopicPartition("doomed", 0) not in broker.manager.replicas.hosted)
    syncs.go_on.set()
    kept = TopicPartition("kept", 0)
    await cluster.produce(kept, batch(b"y"))
    await eventually(lambda: cluster.log(1, kept).recovery_point == 1)
    assert not broker.failed
