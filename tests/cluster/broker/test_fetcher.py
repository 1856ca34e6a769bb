"""The fetcher between its partitions: one that is delayed, one that waits for news."""

import asyncio

from replog.topic import TopicPartition

from .conftest import InProcessCluster, eventually

TP = TopicPartition("t", 0)


async def test_a_delayed_partition_waits_for_the_parked_fetch_of_the_others_without_spinning(
    cluster: InProcessCluster,
) -> None:
    """FT-11: its delay may be over long before the answer to the others' fetch comes."""
    for broker_id in (1, 2):
        await cluster.start_broker(broker_id, replica_fetch_wait_max_ms=1500)
    await cluster.create_topic("t", replication_factor=2)
    follower = cluster.brokers[3 - cluster.leader(TP)]
    fetcher = next(iter(follower._fetchers._fetchers.values()))
    delayed = follower.manager.hosted[TP].follower
    assert delayed is not None
    await eventually(lambda: fetcher._outstanding == 1)
    rounds = 0
    wait = fetcher._wait

    async def counted_wait(reader: asyncio.Task[None]) -> None:
        nonlocal rounds
        rounds += 1
        await wait(reader)

    fetcher._wait = counted_wait  # type: ignore[method-assign]
    delayed._delay(follower._clock.monotonic_ms() - 1000)
    fetcher._wake.set()
    await asyncio.sleep(0.4)
    assert rounds < 20, f"{rounds} rounds in 0.4 s"
