"""A client process: a producer that sends to every partition, a consumer of all, one that asks for their ends, and an
admin client that creates and deletes other topics; and its notes, which the run builds a `History` of.

`python -m replog.chaos.client NAME BOOTSTRAP NOTES PACE_S` runs until SIGTERM: then it sends no more, and ends once
every record has its outcome. Records are numbered; the producer is idempotent.

Notes are a client's requests and answers, a JSON array a line, written with one system call before the client goes on.
So a killed process misses at most an answer that it never saw. Times are those of the machine's monotonic clock, which
all processes share. Only the first word of a value is noted, which names the record.
"""

import asyncio
import contextlib
import itertools
import json
import os
import signal
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from replog.client import Admin, Consumer, Delivery, DeliveryFailed, Producer
from replog.errors import ReplogError
from replog.simulator.history import History, Latest, Outcome, Poll, ProducerSend, Read
from replog.topic import TopicPartition

SENT, ACKNOWLEDGED, FAILED, READ, LATEST = "sent", "acknowledged", "failed", "read", "latest"
CREATED, NOT_CREATED, DELETING = "created", "not created", "deleting"  # topics


class NoteWriter:
    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)

    def write(self, kind: str, *what: Any) -> None:
        os.write(self._file, json.dumps([kind, *what]).encode() + b"\n")


class Gathered:
    """All clients' notes so far."""

    def __init__(self, directory: Path) -> None:
        self.history = History()
        self.acknowledged_at: dict[str, dict[TopicPartition, float]] = {}  # each client's last acknowledged send
        self.positions: dict[str, dict[TopicPartition, int]] = {}  # each client's consumer's
        self.created: dict[str, float] = {}  # topics whose creation succeeded, and its seconds
        self.not_created: list[str] = []  # errors
        self.deleting: set[str] = set()  # topics that may be gone
        self._directory = directory
        self._read_to: dict[Path, int] = {}
        self._sends: dict[bytes, ProducerSend] = {}

    def gather(self) -> None:
        """Read what is new. A line that is not whole yet waits for the next call."""
        for path in sorted(self._directory.glob("*.notes")):
            with path.open("rb") as file:
                file.seek(self._read_to.get(path, 0))
                whole = file.read().rpartition(b"\n")[0]
            if whole:
                self._read_to[path] = self._read_to.get(path, 0) + len(whole) + 1
                for line in whole.split(b"\n"):
                    self._note(*json.loads(line))
        self.history.acknowledgements.sort(key=lambda send: send.completed_s or 0.0)

    def _note(self, kind: str, *what: Any) -> None:
        if kind == SENT:
            client, topic, partition, value, invoked_s = what
            send = ProducerSend(client, TopicPartition(topic, partition), value.encode(), -1, True, invoked_s)
            self._sends[send.value] = send
            self.history.sends.append(send)
        elif kind == ACKNOWLEDGED:
            value, offset, completed_s = what
            send = self._sends[value.encode()]
            send.outcome, send.offset, send.completed_s = Outcome.OK, offset, completed_s
            self.history.acknowledgements.append(send)
            self.acknowledged_at.setdefault(send.client, {})[send.partition] = send.invoked_s
        elif kind == FAILED:
            value, may_be_appended, error, completed_s = what
            send = self._sends[value.encode()]
            send.outcome = Outcome.UNKNOWN if may_be_appended else Outcome.FAILED
            send.error, send.completed_s = error, completed_s
        elif kind == READ:
            client, _invoked_s, completed_s, records = what
            reads = tuple(Read(TopicPartition(t, p), offset, value.encode()) for t, p, offset, value in records)
            self.history.reads.append(Poll(client, reads, completed_s))
            positions = self.positions.setdefault(client, {})
            positions |= {read.partition: read.offset + 1 for read in reads}
        elif kind == CREATED:
            topic, invoked_s, completed_s = what
            self.created[topic] = completed_s - invoked_s
        elif kind == NOT_CREATED:
            self.not_created.append(what[0])
        elif kind == DELETING:
            self.deleting.add(what[0])
        else:
            assert kind == LATEST, kind
            client, topic, partition, offset, invoked_s, completed_s = what
            latest = Latest(client, TopicPartition(topic, partition), offset, invoked_s, completed_s)
            self.history.latest.append(latest)


