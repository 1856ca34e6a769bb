"""A call that is cancelled or interrupted loses nothing that it had taken, and its client goes on."""

import asyncio
import inspect
import itertools
import random
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any

import pytest

from replog.client import Consumer, Producer, SyncConsumer, SyncProducer
from replog.errors import ReplogError
from replog.simulator.network.streams import SimulatedTransport
from tests.replog.client.calls import CLIENTS, TP, TWINS, awaited, calls, run_apart
from tests.replog.client.conftest import read
from tests.replog.server.conftest import make_pair

__all__ = ["make_pair"]

STEPS = (0, 1, 2, 3, 5, 8, 13, 21, 34, 55)  # of the loop, before the cancellation


async def cancelled(called: Any, steps: int) -> Any:
    """What it gave all the same; None if it was cancelled or refused."""
    task = asyncio.ensure_future(called)
    for _ in range(steps):
        await asyncio.sleep(0)
    task.cancel()
    (outcome,) = await asyncio.gather(task, return_exceptions=True)
    assert not isinstance(outcome, Exception) or isinstance(outcome, ReplogError), outcome
    return None if isinstance(outcome, BaseException) else outcome


@pytest.mark.parametrize("client", CLIENTS)
async def test_every_call_can_be_cancelled_at_any_step_and_the_client_goes_on(one_broker, client):
    async with client(one_broker) as used, Producer(one_broker) as other:
        if client is Consumer:
            used.assign([TP])
        for name in awaited(client):
            for steps in STEPS:
                await cancelled(calls(client)[name](used), steps)
        delivery = await other.send("t", b"last")
        last = (await delivery).offset
        if client is Producer:
            assert (await used.send_and_wait("t", b"more")).offset > last
            await used.flush()
        elif client is Consumer:
            used.seek(TP, last)
            assert [record.value for record in await read(used, 1)] == [b"last"]
        else:
            assert await used.list_topics()
    left = [task for task in asyncio.all_tasks() if "replog/client" in str(task.get_coro())]
    assert not left, left


async def test_a_consumer_whose_fetches_are_cancelled_gets_every_record_once(one_broker):
    async with Producer(one_broker, batch_size=200) as producer:
        await producer.send_many("t", [b"%d" % number for number in range(1000)])
    offsets: list[int] = []
    async with Consumer(one_broker, auto_offset_reset="earliest", fetch_max_bytes=500) as consumer:
        consumer.assign([TP])
        rng = random.Random(1)
        async with asyncio.timeout(60):
            while len(offsets) < 1000:
                records = await cancelled(consumer.fetch(60, max_records=3), rng.randrange(40))
                offsets += [record.offset for record in records or ()]
    assert offsets == list(range(1000))


async def test_a_closing_that_is_cancelled_closes_all_the_same(one_broker):
    for client, steps in itertools.product(CLIENTS, STEPS):
        used = client(one_broker)
        if client is Producer:
            await used.send("t", b"x")
        elif client is Consumer:
            used.assign([TP])
        await cancelled(used.close(), steps)
        async with asyncio.timeout(20):
            await used.close()
        assert not [task for task in asyncio.all_tasks() if "replog/client" in str(task.get_coro())], (client, steps)


@pytest.mark.parametrize("answered", [False, True])
def test_what_is_interrupted_ends_within_two_seconds_though_no_broker_says_anything(make_pair, answered):
    """Every method of every client, and then the closing. In virtual time: only what is waited for counts."""
    pair = make_pair()
    pair.create_topic()
    transport = SimulatedTransport(pair.network, pair.client)

    async def called(client: Any, name: str) -> None:
        async with client("broker-1:9092,broker-2:9092", transport=transport) as used:
            if client is Consumer:
                used.assign([TP])
            while True:
                with suppress(ReplogError):
                    await calls(client)[name](used)
                await asyncio.sleep(1)

    tasks = [pair.loop.spawn(pair.client, called(client, name)) for client in CLIENTS for name in awaited(client)]
    pair.wait(3 * answered)
    for broker in ("broker-1", "broker-2"):
        pair.cut("client", broker)
    pair.wait(3)
    for task in tasks:
        assert task.cancel()
    pair.until(lambda: all(task.done() for task in tasks), 2)


# What follows runs in a process of its own, whose main thread gets the signals.


class Interrupt(BaseException):
    """As KeyboardInterrupt is."""


@contextmanager
def interrupts(within: Callable[..., object], seconds: float) -> Iterator[None]:
    """A signal handler that raises, but only while `within` is being called: what comes later is its caller's."""

    def handle(_: int, frame: FrameType | None) -> None:
        while frame is not None:
            if frame.f_code is within.__code__:  # type: ignore[attr-defined]
                raise Interrupt
            frame = frame.f_back

    signal.signal(signal.SIGALRM, handle)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def interrupted_fetches(address: str) -> None:
    rng, offsets, interrupted = random.Random(1), list[int](), 0
    with SyncConsumer(address, auto_offset_reset="earliest", fetch_max_bytes=500) as consumer:
        consumer.assign([TP])
        while len(offsets) < 300 or (interrupted <= 20 and len(offsets) < 900):  # a fast machine is interrupted less
            records = []
            try:
                with interrupts(SyncConsumer.fetch, 10 ** rng.uniform(-5, -1)):  # some are long enough
                    records = consumer.fetch(60, max_records=3)
            except Interrupt:
                interrupted += 1
            offsets += [record.offset for record in records]
    assert offsets == list(range(len(offsets))), offsets
    assert interrupted > 20, interrupted


def interrupted_calls(address: str) -> None:
    threads = threading.active_count()
    rng = random.Random(1)
    for client, twin in TWINS.items():
        used = twin(address)
        for name, call in calls(client).items():
            if not hasattr(twin, name) or not inspect.isfunction(getattr(twin, name)):
                continue
            for _ in range(5):
                try:
                    with interrupts(getattr(twin, name), rng.uniform(1e-5, 3e-3)):
                        call(used)
                except (Interrupt, ReplogError):
                    pass
        for name in ("list_topics", "metrics"):
            if hasattr(used, name):
                getattr(used, name)()
        try:
            with interrupts(twin.close, 1e-4):
                used.close()
        except Interrupt:
            used.close()
    assert threading.active_count() == threads
    with SyncProducer(address) as producer:
        producer.send("t", b"last")


@pytest.mark.parametrize("what", [interrupted_fetches, interrupted_calls])
async def test_blocking_calls_that_are_interrupted_lose_nothing(one_broker, what):
    async with Producer(one_broker, batch_size=200) as producer:
        await producer.send_many("t", [b"%d" % number for number in range(1000)])
    await run_apart(f"from {__name__} import {what.__name__}; {what.__name__}({one_broker!r})")
