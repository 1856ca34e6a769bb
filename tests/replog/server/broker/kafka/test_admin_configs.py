"""Settings as Kafka's clients see and alter them."""

from collections.abc import AsyncIterator, Mapping
from typing import Any

import pytest
from aiokafka.admin.client import AIOKafkaAdminClient
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType

from replog.config.topic import TopicConfig
from replog.errors import ErrorCode
from replog.kafka import messages
from replog.rpc.limits import MAX_ALTERED_PER_REQUEST
from tests.replog.server.broker.conftest import InProcessCluster
from tests.replog.server.broker.kafka.client import Client, connected

TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32
SET, DELETE, APPEND, SUBTRACT = range(4)
DEFAULTS = {name: field.default for name, field in TopicConfig.model_fields.items()}


@pytest.fixture
async def client(cluster: InProcessCluster) -> AsyncIterator[Client]:
    """Of broker 1 of two; there is a topic `t` with one replica."""
    await cluster.start_brokers(1, 2)
    await cluster.create_topic("t", replication_factor=1, retention_ms="1000")
    async with connected(cluster.brokers[1].address) as client:
        yield client


async def described(client: Client, kind: int, name: str, keys: Any = None, **wants: Any) -> Any:
    resource = messages.DescribeConfigsRequestResource(kind, name, keys)
    response = await client.ask(messages.DescribeConfigsRequest([resource], **wants))
    (result,) = response.results
    assert (result.resource_type, result.resource_name) == (kind, name)
    return result


async def values(client: Client, kind: int, name: str, *names: str) -> Mapping[str, tuple[str | None, int]]:
    result = await described(client, kind, name, list(names) or None)
    return {row.name: (row.value, row.config_source) for row in result.configs}


async def test_a_topics_settings_say_where_they_come_from(client: Client) -> None:
    ask = messages.DescribeConfigsRequest([messages.DescribeConfigsRequestResource(TOPIC, "t", None)], True, True)
    for version in (1, 2, 3, 4):
        (result,) = (await client.ask(ask, version)).results
        rows = {row.name: row for row in result.configs}
        assert set(rows) == {field.alias for field in TopicConfig.model_fields.values()}
        kept = rows["retention.ms"]
        assert kept[:5] == ("retention.ms", "1000", False, 1, False)
        assert [tuple(each) for each in kept.synonyms] == [
            ("retention.ms", "1000", 1),
            ("retention.ms", "604800000", 5),
        ]
        assert rows["cleanup.policy"][:5] == ("cleanup.policy", "delete", False, 5, False)
        assert rows["unclean.leader.election.enable"].value == "false"
        if version >= 3:
            kinds = {"retention.ms": 5, "cleanup.policy": 7, "segment.bytes": 3, "min.cleanable.dirty.ratio": 6}
            kinds |= {"unclean.leader.election.enable": 1, "message.timestamp.type": 2}
            assert {name: rows[name].config_type for name in kinds} == kinds
            assert all(row.documentation for row in rows.values())
    plain = await described(client, TOPIC, "t")
    assert not any(row.synonyms or row.documentation for row in plain.configs)


async def test_what_is_described(client: Client) -> None:
    for kind, name, keys, code, names in [
        (TOPIC, "t", ["segment.ms", "no.such", "retention.ms"], 0, ["segment.ms", "retention.ms"]),
        (TOPIC, "t", ["no.such"], 0, []),
        (TOPIC, "missing", None, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, []),
        (TOPIC, "a/b", None, ErrorCode.INVALID_TOPIC_EXCEPTION, []),
        (TOPIC, "", None, ErrorCode.INVALID_TOPIC_EXCEPTION, []),
        (BROKER, "1", ["listeners", "cordoned.log.dirs"], 0, ["listeners", "cordoned.log.dirs"]),
        (BROKER, "2", None, ErrorCode.INVALID_REQUEST, []),
        (BROKER, "one", None, ErrorCode.INVALID_REQUEST, []),
        (BROKER, "", None, 0, []),
        (BROKER_LOGGER, "1", None, 0, []),
        (CLIENT_METRICS, "m", None, 0, []),
        (GROUP, "g", None, 0, []),
        (3, "x", None, ErrorCode.INVALID_REQUEST, []),
        (-1, "x", None, ErrorCode.INVALID_REQUEST, []),
    ]:
        result = await described(client, kind, name, keys)
        assert (result.error_code, [row.name for row in result.configs]) == (code, names), (kind, name, result)
        assert (result.error_message is None) == (code == 0)


async def test_a_brokers_settings_tell_what_can_be_altered(client: Client) -> None:
    rows = {row.name: row for row in (await described(client, BROKER, "1", include_synonyms=True)).configs}
    assert rows["node.id"][:4] == ("node.id", "1", True, 4)
    assert rows["log.dirs"].value.endswith("broker-1")
    assert rows["queued.max.request.bytes"].config_source == 5
    assert await incremental(client, BROKER, "1", [("leader.replication.throttled.rate", SET, "1000")]) == 0
    rows = {row.name: row for row in (await described(client, BROKER, "1", include_synonyms=True)).configs}
    rate = rows["leader.replication.throttled.rate"]
    assert rate[:4] == ("leader.replication.throttled.rate", "1000", False, 2)
    assert [source for _, _, source in rate.synonyms] == [2, 5]


