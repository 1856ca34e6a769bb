"""What runs in a thread while the broker goes on, or stops."""

import asyncio
import threading

import pytest

from replog.server.threads import WORKERS, in_thread, start_workers


async def test_the_result_and_the_error_come_back():
    assert await in_thread(lambda: 7) == 7
    with pytest.raises(ZeroDivisionError):
        await in_thread(lambda: 1 // 0)


@pytest.mark.parametrize("times", [1, 3])
async def test_a_cancellation_however_often_waits_for_the_end_of_the_work(times):
    begun, may_end, ended = threading.Event(), threading.Event(), threading.Event()

    def work() -> None:
        begun.set()
        assert may_end.wait(60)
        ended.set()
        raise OSError("seen by nobody")

    before = asyncio.all_tasks()
    task = asyncio.create_task(in_thread(work))
    await asyncio.to_thread(begun.wait, 60)
    for _ in range(times):
        for each in asyncio.all_tasks() - before:  # as at the end of a loop
            each.cancel()
        await asyncio.sleep(0.05)
        assert not task.done()
    may_end.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ended.is_set()


async def test_once_the_workers_are_started_no_work_starts_a_thread():
    start_workers()
    before = set(threading.enumerate())
    all_at_work = threading.Barrier(WORKERS)
    await asyncio.gather(*(in_thread(lambda: all_at_work.wait(60)) for _ in range(WORKERS)))
    assert set(threading.enumerate()) == before
