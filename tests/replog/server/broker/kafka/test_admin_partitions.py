"""Elections, moves and log directories as Kafka's clients ask for them."""

import asyncio
from typing import Any

from replog.errors import ErrorCode
from replog.kafka import messages
from replog.topic import MAX_CLUSTER_PARTITIONS, TopicPartition
from tests.replog.server.broker.conftest import InProcessCluster, batch, eventually
from tests.replog.server.broker.kafka.client import Client, connected

PREFERRED, UNCLEAN = 0, 1


def election(kind: int, topics: Any) -> messages.ElectLeadersRequest:
    named = None if topics is None else [messages.ElectLeadersRequestTopicPartition(*each) for each in topics]
    return messages.ElectLeadersRequest(kind, named, 30_000)


def results(response: messages.ElectLeadersResponse) -> list[tuple[str, int, int]]:
    rows = response.replica_election_results
    return [(row.topic, each.partition_id, each.error_code) for row in rows for each in row.partition_result]


async def test_elections(cluster: InProcessCluster, client: Client) -> None:
    await cluster.create_topic("t", partitions=2)
    first = cluster.controller.state.image.partitions[TopicPartition("t", 0)].replicas[0]
    not_needed, unknown = ErrorCode.ELECTION_NOT_NEEDED, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    for version in (0, 1, 2):
        asked = election(PREFERRED, [("t", [1, 0, 7]), ("missing", [0])])
        response = await client.ask(asked, version)
        rows = [("t", 1, not_needed), ("t", 0, not_needed), ("t", 7, unknown), ("missing", 0, unknown)]
        assert (response.error_code, results(response)) == (0, rows)
        response = await client.ask(election(PREFERRED, None), version)
        assert (response.error_code, results(response)) == (0, [])
    response = await client.ask(election(UNCLEAN, [("t", [0])]))
    assert results(response) == [("t", 0, not_needed)]
    for kind in (2, -1, 127):
        response = await client.ask(election(kind, [("t", [0])]))
        assert response.error_code == ErrorCode.INVALID_REQUEST
        assert not any(code == 0 for *_, code in results(response))
    response = await client.ask(election(PREFERRED, [("t", list(range(20_001)))]))
    assert response.error_code == ErrorCode.INVALID_REQUEST
    await cluster.stop_broker(first)
    await eventually(lambda: cluster.leader(TopicPartition("t", 0)) != first)
    other = next(iter(cluster.brokers.values()))
    async with connected(other.address) as client:
        response = await client.ask(election(PREFERRED, [("t", [0])]))
        assert results(response) == [("t", 0, ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE)]
        await cluster.start_broker(first)
        await eventually(lambda: len(cluster.isr(TopicPartition("t", 0))) == 3)
        response = await client.ask(election(PREFERRED, None))
        assert ("t", 0, 0) in results(response)
        assert cluster.leader(TopicPartition("t", 0)) == first


def move(*partitions: tuple[int, list[int] | None], topic: str = "t", **fields: Any) -> Any:
    rows = [messages.AlterPartitionReassignmentsRequestPartition(*each) for each in partitions]
    topics = [messages.AlterPartitionReassignmentsRequestTopic(topic, rows)]
    return messages.AlterPartitionReassignmentsRequest(timeout_ms=30_000, topics=topics, **fields)


def codes(response: messages.AlterPartitionReassignmentsResponse) -> list[int]:
    assert response.error_code == 0, response.error_message
    return [row.error_code for topic in response.responses for row in topic.partitions]


async def test_moves(cluster: InProcessCluster, client: Client) -> None:
    await cluster.create_topic("t", partitions=2, replication_factor=1, min_insync_replicas="1")
    tp = TopicPartition("t", 0)
    (old,) = cluster.controller.state.image.partitions[tp].replicas
    new = next(broker_id for broker_id in (1, 2, 3) if broker_id != old)
    invalid = ErrorCode.INVALID_REPLICA_ASSIGNMENT
    for asked, version, expected in [
        (move((0, None)), 0, [ErrorCode.NO_REASSIGNMENT_IN_PROGRESS]),
        (move((0, []), (1, [9])), 1, [invalid, invalid]),
        (move((0, [1, 1]), (5, [1])), 1, [invalid, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]),
        (move((0, [1]), topic="missing"), 1, [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]),
        (move((0, [1, 2]), allow_replication_factor_change=False), 1, [ErrorCode.INVALID_REPLICATION_FACTOR]),
        (move((0, [new]), allow_replication_factor_change=False), 1, [0]),
    ]:
        assert codes(await client.ask(asked, version)) == expected, asked
    await eventually(lambda: cluster.controller.state.image.partitions[tp].replicas == (new,))


