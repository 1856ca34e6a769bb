"""The simulated event loop: virtual time, processes that are killed and paused, and all of asyncio on top."""

import asyncio
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from replog.server.clock import Clock
from replog.simulator.runtime.loop import SimulatedLoop, Stuck
from replog.simulator.runtime.process import WALL_START_MS, Killed, ProcessClock, SimulatedProcess, current_process
from replog.simulator.runtime.rng import Rng


def test_callbacks_of_one_instant_run_in_the_order_they_were_scheduled(loop):
    ran: list[str] = []
    loop.call_at(2.0, ran.append, "second timer of 2.0")
    loop.call_at(1.0, ran.append, "timer of 1.0")
    loop.call_at(2.0, ran.append, "third timer of 2.0")
    loop.call_soon(ran.append, "soon")
    loop.call_later(1.0, loop.call_soon, ran.append, "soon after 1.0")
    loop.call_soon_threadsafe(ran.append, "soon too")
    loop.run_until(5.0)
    assert ran == ["soon", "soon too", "timer of 1.0", "soon after 1.0", "second timer of 2.0", "third timer of 2.0"]
    assert loop.time() == 5.0


def test_a_cancelled_timer_does_not_run_and_many_do_not_fill_the_heap(loop):
    ran: list[int] = []
    kept = loop.call_later(3.0, ran.append, 1)
    for _ in range(10_000):
        loop.call_later(1.0, ran.append, 2).cancel()
    assert len(loop._timers) < 1000
    loop.run_until(4.0)
    assert ran == [1]
    assert not kept.cancelled()
    assert loop._cancelled_timers == 0 == len(loop._timers)


def test_running_until_a_condition(loop):
    ran: list[int] = []
    for second in range(5):
        loop.call_later(second, ran.append, second)
    assert loop.run_until(lambda: len(ran) == 3)
    assert loop.time() == 2.0
    assert not loop.run_until(lambda: False, limit_s=3.5)
    assert (loop.time(), len(ran)) == (3.5, 4)
    with pytest.raises(Stuck, match=r"nothing is left to happen at 4\.0"):
        loop.run_until(lambda: False)


def test_what_spins_without_time_passing_is_found(loop, process):
    async def spin() -> None:
        while True:
            await asyncio.sleep(0)

    loop.spawn(process, spin())
    with pytest.raises(Stuck, match=r"callbacks at 0\.000000 s"):
        loop.run_until(1.0)


def test_everything_knows_its_process(loop, process):
    seen: list[Any] = []
    other = SimulatedProcess("client-1")

    def note() -> None:
        seen.append(current_process())

    async def work() -> None:
        note()
        asyncio.get_running_loop().call_later(1, note)
        await asyncio.create_task(asyncio.sleep(1))
        await asyncio.to_thread(note)
        loop.spawn(other, asyncio.to_thread(note))

    stepped: list[str] = []
    loop.on_step.append(lambda process: stepped.append(process.name))
    loop.spawn(process, work())
    loop.call_soon(note)
    loop.run_until(9.0)
    assert seen == [process, None, process, process, other]
    assert set(stepped) == {"broker-1", "client-1"}
    assert loop.steps == len(stepped) + 1


def test_a_killed_process_runs_nothing_more_and_no_finally_block(loop, process):
    ran: list[str] = []
    never: asyncio.Future[None] = loop.create_future()

    async def generate() -> AsyncIterator[int]:
        try:
            for i in range(9):
                yield i
        finally:
            ran.append("a generator's finally")

    async def work(what: Any) -> None:
        try:
            async with asyncio.timeout(3):
                await what
        finally:
            ran.append("a finally")

    async def iterate() -> None:
        generator = generate()
        await anext(generator)
        asyncio.get_running_loop().call_soon(ran.append, "a callback")
        asyncio.get_running_loop().call_later(2, ran.append, "a timer")
        await asyncio.to_thread(ran.append, "a thread")
        await asyncio.sleep(1)
        await anext(generator)

    loop.spawn(process, work(never))
    loop.spawn(process, work(asyncio.sleep(1.5)))
    loop.spawn(process, iterate())
    heard: list[SimulatedProcess] = []
    loop.on_kill.append(heard.append)
    loop.run_until(0.5)
    assert sorted(ran) == ["a callback", "a thread"]
    loop.kill(process)
    loop.kill(process)
    assert heard == [process]
    never.set_result(None)
    loop.spawn(process, work(never))
    loop.run_until(10.0)
    assert sorted(ran) == ["a callback", "a thread"]
    assert loop.failures == []


def test_a_killed_process_is_not_cleaned_up_when_nobody_refers_to_it(loop):
    ran: list[str] = []

    async def generate() -> AsyncIterator[int]:
        try:
            yield 1
        finally:
            ran.append("a generator's finally")

    async def work() -> None:
        generators.append(generate())
        await anext(generators[0])
        try:
            await asyncio.sleep(1)
        finally:
            ran.append("a finally")

    generators: list[Any] = []
    process = SimulatedProcess("broker-1")
    loop.spawn(process, work())
    loop.run_until(0.5)
    loop.kill(process)
    del process
    generators.clear()
    loop.run_until(5.0)
    assert ran == []


