"""Streaming queries as Spark drives them, against brokers in this process."""

import asyncio
import logging
from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows, ReadMinRows

from replog.client import Admin
from replog.errors import ReplogError
from replog.topic import TopicPartition
from spark_jobs.records.cluster import is_gone
from spark_jobs.records.readers import StreamReader
from tests.replog.client.consuming.test_read_committed import with_transactions
from tests.replog.server.broker.conftest import eventually
from tests.spark_jobs.records.conftest import InProcessCluster, places, produce, read_all, stream_reader

Offset = dict[str, Any]


async def trigger(reader: StreamReader, start: Offset) -> tuple[Offset, list[tuple[str, int, int]]]:
    """One micro-batch: its end, and the records that it reads."""

    def run() -> tuple[Offset, list[tuple[str, int, int]]]:
        end = reader.latestOffset(start, reader.getDefaultReadLimit())
        return end, places(read_all(reader, list(reader.partitions(start, end))))

    return await asyncio.to_thread(run)


async def begun(cluster: InProcessCluster, **given: str) -> tuple[StreamReader, Offset]:
    reader = stream_reader(cluster, **{"startingOffsets": "earliest", **given})
    return reader, await asyncio.to_thread(reader.initialOffset)


async def topic(cluster: InProcessCluster, partitions: int = 2) -> None:
    await cluster.start_broker(1)
    await cluster.create_topic("t", partitions=partitions, replication_factor=1)


def offsets(at: Offset) -> dict[str, int]:
    return at["t"]  # type: ignore[no-any-return]


async def test_each_trigger_reads_what_has_come_since_the_last(cluster):
    await topic(cluster)
    await produce(cluster, "t", {0: 5})
    reader, start = await begun(cluster, subscribe="t")
    assert offsets(start) == {"0": 0, "1": 0}
    assert reader.getDefaultReadLimit() == ReadAllAvailable()
    end, rows = await trigger(reader, start)
    assert (offsets(end), rows) == ({"0": 5, "1": 0}, [("t", 0, n) for n in range(5)])
    assert reader.reportLatestOffset() == end
    assert await trigger(reader, end) == (end, [])
    await produce(cluster, "t", {1: 3})
    again, _ = await begun(cluster, subscribe="t")  # as after a restart: nothing is remembered but the offset
    assert await trigger(again, end) == ({**end, "t": {"0": 5, "1": 3}}, [("t", 1, n) for n in range(3)])


async def test_a_query_begins_where_it_is_told_to(cluster):
    await topic(cluster)
    await produce(cluster, "t", {0: 30, 1: 10})

    async def first(**given: str) -> dict[str, int]:
        return offsets((await begun(cluster, subscribe="t", **given))[1])

    assert await first(startingOffsets="latest") == {"0": 30, "1": 10}
    assert await first(startingOffsets='{"t":{"0":7,"1":-1}}') == {"0": 7, "1": 10}
    assert await first(startingTimestamp="1050") == {"0": 5, "1": 5}
    with pytest.raises(ReplogError, match="the query starts at offset 31, and there are 0 to before 30"):
        await first(startingOffsets='{"t":{"0":31,"1":0}}')
    assert await first(startingOffsets='{"t":{"0":31,"1":0}}', failOnDataLoss="false") == {"0": 30, "1": 0}


async def test_a_trigger_takes_no_more_than_its_limit(cluster):
    await topic(cluster)
    await produce(cluster, "t", {0: 30, 1: 10})
    reader, start = await begun(cluster, subscribe="t", maxOffsetsPerTrigger="12")
    assert reader.getDefaultReadLimit() == ReadMaxRows(12)
    rows: list[tuple[str, int, int]] = []
    sizes = []
    while True:
        end, more = await trigger(reader, start)
        if end == start:
            break
        sizes.append(len(more))
        start, rows = end, rows + more
    assert sizes == [12, 12, 12, 4]
    assert sorted(rows) == [("t", 0, n) for n in range(30)] + [("t", 1, n) for n in range(10)]
    assert offsets(reader.reportLatestOffset() or {}) == {"0": 30, "1": 10}
    _, start = await begun(cluster, subscribe="t")
    everything = await asyncio.to_thread(reader.latestOffset, start, ReadAllAvailable())
    assert offsets(everything) == {"0": 30, "1": 10}, "the engine may ask for all, whatever the option says"


