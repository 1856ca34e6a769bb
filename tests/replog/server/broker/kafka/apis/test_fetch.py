"""Fetches of Kafka's consumers: sessions, what a request without one is told, waits, and who may read."""

import asyncio
import random
import sys
from typing import Any

import pytest

from replog.common.acl import Operation
from replog.errors import ErrorCode
from replog.kafka.messages import ApiVersionsRequest, FetchRequestPartition, FetchRequestTopic
from replog.log.formats.batch import iterate_batches
from tests.replog.server.broker.clients.test_follower_reads import RACKS, racks
from tests.replog.server.broker.clients.test_permission import STANDARD, Guarded
from tests.replog.server.broker.clients.test_quotas import set_quota
from tests.replog.server.broker.conftest import TP, InProcessCluster, batch, eventually
from tests.replog.server.broker.kafka.client import connected
from tests.replog.server.broker.kafka.requests import fetch, produce, rows_of

NOBODYS_ID = b"\7" * 16


def told(response: Any) -> Any:
    """The error of an answer; or the session, and of each partition its error, high watermark and bytes."""
    if response.error_code:
        return ErrorCode(response.error_code).name
    rows = {
        number: (row.high_watermark, len(row.records)) if not row.error_code else ErrorCode(row.error_code).name
        for (_, number), row in rows_of(response).items()
    }
    return response.session_id, rows


def topic_id(cluster: InProcessCluster) -> bytes:
    return cluster.controller.state.image.topics["t"].topic_id


@pytest.mark.parametrize("version", [4, 5, 7, 9, 11, 12, 13, 15, 16, 17])
async def test_every_version_reads_the_same_records(cluster, version):
    await cluster.begin(1, 2)
    records = batch(b"x", b"y")
    name = topic_id(cluster) if version >= 13 else "t"
    async with connected(cluster.brokers[1].address) as client:
        await client.ask(produce(records), 9)
        rows = rows_of(await client.ask(fetch({name: {0: 0, 1: 0}}, isolation_level=version % 2), version))
    full, empty = rows[name, 0], rows[name, 1]
    assert (full.high_watermark, full.last_stable_offset, full.error_code) == (2, 2, 0)
    assert bytes(full.records)[21:] == records[21:], "the leader writes the offset and its epoch"
    assert (empty.high_watermark, empty.error_code, bytes(empty.records)) == (0, 0, b"")
    assert full.aborted_transactions == ([] if version % 2 else None)
    if version >= 5:
        assert full.log_start_offset == 0


async def test_a_session_is_told_news_alone(cluster):
    """KIP-227: the numbers are a session's id and epoch, the size that of the records that are at offset 0."""
    await cluster.begin(1, 3)
    records, more = batch(b"x"), {"max_wait_ms": 100}
    size = len(records)
    async with connected(cluster.brokers[1].address) as client:

        async def ask(
            session: int, epoch: int, named: dict[int, int], forgotten: tuple[int, ...] = (), version=12
        ) -> Any:
            fields = {"session_id": session, "session_epoch": epoch} | more
            gone = {"t": dict.fromkeys(forgotten, 0)} if forgotten else None
            return told(await client.ask(fetch({"t": named} if named else {}, forgotten=gone, **fields), version))

        await client.ask(produce(records), 9)
        assert await ask(0, 0, {0: 0, 1: 0, 9: 0}) == (
            1,
            {0: (1, size), 1: (0, 0), 9: "UNKNOWN_TOPIC_OR_PARTITION"},
        )
        assert await ask(1, 1, {0: 1}, (9,)) == (1, {})
        await client.ask(produce({"t": {1: records}}), 9)
        assert await ask(1, 2, {2: 0}) == (1, {1: (1, size), 2: (0, 0)})
        assert await ask(1, 3, {1: 1}) == (1, {})
        assert await ask(1, 3, {}) == "INVALID_FETCH_SESSION_EPOCH"
        assert await ask(1, 4, {}) == "FETCH_SESSION_ID_NOT_FOUND", "an error has ended it"
        assert await ask(1, 0, {0: 1}) == (2, {0: (1, 0)}), "all that is named, and a new session"
        assert await ask(1, 1, {}) == "FETCH_SESSION_ID_NOT_FOUND"
        assert await ask(0, 0, {0: 0}) == (3, {0: (1, size)})
        assert await ask(3, 1, {}, version=13) == "FETCH_SESSION_TOPIC_ID_ERROR"
        assert await ask(0, 0, {0: 0}) == (4, {0: (1, size)})
        assert await ask(4, 1, {}, (0,)) == (0, {}), "a session without a partition ends"
        assert await ask(4, 2, {}) == "FETCH_SESSION_ID_NOT_FOUND"
        assert await ask(0, 0, {0: 0}) == (5, {0: (1, size)})
        assert await ask(5, -1, {}) == (0, {}), "the client ends it"
        assert await ask(5, 1, {}) == "FETCH_SESSION_ID_NOT_FOUND"
    async with connected(cluster.brokers[1].address) as client:
        assert await ask(5, 1, {}) == "FETCH_SESSION_ID_NOT_FOUND", "a session is of one connection"


