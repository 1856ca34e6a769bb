"""Batch queries against brokers in this process: exactly the records between the bounds."""

import asyncio
import logging
import re
from collections.abc import Callable, Mapping
from functools import partial

import pytest
from pyspark.sql.types import BinaryType, StructField, StructType

from replog.client import Admin, ElectionType, Producer
from replog.client.offsets import OffsetAndTimestamp
from replog.errors import ErrorCode, ReplogError
from replog.local_cluster.ports import free_port
from replog.topic import TopicPartition
from spark_jobs.records import ReplogSource, task
from spark_jobs.records.cluster import Assigned, ranges
from spark_jobs.records.options import sink_options
from spark_jobs.records.task import OffsetRange
from spark_jobs.records.writer import BatchWriter
from tests.replog.client.consuming.test_read_committed import with_transactions
from tests.replog.server.broker.conftest import eventually
from tests.spark_jobs.records.conftest import (
    InProcessCluster,
    batch_options,
    batch_query,
    batch_reader,
    places,
    planned,
    produce,
    read_all,
    stream_reader,
    table,
)
from tests.spark_jobs.records.hostile import GOOD, HOSTILE

T0 = TopicPartition("t", 0)


async def two_partitions(cluster: InProcessCluster) -> None:
    """Topic `t`: 30 records in partition 0, 20 in partition 1, from 1000 ms on."""
    await cluster.start_broker(1)
    await cluster.create_topic("t", partitions=2, replication_factor=1)
    await produce(cluster, "t", {0: 30, 1: 20})


def spans(rows: list[dict[str, object]]) -> dict[int, tuple[int, int]]:
    """First and last offset of each partition, having checked that none between them is missing."""
    by_partition: dict[int, list[int]] = {}
    for _, partition, offset in places(rows):
        by_partition.setdefault(partition, []).append(offset)
    assert all(offsets == list(range(offsets[0], offsets[-1] + 1)) for offsets in by_partition.values()), by_partition
    return {partition: (offsets[0], offsets[-1]) for partition, offsets in by_partition.items()}


async def test_all_records_come_with_all_their_columns(cluster):
    await two_partitions(cluster)
    async with Producer(cluster.brokers[1].address) as producer:
        await producer.send("t", None, b"key", partition=1, timestamp_ms=2000, headers=[("a", b"1"), ("b", None)])
    rows = await batch_query(cluster, subscribe="t", includeHeaders="true")
    assert spans(rows) == {0: (0, 29), 1: (0, 20)}
    assert [row["value"] for row in rows[:30]] == [b"0:%d" % number for number in range(30)]
    last = rows[-1]
    assert last.pop("timestamp").timestamp() == 2.0
    headers = [{"key": "a", "value": b"1"}, {"key": "b", "value": None}]
    assert last == {
        "key": b"key",
        "value": None,
        "topic": "t",
        "partition": 1,
        "offset": 20,
        "timestampType": 0,
        "headers": headers,
    }
    assert rows[0]["headers"] is None


async def test_each_way_to_name_partitions_and_bounds(cluster):
    await two_partitions(cluster)
    for name in ("other", "t-2"):
        await cluster.create_topic(name, partitions=1, replication_factor=1)
    await produce(cluster, "other", {0: 5})

    async def read(**given: str) -> dict[int, tuple[int, int]]:
        return spans(await batch_query(cluster, **given))

    assert await read(assign='{"t":[1]}') == {1: (0, 19)}
    assert {topic for topic, *_ in places(await batch_query(cluster, subscribe="t,other"))} == {"t", "other"}
    assert {topic for topic, *_ in places(await batch_query(cluster, subscribePattern="o.*r|t-.*"))} == {"other"}
    assert await batch_query(cluster, subscribePattern="nothing.*") == []
    bounds = {"startingOffsets": '{"t":{"0":12,"1":-2}}', "endingOffsets": '{"t":{"0":-1,"1":7}}'}
    assert await read(subscribe="t", **bounds) == {0: (12, 29), 1: (0, 6)}
    assert await read(subscribe="t", startingTimestamp="1105", endingTimestamp="1150") == {0: (11, 14), 1: (11, 14)}
    by_time = {
        "startingOffsetsByTimestamp": '{"t":{"0":1290,"1":0}}',
        "endingOffsetsByTimestamp": '{"t":{"0":9999,"1":1010}}',
    }
    assert await read(subscribe="t", **by_time) == {0: (29, 29), 1: (0, 0)}
    late = {"subscribe": "t", "startingTimestamp": "1250"}
    with pytest.raises(ReplogError, match="t-1 has no record at or after 1250 ms"):
        await read(**late)
    assert await read(**late, startingOffsetsByTimestampStrategy="latest") == {0: (25, 29)}


