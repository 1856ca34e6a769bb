"""Look-ups of offsets by time. No client can make them take more than a quarter of a core.

Batches are searched in a thread, one at a time on a broker. After each the thread rests for three times as long; after
a long one, of a batch that expands to much or on a busy machine, for nine times as long. Each request has `LOOK_UP_S`
for all of its batches."""

import asyncio
from functools import partial

from replog.errors import ErrorCode
from replog.log.files.cold import NOTHING, ColdRead, WaitingFor
from replog.log.files.opening import bring
from replog.log.log import Log
from replog.log.offsets import TimestampAndOffset
from replog.log.timestamps import ClaimingBatch
from replog.server.work import in_thread

RESTS = 3  # times the duration of a search
LONG_S, LONG_RESTS = 0.01, 9  # the rests of a search of at least `LONG_S`
LOOK_UP_S = 10.0  # all look-ups of a request, waits for others included


class LookUps:
    def __init__(self) -> None:
        self.searching = asyncio.Lock()
        self.rests_until_s = 0.0

    async def offset_for_timestamp(self, log: Log, timestamp: int, deadline_s: float) -> TimestampAndOffset | None:
        """Look up an offset like `leader.list_offsets`. Raises REQUEST_TIMED_OUT at `deadline_s`, loop time."""
        start_offset = 0
        try:
            async with asyncio.timeout_at(deadline_s):
                while (batch := await self._claiming(log, timestamp, start_offset)) is not None:
                    async with self.searching:
                        first = await self.find(batch)
                    if first is not None:
                        return first
                    start_offset = batch.header.next_offset
        except TimeoutError:
            raise ErrorCode.REQUEST_TIMED_OUT.error(
                f"looking for time {timestamp} in {log.directory.name}: {LOOK_UP_S:g} s were not enough for this "
                "request; name fewer partitions in one"
            ) from None
        return None

    async def find(self, batch: ClaimingBatch) -> TimestampAndOffset | None:
        """Search a batch in a thread, after the rest that is due. The caller holds `searching`."""
        loop = asyncio.get_running_loop()
        await asyncio.sleep(self.rests_until_s - loop.time())
        begun_s = loop.time()
        try:
            return await in_thread(batch.find)
        finally:
            ended_s = loop.time()
            elapsed_s = ended_s - begun_s
            self.rests_until_s = ended_s + elapsed_s * (RESTS if elapsed_s < LONG_S else LONG_RESTS)

    async def _claiming(self, log: Log, timestamp: int, start_offset: int) -> ClaimingBatch | None:
        """Call `Log.batch_for_timestamp`. A thread brings the bytes that it lacks into memory."""
        brought = NOTHING
        while True:
            try:
                with WaitingFor(brought):
                    return log.batch_for_timestamp(timestamp, start_offset)
            except ColdRead as cold:
                async with self.searching:
                    await in_thread(partial(bring, cold))
                brought = cold.byte_range