async def test_without_a_session_every_answer_has_all_partitions(cluster):
    await cluster.begin(1, 3)
    records = batch(b"x")
    size = len(records)
    async with connected(cluster.brokers[1].address) as client:

        async def ask(named: dict[int, int], wait_ms: int = 0) -> Any:
            return told(await client.ask(fetch({"t": named}, max_wait_ms=wait_ms), 11))[1]

        assert await ask({0: 0, 1: 0}) == {0: (0, 0), 1: (0, 0)}
        await client.ask(produce({"t": {1: records, 2: records}}), 9)
        for _ in range(2):  # the same request is answered alike: the client may have dropped what came
            assert await ask({0: 0, 1: 0}) == {0: (0, 0), 1: (1, size)}
        assert await ask({0: 0, 1: 1}) == {0: (0, 0), 1: (1, 0)}
        assert await ask({0: 0, 1: 1}, 100) == {0: (0, 0), 1: (1, 0)}
        rows = await ask({2: 0, 1: 0})
        assert rows == {1: (1, size), 2: (1, size)}
        assert list(rows) == [2, 1], "in the order of the request"
        assert await ask({2: 5, 0: 0}) == {0: (0, 0), 2: "OFFSET_OUT_OF_RANGE"}


@pytest.mark.parametrize("version", [4, 12])
async def test_a_fetch_waits_for_as_many_bytes_as_it_names_and_no_longer_than_it_says(cluster, version):
    await cluster.begin(1)
    loop, records = asyncio.get_running_loop(), batch(b"x")
    async with connected(cluster.brokers[1].address) as client, connected(cluster.brokers[1].address) as producer:
        begun_s = loop.time()
        assert told(await client.ask(fetch({"t": {0: 0}}, max_wait_ms=200), version))[1] == {0: (0, 0)}
        assert 0.2 <= loop.time() - begun_s < 20
        client.send(fetch({"t": {0: 0}}, max_wait_ms=30_000, min_bytes=2 * len(records)), version)
        client.send(fetch({"t": {0: 2}}, max_wait_ms=30_000), version)
        answered = asyncio.create_task(client.receive())
        await producer.ask(produce(records), 9)
        await asyncio.sleep(0.1)
        assert not answered.done(), "one batch is not enough"
        await producer.ask(produce(records), 9)
        assert told(await answered)[1] == {0: (2, 2 * len(records))}
        await producer.ask(produce(records), 9)
        assert told(await client.receive())[1] == {0: (3, len(records))}


async def test_a_client_that_leaves_a_fetch_that_waits_leaves_nothing(cluster):
    broker = await cluster.begin(1)
    sessions = broker.manager.sessions
    async with connected(broker.address) as client:
        client.send(fetch({"t": {0: 0}}, max_wait_ms=60_000), 12)
        client.send(fetch({"t": {0: 0}}, max_wait_ms=60_000), 12)
        await eventually(lambda: TP in sessions.watching)
    await eventually(lambda: not sessions.watching)
    assert sessions.answers.used == 0


async def test_a_consumer_is_sent_to_the_replica_in_its_rack_and_read_there(cluster):
    """FE-19, FE-20."""
    follower = await racks(cluster)
    leader, records = cluster.leader(TP), batch(b"x")
    asked = fetch({"t": {0: 0}}, rack_id=RACKS[follower])
    async with (
        connected(cluster.brokers[leader].address) as to_leader,
        connected(cluster.brokers[follower].address) as to_follower,
    ):
        await to_leader.ask(produce(records), 9)
        row = rows_of(await to_leader.ask(asked, 11))["t", 0]
        assert (row.preferred_read_replica, len(row.records)) == (follower, 0)
        row = rows_of(await to_leader.ask(fetch({"t": {0: 0}}), 11))["t", 0]
        assert (row.preferred_read_replica, len(row.records)) == (-1, len(records))

        async def read_there() -> bool:
            row = rows_of(await to_follower.ask(asked, 11))["t", 0]
            return not row.error_code and len(row.records) == len(records)

        await eventually(read_there)
        assert told(await to_follower.ask(asked, 10))[1] == {0: "NOT_LEADER_OR_FOLLOWER"}


