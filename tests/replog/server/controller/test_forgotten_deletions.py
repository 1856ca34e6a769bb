"""Deletions are sent to watchers that may not know them, and then forgotten; on a real store."""


def values(delta):
    return [(record.key, record.WhichOneof("value")) for record in delta.records]


async def collected(r):
    """Every broker says how far it has come, and what all of them have passed is forgotten."""
    for broker_id, broker in r.image.brokers.items():
        if not broker.fenced:
            await r.heartbeat(broker_id)
    return await r.controller.decide(lambda _: r.controller.state.collect_tombstones())


async def test_deletions_are_forgotten_once_every_broker_that_is_not_fenced_has_passed_them(running):
    async with running() as r:
        await r.start_brokers(1, 2)
        await r.create("t", partitions=3, replication_factor=2)
        await r.delete("t")
        await r.heartbeat(1)
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
        await r.delete("gone")
        passed = r.image.version
        await collected(r)
    async with running() as r:
        async with r.watch(seen) as behind, r.watch(passed) as ahead:
            delta, shorter = await behind(), await ahead()
        assert delta.reset
        assert [key for key, _ in values(delta)] == [
            "cluster",
            "broker/1",
            "topic/kept",
            "partition/kept/0",
            "collected",
        ]
        assert not shorter.reset
        assert values(shorter) == [("collected", "collected")]


async def test_a_watcher_that_is_slower_than_the_brokers_is_given_everything(running):
    async with running() as r:
        await r.start_brokers(1)
        await r.create("gone", replication_factor=1)
        async with r.watch(r.image.version - 1) as slow:
            await slow()
            await r.delete("gone")
            await collected(r)
            delta = await slow()
        assert delta.reset
        assert [key for key, _ in values(delta)] == ["cluster", "broker/1", "collected"]
