"""Clients that write and read records, each in its own way: kcat, confluent-kafka, aiokafka, and replog's own."""

import asyncio
import importlib
import json
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.structs import TopicPartition

from replog.client import SyncConsumer, SyncProducer
from tests.foreign.tools import NoTool, program, wheels

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
TIMEOUT_S = 60
Headers = tuple[tuple[str, bytes | None], ...]


class Sent(NamedTuple):
    """A record to write. kcat takes its own clock's time."""

    partition: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Headers


class Row(NamedTuple):
    """A record as it was read."""

    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Headers


Write = Callable[[str, str, str, Sequence[Sent]], None]  # bootstrap, topic, codec, records
Read = Callable[[str, str, Sequence[int]], list[Row]]  # bootstrap, topic, partitions: all that they have


def confluent_kafka(module: str = "") -> Any:
    """Return a module of the package, which is not among replog's own. Raises NoTool."""
    path = str(wheels("confluent-kafka==2.16.1"))
    if path not in sys.path:
        sys.path.append(path)
    try:
        return importlib.import_module(f"confluent_kafka{module}")
    except ImportError as error:
        raise NoTool(f"confluent-kafka cannot be imported here: {error}") from None


def kcat(bootstrap: str, *arguments: object, stdin: bytes = b"") -> bytes:
    """Return what it prints, and fail with what it complains of. Raises NoTool."""
    command = [program("kcat", "install Debian's kcat"), "-b", bootstrap, "-q", "-m", "30", *map(str, arguments)]
    done = subprocess.run(command, input=stdin, capture_output=True, timeout=TIMEOUT_S, check=False)
    assert done.returncode == 0, f"{command} ended with {done.returncode}: {done.stderr.decode()}"
    return done.stdout


def kcat_writes(bootstrap: str, topic: str, codec: str, records: Sequence[Sent]) -> None:
    """A run of kcat for each record: all records of a run have the same headers."""
    for record in records:
        headers = [word for name, value in record.headers for word in ("-H", f"{name}={(value or b'').decode()}")]
        nothing = ["-Z"] if record.value is None else []
        words = ("-P", "-t", topic, "-p", record.partition, "-z", codec, "-K", "|", *headers, *nothing)
        kcat(bootstrap, *words, stdin=(record.key or b"") + b"|" + (record.value or b""))


def kcat_reads(bootstrap: str, topic: str, partitions: Sequence[int]) -> list[Row]:
    rows = []
    for partition in partitions:
        for line in kcat(bootstrap, "-C", "-t", topic, "-p", partition, "-o", "beginning", "-e", "-J").splitlines():
            said = json.loads(line)
            names, values = said.get("headers", [])[::2], said.get("headers", [])[1::2]
            headers = tuple((name, _encoded(value)) for name, value in zip(names, values, strict=True))
            key, value = _encoded(said["key"]), _encoded(said["payload"])
            rows.append(Row(said["partition"], said["offset"], said["ts"], key, value, headers))
    return rows


def _encoded(text: str | None) -> bytes | None:
    return None if text is None else text.encode()


def confluent_writes(bootstrap: str, topic: str, codec: str, records: Sequence[Sent]) -> None:
    settings = {"bootstrap.servers": bootstrap, "compression.type": codec, "enable.idempotence": True, "linger.ms": 5}
    producer = confluent_kafka().Producer(settings)
    refused: list[object] = []

    def delivered(error: object, _: object) -> None:
        if error is not None:
            refused.append(error)

    for record in records:
        producer.produce(
            topic,
            record.value,
            record.key,
            record.partition,
            on_delivery=delivered,
            timestamp=record.timestamp,
            headers=list(record.headers),
        )
        producer.poll(0)
    left = producer.flush(TIMEOUT_S)
    assert (left, refused) == (0, [])


