"""Elections and reassignments through the service: bounds, lots, the background, what is logged."""

import asyncio

import pytest
import structlog

from replog.errors import ErrorCode
from replog.rpc.v1 import controller_pb2 as pb
from replog.server.controller import service


async def serving(r, *broker_ids):
    """Brokers that are unfenced; their epochs."""
    epochs = {broker_id: await r.register(broker_id) for broker_id in broker_ids}
    for broker_id, epoch in epochs.items():
        await r.heartbeat(broker_id, epoch)
    return epochs


async def fence(r, broker_id, epochs):
    request = pb.HeartbeatRequest(
        broker_id=broker_id, broker_epoch=epochs[broker_id], metadata_version=r.image.version, want_fence=True
    )
    await r.service.heartbeat(request)


async def propose(r, leader, epochs, members, topic="t", partition=0, **fields):
    (state,) = (s for tp, s in r.image.partitions.items() if tp == (topic, partition))
    item = pb.AlterPartitionItem(
        topic=topic,
        partition=partition,
        topic_id=r.image.topics[topic].topic_id,
        leader_epoch=state.leader_epoch,
        partition_epoch=state.partition_epoch,
        new_isr=[pb.IsrMember(broker_id=b, broker_epoch=epochs[b]) for b in members],
        **fields,
    )
    request = pb.AlterPartitionRequest(broker_id=leader, broker_epoch=epochs[leader], partitions=[item])
    return ErrorCode((await r.service.alter_partition(request)).partitions[0].error_code)


async def test_an_election_of_everything_tells_only_those_that_needed_one(running, monkeypatch):
    """CT-11: some at a time, each lot one commit, so that no heartbeat waits for all of them."""
    monkeypatch.setattr(service, "LOT", 3)
    async with running() as r:
        epochs = await serving(r, 1, 2)
        await r.create("t", assignment=[pb.ReplicaAssignment(broker_ids=[1, 2])] * 7)
        await r.create("u", assignment=[pb.ReplicaAssignment(broker_ids=[2, 1])])
        await fence(r, 1, epochs)
        await r.heartbeat(1, epochs[1])
        for partition in range(6):
            assert await propose(r, 2, epochs, [1, 2], partition=partition) is ErrorCode.NONE
        commits = []
        commit = r.store.commit
        monkeypatch.setattr(r.store, "commit", lambda *a: commits.append(len(a[1])) or commit(*a))
        response = await r.service.elect_leaders(pb.ElectLeadersRequest(all_partitions=True))
        told = [(p.topic, p.partition, ErrorCode(p.error_code).name, p.leader) for p in response.partitions]
        assert told == [
            *(("t", partition, "NONE", 1) for partition in range(6)),
            ("t", 6, "PREFERRED_LEADER_NOT_AVAILABLE", 2),
        ]
        assert commits == [3, 3]


async def test_requests_that_make_no_sense_are_refused_as_a_whole(running, monkeypatch, refused):
    monkeypatch.setattr(service, "MAX_CLUSTER_PARTITIONS", 2)
    async with running() as r:
        name = pb.PartitionName(topic="t", partition=0)
        with refused(ErrorCode.INVALID_REQUEST, "not both"):
            await r.service.elect_leaders(pb.ElectLeadersRequest(all_partitions=True, partitions=[name]))
        with refused(ErrorCode.INVALID_REQUEST, "election type 7"):
            await r.service.elect_leaders(pb.ElectLeadersRequest(election_type=7))
        with refused(ErrorCode.INVALID_REQUEST, "3 partitions", "at most 2"):
            await r.service.elect_leaders(pb.ElectLeadersRequest(partitions=[name] * 3))
        with refused(ErrorCode.INVALID_REQUEST, "3 partitions"):
            await r.service.list_partition_reassignments(pb.ListPartitionReassignmentsRequest(partitions=[name] * 3))
        item = pb.ReassignablePartition(topic="t", partition=0)
        with refused(ErrorCode.INVALID_REQUEST, "3 partitions"):
            await r.service.alter_partition_reassignments(pb.AlterPartitionReassignmentsRequest(partitions=[item] * 3))
        assert not (await r.service.elect_leaders(pb.ElectLeadersRequest())).partitions, "nothing named, nothing done"


async def test_a_reassignment_through_the_service(running):
    """CT-14."""
    async with running() as r:
        await serving(r, 1, 2, 3)
        await r.create("t", assignment=[pb.ReplicaAssignment(broker_ids=[1, 2])])
        item = pb.ReassignablePartition(topic="t", partition=0, target=pb.ReplicaAssignment(broker_ids=[2, 3]))
        request = pb.AlterPartitionReassignmentsRequest(partitions=[item])
        (result,) = (await r.service.alter_partition_reassignments(request)).partitions
        assert result.error_code == 0
        (listed,) = (await r.service.list_partition_reassignments(pb.ListPartitionReassignmentsRequest())).partitions
        assert (list(listed.replicas), list(listed.adding_replicas)) == ([2, 3, 1], [3])


async def leaderless(r):
    """Partition t-0 whose replica 3 is alive, but may miss what 1 and 2 committed."""
    epochs = await serving(r, 1, 2, 3)
    await r.create("t", assignment=[pb.ReplicaAssignment(broker_ids=[1, 2, 3])])
    assert await propose(r, 1, epochs, [1, 2]) is ErrorCode.NONE
    await fence(r, 2, epochs)
    await fence(r, 1, epochs)
    (state,) = r.image.partitions.values()
    assert state.leader == -1


async def test_an_unclean_election_is_logged_as_a_warning(running):
    """CT-8: for any caller."""
    async with running() as r:
        await leaderless(r)
        request = pb.ElectLeadersRequest(
            election_type=pb.UNCLEAN, partitions=[pb.PartitionName(topic="t", partition=0)]
        )
        with structlog.testing.capture_logs() as logs:
            (result,) = (await r.service.elect_leaders(request)).partitions
        assert (result.error_code, result.leader) == (0, 3)
        (warning,) = (line for line in logs if line["log_level"] == "warning")
        assert warning["event"] == "unclean leader elections: committed records may be lost"
        assert (warning["count"], warning["partitions"]) == (1, ["t-0 led by 3"])


async def test_ct_12_unclean_elections_are_tried_again_in_the_background(running):
    """CT-12: after a restart with the setting changed, when no event comes."""
    async with running() as r:
        await leaderless(r)
    async with running(unclean_leader_election_enable=True, unclean_leader_election_interval_ms=20) as r:
        for _ in range(6000):
            (state,) = r.image.partitions.values()
            if state.leader != -1:
                break
            await asyncio.sleep(0.01)
        assert (state.leader, state.recovering) == (3, True)


@pytest.mark.parametrize(("enabled", "tasks"), [(True, 5), (False, 4)])
async def test_ct_12_the_leader_rebalance_can_be_switched_off(running, enabled, tasks):
    """CT-12."""
    async with running(auto_leader_rebalance_enable=enabled) as r:
        names = sorted(task.get_name() for task in r.controller._tasks)
        assert len(names) == tasks
        assert ("rebalance leaders" in names) == enabled


async def test_a_recovery_state_that_is_unknown_here_is_not_taken_for_recovered(running):
    async with running() as r:
        epochs = await serving(r, 1, 2)
        await r.create("t", assignment=[pb.ReplicaAssignment(broker_ids=[1, 2])])
        assert await propose(r, 1, epochs, [1], recovery_state=7) is ErrorCode.INVALID_REQUEST
        assert await propose(r, 1, epochs, [1]) is ErrorCode.NONE