async def test_what_does_not_exist_is_refused(cluster):
    await cluster.start_broker(1)
    await cluster.create_topic("t", replication_factor=1)
    for given in ({"subscribe": "t,nowhere"}, {"assign": '{"t":[0,7]}'}, {"assign": '{"nowhere":[0]}'}):
        with pytest.raises(ReplogError, match="UNKNOWN_TOPIC_OR_PARTITION: "):
            await planned(cluster, **given)
    with pytest.raises(ReplogError, match="must name every partition"):
        await planned(cluster, subscribe="t", startingOffsets='{"t":{"1":0}}')


async def test_a_partition_is_split_where_more_tasks_are_wanted(cluster):
    await two_partitions(cluster)
    parts = await planned(cluster, subscribe="t", minPartitions="5")
    assert [(part.partition, part.start) for part in parts] == [(0, 0), (0, 10), (0, 20), (1, 0), (1, 10)]
    parts = await planned(cluster, subscribe="t", maxRecordsPerPartition="7")
    assert max(part.end - part.start for part in parts) <= 7


async def test_records_that_are_gone_fail_the_query_or_are_warned_of(cluster, caplog):
    await two_partitions(cluster)
    async with Admin(cluster.brokers[1].address) as admin:
        await admin.delete_records({TopicPartition("t", 0): 15})
    from_10, from_31 = ({"startingOffsets": f'{{"t":{{"0":{start},"1":0}}}}'} for start in (10, 31))
    before_10, before_31 = ({"endingOffsets": f'{{"t":{{"0":{end},"1":20}}}}'} for end in (10, 31))
    for bounds in (from_10, from_31, before_10, before_31):
        with pytest.raises(
            ReplogError, match=r"t-0: records from offset .* are asked for, and those from 15 to before 30"
        ):
            await planned(cluster, subscribe="t", **bounds)
        with caplog.at_level(logging.WARNING):
            rows = await batch_query(cluster, subscribe="t", failOnDataLoss="false", **bounds)
        assert "failOnDataLoss is false: going on" in caplog.text
        caplog.clear()
        of_0 = {} if bounds in (from_31, before_10) else {0: (15, 29)}
        assert spans(rows) == {**of_0, 1: (0, 19)}
    assert spans(await batch_query(cluster, subscribe="t")) == {0: (15, 29), 1: (0, 19)}
    with pytest.raises(ReplogError, match="starts at offset 20, after its end 18"):
        await planned(cluster, assign='{"t":[0]}', startingOffsets='{"t":{"0":20}}', endingOffsets='{"t":{"0":18}}')


async def test_records_that_go_between_planning_and_reading_fail_the_task(cluster, caplog):
    await two_partitions(cluster)
    strict, lenient = (batch_reader(cluster, assign='{"t":[0]}', failOnDataLoss=fail) for fail in ("true", "false"))
    ranges = list(await asyncio.to_thread(strict.partitions))
    async with Admin(cluster.brokers[1].address) as admin:
        await admin.delete_records({TopicPartition("t", 0): 15})
    with pytest.raises(ReplogError, match="t-0: the records from offset 0 to before 15 are gone: the log starts at"):
        await asyncio.to_thread(read_all, strict, ranges)
    rows = await asyncio.to_thread(read_all, lenient, ranges)
    assert spans(rows) == {0: (15, 29)}
    assert "from offset 0 to before 15 are gone" in caplog.text
    async with Admin(cluster.brokers[1].address) as admin:
        await admin.delete_topic("t")
        await admin.create_topic("t", partitions=1, replication_factor=1)
    await produce(cluster, "t", {0: 30})
    with pytest.raises(
        ReplogError, match="from offset 0 to before 30 are gone: its topic was deleted and created again"
    ):
        await asyncio.to_thread(read_all, strict, ranges)
    assert await asyncio.to_thread(read_all, lenient, ranges) == []
    assert "its topic was deleted and created again" in caplog.text


