"""What is told of steps that hold up the loop."""

import asyncio
import gc
import time

import pytest
from structlog.testing import capture_logs

from replog.rpc import methods
from replog.rpc.v1 import log_pb2
from replog.server.slow_steps import SLOW_S, SlowSteps
from tests.replog.rpc.handlers import Handlers, channel_to, serving


@pytest.fixture
def told(monkeypatch):
    monkeypatch.setattr(asyncio.Handle, "_run", asyncio.Handle._run)  # put back afterwards
    callbacks = gc.callbacks[:]
    SlowSteps().watch()
    with capture_logs() as logs:
        yield logs
    gc.callbacks[:] = callbacks


def compute():
    until = time.thread_time() + SLOW_S
    while time.thread_time() < until:
        pass


def wait():
    time.sleep(SLOW_S)


def collect():
    until = time.thread_time() + SLOW_S
    while time.thread_time() < until:
        gc.collect()


def in_a_task(work):
    async def a_slow_task():
        await asyncio.sleep(0)
        work()
        await asyncio.sleep(0)

    async def main():
        await asyncio.create_task(a_slow_task(), name="its name")

    asyncio.run(main())


def test_a_step_that_computes_for_long_is_told_with_its_name_and_its_cpu_time(told):
    in_a_task(compute)
    line = max((line for line in told if "a_slow_task" in line["step"]), key=lambda line: line["cpu_ms"])
    assert (line["event"], line["log_level"]) == ("slow step", "warning")
    assert line["step"].startswith("its name: ")
    assert line["ms"] + 6 >= line["cpu_ms"] >= 1000 * SLOW_S


def test_a_step_that_waits_for_long_is_told_with_little_cpu_time(told):
    in_a_task(wait)
    line = max((line for line in told if "a_slow_task" in line["step"]), key=lambda line: line["ms"])
    assert line["ms"] >= 1000 * SLOW_S > 2 * line["cpu_ms"]


def test_of_a_step_that_meets_collections_of_garbage_it_is_told_how_long_they_took(told):
    in_a_task(collect)
    line = max((line for line in told if "a_slow_task" in line["step"]), key=lambda line: line["cpu_ms"])
    assert line["cpu_ms"] >= line["collecting_ms"] > line["cpu_ms"] / 2


def test_a_loop_is_idle_while_it_waits_and_busy_while_a_step_runs(monkeypatch):
    monkeypatch.setattr(asyncio.Handle, "_run", asyncio.Handle._run)
    callbacks, steps = gc.callbacks[:], SlowSteps()
    steps.watch()

    async def main():
        await asyncio.sleep(5 * SLOW_S)
        waited = steps.idle_share()
        for _ in range(15):
            wait()
        await asyncio.sleep(0)
        return waited, steps.idle_share()

    idle, then_busy = asyncio.run(main())
    gc.callbacks[:] = callbacks
    assert 1 >= idle > 0.7
    assert 0 <= then_busy < 0.6


def test_a_callback_is_told_by_its_own_name(told):
    loop = asyncio.new_event_loop()
    try:
        loop.call_soon(wait)
        loop.call_soon(loop.stop)
        loop.run_forever()
    finally:
        loop.close()
    assert "wait" in [line["step"] for line in told]


def test_a_message_that_takes_long_is_told_with_the_methods_of_its_connection(told):
    handlers = Handlers()

    async def main():
        async with serving(handlers, methods.LOG) as address, channel_to(address) as channel:
            stream = channel.open(methods.Log["fetch"])
            for number in range(2):  # the first one may come before its call has begun
                await stream.send(log_pb2.FetchRequest(correlation_id=number))
                await stream.receive(60)
                handlers.on_fetch = compute
            stream.cancel()

    asyncio.run(main())
    assert [line["step"] for line in told if line["step"].endswith("the client, /replog.v1.Log/Fetch")], told