async def test_a_trigger_waits_for_its_least_but_not_for_ever_and_not_the_first(cluster, monkeypatch):
    """As that of Spark's Kafka source."""
    clock_s = 1000.0
    monkeypatch.setattr("spark_jobs.records.readers.monotonic", lambda: clock_s)
    await topic(cluster)
    await produce(cluster, "t", {0: 3})
    limits = {"minOffsetsPerTrigger": "10", "maxTriggerDelay": "1m"}
    reader, start = await begun(cluster, subscribe="t", **limits)
    assert reader.getDefaultReadLimit() == ReadMinRows(10)
    start, rows = await trigger(reader, start)
    assert len(rows) == 3, "the first trigger waits for nothing"
    await produce(cluster, "t", {0: 5, 1: 4})
    assert await trigger(reader, start) == (start, [])
    assert offsets(reader.reportLatestOffset() or {}) == {"0": 8, "1": 4}
    everything = await asyncio.to_thread(reader.latestOffset, start, ReadAllAvailable())
    assert offsets(everything) == {"0": 8, "1": 4}, "the engine may ask for all, whatever the options say"
    await produce(cluster, "t", {1: 1})
    clock_s += 59
    start, rows = await trigger(reader, start)
    assert len(rows) == 10, "as many as it takes"
    await produce(cluster, "t", {1: 1})
    clock_s += 59
    assert await trigger(reader, start) == (start, [])
    clock_s += 1
    start, rows = await trigger(reader, start)
    assert len(rows) == 1, "it has waited for long enough"
    await produce(cluster, "t", {1: 30})
    both, _ = await begun(cluster, subscribe="t", **limits, maxOffsetsPerTrigger="20")
    assert both.getDefaultReadLimit() == ReadMaxRows(20)
    start, rows = await trigger(both, start)
    assert len(rows) == 20
    start, rows = await trigger(both, start)
    assert len(rows) == 10
    await produce(cluster, "t", {1: 2})
    assert await trigger(both, start) == (start, [])
    await asyncio.to_thread(both.prepareForTriggerAvailableNow)
    assert len((await trigger(both, start))[1]) == 2, "nothing is left behind by Trigger.AvailableNow"


async def test_available_now_reads_what_was_there_and_ends(cluster):
    await topic(cluster)
    await produce(cluster, "t", {0: 30})
    reader, start = await begun(cluster, subscribe="t", maxOffsetsPerTrigger="20")
    await asyncio.to_thread(reader.prepareForTriggerAvailableNow)
    await produce(cluster, "t", {0: 30, 1: 1})
    seen = []
    for _ in range(3):
        start, rows = await trigger(reader, start)
        seen.append(len(rows))
    assert seen == [20, 10, 0]


async def test_topics_that_appear_are_read_from_their_first_record(cluster):
    await topic(cluster)
    reader, start = await begun(cluster, subscribePattern="t.*", startingOffsets="latest")
    await cluster.create_topic("t-new", partitions=1, replication_factor=1)
    await produce(cluster, "t-new", {0: 4})
    end, rows = await trigger(reader, start)
    assert rows == [("t-new", 0, n) for n in range(4)]
    assert end["t-new"] == {"0": 4}
    assert set(end["@topicIds"]) == {"t", "t-new"}


