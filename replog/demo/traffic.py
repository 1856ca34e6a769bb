"""Produces the demo's records at an even pace through a crash, notes every acknowledgement, and reads them back.

Sends and acknowledgements make a `History`, which the simulator's checks of client histories check. A record is known
by its value: no two of the demo's are equal."""

import asyncio
from collections import Counter, defaultdict, deque
from collections.abc import Awaitable, Callable, Sequence
from time import monotonic

from replog.client import Consumer, Delivery, Producer
from replog.demo.dataset import carrier
from replog.errors import ErrorCode
from replog.simulator.history import Drained, History, ProducerSend
from replog.topic import TopicPartition

CHUNK_ROWS = 1000
CHUNK_S = 0.0375  # about 27,000 records a second; faster, production would end before the repair
READ_TIMEOUT_S = 60.0
STALL_S = 15.0


class Tracker:
    """Notes the offset and the time of every acknowledgement, when it looks."""

    def __init__(self) -> None:
        self.history = History()
        self.crashed_at: float | None = None
        self.recovered_s: dict[int, float] = {}  # each partition's seconds from the crash to an acknowledgement
        self._waiting: defaultdict[int, deque[tuple[ProducerSend, Delivery]]] = defaultdict(deque)

    @property
    def count(self) -> int:
        """The number of acknowledged records."""
        return len(self.history.acknowledgements)

    def by_partition(self) -> Counter[int]:
        """Count the acknowledged records of each partition."""
        return Counter(send.partition.partition for send in self.history.acknowledgements)

    def sent(self, topic: str, key: bytes, value: bytes, delivery: Delivery) -> None:
        tp = TopicPartition(topic, delivery.partition)
        send = ProducerSend("demo", tp, value, -1, idempotent=True, invoked_s=monotonic(), key=key)
        self.history.sends.append(send)
        self._waiting[tp.partition].append((send, delivery))

    def look(self) -> None:
        """Note what was acknowledged since the last look. Raises DeliveryFailed."""
        for partition, waiting in self._waiting.items():
            while waiting and waiting[0][1].done():
                send, delivery = waiting.popleft()
                self.history.acknowledged(send, delivery.result(), monotonic())
                # The broker that crashed may have acknowledged a record that was sent before the crash.
                if self.crashed_at is not None and send.invoked_s > self.crashed_at:
                    self.recovered_s.setdefault(partition, monotonic() - self.crashed_at)


async def produce_through_a_crash(
    bootstrap: str,
    topic: str,
    rows: Sequence[bytes],
    crash_after: int,
    crash: Callable[[Tracker], Awaitable[None]],
    repair: Callable[[Tracker], Awaitable[None]],
    progress: Callable[[int], None],
) -> Tracker:
    """Produce every row once, keyed by its carrier, with acks=all.

    When `crash_after` records are acknowledged, `crash` runs, and then `repair`, while production goes on. Returns once
    every record is acknowledged and both are done. Raises DeliveryFailed if a record was given up."""
    tracker = Tracker()
    trouble: asyncio.Task[None] | None = None

    async def crash_and_repair() -> None:
        await crash(tracker)
        tracker.crashed_at = monotonic()
        await repair(tracker)

    producer = Producer(bootstrap, linger_ms=20, batch_size=64 << 10)
    try:
        async with producer:
            for start in range(0, len(rows), CHUNK_ROWS):
                chunk_end = monotonic() + CHUNK_S
                for row in rows[start : start + CHUNK_ROWS]:
                    key = carrier(row)
                    tracker.sent(topic, key, row, await producer.send(topic, row, key))
                if trouble is None and tracker.count >= crash_after:
                    trouble = asyncio.create_task(crash_and_repair())
                await asyncio.sleep(max(0.0, chunk_end - monotonic()))
                tracker.look()
                progress(tracker.count)
                if trouble is not None and trouble.done():
                    trouble.result()
            await producer.flush()
            tracker.look()
            progress(tracker.count)
        if trouble is None:
            raise ErrorCode.REQUEST_TIMED_OUT.error(
                f"fewer than {crash_after} records were acknowledged before the end"
            )
        await trouble
    finally:
        if trouble is not None:
            trouble.cancel()
    return tracker


async def read_back(
    bootstrap: str, topic: str, partitions: int, progress: Callable[[int], None]
) -> list[tuple[int, int, bytes]]:
    """Return (partition, offset, value) of every record up to the high watermarks. Raises REQUEST_TIMED_OUT."""
    assigned = [TopicPartition(topic, number) for number in range(partitions)]
    readable: list[tuple[int, int, bytes]] = []
    async with Consumer(bootstrap, auto_offset_reset="earliest") as consumer:
        ends = await consumer.end_offsets(assigned, READ_TIMEOUT_S)
        left = {partition for partition, end in ends.items() if end > 0}
        consumer.assign(assigned)
        while left:
            records = await consumer.fetch(STALL_S)
            if not records:
                stalled = ", ".join(str(partition) for partition in sorted(left))
                raise ErrorCode.REQUEST_TIMED_OUT.error(f"nothing came for {STALL_S:g} s from {stalled}")
            readable += [(record.partition, record.offset, record.value or b"") for record in records]
            last = records[-1]
            if last.offset + 1 >= ends[TopicPartition(topic, last.partition)]:
                left.discard(TopicPartition(topic, last.partition))
            progress(len(readable))
    return readable


def drained(topic: str, partitions: int, readable: list[tuple[int, int, bytes]]) -> dict[TopicPartition, Drained]:
    """Return the result of `read_back` for a history's `drained`. The logs begin at offset 0."""
    by_partition: dict[TopicPartition, list[tuple[int, bytes]]] = {
        TopicPartition(topic, number): [] for number in range(partitions)
    }
    for number, offset, value in readable:
        by_partition[TopicPartition(topic, number)].append((offset, value))
    return {tp: Drained(tp, 0, len(records), tuple(records)) for tp, records in by_partition.items()}
