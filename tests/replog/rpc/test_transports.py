"""What every transport promises, over both kinds of gRPC, mixed ones too, and over the simulated network."""

import asyncio
import tempfile
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import uvloop

from replog.errors import ErrorCode, ReplogError
from replog.rpc import methods
from replog.rpc.codec import WithRecords
from replog.rpc.peer import Peer, Role, peer
from replog.rpc.transport import Channel, Transport
from replog.rpc.transports import GrpcTransport, H2Transport
from replog.rpc.v1 import inspection_pb2, log_pb2
from replog.simulator.network.streams import SimulatedTransport
from tests.replog.rpc.handlers import Handlers, ask, channel_to, error_of, produce_request, serving, until
from tests.replog.rpc.secured import Authority
from tests.replog.simulator.hosts import Pair


class Wire(NamedTuple):
    channel: Channel  # to a server with these handlers
    handlers: Handlers
    transport: Transport


Conversation = Callable[[Wire], Awaitable[None]]
LoopFactory = Callable[[], asyncio.AbstractEventLoop] | None


def _on_loopback(client: Transport, server: Transport, conversation: Conversation, loop: LoopFactory = None) -> None:
    async def converse() -> None:
        handlers = Handlers()
        async with (
            serving(handlers, methods.LOG, methods.INSPECTION, transport=server) as address,
            channel_to(address, client) as channel,
        ):
            await conversation(Wire(channel, handlers, client))

    with asyncio.Runner(loop_factory=loop) as runner:
        runner.run(converse())


def _with_tls(client: type[Any], server: type[Any], conversation: Conversation, loop: LoopFactory = None) -> None:
    with tempfile.TemporaryDirectory() as directory:
        authority = Authority(Path(directory))
        ours, theirs = authority.tls(Role.CLIENT, "ann"), authority.tls(Role.BROKER, "1")
        _on_loopback(client(ours), server(theirs), conversation, loop)


GRPCIO, H2 = GrpcTransport(), H2Transport()
TRANSPORTS = {
    "grpcio": partial(_on_loopback, GRPCIO, GRPCIO),
    "h2": partial(_on_loopback, H2, H2),
    "h2-uvloop": partial(_on_loopback, H2, H2, loop=uvloop.new_event_loop),
    "h2-grpcio": partial(_on_loopback, H2, GRPCIO),
    "grpcio-h2": partial(_on_loopback, GRPCIO, H2),
    "grpcio-tls": partial(_with_tls, GrpcTransport, GrpcTransport),
    "h2-tls": partial(_with_tls, H2Transport, H2Transport),
    "h2-uvloop-tls": partial(_with_tls, H2Transport, H2Transport, loop=uvloop.new_event_loop),
    "h2-grpcio-tls": partial(_with_tls, H2Transport, GrpcTransport),
    "grpcio-h2-tls": partial(_with_tls, GrpcTransport, H2Transport),
}


def _simulated(conversation: Conversation) -> None:
    pair = Pair()
    pair.run(conversation(Wire(pair.channel, pair.handlers, SimulatedTransport(pair.network, pair.client))))
    pair.loop.run_until(pair.loop.time() + 1.0)
    assert pair.network.calls == {}, "nothing of a call is left behind"
    assert [failure for failure in pair.loop.failures if "a defect" not in str(failure)] == []
    pair.loop.dispose()


def over_every_transport(conversation: Conversation) -> Callable[..., None]:
    @pytest.mark.parametrize("transport", [*TRANSPORTS.values(), _simulated], ids=[*TRANSPORTS, "simulated"])
    def test(transport: Callable[[Conversation], None]) -> None:
        transport(conversation)

    return test


async def _ends(handlers: Handlers, *how: str) -> None:
    await until(lambda: handlers.ended == [*how])


@over_every_transport
async def test_a_call_is_answered(wire):
    assert await ask(wire.channel, "a", "b") == ["a", "b"]


@over_every_transport
async def test_what_a_handler_raises_is_what_the_caller_gets(wire):
    wire.handlers.error = ReplogError(ErrorCode.INVALID_TOPIC_EXCEPTION, "no such name")
    error = await error_of(ask(wire.channel, "a"))
    assert (error.code, error.message) == (ErrorCode.INVALID_TOPIC_EXCEPTION, "no such name")
    assert error is not wire.handlers.error


