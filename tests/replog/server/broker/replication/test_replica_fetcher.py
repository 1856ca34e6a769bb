"""The fetchers of a broker, and the one between its partitions: one that is delayed, that waits, fails, or is gone."""

from structlog.testing import capture_logs

from replog.local_cluster.ports import free_port
from replog.topic import TopicPartition
from tests.replog.processes.proxy import proxy_to
from tests.replog.server.broker.conftest import TP, batch, eventually
from tests.replog.server.broker.control.test_role_changes import AGAIN, made_again


async def test_committed_records_that_are_cut_off_are_told_as_an_error_ft_15(cluster):
    """HW-13, with the high watermark as it was before the cut; here the leader has lost a record that was committed."""
    await cluster.begin(2)
    await cluster.produce(TP, batch(b"kept"))
    follower = cluster.brokers[3 - cluster.leader(TP)]
    hosted = follower.manager.replicas.hosted[TP]
    hosted.log.append_as_leader(batch(b"lost"), leader_epoch=0, now_ms=0)
    hosted.log.update_high_watermark(2)
    with capture_logs() as logs:
        next(iter(follower._fetchers._fetchers.values())).session.add(hosted)
        await eventually(lambda: hosted.log.log_end_offset == 1)
    errors = [entry for entry in logs if entry["log_level"] == "error"]
    assert len(errors) == 1, logs
    assert "truncated to 1, 1 records below the high watermark 2" in errors[0]["note"]


def test_an_answer_about_a_topic_of_the_same_name_is_dropped_ft_8(pair):
    """The follower hears of the new topic while records of the old one are on their way; offsets and epochs fit."""
    pair.create_topic()
    follower = pair.brokers[2]
    pair.wait(0.3)
    assert follower._roles is not None
    pair.network.slow("broker-1", "broker-2", (500, 500))
    pair.produce(100, 100, acks=1)
    pair.run(follower._roles.apply(made_again(follower._image)), pair.processes[2])
    pair.wait(5)
    assert pair.hosted(2).topic_id == AGAIN
    assert (pair.log(1).log_end_offset, pair.log(2).log_end_offset) == (2, 0)


async def test_all_partitions_of_a_leader_share_one_fetcher(cluster):
    """FT-1."""
    await cluster.begin(2, partitions=6)
    leaders = {cluster.leader(TopicPartition("t", partition)) for partition in range(6)}
    assert leaders == {1, 2}
    for follower_id, leader_id in ((1, 2), (2, 1)):
        fetchers = cluster.brokers[follower_id]._fetchers
        (fetcher,) = fetchers._fetchers.values()
        led = {tp for tp in (TopicPartition("t", p) for p in range(6)) if cluster.leader(tp) == leader_id}
        assert set(fetcher.session.partitions) == led
    await cluster.delete_topic("t")
    for broker in cluster.brokers.values():
        await eventually(lambda broker=broker: not broker._fetchers._fetchers)


BYTES_PER_S = 100_000
BATCH_BYTES = 10_000
BATCHES = 40


async def test_a_follower_to_whom_a_whole_answer_takes_longer_than_the_timeout_advances(cluster):
    """All that it missed takes four seconds on this line, and an answer may take one and a half."""
    listener = f"127.0.0.1:{free_port([])}"
    async with proxy_to(listener, BYTES_PER_S) as line:
        await cluster.start_broker(1, listeners=listener, advertised_listeners=line.address)
        await cluster.start_broker(2)
        await cluster.create_topic("t", replication_factor=2, min_insync_replicas="1")
        await cluster.crash_broker(2)
        await cluster.led(TP)  # broker 2 may have been its leader
        for _ in range(BATCHES):
            await cluster.produce(TP, batch(b"x" * BATCH_BYTES), acks=1)
        await cluster.start_broker(2, replica_socket_timeout_ms=1500)
        await eventually(lambda: cluster.isr(TP) == {1, 2}, 120.0, lambda: cluster.log(2, TP).log_end_offset)
        await cluster.crash_broker(1)


async def test_idle_followers_hear_of_the_high_watermark_long_before_their_fetch_times_out(cluster):
    """Divergence 6, where HW-10 would leave them up to `replica.fetch.wait.max.ms` behind."""
    await cluster.begin(3, brokers={"replica_fetch_wait_max_ms": 60_000, "replica_lag_time_max_ms": 120_000})
    await cluster.produce(TP, batch(b"one"))
    logs = [cluster.log(broker_id, TP) for broker_id in (1, 2, 3)]
    await eventually(
        lambda: all(log.high_watermark == 1 for log in logs), 30, lambda: [log.high_watermark for log in logs]
    )
