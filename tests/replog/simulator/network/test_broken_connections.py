"""The simulated network when links are blocked, connections break, and hosts die or pause."""

import asyncio
from contextlib import suppress
from typing import Any

import pytest

from replog.errors import ErrorCode, ReplogError
from replog.rpc import methods
from replog.simulator.network.links import Weather
from replog.simulator.runtime.loop import KERNEL
from tests.replog.rpc.handlers import error_of, produce_request
from tests.replog.simulator.hosts import Pair


def test_blocked_one_way_answers_are_lost_but_requests_arrive(pair):
    pair.network.block("broker-1", "client-1")
    assert pair.run(error_of(pair.ask("a", timeout_s=1.0))).code is ErrorCode.REQUEST_TIMED_OUT
    assert pair.handlers.asked == [["a"]]
    pair.network.heal("broker-1", "client-1")
    assert pair.run(pair.ask("b")) == ["b"]


def test_what_was_blocked_arrives_late_after_a_heal(pair):
    pair.network.block("client-1", "broker-1")
    assert pair.run(error_of(pair.ask("late", timeout_s=1.0))).code is ErrorCode.REQUEST_TIMED_OUT
    assert pair.handlers.asked == []
    pair.network.heal_all()
    pair.loop.run_until(2.0)
    assert pair.handlers.asked == [["late"]]


def test_a_stream_keeps_its_order_through_blocks(pair):
    pair.network.weather = Weather(delay_ms=(1.0, 400.0), drop=0.1)

    async def send(stream: Any) -> None:
        for i in range(100):
            await stream.send(produce_request(i))
            if i % 10 == 0:
                await asyncio.sleep(0.3)
                pair.network.block("client-1", "broker-1")
                asyncio.get_running_loop().call_later(0.3, pair.network.heal, "client-1", "broker-1")
        await stream.finish()

    async def read(stream: Any) -> None:
        while await stream.receive() is not None:
            pass

    async def converse() -> None:
        stream = pair.channel.open(methods.Log["produce"])
        await asyncio.gather(send(stream), read(stream))

    pair.run(converse())
    assert [i for i, _ in pair.handlers.asked] == list(range(100))
    assert pair.network.counts["blocked"] > 20


def test_a_stream_that_is_blocked_for_long_breaks_on_both_sides(pair):
    async def converse() -> ReplogError:
        stream = pair.channel.open(methods.Log["produce"])
        await stream.send(produce_request(1))
        await stream.receive()
        pair.network.block("client-1", "broker-1")
        await stream.send(produce_request(2))
        return await error_of(stream.receive())

    assert pair.run(converse()).code is ErrorCode.NETWORK_EXCEPTION
    assert 5.0 < pair.loop.time() < 22.0
    pair.loop.run_until(45.0)
    assert pair.handlers.ended == ["cancelled"]
    assert len(pair.handlers.asked) == 1
    assert pair.network.counts["broken"] == 1
    assert pair.run(error_of(pair.channel.open(methods.Log["produce"]).receive()))  # opened while blocked


def test_after_a_break_the_handler_may_still_receive_what_was_under_way():
    received: list[int] = []
    for seed in range(30):
        pair = Pair(seed)
        pair.network.weather = Weather(delay_ms=(1.0, 300.0))

        async def converse(pair: Pair = pair) -> float:
            stream = pair.channel.open(methods.Log["produce"])
            for i in range(10):
                await stream.send(produce_request(i))
            await asyncio.sleep(0.1)
            pair.network.break_connections("broker-1", "client-1")
            with pytest.raises(ReplogError, match="lost"):
                while await stream.receive() is not None:
                    pass
            return pair.loop.time()

        pair.run(converse())
        known = len(pair.handlers.asked)
        pair.loop.run_until(30.0)
        assert [i for i, _ in pair.handlers.asked] == list(range(len(pair.handlers.asked)))
        assert pair.handlers.ended in ([], ["cancelled"])  # it may never have begun
        assert pair.network.calls == {}
        received.append(len(pair.handlers.asked) - known)
        pair.loop.dispose()
    assert max(received) > 0
    assert min(received) == 0