async def test_a_log_that_is_truncated_after_the_planning_fails_the_task_in_time(cluster, caplog):
    """What was below the high watermark is lost by an unclean election: the rest of the range will never come."""
    await cluster.start_brokers(1, 2)
    await cluster.create_topic("t", replication_factor=2, min_insync_replicas="1")
    await produce(cluster, "t", {0: 10})
    leader = cluster.leader(T0)
    await cluster.crash_broker(3 - leader)
    await eventually(lambda: cluster.isr(T0) == {leader})
    await produce(cluster, "t", {0: 10})
    ranges = await planned(cluster, subscribe="t")
    assert [(part.start, part.end) for part in ranges] == [(0, 20)]
    await cluster.crash_broker(leader)
    await eventually(lambda: cluster.leader(T0) == -1)
    await cluster.start_broker(3 - leader)
    async with Admin(cluster.brokers[3 - leader].address) as admin:
        (elected,) = (await admin.elect_leaders(ElectionType.UNCLEAN, [T0])).values()
    assert (elected.leader, elected.error) == (3 - leader, None)
    strict, lenient = (
        batch_reader(cluster, subscribe="t", kafkaConsumer_pollTimeoutMs="500", failOnDataLoss=fail)
        for fail in ("true", "false")
    )
    with pytest.raises(ReplogError, match="from offset 10 to before 20 are gone: the log was truncated"):
        await asyncio.to_thread(read_all, strict, ranges)
    assert spans(await asyncio.to_thread(read_all, lenient, ranges)) == {0: (0, 9)}
    assert "from offset 10 to before 20 are gone: the log was truncated" in caplog.text


async def test_what_is_left_of_a_truncated_log_is_read_however_late_it_comes(cluster, caplog):
    await two_partitions(cluster)
    options = batch_options(cluster, subscribe="t", failOnDataLoss="false")
    reading = task._Reading(options, OffsetRange("t", 1, "", 5, 40))
    await reading.open()
    await reading._check_end()  # as when nothing has come in time
    assert "t-1: the records from offset 20 to before 40 are gone: the log was truncated" in caplog.text
    ends = []
    while (fetched := await reading.fetch()) is not None:
        ends.append(fetched.next_offset)
    await reading.consumer.close()
    assert ends[-1:] == [20], ends


async def test_a_deleted_topic_fails_the_task(cluster, monkeypatch):
    await two_partitions(cluster)
    monkeypatch.setattr(task, "UNKNOWN_S", 1.5)
    reader = batch_reader(cluster, assign='{"t":[0]}')
    ranges = list(await asyncio.to_thread(reader.partitions))
    async with Admin(cluster.brokers[1].address) as admin:
        await admin.delete_topic("t")
    with pytest.raises(ReplogError, match="its topic was deleted"):
        await asyncio.to_thread(read_all, reader, ranges)


