"""Whatever goes wrong: each acknowledged record is in the log once and in order, and every other at most once (§7)."""

import asyncio
import random

import pytest

from replog.client import DeliveryFailed, Producer
from replog.client.producing.idempotence import MAX_EPOCH, ProducerId
from tests.replog.client.network import ADDRESSES, Network, VirtualLoop

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
