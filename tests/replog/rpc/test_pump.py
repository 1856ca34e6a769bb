"""Streams that post by tasks."""

import asyncio

from replog.errors import ErrorCode, ReplogError
from replog.rpc.pump import MAX_UNSENT, Pump


class Broken(Pump):
    """Messages come; none goes out, and then the stream fails for its sender."""

    waits_for_peer = True

    def __init__(self) -> None:
        super().__init__()
        self.fails = asyncio.Event()
        self.came = [1, 2, 3]

    async def send(self, message: object) -> None:
        await self.fails.wait()
        raise ReplogError(ErrorCode.NETWORK_EXCEPTION, "the peer is gone")

    async def receive(self) -> int | None:
        return self.came.pop(0) if self.came else None


async def test_a_reader_that_waits_for_its_peer_to_take_answers_hears_the_end_when_they_cannot_go_out():
    stream, handled = Broken(), []

    def handle(message: int) -> None:
        handled.append(message)
        stream.post(message)

    reading = asyncio.create_task(stream.each(handle))
    while len(handled) < MAX_UNSENT:
        await asyncio.sleep(0)
    stream.fails.set()
    async with asyncio.timeout(10):
        await reading
    assert handled == [1, 2, 3]
