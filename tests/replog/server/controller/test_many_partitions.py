"""Decisions on thousands of partitions, on a real store, and everybody else's turn meanwhile."""

import asyncio

from replog.server.slices import SLICE


async def test_what_is_decided_of_thousands_of_partitions_lets_others_have_their_turns(running):
    async with running() as r:
        await r.start_brokers(1, 2, 3)
        turns, seen, commit = 0, [], r.store.commit

        async def others():
            nonlocal turns
            while True:
                await asyncio.sleep(0)
                turns += 1

        def noting(version, records, forgotten):
            seen.append((turns - begun, len(records)))
            return commit(version, records, forgotten)

        r.store.commit = noting
        task = asyncio.create_task(others())
        await asyncio.sleep(0)
        begun = turns
        await r.create("big", partitions=2000, replication_factor=3)
        broker = r.image.brokers[2]
        begun = turns
        await r.controller.decide(lambda now_ms: r.controller.state.fence_gone(broker, now_ms))
        task.cancel()
        created, fenced = seen
        assert (created[1], fenced[1]) == (2001, 2001)
        assert min(created[0], fenced[0]) >= 2001 // SLICE
        assert all(sorted(state.isr) == [1, 3] for state in r.image.partitions.values())
