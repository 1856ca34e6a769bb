"""Producer, consumer and admin together, against real brokers."""

from replog.client import Admin, Consumer, Producer
from replog.topic import TopicPartition
from tests.replog.client.conftest import bootstrap, read


async def test_what_is_produced_is_consumed_in_order_with_its_offsets(cluster):
    await cluster.start_brokers(1, 2, 3)
    address = bootstrap(cluster)
    async with Admin(address) as admin, Producer(address) as producer, Consumer(address) as consumer:
        await admin.create_topic("t", partitions=3)
        deliveries = [
            await producer.send("t", b"%d" % i, key=b"k%d" % (i % 7), headers=[("n", b"%d" % i)]) for i in range(500)
        ]
        placed = [await delivery for delivery in deliveries]
        consumer.assign(TopicPartition("t", p) for p in range(3))
        consumer.seek_to_beginning()
        seen = {(record.partition, record.offset): record for record in await read(consumer, 500)}
        for i, metadata in enumerate(placed):
            record = seen[metadata.partition, metadata.offset]
            assert (record.value, record.key) == (b"%d" % i, b"k%d" % (i % 7))
            assert record.headers == [("n", b"%d" % i)]
            assert record.timestamp == metadata.timestamp
        for p in range(3):
            ends = await consumer.end_offsets([("t", p)])
            assert await consumer.position(("t", p)) == ends["t", p] == 1 + max(o for q, o in seen if q == p)
