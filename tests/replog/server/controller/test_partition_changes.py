"""What the controller tells of the past of partitions."""

from replog.errors import ErrorCode
from replog.rpc.v1 import controller_pb2 as pb
from replog.server.controller import service


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
