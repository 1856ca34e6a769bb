"""A Kafka broker's life: it writes topics of its own, takes over directories that replog wrote, and crashes."""

import asyncio
import shutil
import time
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from aiokafka import AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient, NewTopic

from replog.log.directories.partition_metadata import PARTITION_METADATA
from replog.log.formats.batch import iterate_batches
from tests.interop import our_logs
from tests.interop.broker import KafkaBroker
from tests.interop.kafka import Kafka
from tests.interop.our_logs import Expected

OURS = ("ours-codecs", "ours-transactions", "ours-compacted")
SMALL = {  # Kafka takes less than 1 MiB by the internal name only; our timestamps are long past
    "internal.segment.bytes": 50_000,
    "segment.index.bytes": 8192,
    "retention.ms": -1,
}
COMPACT = {
    **SMALL,
    "cleanup.policy": "compact",
    "internal.segment.bytes": 12_000,
    "index.interval.bytes": 0,
    "min.cleanable.dirty.ratio": 0.01,
}
TOPICS = {
    "codecs": SMALL,
    "transactions": SMALL,
    "compacted": COMPACT,
    "stamped": {**SMALL, "message.timestamp.type": "LogAppendTime"},
    **dict.fromkeys(OURS, SMALL),
}
RECORD_SIZES = {"none": 100, "gzip": 101, "snappy": 102, "lz4": 103, "zstd": 104}
PER_CODEC = 800
TRANSACTIONAL = 500  # by Kafka's own producer, all committed
TRANSACTIONS = 12  # of ten records each, every other one aborted
AFTERWARDS = 50  # records that Kafka appends to a log of ours
COMPACTED_LINES = 1500
COMMITTED_WAIT_S = 6
_CLEANED_TIMEOUT_S = 120


@dataclass
class History:
    """Log directories of the broker, copied, and what was written and read."""

    kafka: Kafka  # the broker's
    clean: Path  # after a stop in order
    crashed: Path  # after SIGKILL
    latest: dict[str, str]  # of each key in `compacted`; "null" for a tombstone
    ours: Path  # as it was when Kafka took it over
    sent: list[Expected]  # in ours-codecs
    in_transactions: tuple[list[int], list[int]]  # offsets in ours-transactions: all, and the committed
    our_latest: dict[str, str]  # in ours-compacted
    compacted: list[Expected]  # what compaction has left there
    consumed: dict[str, list[str]] = field(default_factory=dict)  # lines of Kafka's console consumer, by what was asked


def live(kafka: Kafka, root: Path) -> History:
    """About twenty seconds; nothing is left running."""
    broker = KafkaBroker(kafka, root / "kafka")
    try:
        with ThreadPoolExecutor(4) as several:
            return _live(broker, root, several)
    except BaseException:
        print(f"end of {broker.log_file}:\n{broker.log_tail()}")
        raise
    finally:
        broker.kill()


def _live(broker: KafkaBroker, root: Path, several: ThreadPoolExecutor) -> History:
    broker.start()
    asyncio.run(_create_topics(broker))

    writing = [several.submit(broker.produce, "codecs", PER_CODEC, size, codec) for codec, size in RECORD_SIZES.items()]
    writing.append(several.submit(broker.produce, "stamped", PER_CODEC, 100, "lz4"))
    writing.append(several.submit(_commit, broker))
    writing.append(several.submit(_compacted, broker))
    latest = writing[-1]
    ours = root / "ours"
    our_latest, left = our_logs.compacted(ours / "ours-compacted-0")
    history = History(
        kafka=broker.kafka,
        clean=root / "clean",
        crashed=root / "crashed",
        latest={},
        ours=ours,
        sent=our_logs.every_codec(ours / "ours-codecs-0", 1000),
        in_transactions=our_logs.transactions(ours / "ours-transactions-0"),
        our_latest=our_latest,
        compacted=left,
    )
    _all(writing)
    history.latest = latest.result()
    asyncio.run(_abort(broker))
    _wait_until_cleaned(broker.data / "compacted-0")
    broker.stop()
    shutil.copytree(broker.data, history.clean)

    for topic in OURS:
        _take_over(broker.data / f"{topic}-0", ours / f"{topic}-0")
    broker.start()
    everything, committed = history.in_transactions
    reading = {
        "committed": several.submit(_consume_committed, broker, len(committed)),
        "ours-transactions": several.submit(broker.consume, "ours-transactions", len(everything)),
        "ours-codecs": several.submit(broker.consume, "ours-codecs", len(history.sent)),
        "ours-compacted": several.submit(broker.consume, "ours-compacted", len(history.compacted)),
    }
    history.consumed = {name: lines.result() for name, lines in reading.items()}
    broker.produce("ours-codecs", AFTERWARDS, 100, "zstd")
    broker.kill()
    shutil.copytree(broker.data, history.crashed)
    return history


