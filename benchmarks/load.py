"""Sends records at a fixed rate to all partitions of a topic, each timed from when it was due."""

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
    """A context manager that sends until it is left, and then waits for all answers.

    A record that cannot be sent when it is due, because an earlier one delays the sender, is sent late and counts from
    when it was due. So a pause of the cluster shows in every record that was due in it.
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
        """Stop sending, and wait for all answers."""
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
                except Exception as error:  # noqa: BLE001 (errors of either client are counted)
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
        """Return the latency of the records that were due from `since` on and before `until`."""
        return Latency.of([wait for due, _, wait in self.waits if since <= due < until])

    def figures(self, since: float = 0.0, until: float = math.inf) -> dict[str, float]:
        """Return the latency of these records, and the number of failed records of all."""
        latency = self.latency(since, until)
        names = ("p50_ms", "p99_ms", "max_ms")
        return {name: getattr(latency, name) for name in names} | {"failed_records": len(self.failed)}

    def longest_wait(self, partitions: Iterable[int], since: float) -> float:
        """Return the longest wait in seconds of a record of these partitions that was due from `since` on."""
        among = set(partitions)
        return max((wait for due, partition, wait in self.waits if due >= since and partition in among), default=0.0)


async def write_everywhere(send: Send, topic: str, partitions: int) -> None:
    """Send one record to each partition, and wait until all are acknowledged."""
    record = os.urandom(RECORD_BYTES)
    outcomes = [await send(topic, partition, record) for partition in range(partitions)]
    for outcome in outcomes:
        await outcome