@pytest.mark.parametrize("power_loss", [False, True])
def test_the_death_of_a_server_is_noticed_soon_or_after_silence(pair, power_loss):
    pair.handlers.delay_s = 60.0

    async def converse() -> float:
        stream = pair.channel.open(methods.Log["produce"])
        reading = asyncio.create_task(error_of(stream.receive()))
        call = asyncio.create_task(error_of(pair.ask("a", timeout_s=30.0)))
        await asyncio.sleep(1)
        pair.loop.kill(pair.server, power_loss=power_loss)
        assert (await reading).code is (await call).code is ErrorCode.NETWORK_EXCEPTION
        return pair.loop.time()

    noticed = pair.run(converse())
    assert (5.0 < noticed < 20.0) if power_loss else noticed < 2.5
    error = pair.run(error_of(pair.ask("a", timeout_s=1.0)))
    assert error.code is (ErrorCode.REQUEST_TIMED_OUT if power_loss else ErrorCode.NETWORK_EXCEPTION)
    pair.start()
    pair.handlers.delay_s = 0.0
    assert pair.run(pair.ask("b")) == ["b"]
    assert pair.handlers.ended == []
    pair.loop.run_until(100.0)
    assert pair.network.calls == {}


def test_a_cut_hides_the_death_of_a_server_for_as_long_as_it_lasts(pair):
    """Not for as long as silence is put up with: its host goes on saying so."""

    async def converse() -> float:
        stream = pair.channel.open(methods.Log["produce"])
        await stream.send(produce_request(1))
        await stream.receive()
        pair.network.block("broker-1", "client-1")
        pair.loop.kill(pair.server)
        pair.loop.call_later(0.3, pair.network.heal, "broker-1", "client-1", context=KERNEL)
        assert (await error_of(stream.receive())).code is ErrorCode.NETWORK_EXCEPTION
        return pair.loop.time()

    assert 0.3 < pair.run(converse()) < 1.0


def test_a_host_that_is_back_resets_the_connections_of_its_last_incarnation(pair):
    async def converse() -> float:
        stream = pair.channel.open(methods.Log["produce"])
        asyncio.get_running_loop().call_later(1.0, lambda: pair.loop.kill(pair.server, power_loss=True))
        await error_of(stream.receive())
        return pair.loop.time()

    task = pair.loop.spawn(pair.client, converse())
    pair.loop.run_until(1.5)
    pair.start()
    pair.loop.run_until(task.done)
    assert task.result() < 3.0


def test_a_request_to_one_incarnation_does_not_reach_the_next(pair):
    pair.network.block("client-1", "broker-1")
    task = pair.loop.spawn(pair.client, error_of(pair.ask("old", timeout_s=20.0)))
    pair.loop.run_until(1.0)
    pair.loop.kill(pair.server, power_loss=True)
    pair.start()
    pair.network.heal("client-1", "broker-1")
    pair.loop.run_until(task.done)
    assert task.result().code is ErrorCode.NETWORK_EXCEPTION
    assert pair.handlers.asked == []


@pytest.mark.parametrize("power_loss", [False, True])
def test_the_death_of_a_client_ends_its_handlers(pair, power_loss):
    pair.handlers.delay_s = 60.0

    async def converse() -> None:
        stream = pair.channel.open(methods.Log["produce"])
        await stream.send(produce_request(1))
        with suppress(ReplogError):
            await pair.ask("a", timeout_s=50.0)

    pair.loop.spawn(pair.client, converse())
    pair.loop.run_until(1.0)
    assert len(pair.handlers.asked) == 2
    pair.loop.kill(pair.client, power_loss=power_loss)
    pair.loop.run_until(3.0)
    assert len(pair.handlers.ended) == (0 if power_loss else 2)
    pair.loop.run_until(40.0)
    assert pair.handlers.ended == ["cancelled"] * 2
    assert pair.network.calls == {}


def test_a_paused_server_takes_up_what_has_arrived_unless_its_client_gave_up(pair):
    pair.loop.pause(pair.server)
    task = pair.loop.spawn(pair.client, pair.ask("a"))
    pair.loop.run_until(2.0)
    pair.loop.resume(pair.server)
    pair.loop.run_until(task.done)
    pair.loop.pause(pair.server)
    assert pair.run(error_of(pair.channel.open(methods.Log["produce"]).receive())).message.endswith("was lost")
