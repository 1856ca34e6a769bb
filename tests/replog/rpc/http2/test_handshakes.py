"""Handshakes take a share of the event loop's time; beyond it hosts take turns."""

import asyncio

from replog.rpc.http2.shells.handshakes import BURST_S, SHARE, Handshakes
from replog.rpc.peer import Peer, anonymous

COST_S = 0.001


class Cpu:
    """Of a thread that does nothing but handshakes."""

    def __init__(self) -> None:
        self.spent_s = 0.0

    def __call__(self) -> float:
        return self.spent_s


class Connection:
    """Its handshake has one step."""

    def __init__(self, handshakes: Handshakes, cpu: Cpu, host: str, done: list[str]) -> None:
        self.asks: Peer = anonymous(host)
        self._handshakes, self._cpu, self._done = handshakes, cpu, done
        handshakes.begin(self)

    def go_on_handshake(self) -> None:
        self._cpu.spent_s += COST_S
        self._done.append(self.asks.host)
        self._handshakes.end(self)

    def give_up_handshake(self, why: str) -> None:
        self._handshakes.end(self)


class NoTls:
    def look_soon(self) -> None: ...


def flood(hosts: list[str]) -> tuple[Handshakes, list[Connection], list[str]]:
    """They all come at once."""
    cpu, done = Cpu(), list[str]()
    handshakes = Handshakes(NoTls(), cpu)  # type: ignore[arg-type]
    connections = [Connection(handshakes, cpu, host, done) for host in hosts]
    for connection in connections:
        handshakes.go_on(connection)
    return handshakes, connections, done


async def until(done: list[str], count: int) -> None:
    async with asyncio.timeout(60):
        while len(done) < count:
            await asyncio.sleep(0.001)


async def test_a_few_are_done_at_once_and_a_flood_takes_its_share_of_time_and_no_more():
    begun = asyncio.get_running_loop().time()
    _, _, done = flood(["a"] * 100)
    at_once = len(done)
    assert at_once >= BURST_S / COST_S - 1
    await until(done, 100)
    took_s = asyncio.get_running_loop().time() - begun
    assert BURST_S + took_s * SHARE + COST_S >= 100 * COST_S


async def test_hosts_take_turns():
    _, _, done = flood(["a"] * 50 + ["b"])
    at_once = len(done)
    await until(done, 51)
    assert done.index("b") <= at_once + 1


async def test_one_that_has_ended_meanwhile_has_no_turn_and_costs_nothing():
    _, connections, done = flood(["a"] * 50)
    for connection in connections[len(done) : -1]:
        connection.give_up_handshake("")
    before = len(done)
    await until(done, before + 1)
    await asyncio.sleep(0.01)
    assert len(done) == before + 1


async def test_those_that_hang_up_while_they_wait_leave_one_timer():
    handshakes, connections, done = flood(["a"] * 50)
    for connection in connections[len(done) :]:
        connection.give_up_handshake("")
    handshakes._left_s = -1.0  # they have had their share for four seconds
    for connection in connections:
        assert not handshakes.go_on(connection)
        connection.give_up_handshake("")
    timers = [timer for timer in asyncio.get_running_loop()._scheduled if timer._callback == handshakes._next]  # type: ignore[attr-defined]
    assert len(timers) == 1
