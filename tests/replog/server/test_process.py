"""The search for garbage looks at what is new, at everything now and then; a certificate's end is announced. Slow steps
of the event loop are named."""

import asyncio
import gc
import logging
import shutil
import time
import weakref
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta

import pytest
from structlog.testing import capture_logs

from replog.config.processes import BrokerConfig
from replog.rpc import methods
from replog.rpc.peer import Role
from replog.rpc.v1 import log_pb2
from replog.server import process
from replog.server.slow_steps import SLOW_S, SlowSteps
from tests.replog.rpc.handlers import Handlers, channel_to, serving
from tests.replog.rpc.secured import CLUSTER, NOW, Authority


class Ring:
    """Refers to itself, so that only the search finds it."""

    def __init__(self) -> None:
        self.itself = self


@pytest.fixture
def searching() -> Iterator[None]:
    usual = gc.get_threshold()
    process.search_what_is_new()
    yield
    gc.callbacks.pop()
    gc.set_threshold(*usual)
    gc.unfreeze()
    gc.collect()


@pytest.mark.usefixtures("searching")
def test_what_a_search_has_left_is_not_looked_at_again():
    ring = Ring()
    gc.collect()
    assert gc.get_freeze_count() > 1000, "with all that the tests have"
    assert not any(each is ring for each in gc.get_objects()), "which are those that a search looks at"
    gone = weakref.ref(ring)
    del ring
    gc.collect()
    assert gone() is not None


@pytest.mark.usefixtures("searching")
def test_new_garbage_is_found():
    gc.collect()
    gone = weakref.ref(Ring())
    gc.collect()
    assert gone() is None


@pytest.mark.usefixtures("searching")
def test_everything_is_looked_at_when_much_has_come_since(monkeypatch):
    """So what hides among it is bounded."""
    monkeypatch.setattr(process, "UNSEEN", 5000)
    ring = Ring()
    gc.collect()
    gone = weakref.ref(ring)
    del ring
    kept = [Ring() for _ in range(5000)]
    gc.collect()
    assert gone() is not None
    gc.collect()
    assert gone() is None
    assert len(kept) == 5000


BROKER = [f"replog://{CLUSTER}/broker/1"]


async def test_a_process_warns_each_day_from_thirty_days_before_until_there_is_another(tmp_path, monkeypatch, caplog):
    caplog.set_level(logging.INFO)
    monkeypatch.setattr(process, "DAY_S", 0.02)
    authority = Authority(tmp_path / "tls")
    keystore = tmp_path / "mine.pem"
    shutil.copy(authority.signs(BROKER, NOW + timedelta(days=20, hours=1)), keystore)
    tls = authority.shows(keystore)
    assert tls.material.ends == (NOW + timedelta(days=20, hours=1)).replace(microsecond=0)
    said = f"the certificate of {keystore} ends in 20 days"
    looking = asyncio.create_task(process.look_after(asyncio.Event(), BrokerConfig, tls))
    async with asyncio.timeout(60):
        while caplog.text.count(said) < 3:
            await asyncio.sleep(0.02)
        shutil.copy(authority.keystore(Role.BROKER, "1"), keystore)
        while "new certificates" not in caplog.text:
            await asyncio.sleep(0.02)
    looking.cancel()
    caplog.clear()
    tls.warn_of_end()
    assert not caplog.text


def test_one_that_has_ended_while_it_was_in_use_is_told_of(tmp_path, caplog):
    authority = Authority(tmp_path / "tls")
    tls = authority.shows(authority.signs(BROKER))
    assert "ends in 0 days" in caplog.text
    tls.material = replace(tls.material, ends=NOW - timedelta(minutes=1))
    tls.warn_of_end()
    assert "ended on 2" in caplog.text


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
