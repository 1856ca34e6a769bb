"""Elections and reassignments through the service: bounds, lots, the background, what is logged, told and turned."""

import asyncio

import pytest
import structlog

from replog.errors import ErrorCode
from replog.metadata.records import position_to_message
from replog.rpc.limits import MAX_PARTITIONS_OF_BROKERS
from replog.rpc.v1 import controller_pb2 as pb
from replog.server.controller import service
from replog.server.work import SLICE
from tests.replog.server.broker.conftest import eventually


async def test_an_election_of_everything_tells_only_those_that_needed_one(running, monkeypatch):
    """CT-11: some at a time, each lot one commit, so that no heartbeat waits for all of them."""
    monkeypatch.setattr(service, "LOT", 3)
    async with running() as r:
        await r.start_brokers(1, 2)
        await r.assigned("t", *[[1, 2]] * 7)
        await r.assigned("u", [2, 1])
        await r.heartbeat(1, want_fence=True)
        await r.heartbeat(1)
        for partition in range(6):
            assert await r.propose([1, 2], partition=partition) is ErrorCode.NONE
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


async def test_requests_that_make_no_sense_are_refused_as_a_whole(running, refused):
    async with running() as r:
        name = pb.PartitionName(topic="t", partition=0)
        with refused(ErrorCode.INVALID_REQUEST, "not both"):
            await r.service.elect_leaders(pb.ElectLeadersRequest(all_partitions=True, partitions=[name]))
        with refused(ErrorCode.INVALID_REQUEST, "election type 7"):
            await r.service.elect_leaders(pb.ElectLeadersRequest(election_type=7))
        assert not (await r.service.elect_leaders(pb.ElectLeadersRequest())).partitions, "nothing named, nothing done"


async def test_what_a_request_lists_is_built_lot_by_lot(running, monkeypatch):
    """Other work gets in between, however long the list is."""
    monkeypatch.setattr(service, "LOT", 2)
    built, build = [], service._reassignment
    monkeypatch.setattr(service, "_reassignment", lambda item, throttle: built.append(item) or build(item, throttle))
    async with running() as r:
        await r.start_brokers(1, 2)
        await r.assigned("t", *[[1]] * 5)
        target = pb.ReplicaAssignment(broker_ids=[2])
        items = [pb.ReassignablePartition(topic="t", partition=number, target=target) for number in range(5)]
        built_before, decide = [], r.controller.decide

        async def counted(*args):
            built_before.append(len(built))
            return await decide(*args)

        monkeypatch.setattr(r.controller, "decide", counted)
        answer = await r.service.alter_partition_reassignments(pb.AlterPartitionReassignmentsRequest(partitions=items))
        assert [result.error_code for result in answer.partitions] == [0] * 5
        assert built_before == [0, 2, 4]


async def test_of_what_a_stranger_proposes_nothing_is_built(running, monkeypatch, refused):
    """Who may ask is looked at first."""
    built, build = [], service._proposal
    monkeypatch.setattr(service, "_proposal", lambda *args: built.append(args) or build(*args))
    async with running() as r:
        await r.start_brokers(1, 2)
        await r.assigned("t", [1, 2])
        items = [pb.AlterPartitionItem(topic="t", partition=0)] * MAX_PARTITIONS_OF_BROKERS
        for claim in ({"broker_id": 7}, {"broker_id": 1}, r.claim(1) | {"broker_epoch": 0}):
            with refused(ErrorCode.STALE_BROKER_EPOCH):
                await r.service.alter_partition(pb.AlterPartitionRequest(partitions=items, **claim))
        assert not built
        assert await r.propose([1]) is ErrorCode.NONE
        assert built


async def test_isr_21_a_proposal_says_what_its_sender_knew(running):
    async with running() as r:
        await r.start_brokers(1, 2)
        await r.assigned("t", [1, 2])
        assert await r.propose([1]) is ErrorCode.NONE
        before = position_to_message(r.image.position)
        await r.heartbeat(2, want_fence=True)
        await r.heartbeat(2)
        assert await r.propose([1, 2], known=before) is ErrorCode.INELIGIBLE_REPLICA
        assert await r.propose([1, 2], known=position_to_message(r.image.position)) is ErrorCode.NONE


