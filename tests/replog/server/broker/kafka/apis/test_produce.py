"""Produces of Kafka's clients: what they are answered, and in which order."""

import asyncio

import pytest

from replog.errors import ErrorCode
from replog.server.broker.clients.produce import BATCH_BYTES
from replog.server.broker.replicas.byte_pool import BytePool
from tests.replog.log.batches import client_batch
from tests.replog.server.broker.clients.test_produce import leader_without_fetches
from tests.replog.server.broker.clients.test_quotas import set_quota
from tests.replog.server.broker.conftest import TP, batch, eventually
from tests.replog.server.broker.kafka.client import connected
from tests.replog.server.broker.kafka.requests import produce, rows_of

GOOD = batch(b"x")
NOBODYS_ID = b"\7" * 16
REFUSALS = [
    # the records, the version, other fields, the error
    (GOOD, 9, {"acks": 2}, ErrorCode.INVALID_REQUIRED_ACKS),
    (None, 9, {}, ErrorCode.INVALID_RECORD),
    (b"", 3, {}, ErrorCode.INVALID_RECORD),
    (GOOD + GOOD, 9, {}, ErrorCode.INVALID_RECORD),
    (GOOD[:16] + b"\1" + GOOD[17:], 9, {}, ErrorCode.INVALID_RECORD),
    (GOOD[:-1] + b"?", 9, {}, ErrorCode.CORRUPT_MESSAGE),
    (GOOD[:30], 9, {}, ErrorCode.CORRUPT_MESSAGE),
    (client_batch(b"x", codec=4), 6, {}, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
    (client_batch(b"x", producer_id=5, producer_epoch=0, base_sequence=0), 9, {}, ErrorCode.NOT_ENOUGH_REPLICAS),
    (
        client_batch(b"x", producer_id=0, producer_epoch=0, base_sequence=0, transactional=1),
        9,
        {"transaction": "t"},
        ErrorCode.INVALID_TXN_STATE,
    ),
]


async def test_what_no_partition_takes_is_refused_and_nothing_is_appended(cluster):
    await cluster.begin(1)
    async with connected(cluster.brokers[1].address) as client:
        for records, version, fields, error in REFUSALS:
            if error is ErrorCode.INVALID_TXN_STATE:
                await cluster.allocate_producer_ids()
            answer = await client.ask(produce({"t": {0: records}, "u": {3: GOOD}}, **fields), version)
            refused, unknown = rows_of(answer)["t", 0], rows_of(answer)["u", 3]
            assert (ErrorCode(refused.error_code), refused.base_offset) == (error, -1), records
            if not fields.get("acks"):
                assert ErrorCode(unknown.error_code) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            if version >= 8:
                assert refused.error_message
    assert cluster.log(1, TP).log_end_offset == 0


@pytest.mark.parametrize("version", [3, 7, 9, 12, 13])
async def test_records_are_appended_under_the_topics_name_or_its_id(cluster, version):
    await cluster.begin(1, 2, message_timestamp_type="LogAppendTime")
    topic = cluster.controller.state.image.topics["t"].topic_id if version >= 13 else "t"
    asked = {topic: {1: GOOD, 0: batch(b"x", b"y")}}
    if version >= 13:
        asked |= {NOBODYS_ID: {0: GOOD}}
    async with connected(cluster.brokers[1].address) as client:
        for number in range(2):
            rows = rows_of(await client.ask(produce(asked), version))
            assert [(rows[topic, index].error_code, rows[topic, index].base_offset) for index in (1, 0)] == [
                (0, number),
                (0, 2 * number),
            ]
            assert rows[topic, 0].log_append_time_ms > 1_000_000_000_000
            if version >= 5:
                assert rows[topic, 0].log_start_offset == 0
            if version >= 13:
                assert ErrorCode(rows[NOBODYS_ID, 0].error_code) is ErrorCode.UNKNOWN_TOPIC_ID


@pytest.mark.parametrize("version", [7, 8])
async def test_the_records_that_have_no_key_are_named_where_a_topic_wants_keys(cluster, version):
    await cluster.begin(1, cleanup_policy="compact")
    records = client_batch((b"k", b"1"), b"2", (b"k", b"3"), b"4")
    async with connected(cluster.brokers[1].address) as client:
        row = rows_of(await client.ask(produce(records), version))["t", 0]
    assert ErrorCode(row.error_code) is ErrorCode.INVALID_RECORD
    assert [error.batch_index for error in row.record_errors] == ([1, 3] if version >= 8 else [])
    assert cluster.log(1, TP).log_end_offset == 0


async def test_acks_0_has_no_answer_and_its_error_ends_the_connection(cluster):
    await cluster.begin(1)
    async with connected(cluster.brokers[1].address) as client:
        client.send(produce(GOOD, acks=0), 9)
        client.send(produce(GOOD, acks=1), 9)
        client.expect_none()
        assert rows_of(await client.receive())["t", 0].base_offset == 1
        client.send(produce({"missing": {0: GOOD}}, acks=0), 9)
        assert await client.rest() == b""
    assert cluster.log(1, TP).log_end_offset == 2


async def test_produces_are_appended_in_the_order_in_which_they_were_sent(cluster):
    await cluster.begin(3, 2)
    leader = cluster.leader(TP)
    other = cluster.leader(TP._replace(partition=1)) == leader
    async with connected(cluster.brokers[leader].address) as client:
        for _ in range(200):
            client.send(produce({"t": {0: GOOD, 1: GOOD} if other else {0: GOOD}}), 9)
        answers = [rows_of(await client.receive()) for _ in range(200)]
    assert [rows["t", 0].base_offset for rows in answers] == [*range(200)]


async def test_a_produce_of_many_partitions_is_taken_in_slices_and_in_its_turn(cluster):
    await cluster.begin(1)
    async with connected(cluster.brokers[1].address) as client:
        client.send(produce({"missing": dict.fromkeys(range(300), GOOD), "t": {0: GOOD}}), 9)
        client.send(produce(GOOD), 9)
        rows = rows_of(await client.receive())
        assert {rows["missing", number].error_code for number in range(300)} == {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
        assert rows["t", 0].base_offset == 0
        assert rows_of(await client.receive())["t", 0].base_offset == 1


async def test_who_asks_the_wrong_broker_is_told_the_leader_and_where_it_is(cluster):
    await cluster.begin(2)
    leader = cluster.leader(TP)
    host, port = cluster.brokers[leader].address.rsplit(":", 1)
    async with connected(cluster.brokers[3 - leader].address) as client:
        for version in (9, 10):
            answer = await client.ask(produce(GOOD), version)
            row = rows_of(answer)["t", 0]
            assert ErrorCode(row.error_code) is ErrorCode.NOT_LEADER_OR_FOLLOWER
            told = [(each.node_id, each.host, each.port) for each in answer.node_endpoints]
            assert (tuple(row.current_leader), told) == (
                ((leader, 0), [(leader, host, int(port))]) if version >= 10 else ((-1, -1), [])
            )


async def test_who_has_sent_too_much_is_told_so_and_not_read_for_a_while(cluster):
    await cluster.begin(1)
    records = batch(b"x" * 20_000)
    await set_quota(cluster, producer_byte_rate=len(records))
    loop = asyncio.get_running_loop()
    async with connected(cluster.brokers[1].address) as client:
        begun_s = loop.time()
        for _ in range(3):  # the second is a burst, the third has to wait
            client.send(produce(records), 9)
        waits_ms = [(await client.receive()).throttle_time_ms for _ in range(3)]
        assert loop.time() - begun_s > 0.5
    assert waits_ms[0] == 0 < min(waits_ms[1:])


async def test_who_finds_no_room_is_not_read_from_until_there_is(cluster):
    leader = await leader_without_fetches(cluster)
    log, waiting = cluster.log(leader, TP), BytePool(20 * BATCH_BYTES)
    cluster.brokers[leader].manager.waiting_produces = waiting
    async with connected(cluster.brokers[leader].address) as client:
        for _ in range(50):
            client.send(produce(GOOD, timeout_ms=600_000), 9)
        await eventually(lambda: log.log_end_offset == 20)
        await asyncio.sleep(0.1)
        assert log.log_end_offset == 20
        await cluster.stop_broker(3 - leader)
        for number in range(50):
            assert rows_of(await client.receive())["t", 0].base_offset == number
        assert waiting.used == 0