def altered(kind: int, name: str, *ops: Any) -> messages.IncrementalAlterConfigsRequestResource:
    configs = [messages.IncrementalAlterConfigsRequestConfig(*op) for op in ops]
    return messages.IncrementalAlterConfigsRequestResource(kind, name, configs)


def replaced(kind: int, name: str, *configs: Any) -> messages.AlterConfigsRequestResource:
    named = [messages.AlterConfigsRequestConfig(*config) for config in configs]
    return messages.AlterConfigsRequestResource(kind, name, named)


async def incremental(client: Client, kind: int, name: str, ops: Any, *, validate_only: bool = False) -> int:
    asked = messages.IncrementalAlterConfigsRequest([altered(kind, name, *ops)], validate_only)
    response = await client.ask(asked)
    (row,) = response.responses
    assert (row.resource_type, row.resource_name) == (kind, name)
    return int(row.error_code)


async def test_settings_are_altered_one_by_one(client: Client) -> None:
    first = messages.AlterConfigsRequest([replaced(TOPIC, "t", ("retention.ms", "1000"))])
    cases: list[Any] = [
        ([("retention.ms", SET, "5")], 0, {"retention.ms": ("5", 1)}),
        ([("retention.ms", DELETE, None)], 0, {"retention.ms": ("604800000", 5)}),
        ([("retention.ms", DELETE, "x"), ("segment.ms", SET, "7")], 0, {"segment.ms": ("7", 1)}),
        ([("leader.replication.throttled.replicas", APPEND, "0:1,0:2")], 0, {}),
        ([("retention.ms", SET, None)], ErrorCode.INVALID_REQUEST, {"retention.ms": ("1000", 1)}),
        ([("retention.ms", SET, "1_000")], ErrorCode.INVALID_CONFIG, {"retention.ms": ("1000", 1)}),
        ([("retention.ms", APPEND, "5")], ErrorCode.INVALID_CONFIG, {"retention.ms": ("1000", 1)}),
        ([("retention.ms", 4, "5")], ErrorCode.INVALID_REQUEST, {"retention.ms": ("1000", 1)}),
        ([("retention.ms", SET, "5"), ("retention.ms", DELETE, None)], ErrorCode.INVALID_REQUEST, {}),
        ([("no.such", SET, "5")], ErrorCode.INVALID_CONFIG, {}),
        ([("no.such", DELETE, None), ("retention.ms", SET, "7")], 0, {"retention.ms": ("7", 1)}),
        ([("x" * 10_000, SET, "5")], ErrorCode.INVALID_CONFIG, {}),
        ([("flush.ms", SET, str(number)) for number in range(200)], ErrorCode.INVALID_REQUEST, {}),
        ([], 0, {"retention.ms": ("1000", 1)}),
    ]
    for ops, code, after in cases:
        await client.ask(first)
        assert await incremental(client, TOPIC, "t", ops, validate_only=True) == code, ops
        assert (await values(client, TOPIC, "t", "retention.ms"))["retention.ms"] == ("1000", 1)
        assert await incremental(client, TOPIC, "t", ops) == code
        assert await values(client, TOPIC, "t", *(after or ["none"])) == after


async def test_lists_are_added_to_and_taken_from(client: Client) -> None:
    name = "follower.replication.throttled.replicas"
    for op, value, after in [
        (SUBTRACT, "0:9", ""),
        (APPEND, "0:1,0:2", "0:1,0:2"),
        (APPEND, "0:2, 0:3", "0:1,0:2,0:3"),
        (SUBTRACT, "0:1,0:3", "0:2"),
    ]:
        assert await incremental(client, TOPIC, "t", [(name, op, value)]) == 0
        assert (await values(client, TOPIC, "t", name))[name] == (after, 1)


