"""The cluster as Kafka's clients see it: brokers, topics, leaders, and what a client may do; topics that come by it."""

import asyncio
from contextlib import AsyncExitStack
from typing import Any

import pytest

from replog.common.acl import Acl, Operation, PatternType, Permission, ResourceType
from replog.errors import ErrorCode
from replog.kafka.messages import (
    DescribeClusterRequest,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsRequestCursor,
    DescribeTopicPartitionsRequestTopic,
    DescribeTopicPartitionsResponse,
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
)
from replog.server.broker.kafka.apis import describe_topic_partitions
from replog.server.broker.kafka.cluster_rows import LISTENER_NOT_FOUND
from replog.topic import TopicPartition
from tests.replog.server.broker.conftest import InProcessCluster, eventually
from tests.replog.server.broker.kafka.client import Client, connected

UNASKED = -(1 << 31)  # operations that nobody asked for
ON_TOPIC = sum(1 << bit for bit in (3, 4, 5, 6, 7, 8, 10, 11))
ON_CLUSTER = sum(1 << bit for bit in (5, 7, 8, 9, 10, 11, 12))
AUTHORIZER = {"authorizer_class_name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer"}
ME = "User:ANONYMOUS"


def asking(*names: str | None, ids: Any = (), **fields: Any) -> MetadataRequest:
    topics = [MetadataRequestTopic(name=name) for name in names]
    return MetadataRequest([*topics, *(MetadataRequestTopic(topic_id, None) for topic_id in ids)], **fields)


def codes(response: MetadataResponse | DescribeTopicPartitionsResponse) -> dict[str | None, str]:
    return {topic.name: ErrorCode(topic.error_code).name for topic in response.topics}


@pytest.mark.parametrize("version", range(14))
async def test_each_version_says_what_it_can(cluster: InProcessCluster, client: Client, version: int) -> None:
    await cluster.create_topic("t", 2, 2)
    image = cluster.brokers[1].manager.context.image
    response = await client.ask(MetadataRequest(() if version == 0 else None), version)
    addresses = {broker.node_id: f"{broker.host}:{broker.port}" for broker in response.brokers}
    assert addresses == {number: broker.address for number, broker in cluster.brokers.items()}
    assert response.controller_id == (1 if version >= 1 else -1), "the one that is asked passes it on"
    assert response.cluster_id == (image.cluster_id if version >= 2 else None)
    (topic,) = response.topics
    assert (topic.name, topic.error_code, topic.is_internal) == ("t", 0, False)
    assert topic.topic_id == (image.topics["t"].topic_id if version >= 10 else bytes(16))
    for row, (number, state) in zip(topic.partitions, image.partitions_of("t").items(), strict=True):
        assert (row.error_code, row.partition_index, row.leader_id) == (0, number, state.leader)
        assert (tuple(row.replica_nodes), tuple(row.isr_nodes)) == (state.replicas, state.isr)
        assert (row.leader_epoch, list(row.offline_replicas)) == (state.leader_epoch if version >= 7 else -1, [])
    assert (topic.topic_authorized_operations, response.cluster_authorized_operations) == (UNASKED, UNASKED)
    asked = asking(
        *("t", "t", "missing", "a/b", "__consumer_offsets"),
        include_cluster_authorized_operations=8 <= version <= 10,
        include_topic_authorized_operations=version >= 8,
    )
    response = await client.ask(asked, version)
    unknown = "UNKNOWN_TOPIC_OR_PARTITION"
    expected = {"t": "NONE", "missing": unknown, "a/b": "INVALID_TOPIC_EXCEPTION", "__consumer_offsets": unknown}
    assert codes(response) == expected
    assert len(response.topics) == 4
    assert response.topics[0].topic_authorized_operations == (ON_TOPIC if version >= 8 else UNASKED)
    assert response.cluster_authorized_operations == (ON_CLUSTER if 8 <= version <= 10 else UNASKED)
    assert [len(topic.partitions) for topic in response.topics] == [2, 0, 0, 0]
    assert image.topics.keys() == {"t"}, "nothing was made"
    assert (await client.ask(MetadataRequest(()), version)).topics == (response.topics[:0] if version else [topic])


