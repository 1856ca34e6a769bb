"""The controller on a real store: commit, apply, publish, answer."""

import asyncio
import gc
import random
import sqlite3
import threading
import time
from contextlib import asynccontextmanager

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replog.controller.cluster_state import new_cluster_id
from replog.errors import ErrorCode, ReplogError
from replog.metadata.changes import Change
from replog.metadata.records import record_of
from replog.release import MAX_VERSION_LENGTH
from replog.rpc.v1 import controller_pb2 as pb
from replog.rpc.v1.metadata_pb2 import CollectedRecord, MetadataRecord
from replog.server.controller import watchers
from replog.server.controller.store import LeadershipLostError, VersionConflictError
from replog.server.controller.watchers import CurrentRecords
from tests.replog.server.broker.conftest import eventually


def test_a_cluster_id_is_22_characters_and_never_looks_like_an_option():
    rng = random.Random(1)
    ids = {new_cluster_id(rng) for _ in range(1000)}
    assert {len(i) for i in ids} == {22}
    assert not any(i.startswith("-") for i in ids)
    assert len(ids) == 1000


async def test_what_is_answered_is_already_durable_and_applied(running):
    async with running() as r:
        await r.start_brokers(1, 2, 3)
        created = await r.create("t")
        assert r.image.version == created.metadata_version
        db = sqlite3.connect(r.store.path)
        assert db.execute("SELECT max(version) FROM metadata").fetchone() == (created.metadata_version,)
        db.close()


async def test_a_watch_from_the_beginning_gets_everything_in_version_order_then_what_happens(running):
    async with running() as r:
        await r.start_brokers(1, 2, 3)
        async with r.watch() as next_delta:
            first = await next_delta()
            assert [rec.version for rec in first.records] == sorted(rec.version for rec in first.records)
            assert [rec.key for rec in first.records] == ["cluster", "lineage", "broker/1", "broker/2", "broker/3"]
            assert first.version == first.records[-1].version == r.image.version
            created = await r.create("t")
            second = await next_delta()
            assert [rec.key for rec in second.records] == ["topic/t", "partition/t/0"]
            assert second.version == created.metadata_version


async def test_ct_3_no_watcher_hears_an_incarnation_id_and_the_store_keeps_it(running):
    """CT-3: neither of what was there before the controller began, nor of what came later."""
    secrets = b"1" * 16, b"2" * 16
    async with running() as r:
        await r.register(1, secrets[0])
    async with running() as r:
        await r.register(2, secrets[1])
        async with r.watch() as delta:
            heard = await delta()
        brokers = [record.broker for record in heard.records if record.HasField("broker")]
        assert [broker.address for broker in brokers] == ["h1:9092", "h2:9092"]
        assert not any(secret in heard.SerializeToString() for secret in secrets)
        assert [r.image.brokers[b].incarnation_id for b in (1, 2)] == list(secrets)
        stored = [record.broker.incarnation_id for record in r.store.load() if record.HasField("broker")]
        assert stored == list(secrets)


async def test_a_watch_with_nothing_to_say_gives_a_sign_of_life_each_second(running):
    async with running() as r, r.watch(r.image.version) as next_delta:
        begun = time.monotonic()
        delta = await next_delta()
        assert (delta.version, len(delta.records)) == (r.image.version, 0)
        assert time.monotonic() - begun > 0.9


@pytest.mark.parametrize(("bound", "most"), [("DELTA_RECORDS", 3), ("DELTA_BYTES", 500)])
async def test_many_records_come_in_messages_of_bounded_size_each_resumable(running, monkeypatch, bound, most):
    monkeypatch.setattr(watchers, bound, most)
    async with running() as r:
        await r.start_brokers(1, 2, 3)
        await r.create("t" * 200, partitions=10)
        deltas = []
        async with r.watch() as next_delta:
            while not deltas or deltas[-1].version < r.image.version:
                deltas.append(await next_delta())
        for delta in deltas:
            size = len(delta.records) if bound == "DELTA_RECORDS" else sum(rec.ByteSize() for rec in delta.records)
            assert size <= most or len(delta.records) == 1
            assert delta.version == delta.records[-1].version
        assert max(len(delta.records) for delta in deltas) > 1
        assert [rec.version for d in deltas for rec in d.records] == sorted(
            {rec.version for d in deltas for rec in d.records}
        )
        async with r.watch(deltas[0].version) as next_delta:
            assert (await next_delta()).records[0] == deltas[1].records[0]


async def test_a_watch_beyond_the_newest_version_or_before_the_first_is_refused(running, refused):
    async with running() as r:
        with refused(ErrorCode.NOT_CONTROLLER, "version 99", "older copy"):
            async with r.watch(99) as next_delta:
                await next_delta()
        with refused(ErrorCode.INVALID_REQUEST, "-1"):
            async with r.watch(-1) as next_delta:
                await next_delta()


