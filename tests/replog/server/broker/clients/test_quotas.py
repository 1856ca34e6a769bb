"""A user that takes more than its quota waits, and nobody else does."""

import asyncio
import time

import pytest

from replog.errors import ErrorCode, ReplogError
from replog.log.formats.batch import HEADER_SIZE
from replog.rpc import methods
from replog.rpc.peer import Peer, Role
from replog.rpc.v1 import controller_pb2, inspection_pb2
from replog.server.broker.clients import quotas
from replog.server.broker.clients.quotas import BURST_MS, CONSUMED, MAX_THROTTLE_MS, PRODUCED, ClientQuotas
from tests.replog.server.broker.conftest import CALL_S, TP, batch, eventually, fetch_request, produce_request
from tests.scenarios.broker import ScenarioClock

ANN = Peer("User:ann", Role.CLIENT, "10.0.0.1")
BOB = Peer("User:bob", Role.CLIENT, "10.0.0.1")
RATE = 1000


@pytest.fixture
def clock():
    return ScenarioClock()


def test_the_average_comes_back_to_the_rate_and_other_users_and_kinds_are_let_alone(clock):
    given = {"User:ann": {PRODUCED: str(RATE)}}
    users = ClientQuotas(given, clock)
    ann = users.of(ANN, PRODUCED)
    passed = 0
    begun = clock.now_ms
    for size in (10, 900, 400, 3000, 1, 700) * 20:
        clock.now_ms += ann.wait_ms()
        ann.record(size)
        passed += size
        elapsed_s = (clock.now_ms + ann.wait_ms() - begun) / 1000
        assert passed <= RATE * (elapsed_s + BURST_MS / 1000) + 2
    assert passed >= RATE * (clock.now_ms - begun) / 1000, "and no less than the rate"
    assert users.of(BOB, PRODUCED).wait_ms() == users.of(ANN, CONSUMED).wait_ms() == 0
    assert users.of(ANN, PRODUCED) is ann, "all connections of a user share"


def test_a_user_without_a_quota_has_the_default_one_and_its_own_comes_first(clock):
    given = {"<default>": {PRODUCED: "10", CONSUMED: "20"}, "User:ann": {PRODUCED: "30"}}
    users = ClientQuotas(given, clock)
    assert [users.of(ANN, kind).rate for kind in (PRODUCED, CONSUMED)] == [30, 20]
    assert [users.of(BOB, kind).rate for kind in (PRODUCED, CONSUMED)] == [10, 20]
    given["User:ann"] = {}
    assert users.of(ANN, PRODUCED).rate == 10
    given.clear()
    ann = users.of(ANN, PRODUCED)
    ann.record(1 << 30)
    assert (ann.rate, ann.wait_ms()) == (None, 0)


def test_nobody_waits_longer_than_ten_seconds_however_much_it_sent(clock):
    ann = ClientQuotas({"User:ann": {PRODUCED: "1"}}, clock).of(ANN, PRODUCED)
    ann.record(16 << 20)
    assert ann.wait_ms() == MAX_THROTTLE_MS
    clock.now_ms += MAX_THROTTLE_MS
    assert ann.wait_ms() == 0


def test_users_that_are_remembered_are_bounded(clock, monkeypatch):
    monkeypatch.setattr(quotas, "MAX_THROTTLED", 3)
    users = ClientQuotas({}, clock)
    for number in range(100):
        users.of(Peer(f"User:{number}", Role.CLIENT, "h"), PRODUCED)
    assert len(users._throttles) == 3


async def set_quota(cluster, **rates):
    await cluster.control(
        "alter_client_quotas",
        controller_pb2.AlterClientQuotasRequest(
            user="User:ANONYMOUS", set={name: str(rate) for name, rate in rates.items()}
        ),
    )
    version = cluster.controller.state.image.version
    await eventually(lambda: cluster.brokers[1].manager.context.image.version >= version)


async def test_a_stream_that_sends_too_much_is_answered_and_not_read_from_for_a_while(cluster):
    await cluster.begin(1, min_insync_replicas="1")
    records = batch(b"x" * 20_000)
    await set_quota(cluster, producer_byte_rate=len(records))
    stream = cluster.to_leader(TP).open(methods.Log["produce"])
    begun = time.monotonic()
    for _ in range(3):  # the second is a burst, the third has to wait
        await stream.send(produce_request(TP, records, acks=1))
    for _ in range(3):
        answer = await stream.receive(CALL_S)
        assert all(not row.error_code for each in answer.answers for row in each.partitions)
        if cluster.log(1, TP).log_end_offset == 3:
            break
    assert time.monotonic() - begun > 0.5
    stream.cancel()


async def test_a_reader_that_takes_too_much_waits_for_its_next_answer(cluster):
    await cluster.begin(1, min_insync_replicas="1")
    records = batch(b"x" * 20_000)
    await cluster.produce(TP, records, acks=1)
    await set_quota(cluster, consumer_byte_rate=len(records))
    stream = cluster.to_leader(TP).open(methods.Log["fetch"])
    begun = time.monotonic()
    for _ in range(3):
        await stream.send(fetch_request(TP, max_wait_ms=0))
        answer = await stream.receive(CALL_S)
        assert sum(map(len, answer.records)) == len(records)
    assert time.monotonic() - begun > 0.5
    stream.cancel()


@pytest.mark.parametrize("method", ["read_file", "read_batch_headers"])
async def test_who_reads_files_as_an_audit_does_has_no_more_of_them(cluster, method):
    """A quota of a consumer that reads the log's files instead was none."""
    await cluster.begin(1, min_insync_replicas="1")
    await cluster.produce(TP, batch(b"x" * 20_000), acks=1)
    size = cluster.log(1, TP).size if method == "read_file" else HEADER_SIZE
    requests = {
        "read_file": inspection_pb2.ReadFileRequest(topic=TP.topic, partition=TP.partition, file=inspection_pb2.LOG),
        "read_batch_headers": inspection_pb2.ReadBatchHeadersRequest(topic=TP.topic, partition=TP.partition),
    }
    await set_quota(cluster, consumer_byte_rate=size)
    begun = time.monotonic()
    for _ in range(3):
        answers = cluster.to_leader(TP).watch(methods.Inspection[method], requests[method])
        assert sum([len(piece) async for answer in answers for piece in answer.records]) == size
    assert time.monotonic() - begun > 0.5


async def test_a_single_call_that_never_has_its_turn_is_told_its_quota(cluster, monkeypatch):
    monkeypatch.setattr(quotas, "MAX_THROTTLE_MS", 200)
    await cluster.begin(1, min_insync_replicas="1")
    await set_quota(cluster, producer_byte_rate=1000)
    calls = [
        cluster.to_leader(TP).call(methods.Log["produce_once"], produce_request(TP, batch(b"x" * 900)), CALL_S)
        for _ in range(5)
    ]
    outcomes = await asyncio.gather(*calls, return_exceptions=True)
    refused = [each for each in outcomes if isinstance(each, ReplogError)]
    assert 0 < len(refused) < 5, outcomes
    assert refused[0].code is ErrorCode.THROTTLING_QUOTA_EXCEEDED
    assert "producer_byte_rate of 1000" in refused[0].message
    assert refused[0].retriable