async def _create_topics(broker: KafkaBroker) -> None:
    async with asyncio.timeout(200):
        admin = AIOKafkaAdminClient(bootstrap_servers=broker.address)
        await admin.start()
        try:
            await admin.create_topics([NewTopic(name, 1, 1, topic_configs=config) for name, config in TOPICS.items()])
        finally:
            await admin.close()


def _all(work: list["Future[dict[str, str]]"] | list["Future[None]"]) -> None:
    for done in work:
        done.result()


def _commit(broker: KafkaBroker) -> None:
    broker.produce(
        "transactions", TRANSACTIONAL, 100, "snappy", "--transactional-id", "perf", "--transaction-duration-ms", 5
    )


def _compacted(broker: KafkaBroker) -> dict[str, str]:
    """Two producers, the second of which makes everything of the first one obsolete."""
    latest: dict[str, str] = {}
    for producer, codec in enumerate(("lz4", "zstd")):
        lines = []
        for number in range(COMPACTED_LINES):
            key = f"key {number if number % 20 == 0 else number * number % 97}"  # some rare: holes wherever it cleans
            value = "NULL" if number % 13 == 0 else f"value {number} of {producer}, " * 4
            lines.append(f"number:{number},nothing:\t{key}\t{value}\n")
            latest[key] = value.replace("NULL", "null")
        broker.produce_lines("compacted", "".join(lines), codec)
    return latest


async def _abort(broker: KafkaBroker) -> None:
    """Transactions of ten records, every other one aborted; and one that stays open."""
    async with asyncio.timeout(200):
        producer = AIOKafkaProducer(
            bootstrap_servers=broker.address,
            transactional_id="mine",
            transaction_timeout_ms=600_000,  # it must be open still when the broker crashes
            compression_type="gzip",
        )
        await producer.start()
        try:
            for number in range(TRANSACTIONS):
                await producer.begin_transaction()
                for index in range(10):
                    await producer.send("transactions", b"%d of %d" % (index, number), partition=0)
                await producer.flush()
                await (producer.abort_transaction() if number % 2 else producer.commit_transaction())
            await producer.begin_transaction()
            await producer.send_and_wait("transactions", b"open", partition=0)
        finally:
            await producer.stop()  # which does not end the transaction


def _wait_until_cleaned(directory: Path) -> None:
    """Until the cleaner has made holes and finds no more to do."""
    deadline = time.monotonic() + _CLEANED_TIMEOUT_S
    while time.monotonic() < deadline:
        headers = [header for path in directory.glob("*.log") for _, header in iterate_batches(path.read_bytes())]
        if headers and headers[0].base_offset > 0 and len(headers) < 200:
            return
        time.sleep(0.2)
    raise AssertionError(f"Kafka's cleaner has not cleaned {directory} in {_CLEANED_TIMEOUT_S} s")


def _consume_committed(broker: KafkaBroker, count: int) -> list[str]:
    """Waits a while for one more than there should be; for longer if Kafka was slow to send the others."""
    lines: list[str] = []
    for timeout_s in (COMMITTED_WAIT_S, 4 * COMMITTED_WAIT_S):
        if len(lines) < count:
            lines = broker.consume("ours-transactions", count + 1, "read_committed", timeout_s)
    return lines


def _take_over(directory: Path, ours: Path) -> None:
    """Kafka's files make way for ours; what stays is the topic's id."""
    for path in directory.iterdir():
        if path.name != PARTITION_METADATA:
            path.unlink()
    shutil.copytree(ours, directory, dirs_exist_ok=True)
