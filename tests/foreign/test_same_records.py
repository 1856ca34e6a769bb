"""The same records for Kafka's clients and replog's own, written by both at once through kills and changes of leaders.

Each codec has a topic, with an idempotent producer of confluent-kafka and one of replog's. Brokers are killed, come
back, and lead again. Afterwards every acknowledged record is at its offset and nowhere else, each producer's are in
order, all clients read the same rows, and a deep audit of the replicas says CONSISTENT.
"""

import subprocess
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import pytest

from replog.client import ElectionType, SyncAdmin, SyncProducer
from replog.local_cluster.local_cluster import LocalCluster
from tests.foreign.clients import CODECS, READERS, Headers, Row, confluent_kafka

pytestmark = pytest.mark.foreign

PARTITIONS = 2
KILLED = (1, 2, 3)
BETWEEN_S = 4.0
PER_ROUND, ROUND_S = 20, 0.1  # records of a producer, and its pause after them
DELIVERY_S = 120.0
START_MS = 1_700_000_000_000
NOT_KCAT = [name for name in READERS if name != "kcat"]  # its JSON is for text


class Place(NamedTuple):
    topic: str
    partition: int
    offset: int


Acknowledged = dict[Place, bytes]  # the record's key: its producer and number


class Load:
    """Producers of both kinds for each codec, in threads; as a context manager they run."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self._stop = threading.Event()
        self._threads = ThreadPoolExecutor(2 * len(CODECS))

    def __enter__(self) -> "Load":
        kinds: tuple[Callable[[str], Acknowledged], ...] = (self._confluent, self._replog)
        self._running = [self._threads.submit(kind, codec) for codec in CODECS for kind in kinds]
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._threads.shutdown()

    def acknowledged(self) -> Acknowledged:
        """Return what was acknowledged, once all have stopped; none was refused."""
        return {place: key for running in self._running for place, key in running.result().items()}

    def _rounds(self) -> Iterator[range]:
        first = 0
        while not self._stop.is_set():
            yield range(first, first + PER_ROUND)
            first += PER_ROUND
            self._stop.wait(ROUND_S)

    def _confluent(self, codec: str) -> Acknowledged:
        producer = confluent_kafka().Producer(
            {
                "bootstrap.servers": self._bootstrap,
                "compression.type": codec,
                "enable.idempotence": True,
                "message.timeout.ms": int(DELIVERY_S * 1000),
            }
        )
        done: Acknowledged = {}
        refused: list[object] = []

        def delivered(error: object, message: Any) -> None:
            if error is not None:
                refused.append(error)
            else:
                done[Place(message.topic(), message.partition(), message.offset())] = message.key()

        for numbers in self._rounds():
            for number in numbers:
                partition, timestamp, key, value, headers = record("confluent", number)
                producer.produce(
                    codec, value, key, partition, on_delivery=delivered, timestamp=timestamp, headers=list(headers)
                )
            producer.poll(0)
        assert producer.flush(DELIVERY_S) == 0
        assert not refused, refused[:5]
        return done

    def _replog(self, codec: str) -> Acknowledged:
        sent = []
        with SyncProducer(self._bootstrap, compression=codec, delivery_timeout_ms=int(DELIVERY_S * 1000)) as producer:
            for numbers in self._rounds():
                for number in numbers:
                    partition, timestamp, key, value, headers = record("replog", number)
                    sent.append((key, producer.send_nowait(codec, value, key, partition, timestamp, headers)))
            stored = [(key, delivery.result(DELIVERY_S)) for key, delivery in sent]
        return {Place(one.topic, one.partition, one.offset): key for key, one in stored}


def record(producer: str, number: int) -> tuple[int, int, bytes, bytes | None, Headers]:
    """Return where a record goes and what is in it, all of which follows from its producer and number."""
    headers: Headers = (("n", b"%d" % number), ("n", b""), ("\N{SNOWMAN}", None))[: number % 4]
    value = None if number % 7 == 0 else b"%d " % number * (number % 50)
    return number % PARTITIONS, START_MS + number, f"{producer} {number}".encode(), value, headers


@pytest.fixture(scope="module")
def history(cluster: LocalCluster) -> Acknowledged:
    """What was acknowledged while brokers were killed, came back, and led again."""
    confluent_kafka()
    with SyncAdmin(cluster.bootstrap) as admin:
        for codec in CODECS:
            admin.create_topic(codec, PARTITIONS, 3, {"segment.bytes": "200000"})
        with Load(cluster.bootstrap) as load:
            for broker in KILLED:
                time.sleep(BETWEEN_S)
                cluster.kill(broker)
                time.sleep(BETWEEN_S)
                cluster.start(broker)
                cluster.wait_for_full_isr()
                admin.elect_leaders(ElectionType.PREFERRED)
            time.sleep(BETWEEN_S)
    cluster.wait_for_full_isr()
    return load.acknowledged()


@pytest.fixture(scope="module")
def rows(cluster: LocalCluster, history: Acknowledged) -> dict[str, list[Row]]:
    """What confluent-kafka reads, by topic."""
    return {codec: READERS["confluent-kafka"](cluster.bootstrap, codec, range(PARTITIONS)) for codec in CODECS}


def test_every_acknowledged_record_is_at_its_offset_whole_and_nowhere_else(history, rows):
    read = {Place(codec, row.partition, row.offset): row for codec in CODECS for row in rows[codec]}
    assert {place: row.key for place, row in read.items()} == history
    for place, row in read.items():
        producer, number = row.key.decode().split()
        assert row == (place.partition, place.offset, *record(producer, int(number))[1:])


def test_there_is_no_gap_and_each_producers_records_are_in_order(rows):
    for codec, its in rows.items():
        offsets, numbers = defaultdict(list), defaultdict(list)
        for row in its:
            producer, number = row.key.split()
            offsets[row.partition].append(row.offset)
            numbers[row.partition, producer].append(int(number))
        for partition, seen in offsets.items():
            assert seen == [*range(len(seen))], (codec, partition)
        for (partition, producer), seen in numbers.items():
            assert seen == [*range(partition, PARTITIONS * len(seen), PARTITIONS)], (codec, producer)


@pytest.mark.parametrize("codec", CODECS)
def test_every_client_reads_the_same(cluster, rows, codec):
    for reader in NOT_KCAT:
        assert READERS[reader](cluster.bootstrap, codec, range(PARTITIONS)) == rows[codec], reader


def test_the_replicas_are_consistent(cluster, history):
    directories = {broker.node_id: cluster.data_directory(broker.node_id) for broker in cluster.state.brokers}
    replicas = [word for number, path in directories.items() for word in ("--replica", f"{number}={path}")]
    command = [sys.executable, "-m", "replog.cli", "audit", "run", "--level", "deep", *replicas]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "CONSISTENT" in done.stdout
