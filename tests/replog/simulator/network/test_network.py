"""The simulated network: every method's bytes, delays, losses and repetitions."""

import asyncio
from typing import Any

import pytest

from replog.errors import ErrorCode, ReplogError
from replog.rpc import methods
from replog.simulator.network.links import Weather
from tests.replog.rpc.handlers import error_of, produce_request


def test_a_defect_of_a_handler_is_a_failure_of_the_simulation(pair):
    pair.handlers.error = ValueError("a defect")
    pair.run(error_of(pair.ask("a")))
    assert "broker-1: the handler of get_metadata failed: ValueError('a defect')" in str(pair.loop.failures.pop())


def test_a_request_may_come_again_long_after_its_answer_also_when_its_sender_is_dead(pair):
    pair.network.repeat_late(pair.client.name, "broker-1", 5.0)
    sent = [str(number) for number in range(40)]
    for name in sent:
        assert pair.run(pair.ask(name)) == [name]
    assert pair.loop.time() < 0.2
    pair.loop.kill(pair.client)
    pair.loop.run_until(6.0)
    again = pair.network.counts["repeated late"]
    assert 10 < again < 30
    assert len(pair.handlers.asked) == len(sent) + again
    assert pair.network.calls == {}


def test_a_sender_waits_for_a_reader_that_does_not_read(pair):
    pair.handlers.delay_s = 1.0
    sent = 0

    async def flood() -> None:
        nonlocal sent
        stream = pair.channel.open(methods.Log["produce"])
        while True:
            await stream.send(produce_request(sent))
            sent += 1

    pair.loop.spawn(pair.client, flood())
    pair.loop.run_until(10.5)
    assert 32 + 10 <= sent <= 32 + 11  # those in the window and one for each that was read


def test_closing_a_channel_ends_all_that_runs_on_it(pair):
    pair.handlers.delay_s = 60.0

    async def converse() -> None:
        call = asyncio.create_task(error_of(pair.ask("a")))
        stream = pair.channel.open(methods.Log["produce"])
        reading = asyncio.create_task(error_of(stream.receive()))
        await asyncio.sleep(1)
        await pair.channel.close()
        assert (await call).code is (await reading).code is ErrorCode.NETWORK_EXCEPTION
        with pytest.raises(RuntimeError, match="closed"):
            pair.channel.open(methods.Log["produce"])

    pair.run(converse())
    pair.loop.run_until(3.0)
    assert pair.handlers.ended == ["cancelled", "cancelled"]


def test_lost_repeated_and_overtaken_calls(pair):
    pair.network.weather = Weather(drop=0.2, duplicate=0.3, reorder=0.3)

    codes: set[ErrorCode] = set()

    async def one(i: int) -> int:
        try:
            await pair.ask(str(i), timeout_s=1.0)
        except ReplogError as error:
            codes.add(error.code)
            return 0
        return 1

    async def many() -> int:
        answered = 0
        for start in range(0, 200, 10):
            answered += sum(await asyncio.gather(*(one(i) for i in range(start, start + 10))))
        return answered

    answered = pair.run(many())
    pair.loop.run_until(100.0)
    asked = [int(names[0]) for names in pair.handlers.asked]
    counts = pair.network.counts
    assert codes == {ErrorCode.REQUEST_TIMED_OUT}
    assert 90 < answered < 160
    assert asked != sorted(asked)
    assert len(asked) > len(set(asked)) > answered
    assert all(counts[kind] > 20 for kind in ("dropped", "duplicated", "reordered")), counts
    assert pair.network.calls == {}


def test_a_slow_link(pair):
    pair.network.slow("broker-1", "client-1", (500.0, 600.0))
    pair.run(pair.ask("a"))
    assert 0.5 < pair.loop.time() < 0.7


@pytest.mark.parametrize("grace_s", [0.0, 2.0])
def test_a_server_that_stops_lets_calls_end_within_its_grace(pair, grace_s):
    pair.handlers.delay_s = 1.0

    async def converse() -> Any:
        return await pair.ask("a")

    task = pair.loop.spawn(pair.client, converse())
    pair.loop.run_until(0.5)
    stopping = pair.loop.spawn(pair.server, pair.listening.stop(grace_s))
    pair.loop.run_until(lambda: task.done() and stopping.done())
    assert (task.exception() is None) == (grace_s > 0)
    assert pair.run(error_of(pair.ask("b"))).code is ErrorCode.NETWORK_EXCEPTION