async def test_a_topic_deleted_or_made_anew_fails_the_query_or_is_warned_of(cluster, caplog):
    await topic(cluster)
    await produce(cluster, "t", {0: 5})
    strict, start = await begun(cluster, subscribePattern="t")
    lenient, _ = await begun(cluster, subscribePattern="t", failOnDataLoss="false")
    end, rows = await trigger(strict, start)
    assert len(rows) == 5
    async with Admin(cluster.brokers[1].address) as admin:
        await admin.delete_topic("t")
        with pytest.raises(ReplogError, match="topic 't' was deleted: what"):
            await trigger(strict, end)
        with pytest.raises(ReplogError, match="topic 't' was deleted: what"):
            await asyncio.to_thread(strict.partitions, start, end)  # a batch that is planned again after a restart
        assert await asyncio.to_thread(lenient.partitions, start, end) == []
        await admin.create_topic("t", partitions=2, replication_factor=1)
    await produce(cluster, "t", {0: 5, 1: 2})  # as many as before: offsets alone would tell nothing
    with pytest.raises(ReplogError, match="topic 't' was deleted and created again"):
        await trigger(strict, end)
    with pytest.raises(ReplogError, match="topic 't' was deleted and created again"):
        await asyncio.to_thread(strict.partitions, start, end)
    with caplog.at_level(logging.WARNING):
        end, rows = await trigger(lenient, end)
    assert rows == [("t", 0, n) for n in range(5)] + [("t", 1, n) for n in range(2)]
    assert "topic 't' was deleted and created again" in caplog.text
    assert await trigger(strict, end) == (end, [])


async def test_a_topic_that_some_brokers_still_know_is_asked_for_again_then_left_where_it_is(
    cluster, caplog, monkeypatch
):
    await topic(cluster)
    await cluster.create_topic("other", replication_factor=1)
    await produce(cluster, "t", {0: 5})
    await produce(cluster, "other", {0: 5})
    strict, start = await begun(cluster, subscribe="t,other")
    lenient, _ = await begun(cluster, subscribe="t,other", failOnDataLoss="false")
    end, _ = await trigger(strict, start)
    async with Admin(cluster.brokers[1].address) as admin:
        await admin.delete_topic("t")
    await produce(cluster, "other", {0: 1})
    behind = 2  # answers of a broker that has not heard of it

    async def differs(*arguments: Any) -> bool:
        nonlocal behind
        behind -= 1
        return behind < 0 and await is_gone(*arguments)

    monkeypatch.setattr("spark_jobs.records.cluster.is_gone", differs)
    later, rows = await trigger(lenient, end)
    assert (later["other"], rows) == ({"0": 6}, [("other", 0, 5)])
    assert "t" not in later
    assert "topic 't' was deleted: what was not read yet is left out" in caplog.text
    behind = 2
    with pytest.raises(ReplogError, match="topic 't' was deleted"):
        await trigger(strict, end)
    behind = 1_000_000
    monkeypatch.setattr("spark_jobs.records.cluster.SETTLED_S", 0.5)
    with pytest.raises(ReplogError, match="brokers differ on whether topic 't' is there; start again"):
        await trigger(strict, end)
    later, rows = await trigger(lenient, end)
    assert later == {**end, "other": {"0": 6}}, "it comes back where it was, if it does"
    assert rows == [("other", 0, 5)]
    assert "brokers differ on whether topic 't' is there: it is left where it is" in caplog.text


async def test_a_topic_without_leaders_that_is_deleted_is_not_waited_for(cluster):
    """As while a deletion is under way, and one broker has not heard of it."""
    await cluster.start_brokers(1, 2)
    for name in ("t", "u", "v"):
        await cluster.create_topic(name, replication_factor=1)
    lenient, start = await begun(cluster, subscribePattern="^[tuv]$", failOnDataLoss="false")
    leaders = {name: cluster.leader(TopicPartition(name, 0)) for name in "tuv"}
    gone = leaders["t"]
    await cluster.crash_broker(gone)
    await eventually(lambda: cluster.leader(TopicPartition("t", 0)) == -1)
    asking = asyncio.create_task(trigger(lenient, start))
    async with cluster.admin() as admin:
        for name in [name for name, leader in leaders.items() if leader == gone]:
            await admin.delete_topic(name)
    begun_s = asyncio.get_running_loop().time()
    end, _ = await asking
    assert asyncio.get_running_loop().time() - begun_s < 45, "it waited for a leader until the deadline"
    assert end.keys() == {"@topicIds", *(name for name, leader in leaders.items() if leader != gone)}