async def test_topics_are_named_by_their_ids_from_version_12_on(cluster: InProcessCluster, client: Client) -> None:
    await cluster.create_topic("t", 1, 1)
    topic_id, nobodys = cluster.brokers[1].manager.context.image.topics["t"].topic_id, b"\1" * 16
    response = await client.ask(asking("u", ids=[topic_id, nobodys]), 12)
    assert codes(response) == {"t": "NONE", None: "UNKNOWN_TOPIC_ID"}, "names do not count then"
    assert {topic.topic_id for topic in response.topics} == {topic_id, nobodys}
    for version in (10, 11):
        refused = await client.ask(asking("t", ids=[topic_id]), version)
        assert {topic.error_code for topic in refused.topics} == {ErrorCode.INVALID_REQUEST}
    refused = await client.ask(asking(None), 12)
    assert [topic.error_code for topic in refused.topics] == [ErrorCode.INVALID_REQUEST]


async def test_what_changes_is_seen_at_once_and_who_is_gone_is_offline(
    cluster: InProcessCluster, client: Client
) -> None:
    await cluster.create_topic("t", 1, 3)
    tp = TopicPartition("t", 0)
    (before,) = (await client.ask(asking("t"))).topics
    assert (await client.ask(asking("t"))).topics == [before], "from the bytes that are kept"
    await cluster.stop_broker(3)
    image = cluster.brokers[1].manager.context.image
    await eventually(
        lambda: (image.brokers[3].fenced and image.partitions[tp].isr == (1, 2)) or 3 not in image.partitions[tp].isr
    )
    response = await client.ask(asking("t"))
    (row,) = response.topics[0].partitions
    assert [broker.node_id for broker in response.brokers] == [1, 2]
    assert (set(row.isr_nodes), list(row.offline_replicas), row.leader_id in (1, 2)) == ({1, 2}, [3], True)
    await cluster.delete_topic("t")
    await eventually(lambda: "t" not in image.topics)
    assert codes(await client.ask(asking("t"))) == {"t": "UNKNOWN_TOPIC_OR_PARTITION"}


async def test_a_partition_without_a_leader_says_so(cluster: InProcessCluster, client: Client) -> None:
    await cluster.create_topic("t", 3, 1)
    image = cluster.brokers[1].manager.context.image
    lost = next(tp for tp, state in image.partitions.items() if state.leader == 2)
    await cluster.crash_broker(2)
    await eventually(lambda: image.partitions[lost].leader == -1)
    (topic,) = (await client.ask(asking("t"))).topics
    rows = {row.partition_index: (ErrorCode(row.error_code).name, row.leader_id) for row in topic.partitions}
    assert rows[lost.partition] == ("LEADER_NOT_AVAILABLE", -1)
    assert sum(error == "NONE" for error, _ in rows.values()) == 2
    pages = await client.ask(DescribeTopicPartitionsRequest([DescribeTopicPartitionsRequestTopic("t")], 10))
    assert {
        row.partition_index: (ErrorCode(row.error_code).name, row.leader_id) for row in pages.topics[0].partitions
    } == rows


async def test_clients_see_the_brokers_that_have_their_listener(cluster: InProcessCluster) -> None:
    for broker_id, name in ((1, "ONE"), (2, "TWO")):
        await cluster.start_broker(
            broker_id,
            listeners=f"BETWEEN://127.0.0.1:0,{name}://127.0.0.1:0",
            listener_security_protocol_map=f"BETWEEN:PLAINTEXT,{name}:PLAINTEXT",
            inter_broker_listener_name="BETWEEN",
        )
    await cluster.create_topic("t", 2, 1)
    address = cluster.brokers[2].manager.context.image.brokers[1].address_at("ONE")
    async with connected(address) as client:
        for version, error in ((5, ErrorCode.LEADER_NOT_AVAILABLE), (6, LISTENER_NOT_FOUND)):
            response = await client.ask(asking("t"), version)
            assert [(broker.node_id, f"{broker.host}:{broker.port}") for broker in response.brokers] == [(1, address)]
            rows = {(row.error_code, row.leader_id, *row.offline_replicas) for row in response.topics[0].partitions}
            assert rows == {(0, 1), (error, -1, 2)}