async def leaderless(r):
    """Partition t-0 whose replica 3 is alive, but may miss what 1 and 2 committed."""
    await r.start_brokers(1, 2, 3)
    await r.assigned("t", [1, 2, 3])
    assert await r.propose([1, 2]) is ErrorCode.NONE
    await r.heartbeat(2, 1, want_fence=True)
    assert r.partition().leader == -1


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
        assert r.controller.tally["unclean elections"] == 1


async def test_ct_12_unclean_elections_are_tried_again_in_the_background(running):
    """CT-12: after a restart with the setting changed, when no event comes."""
    async with running() as r:
        await leaderless(r)
    async with running(unclean_leader_election_enable=True, unclean_leader_election_interval_ms=20) as r:
        await r.heartbeat(3)  # it is of release 0.1.0, and says nothing of its logs
        await eventually(lambda: r.partition().leader != -1)
        assert (r.partition().leader, r.partition().recovering) == (3, True)


@pytest.mark.parametrize(("enabled", "tasks"), [(True, 6), (False, 5)])
async def test_ct_12_the_leader_rebalance_can_be_switched_off(running, enabled, tasks):
    async with running(auto_leader_rebalance_enable=enabled) as r:
        names = sorted(task.get_name() for task in r.controller._tasks)
        assert len(names) == tasks
        assert ("leadership given back to preferred replicas" in names) == enabled


async def test_a_recovery_state_that_is_unknown_here_is_not_taken_for_recovered(running):
    async with running() as r:
        await r.start_brokers(1, 2)
        await r.assigned("t", [1, 2])
        assert await r.propose([1], recovery_state=7) is ErrorCode.INVALID_REQUEST
        assert await r.propose([1]) is ErrorCode.NONE


async def changes(r, after: int = 0) -> list[tuple[str, int, int, list[int]]]:
    """Reason, leader before and after, and the in-sync set after."""
    request = pb.DescribePartitionChangesRequest(after_version=after)
    answer = await r.service.describe_partition_changes(request)
    assert all(answer.kept_since_ms <= change.at_ms for change in answer.changes)
    return [(c.reason, c.before.leader, c.after.leader, list(c.after.isr)) for c in answer.changes]


async def test_why_a_partition_changed_is_told(running):
    async with running() as r:
        await r.start_brokers(1, 2)
        await r.assigned("t", [1, 2])
        assert await changes(r) == [], "that it was created is no change of it"
        await r.heartbeat(1, want_fence=True)
        await r.heartbeat(1)
        assert await r.propose([1, 2]) is ErrorCode.NONE
        everything = pb.ElectLeadersRequest(all_partitions=True)
        await r.service.elect_leaders(everything)
        assert await changes(r) == [
            ("broker 1 asks to be fenced", 1, 2, [2]),
            ("broker 2 asked", 2, 2, [1, 2]),
            ("preferred election, asked for by User:ANONYMOUS", 2, 1, [1, 2]),
        ]
        topic_id = r.controller.state.image.topics["t"].topic_id
        await r.heartbeat(1, offline=[pb.OfflineReplica(topic="t", topic_id=topic_id, partition=0)])
        assert (await changes(r))[-1] == ("broker 1 has replicas that failed", 1, 2, [2])
        version = r.controller.state.image.version
        assert await changes(r, after=version - 1) == [(await changes(r))[-1]]
        await r.service.delete_topic(pb.DeleteTopicRequest(topic="t"))
        assert await changes(r) == []


async def test_many_changes_are_read_one_page_after_the_other(running, monkeypatch):
    monkeypatch.setattr(service, "LISTED_CHANGES", 2)
    async with running() as r:
        await r.start_brokers(1, 2)
        await r.assigned("t", *[[1, 2]] * 3)
        await r.heartbeat(1, want_fence=True)
        first = await r.service.describe_partition_changes(pb.DescribePartitionChangesRequest())
        assert [change.after.partition for change in first.changes] == [0, 1]
        assert [leader for _, _, leader, _ in await changes(r, after=first.changes[-1].version)] == [2]


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
            if len(records) > 1:  # another is of a session that ended on a busy machine
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
