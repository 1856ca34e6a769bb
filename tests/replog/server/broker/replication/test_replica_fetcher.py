"""The fetcher between its partitions: one that is delayed, one that waits, one that fails, one that is gone."""

import asyncio

from structlog.testing import capture_logs

from replog.metadata.records import partition_to_record
from replog.rpc.transport import Stream
from replog.rpc.v1 import metadata_pb2
from replog.topic import TopicPartition
from tests.replog.server.broker.conftest import batch, eventually

TP = TopicPartition("t", 0)


async def test_a_delayed_partition_waits_for_the_parked_fetch_of_the_others_without_spinning(cluster):
    """FT-11: its delay may be over long before the answer to the others' fetch comes."""
    await cluster.begin(2, brokers={"replica_fetch_wait_max_ms": 1500})
    follower = cluster.brokers[3 - cluster.leader(TP)]
    [fetcher] = follower._fetchers._fetchers.values()
    delayed = follower.manager.replicas.hosted[TP].follower
    assert delayed is not None
    await eventually(lambda: fetcher.session.outstanding == 1)
    rounds = 0
    ask = fetcher._ask

    def counted_ask(stream: Stream, now_ms: int) -> None:
        nonlocal rounds
        rounds += 1
        ask(stream, now_ms)

    fetcher._ask = counted_ask  # type: ignore[method-assign]
    delayed._delay(follower._clock.monotonic_ms() - 1000)
    fetcher.session.mark(TP)
    fetcher.go()
    await asyncio.sleep(0.4)
    assert 0 < rounds < 20, f"{rounds} rounds in 0.4 s"


async def test_committed_records_that_are_cut_off_are_told_as_an_error_ft_15(cluster):
    """HW-13, with the high watermark as it was before the cut; here the leader has lost a record that was committed."""
    await cluster.begin(2)
    await cluster.produce(TP, batch(b"kept"))
    follower = cluster.brokers[3 - cluster.leader(TP)]
    hosted = follower.manager.replicas.hosted[TP]
    hosted.log.append_as_leader(batch(b"lost"), leader_epoch=0, now_ms=0)
    hosted.log.update_high_watermark(2)
    with capture_logs() as logs:
        next(iter(follower._fetchers._fetchers.values())).add(hosted)
        await eventually(lambda: hosted.log.log_end_offset == 1)
    errors = [entry for entry in logs if entry["log_level"] == "error"]
    assert len(errors) == 1, logs
    assert "truncated to 1, 1 records below the high watermark 2" in errors[0]["note"]


def test_an_answer_about_a_topic_of_the_same_name_is_dropped_ft_8(pair):
    """The follower hears of the new topic while records of the old one are on their way; offsets and epochs fit."""
    pair.create_topic()
    follower = pair.brokers[2]
    pair.wait(0.3)
    image, roles = follower._image, follower._roles
    assert roles is not None
    tp = TopicPartition("t", 0)
    topic = metadata_pb2.TopicRecord(topic="t", topic_id=b"2" * 16)
    partition = partition_to_record(tp, b"2" * 16, image.partitions[tp])
    records = [
        metadata_pb2.MetadataRecord(key="topic/t", version=image.version + 1, topic=topic),
        metadata_pb2.MetadataRecord(key="partition/t/0", version=image.version + 2, partition=partition),
    ]
    pair.network.slow("broker-1", "broker-2", (500, 500))
    pair.produce(100, 100, acks=1)
    pair.run(roles.apply(records), pair.processes[2])
    pair.wait(5)
    assert pair.hosted(2).topic_id == b"2" * 16
    assert (pair.log(1).log_end_offset, pair.log(2).log_end_offset) == (2, 0)