async def test_a_reader_who_is_ahead_of_its_leader_is_told_where_they_part(cluster):
    """FE-5."""
    await cluster.begin(1)
    partition = FetchRequestPartition(0, -1, 5, 0, -1, 1 << 20)
    asked = fetch({})._replace(topics=[FetchRequestTopic("t", partitions=[partition])])
    async with connected(cluster.brokers[1].address) as client:
        await client.ask(produce(batch(b"x")), 9)
        row = rows_of(await client.ask(asked, 12))["t", 0]
        assert (row.error_code, tuple(row.diverging_epoch), len(row.records)) == (0, (0, 1), 0)


async def test_a_fetch_without_news_costs_less_than_twice_the_cheapest_request(cluster):
    """In calls of functions, of six partitions in a session."""
    await cluster.begin(1, 6)
    calls = 0

    def count(_frame: object, event: str, _argument: object) -> None:
        nonlocal calls
        calls += event == "call"

    async with connected(cluster.brokers[1].address) as client:
        fetches = [fetch({"t": dict.fromkeys(range(6), 0)}, epoch=0)]
        fetches += [fetch({}, session_id=1, session_epoch=epoch) for epoch in range(1, 40)]
        costs = {}
        for requests, version in ((fetches, 12), ([ApiVersionsRequest()] * 40, 3)):
            for request in requests[:20]:
                client.send(request, version)
            for _ in range(20):
                await client.receive()
            calls = 0
            sys.setprofile(count)
            for request in requests[20:]:
                client.send(request, version)
            for _ in range(20):
                await client.receive()
            sys.setprofile(None)
            costs[version] = calls
        assert costs[12] < 2 * costs[3]


async def test_many_partitions_are_read_in_slices(cluster):
    broker = await cluster.begin(1, 120)
    records = batch(b"x")
    async with connected(broker.address) as client:
        await client.ask(produce({"t": {119: records, 60: records}}), 9)
        everything = dict.fromkeys(range(120), 0)
        session, rows = told(await client.ask(fetch({"t": everything}, epoch=0), 12))
        assert {number for number, (_, size) in rows.items() if size} == {60, 119}
        assert len(rows) == 120
        last = fetch({}, forgotten={"t": everything}, session_id=session, session_epoch=1)
        assert told(await client.ask(last, 12)) == (0, {})
    assert not broker.manager.sessions.watching


async def test_who_may_not_read_a_topic_is_told_nothing_of_it(cluster):
    """Not what was told before the ACL was gone, either."""
    guarded = Guarded(cluster)
    broker = await cluster.begin(1, brokers={"authorizer_class_name": STANDARD})
    await guarded.allow(Operation.READ, Operation.WRITE)
    records = batch(b"x")
    async with connected(broker.address) as client:
        await client.ask(produce(records), 9)
        asked = fetch({"t": {0: 1}}, max_wait_ms=50)
        assert told(await client.ask(asked, 11))[1] == {0: (1, 0)}
        await guarded.forbid()
        for _ in range(2):
            answer = await client.ask(asked, 11)
            row = rows_of(answer)["t", 0]
            assert told(answer)[1] == {0: "TOPIC_AUTHORIZATION_FAILED"}
            assert (row.high_watermark, row.last_stable_offset, row.log_start_offset) == (-1, -1, -1)
        refused = rows_of(await client.ask(produce(records), 9))["t", 0]
        assert ErrorCode(refused.error_code) is ErrorCode.TOPIC_AUTHORIZATION_FAILED


async def test_the_id_of_a_deleted_topic_is_not_that_of_its_successor(cluster):
    await cluster.begin(1)
    old = topic_id(cluster)
    async with connected(cluster.brokers[1].address) as client:
        await client.ask(produce(batch(b"x")), 9)
        asked = fetch({old: {0: 0}, NOBODYS_ID: {0: 0}}, epoch=0)
        rows = rows_of(await client.ask(asked, 13))
        assert (rows[old, 0].error_code, rows[NOBODYS_ID, 0].error_code) == (0, ErrorCode.UNKNOWN_TOPIC_ID)
        await cluster.delete_topic("t")
        await eventually(lambda: TP not in cluster.brokers[1].manager.replicas.hosted)
        await cluster.create_topic("t", 1, 1)
        new, epoch = topic_id(cluster), 1
        for named, forgotten, errors in (
            ({}, None, {old: ErrorCode.UNKNOWN_TOPIC_ID, NOBODYS_ID: ErrorCode.UNKNOWN_TOPIC_ID}),
            ({new: {0: 0}}, {old: {0: 0}, NOBODYS_ID: {0: 0}}, {new: ErrorCode.NONE}),
            ({}, {old: {0: 0}}, {}),
        ):
            asked = fetch(named, forgotten=forgotten, session_id=1, session_epoch=epoch, max_wait_ms=50)
            rows = rows_of(await client.ask(asked, 13))
            assert {name: row.error_code for (name, _), row in rows.items()} == errors
            epoch += 1