@over_every_transport
async def test_a_defect_of_a_handler_is_an_unknown_server_error(wire):
    wire.handlers.error = ValueError("a defect")
    error = await error_of(ask(wire.channel, "a"))
    assert error.code is ErrorCode.UNKNOWN_SERVER_ERROR
    assert "a defect" in error.message


@over_every_transport
async def test_a_call_times_out_and_its_handler_is_cancelled(wire):
    await ask(wire.channel, "the connection is there")
    wire.handlers.delay_s = 600.0
    error = await error_of(ask(wire.channel, "a", timeout_s=2.0))
    assert error.code is ErrorCode.REQUEST_TIMED_OUT
    await _ends(wire.handlers, "cancelled")


@over_every_transport
async def test_a_caller_that_is_cancelled_cancels_the_handler(wire):
    wire.handlers.delay_s = 600.0
    call = asyncio.create_task(ask(wire.channel, "a"))
    await until(lambda: wire.handlers.asked)
    call.cancel()
    await _ends(wire.handlers, "cancelled")
    assert call.cancelled()


@over_every_transport
async def test_an_address_where_nobody_listens_is_a_network_exception(wire):
    nobody = wire.transport.connect("127.0.0.1:1")
    for call in (ask(nobody, "a"), nobody.open(methods.Log["produce"]).receive(60)):
        error = await error_of(call)
        assert error.code is ErrorCode.NETWORK_EXCEPTION
        assert "127.0.0.1:1" in error.message
    await nobody.close()


@over_every_transport
async def test_an_address_that_is_in_use_is_named(wire):
    other = wire.transport.listen(wire.channel.address)
    error = await error_of(other.start())
    assert error.code is ErrorCode.INVALID_CONFIG
    assert f"cannot listen on {wire.channel.address}: the port is in use" in error.message
    await other.stop(0)


@over_every_transport
async def test_a_message_that_cannot_be_decoded_is_an_invalid_request(wire):
    method = replace(methods.Log["get_metadata"], encode_request=lambda _: b"\xff\xff")
    error = await error_of(wire.channel.call(method, None, 60.0))
    assert error.code is ErrorCode.INVALID_REQUEST
    assert "the message is not what this method takes" in error.message


@over_every_transport
async def test_a_stream_both_ways_keeps_its_order_and_its_bytes_and_is_answered_though_it_has_ended(wire):
    stream = wire.channel.open(methods.Log["produce"])
    for number in range(20):
        await stream.send(produce_request(number, b"one", b"two%d" % number))
    await stream.finish()
    answers = []
    while (answer := await stream.receive(60)) is not None:
        answers += [each.correlation_id for each in answer.answers]
    assert answers == list(range(20))
    assert [(number, b"".join(pieces)) for number, pieces in wire.handlers.asked] == [
        (number, b"onetwo%d" % number) for number in range(20)
    ]
    await _ends(wire.handlers, "finished")


@over_every_transport
async def test_a_stream_ends_with_the_servers_error(wire):
    stream = wire.channel.open(methods.Log["produce"])
    await stream.send(produce_request(1))
    await stream.receive(60)
    wire.handlers.error = ReplogError(ErrorCode.NOT_ENOUGH_REPLICAS, "no")
    await stream.send(produce_request(2))
    assert (await error_of(stream.receive(60))).code is ErrorCode.NOT_ENOUGH_REPLICAS
    await error_of(stream.send(produce_request(3)))


@over_every_transport
async def test_a_silent_stream_times_out_and_is_given_up(wire):
    stream = wire.channel.open(methods.Log["produce"])
    await stream.send(produce_request(1))
    await stream.receive(60)
    assert (await error_of(stream.receive(0.2))).code is ErrorCode.REQUEST_TIMED_OUT
    await until(lambda: wire.handlers.ended)


class Fetches:
    """A stream of fetches, whose answers are handled as they come."""

    def __init__(self, wire: Wire) -> None:
        self.stream = wire.channel.open(methods.Log["fetch"])
        self.answered: list[int] = []
        self.then: Callable[[int], Iterator[None] | None] = lambda number: None
        self.ready = True
        self.reading = asyncio.create_task(self.stream.each(self._take, lambda: self.ready))

    def ask(self, number: int) -> None:
        self.stream.post(log_pb2.FetchRequest(correlation_id=number))

    def _take(self, response: WithRecords[log_pb2.FetchResponse]) -> Iterator[None] | None:
        self.answered.append(response.head.correlation_id)
        return self.then(response.head.correlation_id)


