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
        await collected(r)  # unless the controller did so itself just now
        assert await collected(r) == 0
        assert sorted(record.key for record in r.controller.records.since(0)[0]) == [
            "broker/1",
            "broker/2",
            "cluster",
            "collected",
            "lineage",
        ]
        assert len(r.store.load()) == 5
    async with running() as r:
        forgotten_up_to = r.image.version - 2
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
            "lineage",
        ]
        assert not shorter.reset
        assert values(shorter) == [("collected", "collected"), ("lineage", "lineage")]


async def test_nothing_of_a_deleted_topics_partitions_is_stored_or_sent(running):
    async with running() as r:
        await r.start_brokers(1)
        await r.create("t", partitions=3, replication_factor=1)
        await r.create("t2", partitions=1, replication_factor=1)
        seen = r.image.version
        await r.delete("t")
        stored = [record.key for record in r.store.load()]
        assert [key for key in stored if key.startswith("partition/")] == ["partition/t2/0"]
    async with running() as r:
        assert list(map(str, r.image.partitions)) == ["t2-0"]
        async with r.watch(seen) as next_delta:
            assert values(await next_delta()) == [("topic/t", None), ("lineage", "lineage")]
