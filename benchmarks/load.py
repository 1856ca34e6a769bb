"""A client that sends records of 1 KiB at a fixed rate, each timed from when it was due."""

import math
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

from benchmarks.beside import Figures
from benchmarks.measure import Latency
from benchmarks.peers.peer import FAILED, ClusterPeer

RECORD_BYTES = 1024


class Load:
    """The waits of its records are known once it has ended."""

    def __init__(self, per_second: float) -> None:
        self._per_second = per_second
        self._first = time.perf_counter()  # when the first record was due
        self.waits_us: list[int] = []

    def waits(self, since: float = 0.0, until: float = math.inf) -> dict[int, float]:
        """Return the seconds that records due from `since` on and before `until` waited, by their numbers from 0."""
        dues = ((number, self._first + number / self._per_second) for number in range(len(self.waits_us)))
        among = [number for number, due in dues if since <= due < until and self.waits_us[number] != FAILED]
        return {number: self.waits_us[number] / 1e6 for number in among}

    def figures(self, since: float = 0.0, until: float = math.inf) -> Figures:
        """Return the latency of these records, and the number of failed records of all."""
        latency = Latency.of(list(self.waits(since, until).values()))
        return {**latency._asdict(), "failed_records": self.waits_us.count(FAILED)}


@asynccontextmanager
async def load(cluster: ClusterPeer, topics: Mapping[str, int], per_second: float) -> AsyncIterator[Load]:
    """Send to the partitions of topics in turn from a process of its own, until the block ends; then wait for answers.

    A record that cannot be sent when it is due, because an earlier one delays the sender, is sent late and counts from
    when it was due. So a pause of the cluster shows in every record that was due in it.
    """
    settings = cluster.options(cluster.defaults)
    async with cluster.beside() as client:
        await client.order("go", topics=topics, record_bytes=RECORD_BYTES, per_second=per_second, settings=settings)
        running = Load(per_second)
        yield running
        running.waits_us = (await client.order("tell"))["waits_us"]
