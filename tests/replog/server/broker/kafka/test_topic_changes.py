"""Topics as Kafka's clients create, widen and delete them."""

import asyncio
from typing import Any

import pytest

from replog.errors import ErrorCode
from replog.kafka.messages import (
    CreatePartitionsRequest,
    CreatePartitionsRequestAssignment,
    CreatePartitionsRequestTopic,
    CreateTopicsRequest,
    CreateTopicsRequestAssignment,
    CreateTopicsRequestConfig,
    CreateTopicsRequestTopic,
    CreateTopicsResponseTopic,
    DeleteTopicsRequest,
    DeleteTopicsRequestTopic,
)
from replog.metadata.image import MetadataImage
from tests.replog.server.broker.conftest import InProcessCluster
from tests.replog.server.broker.kafka.client import Client

MS = 30_000


def topic(
    name: str, partitions: int = -1, factor: int = -1, assigned: dict[int, list[int]] | None = None, **configs: Any
) -> CreateTopicsRequestTopic:
    rows = [CreateTopicsRequestAssignment(*each) for each in (assigned or {}).items()]
    settings = [CreateTopicsRequestConfig(key.replace("_", "."), value) for key, value in configs.items()]
    return CreateTopicsRequestTopic(name, partitions, factor, rows, settings)


async def create(
    client: Client, *topics: CreateTopicsRequestTopic, version: int = 7, validate_only: bool = False
) -> list[CreateTopicsResponseTopic]:
    return list((await client.ask(CreateTopicsRequest(topics, MS, validate_only), version)).topics)


def images(cluster: InProcessCluster) -> list[MetadataImage]:
    return [broker.manager.context.image for broker in cluster.brokers.values()]


@pytest.mark.parametrize("version", range(2, 8))
async def test_an_answer_says_what_was_made_and_every_broker_knows_it(
    cluster: InProcessCluster, client: Client, version: int
) -> None:
    asked = topic("t", 2, 3, retention_ms="1000", compression_type="gzip")
    row, other = await create(client, asked, topic("u"), version=version)
    for image in images(cluster):
        assert {"t", "u"} <= image.topics.keys()
        assert [len(image.partitions_of(name)) for name in ("t", "u")] == [2, 1], "as asked, and the default"
    assert (row.name, row.error_code, row.error_message or None, other.error_code) == ("t", 0, None, 0)
    assert row.topic_id == (images(cluster)[0].topics["t"].topic_id if version >= 7 else bytes(16))
    if version < 5:
        assert (row.num_partitions, row.replication_factor, row.configs) == (-1, -1, None)
        return
    assert (row.num_partitions, row.replication_factor, other.num_partitions, other.replication_factor) == (2, 3, 1, 3)
    configs = {config.name: (config.value, config.config_source) for config in row.configs or ()}
    said = {"retention.ms": ("1000", 1), "compression.type": ("gzip", 1), "segment.ms": ("604800000", 5)}
    assert said.items() <= configs.items()
    assert len(configs) == 34


REFUSED = [
    (topic("a/b"), "INVALID_TOPIC_EXCEPTION", "'a/b'"),
    (topic(""), "INVALID_TOPIC_EXCEPTION", "is empty"),
    (topic("x" * 250), "INVALID_TOPIC_EXCEPTION", "more than 249"),
    (topic("__consumer_offsets"), "INVALID_TOPIC_EXCEPTION", "is internal"),
    (topic("__cluster_metadata"), "INVALID_REQUEST", "is internal"),
    (topic("there"), "TOPIC_ALREADY_EXISTS", "there exists"),
    (topic("is_there"), "INVALID_TOPIC_EXCEPTION", "collides with existing topics: is.there"),
    (topic("n", 0), "INVALID_PARTITIONS", "0 partitions"),
    (topic("n", -2), "INVALID_PARTITIONS", "-2 partitions"),
    (topic("n", 10_001), "INVALID_PARTITIONS", "1 to 10000"),
    (topic("n", 1, 0), "INVALID_REPLICATION_FACTOR", "factor 0"),
    (topic("n", 1, 4), "INVALID_REPLICATION_FACTOR", "needs as many brokers"),
    (topic("n", retention_ms=None), "INVALID_CONFIG", "Null value not supported"),
    (topic("n", retention_ms="1_000"), "INVALID_CONFIG", "retention.ms='1_000'"),
    (topic("n", no_such="1"), "INVALID_CONFIG", "no.such is not a setting here"),
    (topic("n", 1, 1, {0: [1]}), "INVALID_REQUEST", "leave them -1"),
    (topic("n", assigned={1: [1]}), "INVALID_REPLICA_ASSIGNMENT", "from 0 on"),
    (topic("n", assigned={0: [9]}), "INVALID_REPLICA_ASSIGNMENT", "9"),
    (topic("n", assigned={0: [1, 1]}), "INVALID_REPLICA_ASSIGNMENT", "twice"),
]


