"""Sockets that bring much: their turns, and what is beside them."""

import asyncio
import contextlib
import socket
from collections import defaultdict
from collections.abc import AsyncIterator

from replog.rpc.http2.shells.reads import LITTLE_BYTES, MUCH_BYTES, READ_BYTES, Reads

S = 60.0
MIB = 1 << 20


class Readings(asyncio.BufferedProtocol):
    """Reads as a connection does, and notes how much came in which turn of the loop."""

    def __init__(self, reads: Reads, turns: list[int]) -> None:
        self.came: list[tuple[int, int]] = []
        self.waits = 0
        self._reads = reads
        self._turns = turns

    def connection_made(self, transport):
        self._transport = transport

    def get_buffer(self, sizehint):
        return self._reads.room

    def buffer_updated(self, nbytes):
        self.came.append((self._turns[0], nbytes))
        if nbytes >= self._reads.much:
            self._reads.brought_much(self._transport)
            self.waits += not self._transport.is_reading()

    @property
    def size(self) -> int:
        return sum(size for _, size in self.came)


@contextlib.asynccontextmanager
async def readings(count: int) -> AsyncIterator[list[tuple[Readings, asyncio.StreamWriter]]]:
    """Sockets that are read on one loop, each with its other end."""
    loop, reads, turns = asyncio.get_running_loop(), Reads(), [0]
    counting = True

    def count_turns() -> None:
        turns[0] += 1
        if counting:
            loop.call_soon(count_turns)

    count_turns()
    opened = []
    for _ in range(count):
        ours, theirs = socket.socketpair()
        _, readings = await loop.create_connection(lambda: Readings(reads, turns), sock=ours)
        opened.append((readings, (await asyncio.open_connection(sock=theirs))[1]))
    yield opened
    counting = False
    for readings, writer in opened:
        readings._transport.close()
        writer.close()
    await asyncio.sleep(0)


async def brought(opened: list[tuple[Readings, asyncio.StreamWriter]], size: int) -> None:
    for _, writer in opened:
        writer.write(bytes(size))
    async with asyncio.timeout(S):
        while any(readings.size < size for readings, _ in opened):
            await asyncio.sleep(0)


async def test_of_many_sockets_with_a_lot_one_is_read_in_a_turn_and_all_get_their_turns():
    async with readings(20) as opened:
        await brought(opened, MIB)
        of_turn = defaultdict(list)
        for readings_of_one, _ in opened:
            for turn, size in readings_of_one.came:
                of_turn[turn].append(size)
        for sizes in of_turn.values():
            assert sum(size >= MUCH_BYTES for size in sizes) <= 1, sizes
            assert sum(sizes) < READ_BYTES + 20 * LITTLE_BYTES, sizes
        ends = sorted(readings_of_one.came[-1][0] for readings_of_one, _ in opened)
        assert ends[0] > ends[-1] / 2, f"one was served before the others: {ends}"


async def test_one_socket_with_a_lot_waits_for_nobody():
    async with readings(1) as opened:
        await brought(opened, 8 * MIB)
        ((alone, _),) = opened
        assert len(alone.came) > 10
        assert alone.waits <= 1


async def test_a_socket_with_little_is_read_in_every_turn_beside_those_with_a_lot():
    async with readings(11) as opened:
        *many, (small, writer) = opened
        filling = asyncio.create_task(brought(many, 4 * MIB))
        asked: list[int] = []
        while not filling.done():
            before = small.size
            writer.write(b"x")
            begun = small._turns[0]
            while small.size == before:
                await asyncio.sleep(0)
            asked.append(small._turns[0] - begun)
        await filling
        assert len(asked) > 10
        assert max(asked) <= 2, asked


async def test_a_socket_that_is_closed_in_the_line_is_in_nobodys_way():
    async with readings(3) as opened:
        for _, writer in opened:
            writer.write(bytes(MIB))
        async with asyncio.timeout(S):
            while len(opened[0][0]._reads._line) < 2:
                await asyncio.sleep(0)
        opened[1][0]._transport.abort()
        await brought([opened[0], opened[2]], MIB)