@pytest.mark.parametrize(
    ("enabled", "version", "allows"), [(True, 3, True), (True, 12, True), (True, 12, False), (False, 12, True)]
)
async def test_an_unknown_topic_is_made_where_broker_and_client_allow_it(
    cluster: InProcessCluster, enabled: bool, version: int, allows: bool
) -> None:
    await cluster.start_brokers(1, 2, 3, auto_create_topics_enable=enabled)
    makes = enabled and allows
    names = ("t", "u", "__consumer_offsets", "a/b")
    async with AsyncExitStack() as stack:
        clients = [await stack.enter_async_context(connected(broker.address)) for broker in cluster.brokers.values()]
        request = asking(*names, allow_auto_topic_creation=allows)
        answers = await asyncio.gather(*(client.ask(request, version) for client in clients))
    for answer, broker in zip(answers, cluster.brokers.values(), strict=True):
        unknown = "UNKNOWN_TOPIC_OR_PARTITION"
        made = "NONE" if makes else unknown
        assert codes(answer) == {"t": made, "u": made, "__consumer_offsets": unknown, "a/b": "INVALID_TOPIC_EXCEPTION"}
        assert all(row.leader_id > 0 for topic in answer.topics for row in topic.partitions)
        assert broker.manager.context.image.topics.keys() == ({"t", "u"} if makes else set())


async def test_a_topic_that_cannot_be_made_says_why(cluster: InProcessCluster) -> None:
    await cluster.start_brokers(1, auto_create_topics_enable=True)  # and the default is three replicas
    async with connected(cluster.brokers[1].address) as client:
        assert codes(await client.ask(asking("t"))) == {"t": "INVALID_REPLICATION_FACTOR"}


async def test_a_client_sees_and_makes_only_what_acls_allow(cluster: InProcessCluster) -> None:
    await cluster.start_brokers(1, auto_create_topics_enable=True, **AUTHORIZER)
    acls = [
        (ResourceType.TOPIC, "seen", Operation.DESCRIBE, PatternType.LITERAL),
        (ResourceType.TOPIC, "new", Operation.CREATE, PatternType.PREFIXED),
        (ResourceType.TOPIC, "new", Operation.DESCRIBE, PatternType.PREFIXED),
        (ResourceType.TOPIC, "old", Operation.DESCRIBE, PatternType.LITERAL),
    ]
    for number, (kind, name, operation, pattern) in enumerate(acls):
        acl = Acl(kind, name, pattern, ME, "*", operation, Permission.ALLOW)
        cluster.brokers[1].manager.context.image.acls.put(str(number), acl)
    for name in ("seen", "hidden"):
        await cluster.create_topic(name, 1, 1)
    assert cluster.controller.state.image.topics.keys() == {"seen", "hidden"}
    async with connected(cluster.brokers[1].address) as client:
        assert codes(await client.ask(MetadataRequest(None))) == {"seen": "NONE"}
        asked = asking("seen", "hidden", "missing", "old", "new", include_topic_authorized_operations=True)
        response = await client.ask(asked)
        denied = "TOPIC_AUTHORIZATION_FAILED"
        assert codes(response) == {
            "seen": "NONE",
            "hidden": denied,
            "missing": denied,
            "old": denied,
            "new": "INVALID_REPLICATION_FACTOR",
        }
        hidden = cluster.brokers[1].manager.context.image.topics["hidden"].topic_id
        operations = {topic.name: topic.topic_authorized_operations for topic in response.topics}
        assert operations["seen"] == 1 << 8
        response = await client.ask(asking(ids=[hidden]))
        assert [(topic.name, topic.error_code) for topic in response.topics] == [(None, ErrorCode[denied])]
        described = await client.ask(DescribeClusterRequest(include_cluster_authorized_operations=True))
        assert (described.error_code, described.cluster_authorized_operations) == (0, 0)
        pages = await client.ask(DescribeTopicPartitionsRequest())
        assert [topic.name for topic in pages.topics] == ["seen"]