async def test_stopping_ends_every_watch_and_refuses_every_call(running, refused):
    async with running() as r:
        watch = r.service.watch_metadata(pb.WatchMetadataRequest())
        await anext(watch)
        waiting = asyncio.ensure_future(anext(watch))
        await asyncio.sleep(0.05)
    with pytest.raises(StopAsyncIteration):
        await waiting
    with refused(ErrorCode.NOT_CONTROLLER, "stopping"):
        await r.create("t")


async def test_a_disk_that_is_full_changes_nothing_and_the_controller_goes_on_when_there_is_room(running, refused):
    async with running() as r:
        await r.start_brokers(1, 2, 3)
        version = r.image.version
        r.store._db.execute("PRAGMA max_page_count = 8")
        with refused(ErrorCode.KAFKA_STORAGE_ERROR, "full"):
            await r.create("t", partitions=3000)
        assert r.image.version == version
        assert "t" not in r.image.topics
        r.store._db.execute("PRAGMA max_page_count = 1000000")
        assert (await r.create("t", partitions=3000)).metadata_version == version + 3001
        assert not r.controller.failure.done()


async def test_a_controller_whose_store_was_written_by_another_stops_deciding(running, refused):
    async with running() as r, r.watch() as next_delta:
        await next_delta()
        r.store.commit(2, [record_of(Change("cluster", None, "usurper", version=3))])
        with refused(ErrorCode.NOT_CONTROLLER, "another controller"):
            await r.register(1)
        assert isinstance(r.controller.failure.result(), VersionConflictError)
        with pytest.raises(StopAsyncIteration):
            await next_delta()
        with refused(ErrorCode.NOT_CONTROLLER):
            await r.register(1)


@asynccontextmanager
async def standing_still(store, call):
    """The store's disk takes nothing until this is left; the task of `call` waits for it."""
    entered, go_on = threading.Event(), threading.Event()
    commit = store.commit

    def stalled(*arguments):
        entered.set()
        assert go_on.wait(120)
        return commit(*arguments)

    store.commit = stalled
    try:
        waits = asyncio.ensure_future(call)
        await asyncio.to_thread(entered.wait, 60)
        yield waits
    finally:
        store.commit = commit
        go_on.set()


async def test_a_decision_is_carried_through_though_its_caller_has_gone(running):
    """Else the store would have what the image lacks."""
    async with running() as r:
        async with standing_still(r.store, r.register(1)) as call:
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call
            waiting = asyncio.ensure_future(r.register(2))
            await asyncio.sleep(0.02)
            waiting.cancel()  # this one has not begun, so it never happens
        await eventually(lambda: 1 in r.image.brokers)
        assert await r.register(3) == 4
        assert sorted(r.image.brokers) == [1, 3]


async def test_a_decision_whose_commit_fails_after_its_caller_has_gone_is_no_unheard_error(running):
    """As at the end of a term, whose lease is lost while a commit is under way."""
    unheard = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: unheard.append(context["message"]))

    def lost(*_):
        raise LeadershipLostError("the lease is over")

    async with running() as r:
        r.store.commit = lost
        async with standing_still(r.store, r.register(1)) as call:
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call
        await eventually(r.controller.failure.done)
    gc.collect()
    assert not unheard


async def test_what_is_refused_after_the_commit_ends_the_controller_since_the_store_has_it(running, refused):
    """Else it would go on with an image that lacks what the next one finds in the store."""
    async with running() as r:

        def refuse(*_):
            raise ReplogError(ErrorCode.INVALID_REQUEST, "a defect that speaks as a refusal does")

        r.controller.state.apply = refuse
        with refused(ErrorCode.NOT_CONTROLLER, "must stop", "a defect"):
            await r.register(1)
        assert r.controller.failure.done()
        assert [record.key for record in r.store.load()][-1] == "broker/1"


async def test_concurrent_calls_are_decided_one_after_another(running):
    async with running() as r:
        epochs = await asyncio.gather(*(r.register(b) for b in range(50)))
        assert sorted(epochs) == list(range(3, 53))
        assert r.image.version == 52


async def test_ct_6_brokers_not_heard_of_are_fenced_and_the_watchers_told(running):
    async with running(broker_session_timeout_ms=2000) as r:
        await r.start_brokers(1, 2, 3)
        await r.create("t")
        async with asyncio.timeout(60), r.watch(r.image.version) as next_delta:
            while not r.image.brokers[1].fenced:
                await r.heartbeat(2, 3)
                await asyncio.sleep(0.03)
            assert [b for b, known in r.image.brokers.items() if known.fenced] == [1]
            assert sorted(r.partition().isr) == [2, 3]
            assert [rec.key for rec in (await next_delta()).records] == ["broker/1", "partition/t/0"]


async def test_a_controller_that_did_not_run_for_a_while_fences_nobody_for_it(running):
    async with running(broker_session_timeout_ms=400) as r:
        await r.start_brokers(1)
        await asyncio.sleep(0.1)
        time.sleep(1.0)  # noqa: ASYNC251 (the loop stands still, as under SIGSTOP)
        await asyncio.sleep(0.1)
        assert not r.image.brokers[1].fenced
        await eventually(lambda: r.image.brokers[1].fenced)