PARTITIONS = 3
TOPICS: Mapping[str, Mapping[str, str]] = {
    "steady": {},
    "rolling": {"segment.bytes": "100000", "index.interval.bytes": "1000"},
}
ASSIGNED = [TopicPartition(topic, number) for topic in TOPICS for number in range(PARTITIONS)]
ENDS_EVERY_S = 0.5
TOPIC_EVERY_S = 2.0
TOPICS_KEPT = 2
ENDS_TIMEOUT_S = 30.0
RETRY_S = 0.5
PADDING = b" " + b"." * 400


class Client:
    def __init__(self, name: str, bootstrap: str, notes: Path, pace_s: float) -> None:
        """`pace_s` is the time between two records for the same partition."""
        self._name = name
        self._bootstrap = bootstrap
        self._notes = NoteWriter(notes)
        self._pace_s = pace_s
        self._stopped = asyncio.Event()

    async def run(self) -> None:
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, self._stopped.set)
        others = [asyncio.create_task(other) for other in (self._consume(), self._watch_ends(), self._make_topics())]
        producing = asyncio.create_task(self._produce())
        await asyncio.wait([producing, *others], return_when=asyncio.FIRST_COMPLETED)
        for task in others:
            task.cancel()
        for outcome in await asyncio.gather(producing, *others, return_exceptions=True):
            if isinstance(outcome, Exception):
                raise outcome

    async def _produce(self) -> None:
        number = 0
        async with Producer(self._bootstrap) as producer, asyncio.TaskGroup() as outcomes:
            while not self._stopped.is_set():
                for partition in ASSIGNED:
                    number += 1
                    value = f"{self._name}:{number}"
                    self._notes.write(SENT, self._name, *partition, value, time.monotonic())
                    try:
                        delivery = await producer.send(
                            partition.topic, value.encode() + PADDING, partition=partition.partition
                        )
                    except ReplogError as error:  # the record was not in a batch yet
                        self._notes.write(FAILED, value, False, str(error), time.monotonic())
                    else:
                        outcomes.create_task(self._outcome(value, delivery))
                await asyncio.sleep(self._pace_s)

    async def _outcome(self, value: str, delivery: Delivery) -> None:
        try:
            where = await delivery
        except DeliveryFailed as error:
            self._notes.write(FAILED, value, error.may_be_appended, str(error), time.monotonic())
        else:
            self._notes.write(ACKNOWLEDGED, value, where.offset, time.monotonic())

    async def _consume(self) -> None:
        """Read without a seek, so that each offset must come once, in order."""
        async with Consumer(self._bootstrap, auto_offset_reset="earliest") as consumer:
            consumer.assign(ASSIGNED)
            while True:
                invoked_s = time.monotonic()
                records = [
                    (record.topic, record.partition, record.offset, (record.value or b"").split(b" ")[0].decode())
                    for record in await consumer.fetch()
                ]
                if records:
                    self._notes.write(READ, self._name, invoked_s, time.monotonic(), records)

    async def _watch_ends(self) -> None:
        async with Consumer(self._bootstrap) as consumer:
            while True:
                invoked_s = time.monotonic()
                try:
                    ends = await consumer.end_offsets(ASSIGNED, ENDS_TIMEOUT_S)
                except ReplogError:  # a partition has no leader
                    await asyncio.sleep(RETRY_S)
                    continue
                for partition, offset in ends.items():
                    self._notes.write(LATEST, self._name, *partition, offset, invoked_s, time.monotonic())
                await asyncio.sleep(ENDS_EVERY_S)

    async def _make_topics(self) -> None:
        made: list[str] = []
        async with Admin(self._bootstrap) as admin:
            for number in itertools.count():
                topic, invoked_s = f"{self._name}.{number}", time.monotonic()
                try:
                    await admin.create_topic(topic, partitions=2, replication_factor=3)
                except ReplogError as error:  # the topic may exist nevertheless
                    self._notes.write(NOT_CREATED, f"{topic}: {error}")
                else:
                    self._notes.write(CREATED, topic, invoked_s, time.monotonic())
                made.append(topic)
                if len(made) > TOPICS_KEPT:
                    self._notes.write(DELETING, made[0])
                    with contextlib.suppress(ReplogError):
                        await admin.delete_topic(made.pop(0))
                await asyncio.sleep(TOPIC_EVERY_S)


if __name__ == "__main__":
    asyncio.run(Client(sys.argv[1], sys.argv[2], Path(sys.argv[3]), float(sys.argv[4])).run())