async def test_a_cluster_is_described(cluster: InProcessCluster, client: Client) -> None:
    for version in (0, 1):
        response = await client.ask(DescribeClusterRequest(True), version)
        assert (response.error_code, response.controller_id, response.endpoint_type) == (0, 1, 1)
        assert response.cluster_id == cluster.controller.state.image.cluster_id
        addresses = {each.broker_id: f"{each.host}:{each.port}" for each in response.brokers}
        assert addresses == {number: broker.address for number, broker in cluster.brokers.items()}
        assert response.cluster_authorized_operations == ON_CLUSTER
    for kind, code in ((2, 114), (3, 115), (0, 115)):
        response = await client.ask(DescribeClusterRequest(endpoint_type=kind), 1)
        assert (response.error_code, list(response.brokers)) == (code, [])
    await cluster.crash_broker(3)
    image = cluster.brokers[1].manager.context.image
    await eventually(lambda: image.brokers[3].fenced)
    for fenced, listed in ((False, {1: False, 2: False}), (True, {1: False, 2: False, 3: True})):
        response = await client.ask(DescribeClusterRequest(include_fenced_brokers=fenced), 2)
        assert {each.broker_id: each.is_fenced for each in response.brokers} == listed


async def test_topics_are_described_in_pages(
    cluster: InProcessCluster, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    await cluster.create_topic("a", 3, 1)
    await cluster.create_topic("b", 5, 1)
    await cluster.create_topic("c", 1, 1)
    for limit in (1, 2, 3, 4, 8, 9, 0):
        seen, cursor = [], None
        for _ in range(20):
            response = await client.ask(DescribeTopicPartitionsRequest((), limit, cursor))
            rows = [(topic.name, row.partition_index) for topic in response.topics for row in topic.partitions]
            assert len(rows) <= max(limit, 1)
            seen += rows
            if response.next_cursor is None:
                break
            cursor = DescribeTopicPartitionsRequestCursor(*response.next_cursor)
        assert seen == [("a", n) for n in range(3)] + [("b", n) for n in range(5)] + [("c", 0)], limit
    named = [DescribeTopicPartitionsRequestTopic(name) for name in ("c", "a", "missing", "a/b")]
    response = await client.ask(DescribeTopicPartitionsRequest(named, 2000))
    unknown = {"a/b": "INVALID_TOPIC_EXCEPTION", "missing": "UNKNOWN_TOPIC_OR_PARTITION"}
    assert codes(response) == {"a": "NONE", "c": "NONE", **unknown}
    behind = await client.ask(DescribeTopicPartitionsRequest((), 2000, DescribeTopicPartitionsRequestCursor("aa", 2)))
    assert [(topic.name, len(topic.partitions)) for topic in behind.topics] == [("b", 5), ("c", 1)]
    assert all(topic.topic_authorized_operations == ON_TOPIC for topic in behind.topics)
    refused = await client.ask(DescribeTopicPartitionsRequest(named, 9, DescribeTopicPartitionsRequestCursor("a", -1)))
    assert {topic.error_code for topic in refused.topics} == {ErrorCode.INVALID_REQUEST}
    monkeypatch.setattr(describe_topic_partitions, "MAX_PAGE", 4)
    response = await client.ask(DescribeTopicPartitionsRequest((), 2000))
    assert response.next_cursor == ("b", 1), "a page has a bound of its own"
    many = [DescribeTopicPartitionsRequestTopic("a" * 60)] * 10_001
    refused = await client.ask(DescribeTopicPartitionsRequest(many))
    assert {topic.error_code for topic in refused.topics} == {ErrorCode.INVALID_REQUEST}
