"""A client whose server goes away, or refuses a call, over real sockets: what the server did not begin is sent once
more, and nothing else is."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable

import pytest

from replog.errors import ErrorCode, ReplogError
from replog.rpc import methods
from replog.rpc.http2.protocol.connection import Connection
from replog.rpc.http2.protocol.events import Message
from replog.rpc.http2.protocol.frames import DATA, END_STREAM, GOAWAY, REFUSED_STREAM, frame
from replog.rpc.peer import Role
from replog.rpc.tls import Tls, TlsFiles
from replog.rpc.transport import Channel
from replog.rpc.transports import H2Transport
from replog.rpc.v1 import log_pb2
from tests.replog.rpc.handlers import Handlers, ask, channel_to, error_of, until
from tests.replog.rpc.http2.pairs import ANSWER, BOUNDS, OK
from tests.replog.rpc.http2.raw import number
from tests.replog.rpc.secured import Authority


class Scripted:
    """A server whose answers a test writes: `script(server, connection, stream)` is called for each request."""

    def __init__(self, script: "Callable[[Scripted, Served, int], None]") -> None:
        self.script = script
        self.served: list[Served] = []

    @property
    def asked(self) -> list[list[str]]:
        """The topics of the requests, by connection."""
        return [served.asked for served in self.served]

    async def connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.served.append(served := Served(writer))
        with contextlib.closing(writer), contextlib.suppress(ConnectionError):
            served.send()
            while data := await reader.read(1 << 16):
                for event in served.connection.receive(data, 0):
                    if isinstance(event, Message):
                        request = log_pb2.GetMetadataRequest.FromString(bytes(event.payload))
                        served.asked.append(request.topics[0])
                        self.script(self, served, event.stream_id)
                served.send()


class Served:
    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self.connection = Connection("server", BOUNDS)
        self.writer = writer
        self.asked: list[str] = []

    def send(self) -> None:
        self.writer.write(b"".join(self.connection.to_send()))

    def answer(self, stream: int) -> None:
        response = log_pb2.GetMetadataResponse(topics=[log_pb2.TopicMetadata(topic="answered")])
        self.connection.send_headers(stream, ANSWER)
        self.connection.send_message(stream, [response.SerializeToString()])
        self.connection.send_trailers(stream, OK)
        self.send()

    def go_away(self, last: int) -> None:
        """Streams after `last` were not begun."""
        self.writer.write(frame(GOAWAY, 0, 0, number(last) + number(0)))


@contextlib.asynccontextmanager
async def scripted(script: Callable[[Scripted, Served, int], None]) -> AsyncIterator[tuple[Scripted, Channel]]:
    server = Scripted(script)
    listener = await asyncio.start_server(server.connected, "127.0.0.1", 0)
    address = f"127.0.0.1:{listener.sockets[0].getsockname()[1]}"
    async with channel_to(address) as channel:
        yield server, channel
    listener.close()


async def _two_calls(server: Scripted, channel: Channel) -> list[asyncio.Task[list[str]]]:
    """Both under way on the first connection."""
    calls = [asyncio.create_task(ask(channel, "begun"))]
    await until(lambda: server.asked == [["begun"]])
    calls.append(asyncio.create_task(ask(channel, "not begun")))
    await until(lambda: server.asked[0] == ["begun", "not begun"])
    return calls


def _only_on_another(server: Scripted, served: Served, stream: int) -> None:
    if served is not server.served[0]:
        served.answer(stream)


def _end_without_a_status(server: Scripted, served: Served, stream: int) -> None:
    if served.asked[-1] == "not begun":
        served.connection.send_headers(stream, ANSWER)
        served.send()
        served.writer.write(frame(DATA, END_STREAM, stream, b""))


async def test_a_call_that_ends_without_a_status_fails_alone():
    async with scripted(_end_without_a_status) as (server, channel):
        begun, other = await _two_calls(server, channel)
        with pytest.raises(ReplogError, match="the server ended the call without a status"):
            await other
        server.served[0].answer(1)
        assert await begun == ["answered"]


async def test_after_a_goaway_what_was_begun_ends_there_and_what_was_not_goes_to_a_new_connection():
    async with scripted(_only_on_another) as (server, channel):
        begun, other = await _two_calls(server, channel)
        server.served[0].go_away(last=1)
        assert await other == ["answered"]
        assert not begun.done()
        assert await ask(channel, "new") == ["answered"]
        server.served[0].answer(1)
        assert await begun == ["answered"]
        assert server.asked == [["begun", "not begun"], ["not begun", "new"]]


async def test_a_call_that_was_begun_is_not_sent_again_when_its_connection_ends():
    async with scripted(_only_on_another) as (server, channel):
        begun, other = await _two_calls(server, channel)
        server.served[0].go_away(last=1)
        await other
        server.served[0].writer.close()
        assert (await error_of(begun)).code is ErrorCode.NETWORK_EXCEPTION
        assert server.asked == [["begun", "not begun"], ["not begun"]]


@pytest.mark.parametrize("refusals", [1, 2])
async def test_a_refused_call_is_sent_once_more(refusals):
    def refuse(server: Scripted, served: Served, stream: int) -> None:
        if len(served.asked) <= refusals:
            served.connection.reset(stream, REFUSED_STREAM)
        else:
            served.answer(stream)

    async with scripted(refuse) as (server, channel):
        call = ask(channel, "refused")
        if refusals == 1:
            assert await call == ["answered"]
        else:
            assert (await error_of(call)).code is ErrorCode.NETWORK_EXCEPTION
        assert server.asked == [["refused", "refused"]]


@pytest.mark.parametrize("secure", [False, True], ids=["plain", "tls"])
@pytest.mark.parametrize("turns", range(4))  # of the loop, between the server's last word and the client's question
async def test_what_is_asked_while_a_server_ends_an_idle_connection_is_answered_on_another(tmp_path, secure, turns):
    authority = Authority(tmp_path)
    mine = Tls(TlsFiles(authority.keystore(Role.BROKER, "1"), authority.truststore)) if secure else None
    listening = H2Transport(mine).listen("127.0.0.1:0")
    listening.add(methods.LOG, Handlers())
    address = await listening.start()
    async with channel_to(address, H2Transport(authority.tls() if secure else None)) as channel:
        for _ in range(5):
            await ask(channel, "a")
            (connection,) = listening._connections
            listening._dismiss(connection, "others need its place")
            for _ in range(turns):
                await asyncio.sleep(0)
            assert await asyncio.gather(ask(channel, "b"), ask(channel, "c")) == [["b"], ["c"]]
    await listening.stop(0)
