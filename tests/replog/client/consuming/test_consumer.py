"""The consumer against real brokers: positions, resets, truncation, failover."""

import asyncio

import pytest

from replog.client import Admin, Consumer, LogTruncated, Producer, TopicRecreated
from replog.client.consuming import fetcher
from replog.client.consuming.fetcher import Fetcher
from replog.errors import ErrorCode, InvalidError, ReplogError
from replog.log.formats.batch import iterate_batches
from replog.topic import TopicPartition
from tests.replog.client.conftest import TP, bootstrap, read
from tests.replog.server.broker.conftest import InProcessCluster, batch, eventually
from tests.spark_jobs.records.hostile import spoiled


async def one_broker_with(cluster: InProcessCluster, count: int, partitions: int = 1) -> str:
    """A broker whose topic t holds records 0, 1, … in each partition, stamped 1000, 1001, … ms."""
    await cluster.start_broker(1)
    await cluster.create_topic("t", partitions=partitions, replication_factor=1)
    async with Producer(bootstrap(cluster), batch_size=200) as producer:
        for partition in range(partitions):
            for i in range(count):
                await producer.send("t", b"%d" % i, partition=partition, timestamp_ms=1000 + i)
    return bootstrap(cluster)


async def test_what_came_before_a_batch_that_does_not_decode_is_handed_out_and_a_seek_goes_on_behind_it(cluster):
    async with Consumer(await one_broker_with(cluster, 3)) as consumer:
        assert (await cluster.produce(TP, spoiled(b"none of these are records", 2)))[1] == 3
        await cluster.produce(TP, batch(b"behind"))
        consumer.assign([TP])
        consumer.seek_to_beginning()
        assert [record.value for record in await read(consumer, 3)] == [b"0", b"1", b"2"]
        for _ in range(2):
            with pytest.raises(ReplogError, match=r"t-0: the batch at offset 3 does not decode: .* seek to 5$"):
                await consumer.fetch(60)
        consumer.seek(TP, 5)
        assert [record.value for record in await read(consumer, 1)] == [b"behind"]


async def test_a_seek_drops_what_is_buffered_and_under_way(cluster):
    async with Consumer(await one_broker_with(cluster, 50)) as consumer:
        consumer.assign([TP])
        consumer.seek_to_beginning()
        assert [record.offset for record in await consumer.fetch(60, max_records=3)] == [0, 1, 2]
        consumer.seek(TP, 40)
        assert [record.offset for record in await read(consumer, 10)] == list(range(40, 50))