async def test_ct_3_heartbeats_do_not_wait_for_a_disk_that_stands_still_and_no_session_ends_of_it(running):
    """CT-3, CT-6."""
    session_ms = 1500
    async with running(broker_session_timeout_ms=session_ms) as r:
        await r.start_brokers(1, 2, 3)
        async with standing_still(r.store, r.create("t")) as creating:
            begun = time.monotonic()
            while time.monotonic() - begun < 3 * session_ms / 1000:
                for broker_id in (1, 2, 3):
                    async with asyncio.timeout(session_ms / 1000):
                        assert not (await r.heartbeat(broker_id)).is_fenced
                await asyncio.sleep(0.02)
            assert not creating.done()
        await creating
        await r.create("u")  # whatever waited for the disk too is through
        assert not any(broker.fenced for broker in r.image.brokers.values())


async def test_a_heartbeat_that_changes_something_is_heard_at_once_and_answered_when_it_is_durable(running):
    """CT-5."""
    async with running() as r:
        await r.register(1)
        async with standing_still(r.store, r.register(2)) as registering:
            heard_ms = r.controller.state.sessions._sessions[1].expires_ms
            await asyncio.sleep(0.01)
            unfencing = asyncio.ensure_future(r.heartbeat(1))
            await eventually(lambda: r.controller.state.sessions._sessions[1].expires_ms > heard_ms)
            assert r.image.brokers[1].fenced
            assert not unfencing.done()
        assert not (await unfencing).is_fenced
        assert not r.image.brokers[1].fenced
        await registering


async def test_a_broker_of_a_release_that_cannot_work_with_this_one_is_not_registered(running, refused):
    """docs/operations.md: one of before there were feature levels says none, and is of the first."""
    async with running() as r:
        request = pb.RegisterBrokerRequest(
            broker_id=7, incarnation_id=b"i" * 16, address="h:1", previous_broker_epoch=-1, software_version="9.9"
        )
        request.oldest_feature_level = request.newest_feature_level = 99
        with refused(ErrorCode.UNSUPPORTED_VERSION, "broker 7 runs replog 9.9", "levels 99 to 99"):
            await r.service.register_broker(request)
        assert 7 not in r.controller.state.image.brokers
        request.ClearField("oldest_feature_level")
        request.ClearField("newest_feature_level")
        await r.service.register_broker(request)
        assert r.controller.state.image.brokers[7].software_version == "9.9"
        request.broker_id = 8
        for version in ("\n", "9" * (MAX_VERSION_LENGTH + 1)):
            request.software_version = version
            with refused(ErrorCode.INVALID_REQUEST, "version of replog", f"at most {MAX_VERSION_LENGTH} printable"):
                await r.service.register_broker(request)


def records_of(*records):
    current = CurrentRecords()
    current.put(records)
    return current


@given(st.lists(st.integers(0, 9), max_size=60), st.integers(0, 60), st.integers(1, 60))
def test_a_watcher_lacks_the_newest_record_of_each_key_newer_than_its_version_in_order(keys, version, together):
    records = [MetadataRecord(key=f"topic/k{key}", version=number) for number, key in enumerate(keys, 1)]
    current = CurrentRecords()
    for first in range(0, len(records), together):
        current.take_over(records_of(*records[first : first + together]))
    newest = {record.key: record.version for record in records}
    lacking, is_all = current.since(version)
    assert [record.version for record in lacking] == sorted(v for v in newest.values() if v > version)
    assert not is_all


def test_the_records_of_a_deleted_topics_partitions_are_kept_no_longer_and_no_others_go():
    keys = ["topic/t", "partition/t/0", "partition/t/1", "partition/t2/0", "partition/t.x/0"]
    current = records_of(*(MetadataRecord(key=key, version=version) for version, key in enumerate(keys, 1)))
    gone = current.take_over(records_of(MetadataRecord(key="topic/t", version=6)), ["partition/t/"])
    assert [record.key for record in gone] == ["partition/t/0", "partition/t/1"]
    assert set(current._versions) == {"topic/", "partition/t2/", "partition/t.x/"}
    assert [record.key for record in current.since(0)[0]] == ["partition/t2/0", "partition/t.x/0", "topic/t"]
    current.take_over(records_of(MetadataRecord(key="partition/t/0", version=7)))
    assert [record.version for record in current.since(5)[0]] == [6, 7]


def test_who_has_seen_less_than_the_forgotten_deletions_is_given_everything():
    keys = ["cluster", "a", "b", "c"]
    current = records_of(*(MetadataRecord(key=key, version=version) for version, key in enumerate(keys, 1)))
    collected = MetadataRecord(key="collected", version=5, collected=CollectedRecord(version=3))
    current.take_over(records_of(collected), ["a", "b"])
    everything, newer = ["cluster", "c", "collected"], ["c", "collected"]
    for seen, expected in {0: (everything, False), 2: (everything, True), 3: (newer, False)}.items():
        lacking, is_all = current.since(seen)
        assert ([record.key for record in lacking], is_all) == expected, seen
