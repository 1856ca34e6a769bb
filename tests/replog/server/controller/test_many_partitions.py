"""Decisions on thousands of partitions, on a real store, and everybody else's turn meanwhile."""

import asyncio

from replog.rpc.v1 import controller_pb2 as pb
from replog.rpc.v1 import metadata_pb2
from replog.server.controller.service import LOT
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


async def test_a_request_for_many_partitions_is_decided_in_lots_and_answered_whole(running):
    async with running() as r:
        await r.start_brokers(1, 2, 3)
        await r.create("big", partitions=LOT + 1, replication_factor=3)
        led = [tp for tp, state in r.image.partitions.items() if state.leader == 1]
        request = pb.AlterPartitionRequest(**r.claim(1))
        for tp, state in r.image.partitions.items():
            members = [pb.IsrMember(broker_id=b, broker_epoch=r.epoch(b)) for b in (1, 2)]
            request.partitions.add(
                topic="big",
                topic_id=r.image.topics["big"].topic_id,
                partition=tp.partition,
                leader_epoch=state.leader_epoch,
                partition_epoch=state.partition_epoch,
                new_isr=members,
                recovery_state=metadata_pb2.RECOVERED,
            )
        answer = await r.service.alter_partition(request)
        assert [(result.topic, result.partition) for result in answer.partitions] == [
            (named.topic, named.partition) for named in request.partitions
        ]
        changed = {tp for tp, state in r.image.partitions.items() if sorted(state.isr) == [1, 2]}
        assert changed == set(led), "the leader's own, and no other"
