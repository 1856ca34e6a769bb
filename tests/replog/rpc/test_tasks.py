"""Tasks that nobody waits for, and streams that post by tasks."""

import asyncio
import gc
from typing import Any

from replog.errors import ErrorCode, ReplogError
from replog.rpc.tasks import for_good, may_fail_unheard
from replog.rpc.transport import MAX_UNSENT, Pump


async def fail() -> None:
    raise ZeroDivisionError("a defect")


async def test_what_ends_work_that_should_go_on_is_logged_at_once_and_a_cancellation_is_not(caplog):
    task = for_good(fail(), "sweep")
    await asyncio.wait([task])
    assert "sweep: this goes on no more" in caplog.text
    assert "ZeroDivisionError: a defect" in caplog.text
    caplog.clear()
    task = for_good(asyncio.sleep(60), "rest")
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait([task])
    assert not caplog.text


async def test_what_may_be_missed_is_no_complaint():
    complaints: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: complaints.append(context))
    await asyncio.wait([may_fail_unheard(fail())])
    gc.collect()
    assert not complaints


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
    await asyncio.wait_for(reading, 10)
    assert handled == [1, 2, 3]