async def test_what_a_fetch_asks_for_wrongly_it_is_told(cluster):
    """Before version 7 there is no place but the rows for what is wrong with all of it."""
    await cluster.begin(1)
    async with connected(cluster.brokers[1].address) as client:
        for version in (6, 7, 12):
            for fields in ({"isolation_level": 3}, {"replica_id": 2}):
                answer = await client.ask(fetch({"t": {0: 0}}, **fields), version)
                codes = [answer.error_code] if version >= 7 else [r.error_code for r in rows_of(answer).values()]
                assert codes == [ErrorCode.INVALID_REQUEST]
        stale = await client.ask(fetch({"t": {0: 0}}, leader_epoch=7), 12)
        assert told(stale)[1] == {0: "UNKNOWN_LEADER_EPOCH"}


@pytest.mark.parametrize("seed", range(3))
async def test_a_consumer_that_asks_in_any_way_reads_every_record_once_and_in_order(cluster, seed):
    """With sessions and without, by names and by ids, of some partitions and then of others, while records come."""
    await cluster.begin(1, 4)
    rng, names = random.Random(seed), {12: "t", 13: topic_id(cluster)}
    appended = dict.fromkeys(range(4), 0)
    positions = dict(appended)
    session, epoch, version, known = 0, 0, 12, dict[int, int]()  # what the session has been told
    async with connected(cluster.brokers[1].address) as client:
        for turn in range(300):
            for number in rng.sample(range(4), rng.choice((0, 0, 1, 3)) if turn < 250 else 0):
                count = rng.randrange(1, 4)
                await client.ask(produce({"t": {number: batch(*[b"x"] * count)}}), 9)
                appended[number] += count
            wanted = {n: positions[n] for n in (range(4) if turn >= 250 else rng.sample(range(4), rng.randrange(1, 4)))}
            fields: dict[str, Any] = {"session_id": session, "session_epoch": epoch}
            named, forgotten = {n: at for n, at in wanted.items() if known.get(n) != at}, known.keys() - wanted
            if not session or rng.random() < 0.2:
                version, named, forgotten = rng.choice((12, 13)), wanted, set()
                fields["session_epoch"] = rng.choice((0, -1))
            name = names[version]
            asked = fetch({name: named}, forgotten={name: dict.fromkeys(forgotten, 0)}, max_wait_ms=5, **fields)
            answer = await client.ask(asked, version)
            assert not answer.error_code
            if fields["session_epoch"] < 1:
                assert {number for _, number in rows_of(answer)} == set(wanted)
            session, epoch = answer.session_id, max(0, fields["session_epoch"]) + 1
            known = wanted
            for (_, number), row in rows_of(answer).items():
                assert (row.error_code, row.high_watermark) == (0, appended[number])
                for _, header in iterate_batches(row.records):
                    assert header.base_offset <= positions[number]
                    positions[number] = header.next_offset
    assert positions == appended


async def test_who_asks_the_wrong_broker_is_told_the_leader_and_where_it_is(cluster):
    await cluster.start_brokers(1, 2)
    await cluster.create_topic("t", 1, 1)  # a follower would serve it
    name, leader = topic_id(cluster), cluster.leader(TP)
    host, port = cluster.brokers[leader].address.rsplit(":", 1)
    async with connected(cluster.brokers[3 - leader].address) as client:
        for version in (15, 16):
            answer = await client.ask(fetch({name: {0: 0}}), version)
            row = rows_of(answer)[name, 0]
            assert ErrorCode(row.error_code) is ErrorCode.NOT_LEADER_OR_FOLLOWER
            where = [(each.node_id, each.host, each.port) for each in answer.node_endpoints]
            assert (tuple(row.current_leader), where) == (
                ((leader, 0), [(leader, host, int(port))]) if version >= 16 else ((-1, -1), [])
            )


async def test_who_has_read_too_much_gets_no_records_and_is_told_for_how_long(cluster):
    await cluster.begin(1)
    records = batch(b"x" * 20_000)
    async with connected(cluster.brokers[1].address) as client:
        await client.ask(produce(records), 9)
        await set_quota(cluster, consumer_byte_rate=len(records))
        answers = [await client.ask(fetch({"t": {0: 0}}), 11) for _ in range(3)]
        waits_ms = [answer.throttle_time_ms for answer in answers]
        assert waits_ms[0] == 0 < waits_ms[1]
    async with connected(cluster.brokers[1].address) as client:  # its other connections are not muted
        answer = await client.ask(fetch({"t": {0: 0}}), 11)
        assert (told(answer)[1], answer.throttle_time_ms > 0) == ({0: (1, 0)}, True)
