"""The sink, against brokers in this process: what a task has written is acknowledged, and reads back as it was."""

import asyncio
import time
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.types import BinaryType, DataType, IntegerType, LongType, StringType, StructType

from replog.client import Consumer, DeliveryFailed, Record
from replog.errors import ReplogError
from replog.topic import TopicPartition
from spark_jobs.records.columns import HEADERS, arrow_schema
from spark_jobs.records.options import sink_options
from spark_jobs.records.source import ReplogSource
from spark_jobs.records.writer import BatchWriter, StreamWriter, Written
from tests.spark_jobs.records.conftest import InProcessCluster, options, table

_TYPES: dict[str, DataType] = {"string": StringType(), "binary": BinaryType(), "int": IntegerType(), "long": LongType()}


def columns_of(text: str) -> StructType:
    """`name type, …`, without a Spark session to parse it."""
    schema = StructType()
    for name, kind in (column.split() for column in text.split(", ")):
        schema.add(name, _TYPES[kind])
    return schema


TP = TopicPartition("t", 0)
WHOLE = columns_of("topic string, key binary, value string, partition int").add("headers", HEADERS)


async def read_back(cluster: InProcessCluster, topic: str, partitions: int, count: int) -> list[Record]:
    records: list[Record] = []
    async with Consumer(cluster.brokers[1].address, auto_offset_reset="earliest") as consumer:
        consumer.assign([(topic, number) for number in range(partitions)])
        async with asyncio.timeout(60):
            while len(records) < count:
                records += await consumer.fetch()
    return sorted(records, key=lambda record: (record.partition, record.offset))


async def write(cluster: InProcessCluster, schema: StructType, *batches: pa.RecordBatch, **given: str) -> Any:
    writer = StreamWriter(sink_options(options(cluster, **given)), schema)
    return await asyncio.to_thread(writer.write, iter(batches))


async def test_every_column_of_a_record_reads_back(cluster):
    await cluster.start_broker(1)
    for name in ("a", "b"):
        await cluster.create_topic(name, partitions=3, replication_factor=1)
    headers = pa.array([[("h", b"1"), ("h", None)], None, []], arrow_schema(True).field("headers").type)
    batch = pa.RecordBatch.from_arrays(
        [
            pa.array(["a", "b", "a"]),
            pa.array([b"k", None, b"k"]),
            pa.array(["grün", "x", None]),
            pa.array([2, 1, None], pa.int32()),
            headers,
        ],
        names=WHOLE.fieldNames(),
    )
    assert await write(cluster, WHOLE, batch) == Written(3)
    in_a, in_b = await read_back(cluster, "a", 3, 2), await read_back(cluster, "b", 3, 1)
    assert [(r.key, r.value, r.headers) for r in in_b] == [(None, b"x", [])]
    assert in_b[0].partition == 1
    by_value = {record.value: record for record in in_a}
    assert by_value["grün".encode()].headers == [("h", b"1"), ("h", None)]
    assert by_value["grün".encode()].partition == 2
    assert (by_value[None].key, by_value[None].headers) == (b"k", [])


async def test_a_header_needs_a_key(cluster):
    await cluster.start_broker(1)
    schema = columns_of("value string").add("headers", HEADERS)
    for wrong in ([(None, b"1")], [None]):
        headers = pa.array([wrong], arrow_schema(True).field("headers").type)
        with pytest.raises(ReplogError, match="a row has a header without a key"):
            await write(cluster, schema, table(value=["x"], headers=headers), topic="t")


async def test_the_option_topic_outranks_the_column_and_other_columns_are_not_written(cluster):
    """So what was read can be written as it came, with its offset and timestamp."""
    await cluster.start_broker(1)
    await cluster.create_topic("wanted", replication_factor=1)
    schema = columns_of("topic string, value binary, offset long")
    values = [[b"%d" % (500 * part + number) for number in range(500)] for part in range(4)]
    batches = [table(topic=["other"] * 500, value=each, offset=[7] * 500) for each in values]
    assert await write(cluster, schema, *batches, topic="wanted") == Written(2000)
    assert [r.value for r in await read_back(cluster, "wanted", 1, 2000)] == [b"%d" % n for n in range(2000)]


async def test_records_are_on_their_way_while_the_next_ones_are_waited_for(cluster):
    await cluster.start_broker(1)
    await cluster.create_topic("t", replication_factor=1)
    log = cluster.log(1, TP)
    seen = []

    def slowly() -> Iterator[pa.RecordBatch]:
        for number in range(3):
            yield table(value=[b"%d" % number])
            deadline = time.monotonic() + 60
            while log.high_watermark == number and time.monotonic() < deadline:
                time.sleep(0.01)
            seen.append(log.high_watermark)

    writer = BatchWriter(sink_options(options(cluster, topic="t")), columns_of("value binary"))
    assert await asyncio.to_thread(writer.write, slowly()) == Written(3)
    assert seen == [1, 2, 3]


async def test_a_failure_names_the_partition_and_the_cause_and_nothing_to_write_is_none(cluster):
    await cluster.start_broker(1)
    assert await write(cluster, columns_of("value binary"), topic="t") == Written(0)
    await cluster.create_topic("t", replication_factor=1, max_message_bytes="100")
    with pytest.raises(DeliveryFailed, match=r"t-0: .*max\.message\.bytes"):
        await write(cluster, columns_of("value binary"), table(value=[b"x", bytes(200), b"y"]), topic="t")
    schema = columns_of("value binary, partition int")
    with pytest.raises(ReplogError, match="partitions 0 to 0, not 7"):
        await write(cluster, schema, pa.RecordBatch.from_pydict({"value": [b"x"], "partition": [7]}), topic="t")
    with pytest.raises(ReplogError, match="a row's topic is null"):
        await write(cluster, columns_of("value binary, topic string"), table(value=[b"x"], topic=[None]))


@pytest.mark.parametrize(
    ("columns", "complaint"),
    [
        ("key string", "there is no column 'value'"),
        ("value long", "column 'value' is of type bigint; it must be string or binary"),
        ("value string, headers string", "it must be array<struct<key:string,value:binary>>"),
        ("value string, partition long", "it must be int"),
        ("value string", "no topic is given"),
    ],
)
def test_columns_that_make_no_record_are_refused(columns, complaint):
    given = sink_options({"kafka.bootstrap.servers": "a:1", **({"topic": "t"} if columns != "value string" else {})})
    with pytest.raises(ReplogError) as caught:
        BatchWriter(given, columns_of(columns))
    assert complaint in str(caught.value)


def test_a_log_is_not_overwritten():
    source = ReplogSource({"kafka.bootstrap.servers": "a:1", "topic": "t"})
    with pytest.raises(ReplogError, match="a log cannot be overwritten"):
        source.writer(columns_of("value string"), True)
    source.streamWriter(columns_of("value string"), True)  # as output mode complete asks


def test_the_columns_of_the_source_are_fixed():
    source = ReplogSource({"kafka.bootstrap.servers": "a:1", "subscribe": "t"})
    with pytest.raises(ReplogError, match="leave the schema out"):
        source.reader(columns_of("value string"))