async def test_moves_are_listed_and_taken_back(cluster: InProcessCluster, client: Client) -> None:
    """They do not end: the broker that is added does not run."""
    await cluster.create_topic("t", partitions=2, replication_factor=2)
    tp = TopicPartition("t", 0)
    before = cluster.controller.state.image.partitions[tp].replicas
    (third,) = {1, 2, 3} - {*before}
    if third == 1:
        client.writer.close()
    await cluster.stop_broker(third)
    async with connected(next(iter(cluster.brokers.values())).address) as client:
        assert codes(await client.ask(move((0, [third])))) == [0]
        lists = messages.ListPartitionReassignmentsRequest
        topic = messages.ListPartitionReassignmentsRequestTopic
        for topics, partitions in [
            (None, [0]),
            ([topic("t", [0, 1])], [0]),
            ([topic("t", [1]), topic("missing", [0])], []),
            ([], []),
        ]:
            response = await client.ask(lists(30_000, topics))
            assert response.error_code == 0
            rows = [row for each in response.topics for row in each.partitions]
            assert [row.partition_index for row in rows] == partitions
            for row in rows:
                assert tuple(row.replicas) == (third, *before)
                assert (list(row.adding_replicas), sorted(row.removing_replicas)) == ([third], sorted(before))
        assert codes(await client.ask(move((0, None)))) == [0]
        assert (await client.ask(lists(30_000, None))).topics == []


async def test_log_directories(cluster: InProcessCluster, client: Client) -> None:
    await cluster.create_topic("t", partitions=2, min_insync_replicas="1")
    await cluster.produce(TopicPartition("t", 1), batch(b"x" * 1000))
    topic = messages.DescribeLogDirsRequestTopic
    for topics, expected in [
        (None, {("t", 0), ("t", 1)}),
        ([topic("t", [1, 9])], {("t", 1)}),
        ([topic("missing", [0])], set()),
        ([], set()),
    ]:
        for version in (1, 2, 3, 4):
            response = await client.ask(messages.DescribeLogDirsRequest(topics), version)
            (result,) = response.results
            rows = {(each.name, row.partition_index): row for each in result.topics for row in each.partitions}
            assert (response.error_code, result.error_code, set(rows)) == (0, 0, expected)
            assert result.log_dir == str(cluster.directory / "broker-1")
            assert (result.total_bytes > 0, result.usable_bytes > 0) == (
                (True, True) if version >= 4 else (False, False)
            )
            for (_, partition), row in rows.items():
                assert (row.partition_size > 1000) == (partition == 1)
                assert (row.offset_lag, row.is_future_key) == (0, False)
    response = await client.ask(messages.DescribeLogDirsRequest([topic("t", [0] * (MAX_CLUSTER_PARTITIONS + 1))]))
    assert (response.error_code, response.results) == (ErrorCode.INVALID_REQUEST, [])


async def test_a_broker_without_logs_says_so(cluster: InProcessCluster, client: Client) -> None:
    cluster.brokers[1]._log_dirs.logs = None
    response = await client.ask(messages.DescribeLogDirsRequest(None))
    assert (response.error_code, response.results) == (ErrorCode.BROKER_NOT_AVAILABLE, [])


async def test_replicas_move_to_other_directories(cluster: InProcessCluster) -> None:
    directories = [cluster.directory / "first", cluster.directory / "second"]
    broker = await cluster.start_broker(1, log_dirs=directories)
    await cluster.create_topic("t", partitions=2, replication_factor=1)
    topic, directory = messages.AlterReplicaLogDirsRequestTopic, messages.AlterReplicaLogDirsRequestDir
    async with connected(broker.address) as client:

        async def places() -> dict[int, str]:
            response = await client.ask(messages.DescribeLogDirsRequest(None))
            rows = [(each.log_dir, row) for each in response.results for one in each.topics for row in one.partitions]
            return {} if any(row.is_future_key for _, row in rows) else {row.partition_index: at for at, row in rows}

        before = await places()
        assert set(before.values()) == set(map(str, directories))
        for version in (1, 2):
            wanted = [directory(path, [topic("t", [number])]) for number, path in before.items()]
            wanted[0], wanted[1] = wanted[0]._replace(path=wanted[1].path), wanted[1]._replace(path=wanted[0].path)
            unknown = directory("/no/such", [topic("t", [0]), topic("a/b", [0])])
            response = await client.ask(messages.AlterReplicaLogDirsRequest([*wanted, unknown]), version)
            rows = [(each.topic_name, row.error_code) for each in response.results for row in each.partitions]
            nowhere, invalid = ErrorCode.LOG_DIR_NOT_FOUND, ErrorCode.INVALID_TOPIC_EXCEPTION
            assert rows == [("t", 0), ("t", 0), ("t", nowhere), ("a/b", invalid)]
            after = {number: before[1 - number] for number in before}
            async with asyncio.timeout(60):
                while await places() != after:
                    await asyncio.sleep(0.05)
            before = after
