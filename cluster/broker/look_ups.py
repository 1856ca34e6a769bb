"""Offsets by time: which record is as late as a client says. What it takes to find out, no client can raise.

Batches are searched in a thread, one at a time on a broker, with a rest after each that is three times as long as it
took, so that all together take a quarter of a core. Each request has so much time for all of its batches.
"""

import asyncio

from cluster.broker.threads import in_thread
from replog.errors import ErrorCode, ReplogError
from replog.log.cold import NOTHING, ColdRead, WaitingFor
from replog.log.log import Log
from replog.log.offsets import TimestampAndOffset
from replog.log.timestamps import ClaimingBatch

RESTS = 3  # for as long as a search took
LOOK_UP_S = 10.0  # for all look-ups of one request, their wait for others included


class LookUps:
    """Those under way on one broker."""

    def __init__(self) -> None:
        self.searching = asyncio.Lock()
        self.rests_until_s = 0.0

    async def offset_for_timestamp(self, log: Log, timestamp: int, deadline_s: float) -> TimestampAndOffset | None:
        """As `replog.log.timestamps`, until the loop's time is `deadline_s`. Raises REQUEST_TIMED_OUT then."""
        start_offset = 0
        try:
            async with asyncio.timeout_at(deadline_s):
                while (batch := await self._claiming(log, timestamp, start_offset)) is not None:
                    async with self.searching:
                        found = await self.find(batch)
                    if found is not None:
                        return found
                    start_offset = batch.header.next_offset
        except TimeoutError:
            raise ReplogError(
                ErrorCode.REQUEST_TIMED_OUT,
                f"looking for time {timestamp} in {log.directory.name}: {LOOK_UP_S:g} s were not enough for this "
                "request; name fewer partitions in one",
            ) from None
        return None

    async def find(self, batch: ClaimingBatch) -> TimestampAndOffset | None:
        """By whoever holds `searching`."""
        loop = asyncio.get_running_loop()
        await asyncio.sleep(self.rests_until_s - loop.time())
        begun_s = loop.time()
        try:
            return await in_thread(batch.find)
        finally:
            ended_s = loop.time()
            self.rests_until_s = ended_s + RESTS * (ended_s - begun_s)

    async def _claiming(self, log: Log, timestamp: int, start_offset: int) -> ClaimingBatch | None:
        """`Log.batch_for_timestamp`; what that lacks in memory a thread brings."""
        brought = NOTHING
        while True:
            try:
                with WaitingFor(brought):
                    return log.batch_for_timestamp(timestamp, start_offset)
            except ColdRead as cold:
                async with self.searching:
                    await in_thread(cold.bring)
                brought = cold.stretch