async def test_no_partition_ends_before_it_starts_though_its_log_moves_on_while_it_is_planned(cluster):
    await two_partitions(cluster)
    address = cluster.brokers[1].address

    class Meanwhile(Admin):
        async def list_offsets(
            self, timestamps: Mapping[TopicPartition, int], read_committed: bool = False
        ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
            answers = await super().list_offsets(timestamps, read_committed)
            await produce(cluster, "t", {0: 10})
            await self.delete_records({T0: 35})
            return answers

    async with Meanwhile(address) as admin:
        there = await ranges(admin, batch_options(cluster, subscribe="t"), Assigned([T0], {}))
    assert there == {T0: (0, 40)}


async def test_batch_and_stream_go_on_past_what_a_bad_client_got_past_the_broker(cluster, caplog):
    await cluster.start_broker(1)
    await cluster.create_topic("t", replication_factor=1, message_timestamp_after_max_ms=str(2**63 - 1))
    refused, wanted = [], []
    for name, row in HOSTILE.items():
        error, base, _ = await cluster.produce(T0, row.batch)
        if error is ErrorCode.NONE:
            wanted += [base + number for number in row.left]
        else:
            refused.append(name)
        _, base, _ = await cluster.produce(T0, GOOD)
        wanted.append(base)
    assert refused == [
        "a key and a value of a MiB",
        "no bytes",
        "two thousand million records in few bytes",
        "a marker that is none",
        *(f"what is not of codec {codec}" for codec in (5, 6, 7)),
    ]
    with pytest.raises(ReplogError, match=r"t-0: the record at offset 1 is dated .* set the option failOnBadRecords"):
        await batch_query(cluster, subscribe="t", includeHeaders="true")
    lenient = {"subscribe": "t", "includeHeaders": "true", "failOnBadRecords": "false"}
    assert [row["offset"] for row in await batch_query(cluster, **lenient)] == wanted
    assert (
        len([told for told in caplog.messages if "failOnBadRecords is false: going on; the first: the r" in told]) == 1
    )

    def streamed() -> list[int]:
        reader = stream_reader(cluster, **lenient, startingOffsets="earliest")
        start = reader.initialOffset()
        end = reader.latestOffset(start, reader.getDefaultReadLimit())
        return [row["offset"] for row in read_all(reader, list(reader.partitions(start, end)))]

    assert await asyncio.to_thread(streamed) == wanted


async def test_the_isolation_level_is_the_bound(cluster):
    """LG-9, FE-22: read_committed ends at the last stable offset and leaves aborted records out; no marker is seen."""
    await with_transactions(cluster)
    committed = await batch_query(cluster, subscribe="t", kafka_isolation_level="read_committed")
    assert [(row["offset"], row["value"]) for row in committed] == [
        (2, b"plain"),
        (3, b"committed"),
        (5, b"of the next transaction"),
    ]
    assert [part.end for part in await planned(cluster, subscribe="t", kafka_isolation_level="read_committed")] == [8]
    everything = await batch_query(cluster, subscribe="t")
    assert [row["offset"] for row in everything] == [0, 1, 2, 3, 5, 8, 9]


async def test_a_task_that_nobody_answers_says_so_in_time(cluster, monkeypatch):
    await two_partitions(cluster)
    monkeypatch.setattr(task, "ANSWER_S", 0.5)
    reader = batch_reader(cluster, assign='{"t":[0]}', kafkaConsumer_pollTimeoutMs="500")
    ranges = list(await asyncio.to_thread(reader.partitions))
    await cluster.crash_broker(1)
    with pytest.raises(ReplogError, match=r"nothing came from offset 0 on in 0\.5 s; is its leader up"):
        await asyncio.to_thread(read_all, reader, ranges)


async def test_a_wrong_address_is_told_within_ten_seconds_by_source_and_sink():
    async def says_nothing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    servers = [await asyncio.start_server(says_nothing, "127.0.0.1", 0) for _ in range(4)]
    silent = ",".join(f"127.0.0.1:{server.sockets[0].getsockname()[1]}" for server in servers)
    option = "kafka.bootstrap.servers"

    async def refused(address: str, ask: Callable[[], object]) -> None:
        begun_s = asyncio.get_running_loop().time()
        with pytest.raises(ReplogError, match=re.escape(f"option {option}={address}: no ")):
            await asyncio.to_thread(ask)
        assert asyncio.get_running_loop().time() - begun_s < 25, "ten, on a machine that is not busy"

    asked = []
    for address in (f"127.0.0.1:{free_port(set())}", "no-such-host.invalid:9092", silent):
        source = ReplogSource({option: address, "subscribe": "t"})
        columns = StructType([StructField("value", BinaryType())])
        sink = BatchWriter(sink_options({option: address, "topic": "t"}), columns)
        asked += [
            refused(address, partial(source.reader, source.schema())),
            refused(address, partial(source.streamReader, source.schema())),
            refused(address, partial(sink.write, iter([table(value=[b"x"])]))),
        ]
    await asyncio.gather(*asked)
    for server in servers:
        server.close()