async def test_what_cannot_be_made_is_refused_and_the_others_of_the_request_are_made(
    cluster: InProcessCluster, client: Client
) -> None:
    await create(client, topic("there"), topic("is.there"))
    for asked, code, words in REFUSED:
        row, fine = await create(client, asked, topic("fine"), version=7, validate_only=True)
        assert (ErrorCode(row.error_code).name, fine.error_code) == (code, 0), row
        assert words in (row.error_message or ""), row
        assert (row.num_partitions, row.replication_factor, row.topic_id) == (-1, -1, bytes(16))
    rows = await create(client, topic("twice"), topic("fine"), topic("twice", 2), topic("fi.ne"), topic("fi_ne"))
    codes = {row.name: ErrorCode(row.error_code).name for row in rows}
    collides = [codes.pop(name) for name in ("fi.ne", "fi_ne")]
    assert codes == {"twice": "INVALID_REQUEST", "fine": "NONE"}
    assert sorted(collides) == ["INVALID_TOPIC_EXCEPTION", "NONE"]
    assert images(cluster)[0].topics.keys() == {"there", "is.there", "fine"} | images(cluster)[0].topics.keys() & {
        "fi.ne",
        "fi_ne",
    }


async def test_replicas_are_assigned_by_hand_and_nothing_is_made_that_is_only_validated(
    cluster: InProcessCluster, client: Client
) -> None:
    (row,) = await create(client, topic("t", assigned={1: [2, 3], 0: [3, 1]}), validate_only=True)
    assert (row.error_code, row.num_partitions, row.replication_factor, row.topic_id) == (0, 2, 2, bytes(16))
    assert not images(cluster)[0].topics
    (row,) = await create(client, topic("t", assigned={1: [2, 3], 0: [3, 1]}))
    assert row.error_code == 0
    for image in images(cluster):
        assert [state.replicas for state in image.partitions_of("t").values()] == [(3, 1), (2, 3)]


async def test_what_is_asked_without_a_timeout_is_done(cluster: InProcessCluster, client: Client) -> None:
    """librdkafka takes REQUEST_TIMED_OUT for a success then."""
    for timeout_ms in (0, -1):
        response = await client.ask(CreateTopicsRequest([topic(f"t{timeout_ms}")], timeout_ms))
        assert [row.error_code for row in response.topics] == [0]
        assert f"t{timeout_ms}" in images(cluster)[0].topics
        (row,) = (
            await client.ask(DeleteTopicsRequest([DeleteTopicsRequestTopic(f"t{timeout_ms}")], (), timeout_ms))
        ).responses
        assert (row.error_code, images(cluster)[0].topics) == (0, {})


async def test_a_controller_that_is_away_is_asked_until_the_timeout(cluster: InProcessCluster, client: Client) -> None:
    await cluster._server.stop(0)
    began = asyncio.get_running_loop().time()
    response = await client.ask(CreateTopicsRequest([topic("t")], 500))
    assert [row.error_code for row in response.topics] == [ErrorCode.NETWORK_EXCEPTION]
    assert 0.3 < asyncio.get_running_loop().time() - began < 10