@over_every_transport
async def test_messages_are_handled_in_their_order_and_answered_from_there_and_each_returns_at_the_end(wire):
    fetches = Fetches(wire)
    fetches.ask(0)
    fetches.ask(1)
    fetches.then = lambda number: fetches.ask(number + 2) if number < 18 else None
    await until(lambda: len(fetches.answered) == 20)
    assert fetches.answered == wire.handlers.asked == list(range(20))
    await fetches.stream.finish()
    await asyncio.wait_for(fetches.reading, 60)
    await _ends(wire.handlers, "finished")
    fetches.ask(21)  # which is too late, and nothing


@over_every_transport
async def test_others_have_their_turn_after_each_step_of_a_message_however_often_it_is_told_to_go_on(wire):
    fetches, turns = Fetches(wire), list[int]()

    def steps(number: int) -> Iterator[None]:
        for step in range(5):
            assert turns == [*range(step)]
            asyncio.get_running_loop().call_soon(turns.append, step)
            fetches.stream.go_on()
            yield

    fetches.then = steps
    fetches.ask(0)
    await until(lambda: len(turns) == 5 or fetches.reading.done())
    await fetches.stream.finish()
    await asyncio.wait_for(fetches.reading, 60)
    assert turns == [*range(5)]


@over_every_transport
async def test_what_a_handler_of_messages_raises_ends_the_call_after_what_was_posted_before(wire):
    fetches = Fetches(wire)
    fetches.ask(0)
    await until(lambda: fetches.answered == [0])
    wire.handlers.ready = False
    fetches.ask(1)
    fetches.ask(2)
    await asyncio.sleep(0.3)  # both have come: grpcio loses the error of a call that it sends on
    wire.handlers.error = ReplogError(ErrorCode.NOT_ENOUGH_REPLICAS, "no")
    wire.handlers.ready = True
    wire.handlers.stream.go_on()
    assert (await error_of(asyncio.wait_for(fetches.reading, 60))).code is ErrorCode.NOT_ENOUGH_REPLICAS
    assert (fetches.answered, wire.handlers.asked) == ([0], [0, 1])


@over_every_transport
async def test_what_a_clients_handler_raises_is_raised_by_each_and_no_more_is_handled(wire):
    fetches = Fetches(wire)

    def fail(number: int) -> None:
        raise ReplogError(ErrorCode.CORRUPT_MESSAGE, f"{number} is enough")

    fetches.then = fail
    for number in range(3):
        fetches.ask(number)
    assert (await error_of(asyncio.wait_for(fetches.reading, 60))).message == "0 is enough"
    assert fetches.answered == [0]
    fetches.stream.cancel()
    await until(lambda: bool(wire.handlers.ended))


@over_every_transport
async def test_a_stream_that_is_cancelled_by_a_handler_of_its_messages_ends_both_sides(wire):
    fetches = Fetches(wire)
    fetches.then = lambda number: fetches.stream.cancel()
    fetches.ask(0)
    assert (await error_of(asyncio.wait_for(fetches.reading, 60))).code is ErrorCode.NETWORK_EXCEPTION
    await until(lambda: bool(wire.handlers.ended))


@over_every_transport
async def test_messages_wait_until_their_reader_is_ready_also_those_before_the_end(wire):
    wire.handlers.ready = False
    fetches = Fetches(wire)
    fetches.ready = False
    for number in range(3):
        fetches.ask(number)
    await fetches.stream.finish()
    await asyncio.sleep(0.3)
    assert not wire.handlers.asked, "the server was not ready"
    wire.handlers.ready = True
    wire.handlers.stream.go_on()
    assert not wire.handlers.asked, "it goes on in a callback of its own"
    await until(lambda: wire.handlers.asked == [0, 1, 2])
    await asyncio.sleep(0.3)
    assert not fetches.answered, "the client was not ready"
    fetches.ready = True
    fetches.stream.go_on()
    await asyncio.wait_for(fetches.reading, 60)
    assert fetches.answered == [0, 1, 2]


