"""A step that waits for its disk: its own process goes on after it, all others meanwhile, and so do threads."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from replog.simulator.runtime.process import SimulatedProcess


def test_a_step_that_waits_for_the_disk_holds_up_its_own_process_only(loop, process):
    ran: list[tuple[str, float]] = []

    def note(what: str) -> None:
        ran.append((what, loop.time()))

    def wait(seconds: float) -> None:
        loop.call_soon(note, "soon")
        loop.spend("fsync", seconds, seconds)
        note("waited")
        loop.call_later(0.5, note, "half a second later")

    other, loop.step_limit_s = SimulatedProcess("broker-2"), 1.0
    loop.call_at(1.0, wait, 2.0, context=process.context)
    loop.call_at(2.0, note, "timer", context=process.context)
    loop.call_at(2.0, note, "other", context=other.context)
    loop.call_at(3.0, note, "timer of that very moment", context=process.context)
    loop.run_until(10.0)
    assert ran == [
        ("waited", 3.0),
        ("other", 2.0),
        ("soon", 3.0),
        ("timer", 3.0),
        ("timer of that very moment", 3.0),
        ("half a second later", 3.5),
    ]
    assert (loop.too_long.seconds, loop.too_long.process) == (2.0, "broker-1")


@pytest.mark.parametrize("resumed", [2.0, 5.0], ids=["while it still waits", "later"])
def test_a_process_that_is_paused_while_it_waits_for_the_disk_goes_on_once_both_are_over(loop, process, resumed):
    ran: list[tuple[int, float]] = []

    def note(number: int) -> None:
        ran.append((number, loop.time()))

    loop.call_at(1.0, loop.spend, "fsync", 2.0, 2.0, context=process.context)
    loop.call_at(1.5, note, 1, context=process.context)
    loop.run_until(1.2)
    loop.pause(process)
    loop.run_until(resumed)
    loop.resume(process)
    loop.call_soon(note, 2, context=process.context)
    loop.run_until(10.0)
    assert ran == [(1, max(3.0, resumed)), (2, max(3.0, resumed))]


def test_a_thread_that_waits_for_the_disk_keeps_its_executor_and_not_the_loop(loop, process):
    began: dict[str, float] = {}
    done: dict[str, float] = {}

    def sync(name: str) -> None:
        began[name] = loop.time()
        loop.spend("fsync", 1.0, 1.0)

    async def call(executor: Any, name: str) -> None:
        await loop.run_in_executor(executor, sync, name)
        done[name] = loop.time()

    async def run() -> None:
        with ThreadPoolExecutor(1) as executor:
            waiting = asyncio.gather(call(executor, "first"), call(executor, "second"), call(None, "beside"))
            await asyncio.sleep(0.5)
            assert loop.time() == 0.5
            loop.spend("fsync", 1.0, 0.001)  # the threads go on meanwhile
            await waiting

    loop.step_limit_s = 0.01
    loop.run_until_complete(loop.spawn(process, run()))
    assert began["first"] < 0.1
    assert began["beside"] < 0.1
    assert began["second"] == began["first"] + 1.0
    assert done["first"] == done["beside"] == 1.5
    assert 2.0 < done["second"] < 2.2
    assert loop.too_long is None


def test_a_process_has_not_run_while_its_loop_waits_for_the_disk(loop, process):
    ran: list[float] = []
    loop.call_at(1.0, loop.spend, "fsync", 57.0, 57.0, context=process.context)
    for at in 0.5, 1.5, 30.0, 58.5:
        loop.call_at(at, lambda: ran.append(process.ran_s(loop.time())))
    loop.run_until(100.0)
    assert ran == [0.5, 1.0, 1.0, 1.5]
