"""kcat, confluent-kafka and aiokafka on three brokers of ours, for a minute: the part of the judges that CI asks."""

import asyncio
import json

import pytest
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.errors import TopicAlreadyExistsError

from tests.foreign.clients import CODECS, READERS, WRITERS, Row, Sent, confluent_kafka, kcat

pytestmark = pytest.mark.processes

PARTITIONS = 3
CLUSTER = {"partitions": PARTITIONS}
START_MS = 1_700_000_000_000
RECORDS = (
    (b"key", b"value", (("header", b"one"), ("header", b"two"))),
    (b"gone", None, ()),
    (b"long", b"0123456789" * 5_000, (("empty", b""),)),
)


def test_every_client_reads_alike_what_every_client_wrote_with_every_codec(cluster):
    classes = confluent_kafka(".admin")
    admin = classes.AdminClient({"bootstrap.servers": cluster.bootstrap})
    admin.create_topics([classes.NewTopic("alike", 2, 3)])["alike"].result(30)
    written: list[Sent] = []
    for number, (writer, write) in enumerate(WRITERS.items()):
        for codec in CODECS:
            stamp = START_MS + len(written)
            sent = [
                Sent(number % 2, stamp + i, f"{writer} {codec} ".encode() + key, value, headers)
                for i, (key, value, headers) in enumerate(RECORDS)
            ]
            write(cluster.bootstrap, "alike", codec, sent)
            written += sent
    read = {reader: read(cluster.bootstrap, "alike", (0, 1)) for reader, read in READERS.items()}
    rows = read["confluent-kafka"]
    for reader, others in read.items():
        assert others == rows, reader
    for partition in (0, 1):
        of_it = [row for row in rows if row.partition == partition]
        assert [row.offset for row in of_it] == [*range(len(of_it))]
        wanted = [sent for sent in written if sent.partition == partition]
        assert [_without_clock(row) for row in of_it] == [_without_clock(sent) for sent in wanted]
        timed = [(row.timestamp, sent.timestamp) for row, sent in zip(of_it, wanted, strict=True)]
        assert all(seen == sent for seen, sent in timed if seen < START_MS + 1_000_000), timed


def _without_clock(record: Row | Sent) -> tuple[object, ...]:
    return record.key, record.value, record.headers


def test_kcat_sees_the_cluster_makes_a_topic_and_asks_for_offsets(cluster):
    said = json.loads(kcat(cluster.bootstrap, "-L", "-J"))
    assert {(broker["id"], broker["name"]) for broker in said["brokers"]} == {
        (broker.node_id, broker.address) for broker in cluster.state.brokers
    }
    for value in (b"one", b"two", b"three"):
        kcat(cluster.bootstrap, "-P", "-t", "made-by-kcat", "-p", "1", stdin=value)
    (topic,) = json.loads(kcat(cluster.bootstrap, "-L", "-J", "-t", "made-by-kcat"))["topics"]
    assert [len(partition["replicas"]) for partition in topic["partitions"]] == [3] * PARTITIONS
    assert kcat(cluster.bootstrap, "-C", "-t", "made-by-kcat", "-p", "1", "-o", "-2", "-e") == b"two\nthree\n"
    offsets = [kcat(cluster.bootstrap, "-Q", "-t", f"made-by-kcat:1:{when}") for when in (0, -1, -2)]
    assert [line.split()[-1] for line in offsets] == [b"0", b"3", b"0"]


def test_confluent_kafka_administers_and_is_refused_as_by_kafka(cluster):
    confluent = confluent_kafka()
    classes = confluent_kafka(".admin")
    admin = classes.AdminClient({"bootstrap.servers": cluster.bootstrap})
    admin.create_topics([classes.NewTopic("kept", 2, 3, config={"retention.ms": "86400000"})])["kept"].result(30)
    with pytest.raises(confluent.KafkaException) as again:
        admin.create_topics([classes.NewTopic("kept", 2, 3)])["kept"].result(30)
    assert again.value.args[0].code() == confluent.KafkaError.TOPIC_ALREADY_EXISTS
    admin.create_partitions([classes.NewPartitions("kept", 4)])["kept"].result(30)
    assert len(admin.list_topics("kept", timeout=30).topics["kept"].partitions) == 4

    refused = []
    producer = confluent.Producer({"bootstrap.servers": cluster.bootstrap, "message.max.bytes": 5_000_000})
    producer.produce("kept", b"x" * 4_000_000, partition=0, on_delivery=lambda error, _: refused.append(error.code()))
    for number in range(10):
        producer.produce("kept", b"%d" % number, partition=1, timestamp=START_MS + number)
    assert producer.flush(30) == 0
    assert refused == [confluent.KafkaError.MSG_SIZE_TOO_LARGE]

    consumer = confluent.Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": "none"})
    place = confluent.TopicPartition("kept", 1, START_MS + 4)
    assert consumer.offsets_for_times([place], timeout=30)[0].offset == 4
    place = confluent.TopicPartition("kept", 1, 7)
    assert admin.delete_records([place])[place].result(30).low_watermark == 7
    assert consumer.get_watermark_offsets(place, timeout=30) == (7, 10)
    consumer.close()
    admin.delete_topics(["kept"])["kept"].result(30)
    assert "kept" not in admin.list_topics(timeout=30).topics


def test_aiokafka_administers(cluster):
    asyncio.run(_administer(cluster.bootstrap))


async def _administer(bootstrap: str) -> None:
    async with asyncio.timeout(60):
        admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
        await admin.start()
        try:
            topic = NewTopic("async", 2, 3, topic_configs={"cleanup.policy": "compact"})
            await admin.create_topics([topic])
            again = await admin.create_topics([topic])
            assert [error for _, error, *_ in again.topic_errors] == [TopicAlreadyExistsError.errno]
            (described,) = await admin.describe_topics(["async"])
            assert sorted(len(partition["replicas"]) for partition in described["partitions"]) == [3, 3]
            assert len((await admin.describe_cluster())["brokers"]) == 3
            await admin.delete_topics(["async"])
            assert "async" not in await admin.list_topics()
        finally:
            await admin.close()
