"""A hostile peer costs its own connection and nothing else: another client on another one is served all the while."""

import asyncio
import contextlib
import socket
import struct
from collections.abc import AsyncIterator, Callable
from typing import Any, NamedTuple

import pytest

from replog.rpc import methods
from replog.rpc.codec import WithRecords
from replog.rpc.http2.protocol.frames import GOAWAY, PREFACE
from replog.rpc.http2.protocol.hpack import encode_fields
from replog.rpc.http2.shells.calls import request_fields
from replog.rpc.http2.shells.server import H2Server
from replog.rpc.transport import Channel
from replog.rpc.v1 import inspection_pb2, log_pb2
from tests.replog.rpc.handlers import Handlers, ask, channel_to, produce_request, serving, until
from tests.replog.rpc.http2.raw import data, headers, message, reset, settings, update

S = 60.0
PROTOCOL_ERROR, ENHANCE_YOUR_CALM = 1, 11


def call(path: str) -> bytes:
    return encode_fields(request_fields(path, "hostile", None))


PRODUCE, READ_FILE = (call(f"/replog.v1.{name}") for name in ("Log/Produce", "Inspection/ReadFile"))


def rapid_resets() -> bytes:
    return b"".join(headers(stream, block=PRODUCE) + reset(stream) for stream in range(1, 10_000, 2))


ATTACKS: dict[str, tuple[Callable[[], bytes], int]] = {  # others are in `test_floods` and `test_states`, in memory
    "rapid resets": (rapid_resets, ENHANCE_YOUR_CALM),
    "DATA of no stream": (lambda: data(0, b"?"), PROTOCOL_ERROR),
}


class Large(Handlers):
    """A reader of a file gets 64 MiB of it."""

    async def read_file(self, _: inspection_pb2.ReadFileRequest) -> AsyncIterator[Any]:
        try:
            for i in range(2048):
                self.asked.append(i)
                yield WithRecords(inspection_pb2.ReadFileResponse(position=i), (bytes(1 << 15),))
        finally:
            self.ended.append("closed")


class Peers(NamedTuple):
    handlers: Handlers
    address: str
    other: Channel  # of a client who does nothing wrong


@pytest.fixture
async def peers() -> AsyncIterator[Peers]:
    handlers = Large()
    async with serving(handlers, methods.LOG, methods.INSPECTION) as address, channel_to(address) as other:
        yield Peers(handlers, address, other)


@contextlib.asynccontextmanager
async def connected(address: str) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    reader, writer = await asyncio.open_connection(*address.split(":"))
    try:
        yield reader, writer
    finally:
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()


@contextlib.asynccontextmanager
async def served_all_the_while(other: Channel) -> AsyncIterator[None]:
    """Every call of the other client is answered, on the connection that it has, and the last one begins at the end."""
    done = False

    async def calls() -> None:
        while not done:
            assert await ask(other, "a", timeout_s=S) == ["a"]
        stream = other.open(methods.Log["produce"])
        await stream.send(produce_request(1, b"x"))
        assert (await stream.receive(S)).answers[0].correlation_id == 1
        stream.cancel()

    calling = asyncio.create_task(calls())
    try:
        yield
        done = True
        await calling
    finally:
        calling.cancel()


async def until_the_end(reader: asyncio.StreamReader) -> int | None:
    """The code of the GOAWAY that the peer heard before the connection ended."""
    heard, code = bytearray(), None
    with contextlib.suppress(ConnectionError):  # reset, if it was still sending
        async with asyncio.timeout(S):
            while piece := await reader.read(1 << 16):
                heard += piece
    while heard:
        size = int.from_bytes(heard[:3], "big")
        if heard[3] == GOAWAY:
            code = int.from_bytes(heard[13:17], "big")
        del heard[: 9 + size]
    return code


@pytest.mark.parametrize("name", ATTACKS)
async def test_an_attack_ends_its_own_connection(peers, name):
    attack, code = ATTACKS[name]
    async with served_all_the_while(peers.other), connected(peers.address) as (reader, writer):
        writer.write(PREFACE + settings({}) + attack())
        assert await until_the_end(reader) == code


async def test_a_peer_that_takes_nothing_is_sent_no_more_than_its_windows_and_leaves_nothing_behind(peers):
    """A hundred files of 64 MiB are asked for. One piece of 32 KiB fits the connection's window; each stream has one
    that waits."""
    request = message(inspection_pb2.ReadFileRequest().SerializeToString())
    async with served_all_the_while(peers.other), connected(peers.address) as (_, writer):
        writer.write(PREFACE + settings({}))
        for stream in range(1, 200, 2):
            writer.write(headers(stream, block=READ_FILE) + data(stream, request, end=True))
        numbers = peers.handlers.asked
        await until(lambda: numbers.count(0) >= 64)  # as many as may be served at once
        await asyncio.sleep(0.2)
        assert sorted(asked for asked in numbers if isinstance(asked, int)) == [0] * 64 + [1]
        assert peers.handlers.ended == []
    await until(lambda: peers.handlers.ended.count("closed") >= 64)


async def test_a_call_that_comes_with_the_message_whose_answer_finds_the_connection_reset_is_not_served_for_ever():
    handlers, fetch = Handlers(), methods.Log["fetch"]
    block, request = call(fetch.path), log_pb2.FetchRequest(correlation_id=7).SerializeToString()
    async with serving(handlers, methods.LOG) as address:
        host, port = address.rsplit(":", 1)
        with socket.create_connection((host, int(port))) as client:
            client.sendall(PREFACE + settings({}) + headers(1, block=block))
            await until(lambda: "stream" in vars(handlers))
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # closing resets
            client.sendall(data(1, message(request)) + headers(3, block=block))
        await until(lambda: all(task.get_name() != fetch.path for task in asyncio.all_tasks()))
    assert handlers.asked == [7]


async def test_a_connection_that_is_closed_for_a_fault_ends_though_its_peer_does_not_read():
    server = H2Server("127.0.0.1:0")
    server.add(methods.INSPECTION, Large())
    host, port = (await server.start()).rsplit(":", 1)
    with socket.socket() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.connect((host, int(port)))
        client.sendall(PREFACE + settings({4: 2**31 - 1}) + update(0, 2**30))
        client.sendall(headers(1, block=READ_FILE) + data(1, message(b""), end=True))
        await until(lambda: any(connection._full for connection in server._connections))
        client.sendall(data(0, b"?"))
        await until(lambda: not server._connections)
    await server.stop(0)
