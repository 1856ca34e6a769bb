"""Whatever goes wrong: each acknowledged record is in the log once and in order, and every other at most once
(§7). What is said to be surely not in the log is not there, and who may not write asks seldom."""

import asyncio
import random

import pytest

from replog.client import DeliveryFailed, Producer
from replog.client.producing.idempotence import MAX_EPOCH, ProducerId
from replog.common.backoff import Backoff
from replog.errors import ErrorCode, ReplogError
from replog.rpc.methods import Method
from tests.replog.client.network import ADDRESSES, Network, VirtualLoop, _Channel

RECORDS = 400


def knows_all(producer: Producer) -> bool:
    flying = any(queue.flying for queue in producer._accumulator.busy())
    return not flying and not any(batch.may_be_appended for batch in producer._accumulator.unsettled())


async def produce(network: Network, rng: random.Random) -> tuple[dict[bytes, int], dict[bytes, bool]]:
    """Offsets of what was acknowledged, in the order sent; what failed, and whether it may be in the log."""
    acknowledged: dict[bytes, int] = {}
    failed: dict[bytes, bool] = {}
    trouble = asyncio.create_task(network.make_trouble())
    producer = Producer(
        list(ADDRESSES),
        transport=network,  # type: ignore[arg-type]
        rng=rng,
        batch_size=rng.choice([80, 300, 100_000]),
        linger_ms=rng.choice([0, 5]),
        max_request_bytes=rng.choice([1500, 1 << 20]),
        delivery_timeout_ms=rng.choice([800, 3000, 60_000]),
    )
    network.knows_all = lambda: knows_all(producer)
    deliveries = []
    for number in range(RECORDS):
        value = b"%d" % number if rng.random() < 0.99 else b"%d is too large" % number
        deliveries.append((value, await producer.send("t", value, partition=0)))
        if rng.random() < 0.3:
            await asyncio.sleep(rng.uniform(0.0, 0.1))
        if rng.random() < 0.002 and producer._identity is not None and producer._identity.current is not None:
            producer._identity.current = ProducerId(producer._identity.current.producer_id, MAX_EPOCH)
    trouble.cancel()
    network.trouble = False
    for value, delivery in deliveries:
        try:
            acknowledged[value] = (await delivery).offset
        except DeliveryFailed as error:
            failed[value] = error.may_be_appended
    await producer.close()
    return acknowledged, failed


@pytest.mark.parametrize("seed", [*range(20), 37])  # 37: NOT_LEADER_OR_FOLLOWER was taken for a definite error
def test_each_record_once_and_in_order(seed, tmp_path):
    rng = random.Random(seed)
    network = Network(tmp_path / "t-0", rng)
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        acknowledged, failed = runner.run(produce(network, rng))
    network.log.close()
    values = network.values()
    print(f"seed {seed}: {len(acknowledged)} acknowledged, {len(failed)} failed, {network.faults}")
    assert len(acknowledged) > RECORDS // 4, "hardly anything was tried"
    assert len(values) == len(set(values)), f"twice: {[value for value in set(values) if values.count(value) > 1]}"
    kept = [value for value in values if value in acknowledged]
    assert kept == list(acknowledged), "lost, or out of order"
    assert all(offset in (-1, values.index(value)) for value, offset in acknowledged.items())
    assert not [value for value, may_be_appended in failed.items() if not may_be_appended and value in values]


AFTER_THE_APPEND = (  # what a leader answers to a produce that waits for its replicas, if the topic is still there
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.KAFKA_STORAGE_ERROR,
    ErrorCode.REQUEST_TIMED_OUT,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
)


class Answering(Network):
    """Appends the first batch and answers an error all the same; whatever comes after that is refused."""

    after_append: ErrorCode

    def append(self, address: str, records: bytes) -> tuple[ErrorCode, int]:
        if self.log.log_end_offset:
            return ErrorCode.NOT_ENOUGH_REPLICAS, -1
        assert super().append(address, records)[0] is ErrorCode.NONE
        return self.after_append, -1


class Refusing(Network):
    """Refuses every batch, and appends none."""

    def append(self, address: str, records: bytes) -> tuple[ErrorCode, int]:
        return ErrorCode.NOT_ENOUGH_REPLICAS, -1


def failure(network: Network) -> DeliveryFailed:
    """Send one record through `network`, and return why it failed."""
    network.trouble = False

    async def send() -> DeliveryFailed:
        async with Producer("one:1", transport=network, delivery_timeout_ms=3000) as producer:  # type: ignore[arg-type]
            producer._sender._backoff = Backoff(random.Random(0), 2000, 2000)  # so no try is under way as it gives up
            with pytest.raises(DeliveryFailed, match="not delivered in 3 s; last error: NOT_ENOUGH_REPLICAS") as failed:
                await producer.send_and_wait("t", b"x", partition=0)
        return failed.value

    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        failed = runner.run(send())
    network.log.close()
    return failed


def test_a_record_that_every_try_refused_is_surely_not_in_the_log_pr_12(tmp_path):
    network = Refusing(tmp_path / "t-0", random.Random(1))
    assert not failure(network).may_be_appended
    assert network.values() == []


@pytest.mark.parametrize("code", AFTER_THE_APPEND, ids=lambda code: code.name)
def test_an_error_after_the_append_leaves_the_outcome_open_whatever_later_tries_are_told_pr_12(tmp_path, code):
    network = Answering(tmp_path / "t-0", random.Random(1))
    network.after_append = code
    assert failure(network).may_be_appended
    assert network.values() == [b"x"]


class Denying(Network):
    asked = 0

    def connect(self, address: str) -> _Channel:
        return _DenyingChannel(self, address)


class _DenyingChannel(_Channel):
    async def call(self, method: Method, request: object, timeout_s: float) -> object:
        if method.handler_name == "init_producer_id":
            self._network.asked += 1  # type: ignore[attr-defined]
            assert self._network.asked < 100, "it asks without a pause"  # type: ignore[attr-defined]
            raise ReplogError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "no")
        return await super().call(method, request, timeout_s)


def test_one_that_is_denied_its_id_asks_once_for_each_batch_and_not_without_a_pause_nor_logs_each_try(tmp_path, caplog):
    loop = VirtualLoop()
    network = Denying(tmp_path, random.Random(1))
    network.trouble = False

    async def denied() -> None:
        async with Producer("one:1", transport=network) as producer:  # type: ignore[arg-type]
            began = loop.time()
            for number in range(20):
                with pytest.raises(DeliveryFailed, match="CLUSTER_AUTHORIZATION_FAILED"):
                    await producer.send_and_wait("t", b"x")
                assert network.asked == number + 1
            assert loop.time() - began > 5

    try:
        loop.run_until_complete(denied())
    finally:
        loop.close()
        network.log.close()
    assert sum("no producer id" in line for line in caplog.messages) == 6