def test_an_abandoned_generator_of_a_living_process_is_closed_in_that_process(loop, process):
    ran: list[Any] = []

    async def generate() -> AsyncIterator[int]:
        try:
            yield 1
        finally:
            await asyncio.sleep(1)
            ran.append(current_process())

    async def work() -> None:
        async for _ in generate():
            break

    loop.spawn(process, work())
    loop.run_until(5.0)
    assert ran == [process]


def test_a_process_that_kills_itself_ends_with_this_callback(loop, process):
    ran: list[str] = []

    async def work() -> None:
        loop.kill(process)
        raise Killed

    async def wait_for_it(task: "asyncio.Task[None]") -> None:
        await task
        ran.append("after it")

    task = loop.spawn(process, work())
    loop.spawn(process, wait_for_it(task))
    loop.run_until(5.0)
    assert ran == []
    assert loop.failures == []


def test_a_paused_process_catches_up_in_order(loop, process):
    ran: list[tuple[str, float]] = []

    def note(what: str) -> None:
        ran.append((what, loop.time()))

    def schedule() -> None:
        for second in (3, 1, 2, 9):
            loop.call_later(second, note, f"timer {second}")

    other = SimulatedProcess("client-1")
    loop.call_soon(schedule, context=process.context)
    loop.call_later(1.0, note, "other", context=other.context)
    loop.run_until(0.5)
    loop.pause(process)
    loop.call_soon(note, "soon", context=process.context)
    loop.run_until(5.0)
    assert ran == [("other", 1.0)]
    loop.resume(process)
    loop.run_until(6.0)
    assert ran[1:] == [("soon", 5.0), ("timer 1", 5.0), ("timer 2", 5.0), ("timer 3", 5.0)]
    loop.pause(process)
    loop.run_until(10.0)
    loop.kill(process)
    loop.resume(process)
    loop.run_until(20.0)
    assert len(ran) == 5


def test_work_in_threads_runs_later_on_the_loop_in_order_of_its_executor(loop, process):
    ran: list[int] = []

    def work(i: int) -> int:
        ran.append(i)
        if i == 3:
            raise ValueError(i)
        return i

    async def run() -> list[Any]:
        with ThreadPoolExecutor(1) as executor:
            calls = [loop.run_in_executor(executor, work, i) for i in range(20)]
            results = await asyncio.gather(*calls, return_exceptions=True)
            assert not executor._threads
            return results

    results = loop.run_until_complete(loop.spawn(process, run()))
    assert ran == list(range(20))
    assert isinstance(results.pop(3), ValueError)
    assert results == [i for i in range(20) if i != 3]
    assert 0 < loop.time() < 1.5


def test_an_exception_that_nobody_handles_is_a_failure_that_names_its_process(loop, process):
    def fail() -> None:
        raise ValueError("no")

    async def fail_in_task() -> None:
        fail()

    async def leave_it() -> None:
        asyncio.create_task(fail_in_task())  # noqa: RUF006 (that nobody looks at it is the point)
        await asyncio.sleep(1)
        for _ in range(200):
            await asyncio.create_task(asyncio.sleep(0))

    loop.call_soon(fail, context=process.context)
    loop.run_until(1.0)
    assert loop.failures[0].startswith("an exception nobody handled in broker-1: in <")
    loop.spawn(process, leave_it())
    loop.run_until(5.0)
    assert "never retrieved" in loop.failures[1]
    assert "fail_in_task" in loop.failures[1]
    assert "in broker-1: " in loop.failures[1]


def test_an_exception_in_no_process_is_one_of_the_simulation_itself(loop):
    loop.call_later(1, lambda: 1 // 0)
    with pytest.raises(ZeroDivisionError):
        loop.run_until(2.0)


def test_disposing_is_quiet(process, capfd):
    loop = SimulatedLoop(Rng(1))
    states: list[str] = []

    async def stubborn() -> None:
        try:
            await asyncio.sleep(10)
        finally:
            states.append(process.state.value)
            await asyncio.create_task(asyncio.sleep(1))

    async def generate() -> AsyncIterator[int]:
        try:
            yield 1
        finally:
            await asyncio.sleep(1)

    async def iterate() -> None:
        async for _ in generate():
            await asyncio.sleep(10)

    async def fails() -> None:
        raise ValueError

    for coroutine in (stubborn(), iterate(), fails()):
        loop.spawn(process, coroutine)
    loop.run_until(1.0)
    loop.spawn(process, iterate())  # never begins
    loop.dispose()
    del loop
    assert states == ["dead"]
    assert capfd.readouterr() == ("", "")


def test_a_clock_has_its_own_start_and_rate_and_its_wall_clock_jumps():
    loop = SimulatedLoop(Rng(1))
    process_clock = ProcessClock(loop, offset_ms=5000, rate=1.01, skew_ms=-300)
    clock: Clock = process_clock
    assert (clock.monotonic_ms(), clock.wall_ms()) == (5000, WALL_START_MS - 300)
    loop.run_until(10.0)
    assert (clock.monotonic_ms(), clock.wall_ms()) == (15_100, WALL_START_MS + 9800)
    process_clock.jump(-60_000)
    assert (clock.monotonic_ms(), clock.wall_ms()) == (15_100, WALL_START_MS - 50_200)
