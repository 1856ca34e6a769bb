"""Serializers and deserializers of keys and values, against a real broker."""

import asyncio
import json

import pytest

from replog.client import Consumer, DeserializationFailed, Producer, SyncConsumer, SyncProducer
from tests.replog.client.conftest import TP, bootstrap, read


def as_json(value: object) -> bytes:
    return json.dumps(value).encode()


async def test_keys_and_values_are_what_the_functions_make_of_them_and_none_stays_none(cluster):
    await cluster.start_broker(1)
    await cluster.create_topic("t", partitions=1, replication_factor=1)
    async with Producer(bootstrap(cluster), key_serializer=str.encode, value_serializer=as_json) as producer:
        await producer.send("t", {"n": 1}, "k")
        await producer.send_and_wait("t", None, "k")
        await producer.send_many("t", [[2], None], "k")
    async with Consumer(bootstrap(cluster)) as plain:
        plain.assign([TP])
        plain.seek_to_beginning()
        stored = [(record.key, record.value) for record in await read(plain, 4)]
    assert stored == [(b"k", b'{"n": 1}'), (b"k", None), (b"k", b"[2]"), (b"k", None)]
    async with Consumer(bootstrap(cluster), key_deserializer=bytes.decode, value_deserializer=json.loads) as consumer:
        consumer.assign([TP])
        consumer.seek_to_beginning()
        got = [(record.key, record.value) for record in await read(consumer, 4)]
    assert got == [("k", {"n": 1}), ("k", None), ("k", [2]), ("k", None)]


async def test_what_comes_before_a_record_that_a_deserializer_refuses_is_returned_and_a_seek_goes_on_behind_it(cluster):
    await cluster.start_broker(1)
    await cluster.create_topic("t", partitions=1, replication_factor=1)
    async with Producer(bootstrap(cluster)) as producer:
        await producer.send_many("t", [b"0", b"1", b"{", b"3"], b"k")
    async with Consumer(bootstrap(cluster), value_deserializer=json.loads) as consumer:
        consumer.assign([TP])
        consumer.seek_to_beginning()
        assert [record.value for record in await read(consumer, 2)] == [0, 1]
        assert await consumer.position(TP) == 2
        for _ in range(2):
            with pytest.raises(
                DeserializationFailed, match=r"value of record 2 of t-0: JSONDecode.*; seek to 3"
            ) as seen:
                await consumer.fetch(60)
            assert (seen.value.record.key, seen.value.record.value) == (b"k", b"{")
        consumer.seek(TP, 3)
        assert [record.value for record in await read(consumer, 1)] == [3]


async def test_a_serializer_that_makes_no_bytes_is_refused_and_one_that_raises_sends_nothing(cluster):
    await cluster.start_broker(1)
    await cluster.create_topic("t", partitions=1, replication_factor=1)
    async with Producer(bootstrap(cluster), value_serializer=json.dumps) as producer:  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="value must be bytes or None; encode it, not str"):
            await producer.send("t", 1)
        with pytest.raises(TypeError, match="not JSON serializable"):
            await producer.send("t", object())
        with pytest.raises(TypeError, match="not JSON serializable"):
            await producer.send_many("t", [object()])
    async with Consumer(bootstrap(cluster)) as consumer:
        assert await consumer.end_offsets([TP]) == {TP: 0}


async def test_blocking_clients_take_the_same_functions(cluster):
    await cluster.start_broker(1)
    await cluster.create_topic("t", partitions=1, replication_factor=1)

    def both() -> list[object]:
        with SyncProducer(bootstrap(cluster), value_serializer=as_json) as producer:
            producer.send("t", {"n": 1})
        with SyncConsumer(bootstrap(cluster), value_deserializer=json.loads) as consumer:
            consumer.assign([TP])
            consumer.seek_to_beginning()
            return [record.value for record in consumer.fetch(60)]

    assert await asyncio.to_thread(both) == [{"n": 1}]
