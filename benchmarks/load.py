"""Records at a fixed rate over all partitions of a topic, whatever happens, each timed from when it was due."""

import asyncio
import itertools
import math
import os
import time
from collections.abc import Awaitable, Iterable

from benchmarks.measure import Latency
from benchmarks.peers.peer import Send

RECORD_BYTES = 1024


class Load:
    """As a context manager it sends until it is left, and then waits for what is still unanswered.

    The schedule is closed: a record that cannot be sent when it is due, because an earlier one held the sender up, is
    sent late and counts from when it was due. So a pause of the cluster is in every record that fell into it.
    """

    def __init__(self, send: Send, topic: str, partitions: int, per_second: float) -> None:
        self._send = send
        self._topic = topic
        self._partitions = partitions
        self._per_second = per_second
        self._stopped = asyncio.Event()
        self.waits: list[tuple[float, int, float]] = []  # due (s, perf_counter), partition, seconds to the answer
        self.failed: list[str] = []

    def begin(self) -> None:
        self._task = asyncio.create_task(self._run())

    async def end(self) -> None:
        """Once all is answered."""
        self._stopped.set()
        await self._task

    async def __aenter__(self) -> "Load":
        self.begin()
        return self

    async def __aexit__(self, kind: object, *_: object) -> None:
        if kind is None:
            await self.end()
            return
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        record, first = os.urandom(RECORD_BYTES), time.perf_counter()
        async with asyncio.TaskGroup() as answers:
            for number in itertools.count():
                due = first + number / self._per_second
                if (wait := due - time.perf_counter()) > 0:
                    await asyncio.sleep(wait)
                if self._stopped.is_set():
                    return
                partition = number % self._partitions
                try:
                    outcome = await self._send(self._topic, partition, record)
                except Exception as error:  # noqa: BLE001 (two clients' errors: a record that failed is a figure)
                    self.failed.append(repr(error))
                else:
                    answers.create_task(self._answer(due, partition, outcome))

    async def _answer(self, due: float, partition: int, outcome: Awaitable[object]) -> None:
        try:
            await outcome
        except Exception as error:  # noqa: BLE001 (as above)
            self.failed.append(repr(error))
        else:
            self.waits.append((due, partition, time.perf_counter() - due))

    def latency(self, since: float = 0.0, until: float = math.inf) -> Latency:
        """Of the records that were due from then on, and before then."""
        return Latency.of([wait for due, _, wait in self.waits if since <= due < until])

    def figures(self, since: float = 0.0, until: float = math.inf) -> dict[str, float]:
        """The latency of these records, and how many failed of all."""
        latency = self.latency(since, until)
        names = ("p50_ms", "p99_ms", "max_ms")
        return {name: getattr(latency, name) for name in names} | {"failed_records": len(self.failed)}

    def longest_wait(self, partitions: Iterable[int], since: float) -> float:
        """Seconds that a record of one of these partitions, due from then on, waited for its answer."""
        among = set(partitions)
        return max((wait for due, partition, wait in self.waits if due >= since and partition in among), default=0.0)


async def write_everywhere(send: Send, topic: str, partitions: int) -> None:
    """One record to each partition; returns when all are acknowledged."""
    record = os.urandom(RECORD_BYTES)
    outcomes = [await send(topic, partition, record) for partition in range(partitions)]
    for outcome in outcomes:
        await outcome