async def test_a_log_that_ends_before_what_was_read_is_told(cluster):
    await topic(cluster)
    await produce(cluster, "t", {0: 5})
    strict, start = await begun(cluster, subscribe="t")
    read = {**start, "t": {"0": 9, "1": 0}}
    with pytest.raises(ReplogError, match="t-0 was read up to offset 9, and ends at 5 now"):
        await trigger(strict, read)
    lenient, _ = await begun(cluster, subscribe="t", failOnDataLoss="false")
    end, rows = await trigger(lenient, read)
    assert (offsets(end), rows) == ({"0": 5, "1": 0}, [])


async def test_a_topic_that_is_added_to_a_checkpointed_query_is_told_if_it_lacks_its_beginning(cluster):
    await topic(cluster)
    _, start = await begun(cluster, subscribe="t")
    await cluster.create_topic("old", replication_factor=1)
    await produce(cluster, "old", {0: 8})
    wider, _ = await begun(cluster, subscribe="t,old")
    assert (await trigger(wider, start))[1] == [("old", 0, n) for n in range(8)]
    async with Admin(cluster.brokers[1].address) as admin:
        await admin.delete_records({TopicPartition("old", 0): 5})
    with pytest.raises(ReplogError, match="old-0 is new, and what it holds starts at offset 5"):
        await trigger(wider, start)


async def test_what_is_no_longer_wanted_is_told(cluster, caplog):
    await topic(cluster)
    await cluster.create_topic("other", replication_factor=1)
    await produce(cluster, "t", {0: 2, 1: 2})
    _, start = await begun(cluster, subscribe="t,other")
    narrower, _ = await begun(cluster, subscribe="t")
    with pytest.raises(ReplogError, match="topic 'other' is not subscribed to any more"):
        await trigger(narrower, start)
    _, start = await begun(cluster, assign='{"t":[0,1]}')
    strict, lenient = [(await begun(cluster, assign='{"t":[1]}', failOnDataLoss=fail))[0] for fail in ("true", "false")]
    with pytest.raises(ReplogError, match="t-0 is not subscribed to any more"):
        await trigger(strict, start)
    end, rows = await trigger(lenient, start)
    assert (offsets(end), rows) == ({"1": 2}, [("t", 1, 0), ("t", 1, 1)])
    assert "t-0 is not subscribed to any more" in caplog.text


async def test_a_topic_is_gone_only_if_no_broker_knows_it(cluster, monkeypatch):
    await topic(cluster)
    async with Admin(cluster.brokers[1].address) as admin:
        topic_id = (await admin.describe_topic("t")).topic_id.hex()
        assert not await is_gone(admin, "t", topic_id)
        assert not await is_gone(admin, "t", "")
        assert await is_gone(admin, "t", "00" * 16)
        assert await is_gone(admin, "nowhere", "")
        described = asyncio.Future[Any]()
        described.set_result(await admin.describe_cluster())
        monkeypatch.setattr(admin, "describe_cluster", lambda: described)
        monkeypatch.setattr("spark_jobs.records.cluster.ONE_BROKER_TIMEOUT_MS", 300)
        await cluster.crash_broker(1)
        assert not await is_gone(admin, "nowhere", ""), "those that do not answer say nothing"


async def test_a_query_of_committed_records_waits_for_open_transactions(cluster):
    """LG-9: triggers end at the last stable offset."""
    await with_transactions(cluster)
    reader, start = await begun(cluster, subscribe="t", kafka_isolation_level="read_committed")
    end, rows = await trigger(reader, start)
    assert (offsets(end), rows) == ({"0": 8}, [("t", 0, 2), ("t", 0, 3), ("t", 0, 5)])