async def test_what_a_decoder_that_fails_was_given_comes_again(cluster):
    async with Consumer(await one_broker_with(cluster, 50), max_partition_fetch_bytes=1) as consumer:
        consumer.assign([TP])
        consumer.seek(TP, 0)
        for _ in range(2):
            with pytest.raises(ZeroDivisionError):
                await consumer.fetch_decoded(lambda *_: 1 // 0, 60)
        assert [record.offset for record in await read(consumer, 50)] == list(range(50))


async def test_the_last_seek_counts_wherever_the_one_before_it_is_under_way(cluster):
    """The end that the first one asks for is answered later, or its records come."""
    async with Consumer(await one_broker_with(cluster, 20)) as consumer:
        consumer.assign([TP])
        for turns in range(6):
            consumer.seek_to_end()
            for _ in range(turns):
                await asyncio.sleep(0)
            consumer.seek(TP, 5)
            assert [record.offset for record in await consumer.fetch(60, max_records=1)] == [5], turns


async def test_without_records_a_fetch_comes_back_empty_in_time(cluster):
    async with Consumer(await one_broker_with(cluster, 1)) as consumer:
        consumer.assign([TP])  # the policy is latest
        assert await asyncio.wait_for(consumer.fetch(0.3), 60) == []
        assert await consumer.position(TP) == 1


async def test_a_waiting_consumer_gets_a_record_as_soon_as_it_is_committed(cluster):
    address = await one_broker_with(cluster, 1)
    async with Consumer(address, fetch_max_wait_ms=120_000) as consumer, Producer(address) as producer:
        consumer.assign([TP])
        waiting = asyncio.create_task(consumer.fetch(60))
        await consumer.position(TP)
        await asyncio.sleep(0.2)
        await (await producer.send("t", b"now"))
        assert [record.value for record in await asyncio.wait_for(waiting, 60)] == [b"now"]


@pytest.mark.parametrize("fetch_max_bytes", [1, 300, 500, 1 << 20])
async def test_batches_cut_off_by_the_answers_limit_are_fetched_again_and_every_partition_gets_its_turn(
    cluster, fetch_max_bytes
):
    """FE-9, FE-10. A batch has 200 bytes."""
    address = await one_broker_with(cluster, 40, partitions=4)
    async with Consumer(address, fetch_max_bytes=fetch_max_bytes, auto_offset_reset="earliest") as consumer:
        consumer.assign(TopicPartition("t", p) for p in range(4))
        records = await read(consumer, 160)
    for partition in range(4):
        assert [r.offset for r in records if r.partition == partition] == list(range(40))
    if fetch_max_bytes == 1:
        assert {record.partition for record in records[:60]} == {0, 1, 2, 3}


async def test_partitions_that_take_several_requests_to_name_are_read_once_each(cluster, monkeypatch):
    """While the others are named the broker does not hear how far those before them have come."""
    monkeypatch.setattr("replog.client.consuming.fetch_stream.MAX_NAMED", 2)
    async with Consumer(await one_broker_with(cluster, 20, partitions=7)) as consumer:
        consumer.assign([("t", partition) for partition in range(7)])
        consumer.seek_to_beginning()
        places = {(record.partition, record.offset) for record in await read(consumer, 7 * 20)}
        assert len(places) == 7 * 20
        assert await consumer.fetch(0.3) == []


async def test_partitions_that_another_stream_still_fetches_hold_no_others_up(cluster, monkeypatch):
    monkeypatch.setattr("replog.client.consuming.fetch_stream.MAX_NAMED", 1)
    async with Consumer(await one_broker_with(cluster, 1, partitions=2), auto_offset_reset="earliest") as consumer:
        consumer.assign([("t", 0), ("t", 1)])
        consumer._fetcher.states[TP].asked_by = object()  # a silent leader's stream, which has 30 s to answer
        async with asyncio.timeout(60):
            assert [record.partition for record in await read(consumer, 1)] == [1]


async def test_what_is_not_wanted_any_more_leaves_the_brokers_session(cluster):
    """It would be looked at, and sent, for nobody; and no other broker would be asked for it."""
    async with Consumer(await one_broker_with(cluster, 1, partitions=3), auto_offset_reset="earliest") as consumer:
        one, two, three = (TopicPartition("t", number) for number in range(3))
        consumer.assign([one, two, three])
        await read(consumer, 3)
        sessions = cluster.brokers[1].manager.sessions.watching
        await eventually(lambda: sessions.keys() == {one, two, three}, what=lambda: sessions)
        consumer.assign([one, two])
        consumer.pause(two)
        await eventually(lambda: sessions.keys() == {one}, what=lambda: sessions)


async def test_deleted_records_are_passed_over_by_the_policy(cluster):
    address = await one_broker_with(cluster, 30)
    async with Admin(address) as admin, Consumer(address, auto_offset_reset="earliest") as consumer:
        assert await admin.delete_records({TP: 10}) == {TP: 10}
        consumer.assign([TP])
        consumer.seek(TP, 2)
        assert [record.offset for record in await read(consumer, 20)] == list(range(10, 30))


async def test_an_offset_out_of_range_is_raised_until_a_seek_when_there_is_no_policy(cluster):
    async with Consumer(await one_broker_with(cluster, 5), auto_offset_reset="error") as consumer:
        consumer.assign([TP])
        with pytest.raises(ReplogError, match="t-0 has no position"):
            await consumer.fetch()
        consumer.seek(TP, 99)
        for _ in range(2):
            with pytest.raises(
                ReplogError, match=r"offset 99 of t-0 is outside of its log, .* 0 and .* at 5;"
            ) as refused:
                await consumer.fetch(60)
            assert refused.value.code is ErrorCode.OFFSET_OUT_OF_RANGE
        consumer.seek(TP, 4)
        assert [record.offset for record in await read(consumer, 1)] == [4]


async def test_a_consumer_goes_on_at_the_new_leader_without_gap_or_repetition(cluster):
    await cluster.start_brokers(1, 2, 3)
    await cluster.create_topic("t")
    address = bootstrap(cluster)
    async with Producer(address) as producer, Consumer(address, auto_offset_reset="earliest") as consumer:
        consumer.assign([TP])

        async def produce() -> None:
            for i in range(300):
                await (await producer.send("t", b"%d" % i))
                await asyncio.sleep(0.002)

        producing = asyncio.create_task(produce())
        records = await read(consumer, 50)
        await cluster.crash_broker(cluster.leader(TP))
        await asyncio.wait_for(producing, 60)
        end = (await consumer.end_offsets([TP]))[TP]
        records += await read(consumer, end - len(records))
    assert [record.offset for record in records] == list(range(end))
    values = [record.value for record in records]
    assert list(dict.fromkeys(values)) == [b"%d" % i for i in range(300)]


async def test_a_partition_without_leader_does_not_hold_up_the_others(cluster):
    await cluster.start_brokers(1, 2)
    async with Admin(bootstrap(cluster)) as admin, Producer(bootstrap(cluster)) as producer:
        await admin.create_topic("t", assignment=[[1], [2]])
        for partition in (0, 1):
            await (await producer.send("t", b"%d" % partition, partition=partition))
        await cluster.stop_broker(2)
    async with Consumer(bootstrap(cluster), auto_offset_reset="earliest") as consumer:
        consumer.assign([("t", 1), ("t", 0)])
        assert [record.value for record in await read(consumer, 1)] == [b"0"]
        await cluster.start_broker(2)
        assert [record.value for record in await read(consumer, 1)] == [b"1"]


async def lose_the_tail(cluster: InProcessCluster, keep: int) -> None:
    """Broker 1 comes back, as after a disk that lied, with the first `keep` records; the rest is written again."""
    address = cluster.brokers[1].address
    await cluster.stop_broker(1)
    directory = cluster.directory / "broker-1"
    (directory / ".kafka_cleanshutdown").unlink()
    (file,) = (directory / "t-0").glob("*.log")
    data = file.read_bytes()
    file.write_bytes(data[: next(pos for pos, header in iterate_batches(data) if header.base_offset == keep)])
    await cluster.start_broker(1, listeners=address)
    await cluster.led(TP)
    for offset in range(keep, 8):
        while (await cluster.produce(TP, batch(b"new %d" % offset)))[1] != offset:
            await asyncio.sleep(0.05)


@pytest.mark.parametrize("policy", ["error", "latest"])
async def test_a_truncated_log_is_noticed_and_never_skipped_over(cluster, one_broker, policy):
    """FE-5 as a consumer meets it: with a policy it goes on where the log diverges, without one it says so."""
    for i in range(6):
        await cluster.produce(TP, batch(b"old %d" % i))
    async with Consumer(one_broker, auto_offset_reset=policy) as consumer:  # type: ignore[arg-type]
        consumer.assign([TP])
        consumer.seek(TP, 0)
        assert [record.offset for record in await read(consumer, 6)] == list(range(6))
        await lose_the_tail(cluster, keep=3)
        if policy == "error":
            with pytest.raises(LogTruncated) as truncated:
                await read(consumer, 1)
            assert (truncated.value.position, truncated.value.diverging_offset) == (6, 3)
            consumer.seek(TP, 3)
        values = [record.value for record in await read(consumer, 5)]
        assert values == [b"new %d" % i for i in range(3, 8)]


@pytest.mark.parametrize("meanwhile", ["paused", "given back"])
async def test_a_truncation_is_noticed_by_who_goes_back_to_what_was_fetched_before_fe_5(cluster, one_broker, meanwhile):
    for i in range(6):
        await cluster.produce(TP, batch(b"old %d" % i))
    async with Consumer(one_broker, auto_offset_reset="error") as consumer:
        consumer.assign([TP])
        consumer.seek(TP, 0)
        records = await read(consumer, 6)
        consumer.pause(TP)
        if meanwhile == "given back":
            consumer.give_back(records[4:])
        await lose_the_tail(cluster, keep=3)
        consumer.resume(TP)
        with pytest.raises(LogTruncated) as truncated:
            await read(consumer, 1)
    assert (truncated.value.position, truncated.value.diverging_offset) == (4 if meanwhile == "given back" else 6, 3)


async def test_of_many_epochs_the_newest_say_where_a_reader_is_fe_5(cluster, monkeypatch):
    monkeypatch.setattr(fetcher, "MAX_EPOCHS", 2)
    address = await one_broker_with(cluster, 1)
    for number in range(1, 4):
        await cluster.stop_broker(1)
        await cluster.start_broker(1, listeners=address)
        await cluster.led(TP)
        await cluster.produce(TP, batch(b"%d" % number))
    async with Consumer(address, auto_offset_reset="error") as consumer:
        consumer.assign([TP])
        consumer.seek(TP, 0)
        assert [record.value for record in await read(consumer, 4)] == [b"0", b"1", b"2", b"3"]
        await cluster.produce(TP, batch(b"4"))
        assert [record.value for record in await read(consumer, 1)] == [b"4"]


async def test_what_was_read_before_the_log_was_truncated_is_handed_out_first(cluster, one_broker):
    for i in range(6):
        await cluster.produce(TP, batch(b"old %d" % i))
    async with Consumer(one_broker, auto_offset_reset="latest") as consumer:
        consumer.assign([TP])
        consumer.seek(TP, 0)
        assert [record.value for record in await consumer.fetch(60, max_records=1)] == [b"old 0"]
        state = consumer._fetcher.states[TP]
        await eventually(lambda: state.fetch_offset == 6)
        await lose_the_tail(cluster, keep=3)
        known = consumer._fetcher.states
        await eventually(lambda: state.failures > 1 or known[TP] is not state, what=lambda: state)
        values = [record.value for record in await read(consumer, 10)]
        assert values == [b"old %d" % i for i in range(1, 6)] + [b"new %d" % i for i in range(3, 8)]


async def test_bad_use_is_refused_with_a_clear_error(cluster):
    async with Consumer(await one_broker_with(cluster, 1)) as consumer:
        with pytest.raises(InvalidError, match="t-0 is not assigned"):
            consumer.seek(TP, 0)
        with pytest.raises(
            ReplogError, match="UNKNOWN_TOPIC_OR_PARTITION: t-5 is not there: topic 't' has 1 partitions"
        ):
            await consumer.end_offsets([("t", 5)], 0.1)
        consumer.assign([TP])
        with pytest.raises(ReplogError, match="cannot seek to offset -1"):
            consumer.seek(TP, -1)
        with pytest.raises(ReplogError, match="INVALID_TOPIC_EXCEPTION"):
            consumer.assign([("no/name", 0)])
    with pytest.raises(ReplogError, match="the consumer is closed"):
        await consumer.fetch()


async def test_a_bound_that_a_new_leader_cannot_tell_yet_is_asked_for_again_fe_22(cluster):
    """FE-22: OFFSET_NOT_AVAILABLE is nothing that an application should see, by name or as a position."""
    address = await one_broker_with(cluster, 3)
    leader = cluster.brokers[1].manager.replicas.hosted[TP].leader
    assert leader is not None
    leader.leader_epoch_start_offset = 5  # as if its high watermark had not come there since the election
    async with Consumer(address, auto_offset_reset="latest") as consumer:
        consumer.assign([TP])
        asked = [
            asyncio.create_task(consumer.end_offsets([TP])),
            asyncio.create_task(consumer.offsets_for_times({TP: 5000})),
            asyncio.create_task(consumer.position(TP)),
        ]
        assert await consumer.beginning_offsets([TP]) == {TP: 0}
        answer = (await consumer.offsets_for_times({TP: 1001}))[TP]
        assert answer is not None
        assert answer.offset == 1
        await asyncio.sleep(0.2)
        assert not any(task.done() for task in asked), asked
        await cluster.produce(TP, batch(b"3", b"4"))
        async with asyncio.timeout(60):
            assert await asyncio.gather(*asked) == [{TP: 5}, {TP: None}, 5]


async def test_a_stream_that_had_nothing_to_fetch_begins_its_session_anew(cluster):
    """What failed meanwhile the broker was not told to forget, and must not answer."""
    other = TopicPartition("t", 1)
    async with Consumer(await one_broker_with(cluster, 5, partitions=2), auto_offset_reset="error") as consumer:
        consumer.assign([TP, other])
        for partition in (TP, other):
            consumer.seek(partition, 1000)
        with pytest.raises(ReplogError):
            await read(consumer, 1)
        (stream,) = consumer._fetcher._streams.values()
        consumer.assign([other])
        consumer.seek(other, 0)
        assert [record.offset for record in await read(consumer, 5)] == list(range(5))
        assert list(consumer._fetcher._streams.values()) == [stream], "which was not lost"
        assert list(cluster.brokers[1].manager.sessions.watching) == [other]


async def test_a_stream_that_is_stopped_lets_go_of_its_partitions_at_once(cluster):
    """The stream to their next leader, woken in the same turn, would leave out what another one still asks for."""
    async with Consumer(await one_broker_with(cluster, 1, partitions=2), auto_offset_reset="earliest") as consumer:
        consumer.assign([TP, TopicPartition("t", 1)])
        await read(consumer, 2)
        (stream,) = consumer._fetcher._streams.values()
        states = consumer._fetcher.states.values()
        assert [state.asked_by for state in states] == [stream, stream]
        stream.stop()
        assert [state.asked_by for state in states] == [None, None]


async def test_a_topic_that_was_asked_for_in_vain_is_read_once_it_is_there(cluster):
    await cluster.start_broker(1)
    async with Consumer(bootstrap(cluster), auto_offset_reset="earliest") as consumer:
        consumer.assign([TP])
        with pytest.raises(ReplogError, match="topic 't' is not known"):
            await consumer.partitions_for("t", 0.3)
        await cluster.create_topic("t", replication_factor=1)
        await cluster.produce(TP, batch(b"late"))
        assert [record.value for record in await read(consumer, 1)] == [b"late"]


async def test_a_defect_while_fetching_is_raised_until_a_seek(cluster, monkeypatch, caplog):
    async with Consumer(await one_broker_with(cluster, 1), auto_offset_reset="earliest") as consumer:
        with monkeypatch.context() as patched:
            patched.setattr(Fetcher, "_wake_streams", lambda _: {}["missing"])
            consumer.assign([TP])
            for _ in range(2):
                with pytest.raises(ReplogError, match="fetching failed: KeyError"):
                    await read(consumer, 1)
        consumer.seek(TP, 0)
        assert len(await read(consumer, 1)) == 1
    assert "stopped fetching: a defect" in caplog.text


@pytest.mark.parametrize("policy", ["earliest", "latest", "error"])
async def test_a_topic_made_again_is_noticed_and_read_from_its_start(cluster, policy, caplog):
    """It went on at its old offset in the new topic, in silence."""
    address = await one_broker_with(cluster, 30)
    async with Consumer(address, auto_offset_reset=policy) as consumer, Admin(address) as admin:
        consumer.assign([TP])
        consumer.seek(TP, 0)
        old = consumer.topic_id("t") or (await consumer.partitions_for("t") and consumer.topic_id("t"))
        await read(consumer, 30)
        await admin.delete_topic("t")
        await cluster.create_topic("t", replication_factor=1)
        for _ in range(40):
            await cluster.produce(TP, batch(b"new"))
        if policy == "error":
            with pytest.raises(TopicRecreated, match=r"'t' was deleted and made again: .* up to 30 is gone; seek"):
                await read(consumer, 1)
            consumer.seek(TP, 5)
            assert (await read(consumer, 1))[0].offset == 5
        else:
            assert [record.offset for record in await read(consumer, 40)] == list(range(40))
            assert "'t' was deleted and made again" in caplog.text
        assert old is not None
        consumer.seek(TP, 35, old)
        if policy == "error":
            with pytest.raises(TopicRecreated):
                await read(consumer, 1)
        else:
            assert (await read(consumer, 1))[0].offset == 0, "a stored position of the topic that was"


async def test_a_paused_partition_gives_nothing_until_it_goes_on_where_it_was(cluster):
    address = await one_broker_with(cluster, 20, partitions=2)
    other = TopicPartition("t", 1)
    async with Consumer(address, auto_offset_reset="earliest") as consumer:
        consumer.assign([TP, other])
        seen = []
        while not any(record.partition == 0 for record in seen):
            seen += await consumer.fetch(60, max_records=3)
        consumer.pause(TP)
        while sum(record.partition for record in seen) < 20:
            seen += await consumer.fetch(60)
        paused = [record.offset for record in seen if record.partition == 0]
        assert await consumer.fetch(0.3) == []
        assert await consumer.position(TP) == len(paused)
        consumer.resume(TP)
        paused += [record.offset for record in await read(consumer, 20 - len(paused))]
    assert paused == list(range(20))


async def test_one_call_takes_of_many_partitions_in_order_and_no_more_than_asked_for(cluster):
    address = await one_broker_with(cluster, 20, partitions=4)
    async with Consumer(address, auto_offset_reset="earliest") as consumer:
        consumer.assign([("t", partition) for partition in range(4)])
        calls = []
        while sum(map(len, calls)) < 80:
            calls.append(await consumer.fetch_many(60, max_records=33))
        assert max(map(len, calls)) <= 33
        assert any(len({record.partition for record in records}) > 1 for records in calls)
        for partition in range(4):
            assert [r.offset for records in calls for r in records if r.partition == partition] == list(range(20))