async def test_what_cannot_be_altered(client: Client) -> None:
    for kind, name, code in [
        (TOPIC, "missing", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (TOPIC, "a/b", ErrorCode.INVALID_TOPIC_EXCEPTION),
        (BROKER, "7", ErrorCode.BROKER_ID_NOT_REGISTERED),
        (BROKER, "", ErrorCode.INVALID_REQUEST),
        (BROKER, "-1", ErrorCode.INVALID_REQUEST),
        (BROKER, "1", ErrorCode.INVALID_CONFIG),
        (BROKER_LOGGER, "1", ErrorCode.INVALID_REQUEST),
        (GROUP, "g", ErrorCode.INVALID_REQUEST),
        (0, "t", ErrorCode.INVALID_REQUEST),
    ]:
        assert await incremental(client, kind, name, [("retention.ms", SET, "5")]) == code
        asked = messages.AlterConfigsRequest([replaced(kind, name, ("retention.ms", "5"))])
        (row,) = (await client.ask(asked)).responses
        assert row.error_code == code


async def test_a_resource_that_is_named_twice_is_refused_and_others_are_altered(client: Client) -> None:
    topic = altered(TOPIC, "t", ("retention.ms", SET, "5"))
    rate = altered(BROKER, "2", ("follower.replication.throttled.rate", SET, "5"))
    response = await client.ask(messages.IncrementalAlterConfigsRequest([topic, rate, topic]))
    twice = ErrorCode.INVALID_REQUEST
    assert [row.error_code for row in response.responses] == [twice, 0, twice]


async def test_all_settings_are_replaced(client: Client) -> None:
    cases: list[Any] = [
        ([("segment.ms", "9"), ("flush.ms", "8")], 0, {"segment.ms": ("9", 1), "retention.ms": ("604800000", 5)}),
        ([("segment.ms", None)], ErrorCode.INVALID_REQUEST, {"segment.ms": ("9", 1)}),
        ([("segment.ms", "x")], ErrorCode.INVALID_CONFIG, {"segment.ms": ("9", 1)}),
        ([("segment.ms", "10")], 0, {"segment.ms": ("10", 1), "flush.ms": (str(2**63 - 1), 5)}),
        ([], 0, {"segment.ms": ("604800000", 5)}),
    ]
    for configs, code, after in cases:
        for validate_only in (True, False):
            asked = messages.AlterConfigsRequest([replaced(TOPIC, "t", *configs)], validate_only)
            (row,) = (await client.ask(asked)).responses
            assert row.error_code == code, row.error_message
        assert await values(client, TOPIC, "t", *after) == after


async def test_every_broker_knows_an_altered_setting_when_the_answer_comes(
    cluster: InProcessCluster, client: Client
) -> None:
    async with connected(cluster.brokers[2].address) as other:
        for number in range(10):
            assert await incremental(client, TOPIC, "t", [("flush.ms", SET, str(number))]) == 0
            assert await values(other, TOPIC, "t", "flush.ms") == {"flush.ms": (str(number), 1)}


async def test_what_has_settings(client: Client) -> None:
    cases: list[Any] = [
        (0, [], 0, []),
        (1, [], 0, [("t", TOPIC), ("1", BROKER), ("2", BROKER)]),
        (1, [BROKER, GROUP], 0, [("1", BROKER), ("2", BROKER)]),
        (1, [CLIENT_METRICS], 0, []),
        (1, [TOPIC, 5], ErrorCode.UNSUPPORTED_VERSION, []),
    ]
    for version, kinds, code, named in cases:
        response = await client.ask(messages.ListConfigResourcesRequest(kinds), version)
        assert (response.error_code, [tuple(row) for row in response.config_resources]) == (code, named)


async def test_thousands_of_resources_are_answered_or_refused(client: Client) -> None:
    resource = messages.DescribeConfigsRequestResource(TOPIC, "x" * 60)
    for version in (1, 4):
        named = [resource._replace(resource_name="t"), *[resource] * 9_999]
        results = (await client.ask(messages.DescribeConfigsRequest(named), version)).results
        assert {row.name for row in results[0].configs} == {each.alias for each in TopicConfig.model_fields.values()}
        assert {row.error_code for row in results[1:]} == {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
        assert len(results) == 10_000
        results = (await client.ask(messages.DescribeConfigsRequest([*named, resource]), version)).results
        assert {row.error_code for row in results} == {ErrorCode.INVALID_REQUEST}
    resources = [altered(BROKER, str(n), ("flush.ms", SET, "1")) for n in range(MAX_ALTERED_PER_REQUEST + 1)]
    response = await client.ask(messages.IncrementalAlterConfigsRequest(resources))
    assert {row.error_code for row in response.responses} == {ErrorCode.INVALID_REQUEST}


async def test_an_admin_client_of_others_sees_and_replaces_settings(cluster: InProcessCluster, client: Client) -> None:
    admin = AIOKafkaAdminClient(bootstrap_servers=cluster.brokers[2].address)
    await admin.start()
    try:
        topic, broker = ConfigResource(ConfigResourceType.TOPIC, "t"), ConfigResource(ConfigResourceType.BROKER, "1")
        await admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, "t", {"segment.ms": "7"})])
        answers = [row for each in await admin.describe_configs([topic, broker]) for row in each.resources]
        shown = {name: (code, {row[0]: row[1] for row in rows}) for code, _, _, name, rows in answers}
        assert (shown["t"][0], shown["t"][1]["segment.ms"]) == (0, "7")
        assert (shown["1"][0], shown["1"][1]["node.id"]) == (0, "1")
    finally:
        await admin.close()
    assert (await values(client, TOPIC, "t", "retention.ms"))["retention.ms"] == ("604800000", 5)