@over_every_transport
async def test_a_client_that_does_not_take_what_is_posted_is_not_read_from_and_gets_it_all_when_it_does(wire):
    wire.handlers.answer_bytes = 1 << 20
    fetches = Fetches(wire)
    fetches.ready = False
    for number in range(40):
        fetches.ask(number)
    await until(lambda: wire.handlers.asked)
    await asyncio.sleep(0.5)
    assert len(wire.handlers.asked) < 25, "sockets hold some"
    fetches.ready = True
    fetches.stream.go_on()
    await until(lambda: fetches.answered == list(range(40)))
    fetches.stream.cancel()
    await error_of(asyncio.wait_for(fetches.reading, 60))


@over_every_transport
async def test_a_watch_gives_every_message_and_then_its_error_and_one_that_is_left_closes_its_generator(wire):
    wire.handlers.error = ReplogError(ErrorCode.NOT_CONTROLLER, "enough")
    method, request, positions = methods.Inspection["read_file"], inspection_pb2.ReadFileRequest(), []
    with pytest.raises(ReplogError, match="enough"):
        async for answer in wire.channel.watch(method, request):
            positions.append(answer.head.position)
    assert positions == list(range(1000))
    answers: Any = wire.channel.watch(method, request)
    assert (await anext(answers)).head.position == 0
    await answers.aclose()
    await _ends(wire.handlers, "closed", "closed")


@over_every_transport
async def test_a_handler_knows_who_asks_whatever_the_shape_of_the_call_and_whenever_its_messages_are_handled(wire):
    await ask(wire.channel, "a")
    files: Any = wire.channel.watch(methods.Inspection["read_file"], inspection_pb2.ReadFileRequest())
    await anext(files)
    await files.aclose()
    stream = wire.channel.open(methods.Log["produce"])
    for number in range(2):
        await stream.send(produce_request(number))
        await stream.receive(60)
    stream.cancel()
    fetches = Fetches(wire)
    fetches.ask(0)
    await until(lambda: fetches.answered == [0])
    wire.handlers.ready = False
    fetches.ask(1)
    await asyncio.sleep(0.3)
    wire.handlers.ready = True
    wire.handlers.stream.go_on()
    await until(lambda: fetches.answered == [0, 1])
    fetches.stream.cancel()
    await error_of(asyncio.wait_for(fetches.reading, 60))
    expected = Peer("User:ANONYMOUS", Role.ANY, "127.0.0.1")
    if isinstance(wire.transport, SimulatedTransport):
        expected = Peer("User:client", Role.CLIENT, "client-1")
    elif getattr(wire.transport, "tls", None) is not None:
        expected = Peer("User:ann", Role.CLIENT, "127.0.0.1")
    assert wire.handlers.peers == [expected] * 6
    with pytest.raises(LookupError):
        peer()


over_both = pytest.mark.parametrize("converse", TRANSPORTS.values(), ids=TRANSPORTS)


@over_both
def test_large_messages_arrive_whole_in_their_order_both_ways(converse):
    async def conversation(wire: Wire) -> None:
        sizes = [1, 16 << 10, 1 << 20, 14 << 20, 0, 5 << 20]
        stream = wire.channel.open(methods.Log["produce"])

        async def send() -> None:
            for number, size in enumerate(sizes):
                await stream.send(produce_request(number, b"%d" % number * size))

        sending = asyncio.create_task(send())
        for number in range(len(sizes)):
            assert (await stream.receive(60)).answers[0].correlation_id == number
        await sending
        for number, (_, pieces) in enumerate(wire.handlers.asked):
            assert b"".join(pieces) == b"%d" % number * sizes[number]
        topic = "x" * (1 << 20)
        assert await ask(wire.channel, topic) == [topic]

    converse(conversation)


@over_both
def test_a_sender_waits_for_who_reads_slowly_and_its_cancellation_ends_both(converse):
    async def conversation(wire: Wire) -> None:
        wire.handlers.delay_s = 600.0  # after the first message
        stream, sent = wire.channel.open(methods.Log["produce"]), 0

        async def send() -> None:
            nonlocal sent
            while True:
                await stream.send(produce_request(sent, bytes(1 << 20)))
                sent += 1

        sending = asyncio.create_task(send())
        await until(lambda: wire.handlers.asked)
        async with asyncio.timeout(60):
            before = -1
            while sent != before:
                before = sent
                await asyncio.sleep(0.3)
        assert sent < 8, "sockets hold some"
        assert not sending.done()
        stream.cancel()
        assert (await error_of(sending)).code is ErrorCode.NETWORK_EXCEPTION
        await _ends(wire.handlers, "cancelled")

    converse(conversation)