def confluent_reads(bootstrap: str, topic: str, partitions: Sequence[int]) -> list[Row]:
    confluent = confluent_kafka()
    settings = {"bootstrap.servers": bootstrap, "group.id": "none", "enable.partition.eof": True}
    consumer = confluent.Consumer({**settings, "enable.auto.commit": False, "auto.offset.reset": "error"})
    consumer.assign([confluent.TopicPartition(topic, one, confluent.OFFSET_BEGINNING) for one in partitions])
    rows, ended = [], set[int]()
    deadline = time.monotonic() + TIMEOUT_S
    while ended != set(partitions):
        assert time.monotonic() < deadline, f"no end of {set(partitions) - ended} within {TIMEOUT_S} s"
        for message in consumer.consume(1000, 0.2):
            if (error := message.error()) is not None:
                assert error.code() == confluent.KafkaError._PARTITION_EOF, error
                ended.add(message.partition())
                continue
            place = message.partition(), message.offset(), message.timestamp()[1]
            rows.append(Row(*place, message.key(), message.value(), tuple(message.headers() or ())))
    consumer.close()
    return sorted(rows)


def aiokafka_writes(bootstrap: str, topic: str, codec: str, records: Sequence[Sent]) -> None:
    asyncio.run(_aiokafka_writes(bootstrap, topic, codec, records))


async def _aiokafka_writes(bootstrap: str, topic: str, codec: str, records: Sequence[Sent]) -> None:
    compression = None if codec == "none" else codec
    async with (
        asyncio.timeout(TIMEOUT_S),
        AIOKafkaProducer(
            bootstrap_servers=bootstrap, compression_type=compression, enable_idempotence=True
        ) as producer,
    ):
        sent = [
            await producer.send(
                topic,
                record.value,
                record.key,
                record.partition,
                timestamp_ms=record.timestamp,
                headers=list(record.headers),
            )
            for record in records
        ]
        for one in sent:
            await one


def aiokafka_reads(bootstrap: str, topic: str, partitions: Sequence[int]) -> list[Row]:
    return asyncio.run(_aiokafka_reads(bootstrap, topic, partitions))


async def _aiokafka_reads(bootstrap: str, topic: str, partitions: Sequence[int]) -> list[Row]:
    rows = []
    async with (
        asyncio.timeout(TIMEOUT_S),
        AIOKafkaConsumer(bootstrap_servers=bootstrap, enable_auto_commit=False) as consumer,
    ):
        places = [TopicPartition(topic, partition) for partition in partitions]
        consumer.assign(places)
        await consumer.seek_to_beginning()
        ends = await consumer.end_offsets(places)
        while any([await consumer.position(place) < ends[place] for place in places]):
            for records in (await consumer.getmany(timeout_ms=200)).values():
                rows += [
                    Row(one.partition, one.offset, one.timestamp, one.key, one.value, tuple(one.headers))
                    for one in records
                ]
    return sorted(rows)


def replog_writes(bootstrap: str, topic: str, codec: str, records: Sequence[Sent]) -> None:
    with SyncProducer(bootstrap, compression=codec) as producer:
        sent = [
            producer.send_nowait(topic, one.value, one.key, one.partition, one.timestamp, one.headers)
            for one in records
        ]
        for delivery in sent:
            delivery.result(TIMEOUT_S)


def replog_reads(bootstrap: str, topic: str, partitions: Sequence[int]) -> list[Row]:
    rows = []
    with SyncConsumer(bootstrap, auto_offset_reset="earliest") as consumer:
        places = [(topic, partition) for partition in partitions]
        consumer.assign(places)
        ends = consumer.end_offsets(places)
        deadline = time.monotonic() + TIMEOUT_S
        while any(consumer.position(place) < ends[place] for place in ends):
            assert time.monotonic() < deadline, f"not at {ends} within {TIMEOUT_S} s"
            rows += [
                Row(one.partition, one.offset, one.timestamp, one.key, one.value, tuple(one.headers))
                for one in consumer.fetch_many()
            ]
    return sorted(rows)


WRITERS: dict[str, Write] = {
    "kcat": kcat_writes,
    "confluent-kafka": confluent_writes,
    "aiokafka": aiokafka_writes,
    "replog": replog_writes,
}
READERS: dict[str, Read] = {
    "kcat": kcat_reads,
    "confluent-kafka": confluent_reads,
    "aiokafka": aiokafka_reads,
    "replog": replog_reads,
}