async def widen(
    client: Client, *rows: tuple[str, int, Any], validate_only: bool = False, version: int = 3
) -> list[str]:
    topics = [
        CreatePartitionsRequestTopic(
            name, count, None if assigned is None else [CreatePartitionsRequestAssignment(each) for each in assigned]
        )
        for name, count, assigned in rows
    ]
    response = await client.ask(CreatePartitionsRequest(topics, MS, validate_only), version)
    assert [row.name for row in response.results] == list(dict.fromkeys(name for name, *_ in rows))
    return [ErrorCode(row.error_code).name for row in response.results]


async def test_partitions_are_added(cluster: InProcessCluster, client: Client) -> None:
    await create(client, topic("t", 1, 2), topic("u", 1, 2))
    for version in range(4):
        assert await widen(client, ("t", version + 2, None), version=version) == ["NONE"]
        assert [len(image.partitions_of("t")) for image in images(cluster)] == [version + 2] * 3
    assert await widen(client, ("u", 3, [[1, 2], [2, 3]]), validate_only=True) == ["NONE"]
    refused = [("t", 5, None), ("missing", 2, None), ("u", 1, None), ("a/b", 2, None)]
    assert await widen(client, *refused) == [
        *("INVALID_PARTITIONS", "UNKNOWN_TOPIC_OR_PARTITION", "INVALID_PARTITIONS", "UNKNOWN_TOPIC_OR_PARTITION")
    ]
    assert await widen(client, ("u", 3, [[1, 2]])) == ["INVALID_REPLICA_ASSIGNMENT"]
    assert await widen(client, ("u", 2, [[1, 9]])) == ["INVALID_REPLICA_ASSIGNMENT"]
    assert await widen(client, ("u", 2, None), ("t", 9, None), ("u", 3, None)) == ["INVALID_REQUEST", "NONE"]
    assert await widen(client, ("u", 3, [[1, 2], [2, 3]])) == ["NONE"]
    for image in images(cluster):
        assert [state.replicas for state in image.partitions_of("u").values()][1:] == [(1, 2), (2, 3)]


async def test_topics_are_deleted_by_name_and_by_id(cluster: InProcessCluster, client: Client) -> None:
    names = [f"t{version}" for version in range(1, 6)]
    await create(client, *map(topic, (*names, "named", "meant", "kept")))
    for version, name in enumerate(names, 1):
        response = await client.ask(DeleteTopicsRequest(topic_names=[name, "missing", "a/b"], timeout_ms=MS), version)
        codes = [(row.name, ErrorCode(row.error_code).name) for row in response.responses]
        unknown = [(other, "UNKNOWN_TOPIC_OR_PARTITION") for other in ("missing", "a/b")]
        assert codes == [(name, "NONE"), *unknown]
        assert not any(name in image.topics for image in images(cluster))
    topic_id, nobodys = images(cluster)[0].topics["meant"].topic_id, bytes(15) + b"\1"
    asked = [("named", bytes(16)), (None, topic_id), (None, nobodys), (None, bytes(16)), ("kept", topic_id)]
    request = DeleteTopicsRequest([DeleteTopicsRequestTopic(*each) for each in asked], (), MS)
    rows = [(row.name, row.topic_id, ErrorCode(row.error_code).name) for row in (await client.ask(request)).responses]
    assert rows == [
        ("named", bytes(16), "NONE"),
        ("meant", topic_id, "NONE"),
        (None, nobodys, "UNKNOWN_TOPIC_ID"),
        (None, bytes(16), "INVALID_REQUEST"),
        ("kept", topic_id, "INVALID_REQUEST"),
    ]
    assert [image.topics.keys() for image in images(cluster)] == [{"kept"}] * 3
    twice = DeleteTopicsRequest([DeleteTopicsRequestTopic("kept")] * 2, (), MS)
    assert [row.error_code for row in (await client.ask(twice)).responses] == [ErrorCode.INVALID_REQUEST]
    assert "kept" in images(cluster)[0].topics


async def test_a_broker_that_has_just_died_holds_nobody_up(cluster: InProcessCluster, client: Client) -> None:
    await cluster.crash_broker(3)
    (row,) = await create(client, topic("t", 1, 2))
    assert row.error_code == 0
    assert "t" in images(cluster)[1].topics
