"""Deletions are sent to watchers that may not know them, and then forgotten; on a real store."""

import asyncio

from replog.rpc.v1 import controller_pb2 as pb


async def next_delta(watch):
    return await asyncio.wait_for(anext(watch), 60)


def values(delta):
    return [(record.key, record.WhichOneof("value")) for record in delta.records]


async def collected(r):
    """Every broker says how far it has come, and what all of them have passed is forgotten."""
    for broker_id, broker in r.image.brokers.items():
        if not broker.fenced:
            await r.heartbeat(broker_id, broker.broker_epoch)
    return await r.controller.decide(lambda _: r.controller.state.collect_tombstones())


async def test_deletions_are_forgotten_once_every_broker_that_is_not_fenced_has_passed_them(running):
    async with running() as r:
        await r.start_brokers(1, 2)
        await r.create("t", partitions=3, replication_factor=2)
        await r.service.delete_topic(pb.DeleteTopicRequest(topic="t"))
        await r.heartbeat(1, r.image.brokers[1].broker_epoch)
        assert await r.controller.decide(lambda _: r.controller.state.collect_tombstones()) == 0, "2 has not heard"
        assert await collected(r) == 4
        assert await collected(r) == 0
        assert sorted(record.key for record in r.controller.records.since(0)[0]) == [
            "broker/1",
            "broker/2",
            "cluster",
            "collected",
        ]
        assert len(r.store.load()) == 4
    async with running() as r:
        forgotten_up_to = r.image.version - 1
        assert [r.controller.records.since(seen)[1] for seen in (forgotten_up_to - 1, forgotten_up_to)] == [True, False]


async def test_who_may_have_missed_forgotten_deletions_is_given_everything_also_after_a_restart(running):
    async with running() as r:
        await r.start_brokers(1)
        for topic in ("kept", "gone"):
            await r.create(topic, replication_factor=1)
        seen = r.image.version
        await r.service.delete_topic(pb.DeleteTopicRequest(topic="gone"))
        passed = r.image.version
        await collected(r)
    async with running() as r:
        behind, ahead = r.watch(seen), r.watch(passed)
        delta = await next_delta(behind)
        assert delta.reset
        assert [key for key, _ in values(delta)] == [
            "cluster",
            "broker/1",
            "topic/kept",
            "partition/kept/0",
            "collected",
        ]
        delta = await next_delta(ahead)
        assert not delta.reset
        assert values(delta) == [("collected", "collected")]
        for watch in (behind, ahead):
            await watch.aclose()


async def test_a_watcher_that_is_slower_than_the_brokers_is_given_everything(running):
    async with running() as r:
        await r.start_brokers(1)
        await r.create("gone", replication_factor=1)
        slow = r.watch(r.image.version - 1)
        await next_delta(slow)
        await r.service.delete_topic(pb.DeleteTopicRequest(topic="gone"))
        await collected(r)
        delta = await next_delta(slow)
        assert delta.reset
        assert [key for key, _ in values(delta)] == ["cluster", "broker/1", "collected"]
        await slow.aclose()
