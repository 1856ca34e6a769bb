"""Replication throttles (KIP-73) between brokers: a copy keeps to its rate, and who is in sync is left alone."""

import asyncio
import time

import pytest

from cluster.broker.replica_service import ReplicaFetchSession
from replog.client import Admin
from replog.errors import ErrorCode
from replog.rpc.v1 import replica_pb2
from replog.topic import TopicPartition

from .conftest import InProcessCluster, batch, eventually

TP = TopicPartition("t", 0)
BATCH_BYTES = 40_000
BATCHES = 20
RATE = 500_000  # bytes per second; 800,000 bytes are to be copied


@pytest.fixture
def requests(monkeypatch: pytest.MonkeyPatch) -> list[replica_pb2.ReplicaFetchRequest]:
    """Every fetch that a leader has got from a follower."""
    seen: list[replica_pb2.ReplicaFetchRequest] = []
    on_request = ReplicaFetchSession.on_request

    def counted(session: ReplicaFetchSession, request: replica_pb2.ReplicaFetchRequest) -> None:
        seen.append(request)
        on_request(session, request)

    monkeypatch.setattr(ReplicaFetchSession, "on_request", counted)
    return seen


@pytest.mark.parametrize("side", ["leader", "follower"])
async def test_a_replica_that_lacks_much_is_copied_at_the_rate(
    cluster: InProcessCluster, side: str, requests: list[replica_pb2.ReplicaFetchRequest]
) -> None:
    """FE-23, FT-6: neither faster, nor by asking again and again."""
    rate = {f"{side}_replication_throttled_rate": RATE}
    listed = {f"{side}_replication_throttled_replicas": "*"}
    quick = {"replica_fetch_response_max_bytes": BATCH_BYTES, "replica_fetch_wait_max_ms": 50}
    for broker_id in (1, 2):
        await cluster.start_broker(broker_id, **rate, **quick)
    await cluster.create_topic("t", replication_factor=2, min_insync_replicas="1", **listed)
    follower = 3 - cluster.leader(TP)
    await cluster.crash_broker(follower)
    await eventually(lambda: follower not in cluster.isr(TP))
    for _ in range(BATCHES):
        assert (await cluster.produce(TP, batch(b"x" * BATCH_BYTES)))[0] is ErrorCode.NONE
    requests.clear()
    await cluster.start_broker(follower, **rate, **quick)
    await eventually(lambda: cluster.log(follower, TP).log_end_offset > 0)
    begun = time.monotonic()
    await eventually(lambda: cluster.log(follower, TP).log_end_offset == BATCHES)
    took_s = time.monotonic() - begun
    expected_s = BATCHES * BATCH_BYTES / RATE
    assert 0.7 * expected_s < took_s < 1.8 * expected_s, f"{took_s:.2f} s for {expected_s:.2f} s of copying"
    assert len(requests) < BATCHES + took_s / 0.05 + 20, f"{len(requests)} fetches in {took_s:.2f} s"
    await eventually(lambda: cluster.isr(TP) == {1, 2})


async def test_replicas_in_sync_are_never_throttled(cluster: InProcessCluster) -> None:
    """ISR members get everything at once, however little the quota allows (FE-23, FT-7); after an election too."""
    nothing = {f"{side}_replication_throttled_rate": 1 for side in ("leader", "follower")}
    for broker_id in (1, 2, 3):
        await cluster.start_broker(broker_id, **nothing)
    listed = {f"{side}_replication_throttled_replicas": "*" for side in ("leader", "follower")}
    await cluster.create_topic("t", **listed)
    async with asyncio.timeout(3):
        for number in range(10):
            assert await cluster.produce(TP, batch(b"x" * 1000)) == (ErrorCode.NONE, number, "")
        await cluster.stop_broker(cluster.leader(TP))
        await eventually(lambda: cluster.leader(TP) in cluster.brokers)
        for _ in range(10):
            error, _, message = await cluster.produce(TP, batch(b"x" * 1000))
            assert error is ErrorCode.NONE, message
    assert len(cluster.isr(TP)) == 2


async def test_a_copy_that_stands_still_asks_seldom_and_goes_on_when_it_may(
    cluster: InProcessCluster, requests: list[replica_pb2.ReplicaFetchRequest]
) -> None:
    """FT-6: with nothing to fetch the fetcher waits, though a delay of the partition may be over meanwhile (FT-11)."""
    for broker_id in (1, 2):
        await cluster.start_broker(broker_id, replica_fetch_response_max_bytes=1000)
    await cluster.create_topic(
        "t", replication_factor=2, min_insync_replicas="1", follower_replication_throttled_replicas="*"
    )
    follower = 3 - cluster.leader(TP)
    await cluster.crash_broker(follower)
    await eventually(lambda: follower not in cluster.isr(TP))
    for _ in range(5):
        await cluster.produce(TP, batch(b"x" * 1000))
    await cluster.start_broker(follower, replica_fetch_response_max_bytes=1000, follower_replication_throttled_rate=1)
    await eventually(lambda: cluster.log(follower, TP).log_end_offset == 1)
    broker = cluster.brokers[follower]
    fetcher = next(iter(broker._fetchers._fetchers.values()))
    rounds, wait = 0, fetcher._wait

    async def counted_wait(reader: asyncio.Task[None]) -> None:
        nonlocal rounds
        rounds += 1
        await wait(reader)

    fetcher._wait = counted_wait  # type: ignore[method-assign]
    role = broker.manager.hosted[TP].follower
    assert role is not None
    role._delay(broker._clock.monotonic_ms() - 1000)
    await asyncio.sleep(0.1)
    requests.clear()
    rounds = 0
    await asyncio.sleep(0.4)
    assert (len(requests), rounds < 20) == (0, True), f"{rounds} rounds and {len(requests)} fetches in 0.4 s"
    assert cluster.log(follower, TP).log_end_offset == 1
    async with Admin([broker.address], timeout_ms=5000) as admin:
        await admin.alter_broker_configs(follower, {"follower.replication.throttled.rate": "1000000"})
    await eventually(lambda: cluster.isr(TP) == {1, 2}, 2)
