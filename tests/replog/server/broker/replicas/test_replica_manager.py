"""What follows from an event where nothing else would set it off."""

from replog.errors import ErrorCode
from tests.replog.server.broker.conftest import TP, batch, eventually


async def test_isr_5_a_follower_that_falls_silent_while_all_is_level_leaves_once_it_lacks_a_record(cluster):
    """ISR-5."""
    await cluster.begin(2, brokers={"replica_lag_time_max_ms": 1000})
    await cluster.led(TP)
    leader = cluster.brokers[cluster.leader(TP)]
    (follower,) = (broker for broker in cluster.brokers.values() if broker is not leader)
    assert (await cluster.produce(TP, batch(b"x")))[0] is ErrorCode.NONE
    await eventually(lambda: TP not in leader.manager._lagging, what=lambda: leader.replicas.hosted[TP].leader.replicas)
    follower._fetchers.stop(TP)
    await cluster.produce(TP, batch(b"y"), acks=1)
    # The metadata that drop it make it fetch again: it may be back before anybody looks.
    await eventually(lambda: leader.context.traffic.isr_shrinks == 1, what=lambda: leader.context.traffic)
