"""Offsets by time: which record is as late as a client says. What it takes to find out, no client can raise.

Batches are searched in a thread, one at a time on a broker, and each request has so much time for all of them.
"""

import asyncio

from cluster.broker.threads import in_thread
from replog.errors import ErrorCode, ReplogError
from replog.log.log import Log
from replog.log.offsets import TimestampAndOffset

LOOK_UP_S = 10.0  # for all look-ups of one request, their wait for others included


class LookUps:
    """Those under way on one broker."""

    def __init__(self) -> None:
        self.searching = asyncio.Lock()

    async def offset_for_timestamp(self, log: Log, timestamp: int, deadline_s: float) -> TimestampAndOffset | None:
        """As `replog.log.timestamps`, until the loop's time is `deadline_s`. Raises REQUEST_TIMED_OUT then."""
        start_offset = 0
        try:
            async with asyncio.timeout_at(deadline_s):
                while (batch := log.batch_for_timestamp(timestamp, start_offset)) is not None:
                    async with self.searching:
                        found = await in_thread(batch.find)
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
