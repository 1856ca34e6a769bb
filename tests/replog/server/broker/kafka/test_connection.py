"""Connections of Kafka's clients over real sockets: beside gRPC on one port, in order, and within their bounds."""

import asyncio
import contextlib
import gc
import socket
import ssl
import struct
import time
import tracemalloc
from collections.abc import AsyncIterator, Callable
from functools import partial
from inspect import iscoroutinefunction
from typing import Any, cast

import pytest

from replog.config.processes import BrokerConfig
from replog.errors import ErrorCode
from replog.kafka.messages import (
    ApiVersionsRequest,
    CreateTopicsRequest,
    CreateTopicsRequestTopic,
    InitProducerIdRequest,
    InitProducerIdResponse,
    ListOffsetsRequest,
    ListOffsetsRequestPartition,
    ListOffsetsRequestTopic,
    ProduceRequest,
)
from replog.kafka.versions import APIS
from replog.metadata.image import MetadataImage
from replog.rpc import limits, methods
from replog.rpc.http2.shells import server as server_module
from replog.rpc.http2.shells import socket_shell, talk_connection
from replog.rpc.http2.shells.server import H2Server
from replog.rpc.limits import MIB, ConnectionLimits, Limit
from replog.rpc.peer import Role
from replog.rpc.serving import Gate
from replog.rpc.tls import Tls, TlsFiles
from replog.rpc.transports import H2Transport
from replog.server.broker.context import BrokerContext
from replog.server.broker.kafka.call import Call
from replog.server.broker.kafka.connection import KafkaTalk
from replog.server.broker.kafka.dispatch import TURN_S, Dispatcher
from replog.server.broker.kafka.handlers import Handler, new_handlers
from replog.server.broker.kafka.service import KafkaService
from replog.server.broker.replicas.hosted_replicas import HostedReplicas
from replog.server.broker.replicas.replica_manager import ReplicaManager
from replog.server.clock import SystemClock
from tests.replog.rpc.handlers import Handlers, ask, channel_to, until
from tests.replog.rpc.secured import Authority
from tests.replog.server.broker.kafka.client import S, connected

API_VERSIONS, CREATE_TOPICS, INIT, LIST_OFFSETS, PRODUCE = 18, 19, 22, 2, 0
ASKED = InitProducerIdRequest(transactional_id="x")


class Served:
    """A server of both protocols. Its Kafka handlers are the test's own, by the number of the API."""

    def __init__(
        self, directory: Any, tls: Tls | None = None, limits: ConnectionLimits = limits.DEFAULT_LIMITS
    ) -> None:
        config = BrokerConfig.model_validate({"node_id": 1, "log_dirs": directory / "logs"})
        self.context = BrokerContext(config, MetadataImage(), SystemClock(), print)
        self.manager = ReplicaManager(self.context, HostedReplicas(self.context), print)
        others = dict.fromkeys(
            ["producer_ids", "quotas", "look_ups", "log_dirs", "controller", "transport", "until", "randbytes"],
        )
        self.service = KafkaService(manager=self.manager, **cast(Any, others))
        self.handlers = {API_VERSIONS: new_handlers()[API_VERSIONS]}
        self.server = H2Server("127.0.0.1:0", tls, limits)
        self.server.add(methods.LOG, Handlers())
        self.server.serve_kafka(partial(KafkaTalk, Dispatcher(self.service, self.handlers)), grpc=True)
        self.address = ""

    def serve(self, key: int, handler: Callable[[KafkaService, Call], Any]) -> None:
        gate = Gate(f"Kafka/{APIS[key].name}", Limit(500, 0))
        self.handlers[key] = Handler(APIS[key], handler, iscoroutinefunction(handler), gate)


@contextlib.asynccontextmanager
async def serving(directory: Any, *args: Any, **options: Any) -> AsyncIterator[Served]:
    served = Served(directory, *args, **options)
    served.address = await served.server.start()
    try:
        yield served
    finally:
        await served.server.stop(0)


@pytest.fixture
async def served(tmp_path) -> AsyncIterator[Served]:
    async with serving(tmp_path) as served:
        yield served


class Held:
    """A handler whose answers the test gives."""

    def __init__(self) -> None:
        self.calls: list[Call] = []
        self.cancelled = 0

    def serve(self, _service: KafkaService, call: Call) -> None:
        self.calls.append(call)

    async def run(self, _service: KafkaService, call: Call) -> Any:
        self.calls.append(call)
        try:
            await asyncio.get_running_loop().create_future()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise

    async def reached(self, count: int) -> None:
        await until(lambda: len(self.calls) >= count)


def answer(number: int = 0) -> InitProducerIdResponse:
    return InitProducerIdResponse(producer_id=number)


# -- which protocol


async def test_one_port_serves_both_whatever_the_pieces_of_the_first_bytes(served):
    async with channel_to(served.address) as channel, connected(served.address) as kafka:
        frame = struct.pack(">ihhih", 10, API_VERSIONS, 0, 0, -1)
        for number in range(len(frame)):
            kafka.writer.write(frame[number : number + 1])
            await asyncio.sleep(0.01)
        assert await ask(channel, "a") == ["a"]
        head = await kafka.reader.readexactly(10)
        assert struct.unpack(">iih", head)[1:] == (0, 0)
        assert served.server.connections == 2


@pytest.mark.parametrize("protocols", [None, ["http/1.1"]], ids=["no-alpn", "other-alpn"])
async def test_in_tls_who_offers_no_h2_speaks_kafka_and_is_whom_its_certificate_names(tmp_path, protocols):
    authority = Authority(tmp_path)
    tls = Tls(TlsFiles(authority.keystore(Role.BROKER, "1"), authority.truststore))
    context = ssl.create_default_context(cafile=authority.truststore)
    context.load_cert_chain(authority.keystore(Role.CLIENT, "ann"))
    if protocols:
        context.set_alpn_protocols(protocols)
    held = Held()
    async with serving(tmp_path, tls) as served:
        served.serve(INIT, held.serve)
        transport = H2Transport(authority.tls())
        async with channel_to(served.address, transport) as channel, connected(served.address, context) as kafka:
            number = kafka.send(ASKED, 4)
            await held.reached(1)
            assert held.calls[0].asks.principal == "User:ann"
            held.calls[0].answer(answer(5))
            assert (await kafka.answer(number)).producer_id == 5
            assert await ask(channel, "a") == ["a"]


async def test_a_certificate_of_another_cluster_and_a_kafka_client_without_tls_are_refused(tmp_path, caplog):
    authority = Authority(tmp_path / "a")
    tls = Tls(TlsFiles(authority.keystore(Role.BROKER, "1"), authority.truststore))
    context = ssl.create_default_context(cafile=authority.truststore)
    context.load_cert_chain(authority.signs(["replog://other/client/ann"]))
    async with serving(tmp_path, tls) as served:
        for options, reason in ((context, "is of cluster 'other'"), (None, "speaks no TLS")):
            async with connected(served.address, options) as kafka:
                kafka.send(ApiVersionsRequest(), 0)
                await kafka.rest()
            await until(lambda reason=reason: reason in caplog.text)


# -- answers


async def test_answers_come_in_the_order_of_the_requests(served):
    held = Held()
    served.serve(INIT, held.serve)
    async with connected(served.address) as kafka:
        numbers = [kafka.send(ASKED, 4) for _ in range(10)]
        await held.reached(10)
        for number, call in reversed(list(enumerate(held.calls))):
            call.answer(answer(number))
            call.answer(answer(99))
        assert [(await kafka.answer(number)).producer_id for number in numbers] == list(range(10))


async def _refuses(_service: KafkaService, _call: Call) -> Any:
    raise ErrorCode.BROKER_NOT_AVAILABLE.error("not now")


def _fails(_service: KafkaService, _call: Call) -> Any:
    raise RuntimeError("a defect")


def _fails_late(_service: KafkaService, _call: Call) -> Any:
    yield
    raise ErrorCode.BROKER_NOT_AVAILABLE.error("not now")


@pytest.mark.parametrize(
    ("handler", "code"), [(_refuses, 8), (_fails, -1), (_fails_late, 8)], ids=["refuses", "fails", "fails late"]
)
async def test_what_a_handler_raises_is_answered_where_the_response_has_a_place_for_it(served, handler, code):
    for key in (INIT, CREATE_TOPICS, LIST_OFFSETS):
        served.serve(key, handler)
    create = CreateTopicsRequest(topics=[CreateTopicsRequestTopic("a"), CreateTopicsRequestTopic("b")])
    offsets = [ListOffsetsRequestPartition(partition_index=number) for number in (0, 7)]
    async with connected(served.address) as kafka:
        assert (await kafka.ask(ASKED, 4)).error_code == code
        answered = await kafka.ask(create, 5)
        assert [(topic.name, topic.error_code) for topic in answered.topics] == [("a", code), ("b", code)]
        assert code != 8 or answered.topics[0].error_message == "not now"
        asked = ListOffsetsRequest(topics=[ListOffsetsRequestTopic("t", offsets)])
        (topic,) = (await kafka.ask(asked, 6)).topics
        rows = [(partition.partition_index, partition.error_code) for partition in topic.partitions]
        assert (topic.name, rows) == ("t", [(0, code), (7, code)])
    assert served.context.traffic.errors["InitProducerId", ErrorCode(code)] == 1
    assert served.context.traffic.requests["CreateTopics"].count == 1


async def test_a_produce_that_wants_no_answer_is_refused_by_the_end_of_its_connection(served, caplog):
    served.serve(PRODUCE, _fails)
    async with connected(served.address) as kafka:
        assert (await kafka.ask(ProduceRequest(acks=1), 9)).responses == []
        kafka.send(ProduceRequest(acks=0), 9)
        assert await kafka.rest() == b""
    assert "a produce with acks=0 failed" in caplog.text


async def test_what_is_not_served_is_answered_and_the_connection_goes_on(served):
    served.serve(INIT, Held().serve)
    async with connected(served.address) as kafka:
        for key, version, expected in (
            (API_VERSIONS, 5, struct.pack(">hihhh", 35, 2, API_VERSIONS, 0, 4)),
            (999, 0, struct.pack(">h", 35)),
            (3, 1, struct.pack(">h", 35)),  # there is no such file yet
            (INIT, 99, b"\0" + struct.pack(">ihqh", 0, 35, -1, 0) + b"\0"),
        ):
            body = struct.pack(">hhih", key, version, 77, -1)
            kafka.writer.write(struct.pack(">i", len(body)) + body)
            size, correlation_id = struct.unpack(">ii", await kafka.reader.readexactly(8))
            assert correlation_id == 77
            body = await kafka.reader.readexactly(size - 4)
            if key == API_VERSIONS:
                count = struct.unpack_from(">hi", body)[1]
                assert len(body) == 6 + 6 * count
                expected = struct.pack(">hi", 35, count)
            assert body.startswith(expected) if key == API_VERSIONS else body == expected, (key, version)


@pytest.mark.parametrize(
    ("name", "version", "code"),
    [
        ("librdkafka", "2.3.0-1", 0),
        ("a", "b", 0),
        ("", "1", 42),
        ("a b", "1", 42),
        ("-a", "1", 42),
        ("a" * 999, "1", 42),
    ],
)
async def test_the_name_of_a_clients_software_is_checked(served, name, version, code):
    async with connected(served.address) as kafka:
        for _ in range(2):
            answered = await kafka.ask(ApiVersionsRequest(name, version), 3)
            assert answered.error_code == code
        assert next(api for api in answered.api_keys if api.api_key == API_VERSIONS)[1:] == (0, 4)


# -- bounds


HOSTILE = {
    "too large": (struct.pack(">ih", 100 * MIB, PRODUCE), "may come"),
    "too large for its API": (struct.pack(">ih", 3 * MIB, API_VERSIONS), "may come"),
    "too small": (struct.pack(">ih", 3, 0), "may come"),
    "no header": (struct.pack(">i", 8) + bytes(8), "no header"),
    "no message": (struct.pack(">ihhih", 11, API_VERSIONS, 3, 1, 0) + b"\0", "is wrong"),
}


@pytest.mark.parametrize("kind", HOSTILE)
async def test_a_wrong_frame_ends_its_connection_with_a_reason_in_the_log(served, caplog, kind):
    sent, reason = HOSTILE[kind]
    async with connected(served.address) as other, connected(served.address) as kafka:
        number = kafka.send(ApiVersionsRequest(), 0)
        kafka.writer.write(sent)
        assert (await kafka.answer(number)).error_code == 0, "what came before is answered"
        assert await kafka.rest() == b""
        assert reason in caplog.text
        assert "refused a connection of 127.0.0.1:" in caplog.text
        assert (await other.ask(ApiVersionsRequest(), 0)).error_code == 0
    await until(lambda: not served.server.connections)


async def test_who_speaks_neither_protocol_is_told_both(served, caplog):
    async with connected(served.address) as stranger:
        stranger.writer.write(b"GET / HTTP/1.1\r\n\r\n")
        await stranger.rest()
    assert "this port speaks HTTP/2 (gRPC) and Kafka's protocol; a peer began with b'GET" in caplog.text


async def test_many_frames_that_do_not_end_give_way_to_others(served, monkeypatch, caplog):
    monkeypatch.setattr(limits, "MAX_UNREAD_BYTES", 8 * MIB)
    served.server._shared.unread._part = MIB
    async with contextlib.AsyncExitStack() as stack:
        clients = [await stack.enter_async_context(connected(served.address)) for _ in range(20)]
        for client in clients:
            client.writer.write(struct.pack(">ih", 2 * MIB, PRODUCE) + bytes(MIB))
        await until(lambda: "fill the 8388608 bytes" in caplog.text)
        assert sum(connection.held for connection in served.server._connections) <= 8 * MIB
        other = await stack.enter_async_context(connected(served.address))
        assert (await other.ask(ApiVersionsRequest(), 0)).error_code == 0


async def test_who_does_not_take_its_answers_is_not_read_from_and_closed_in_the_end(served, monkeypatch):
    monkeypatch.setattr(socket_shell, "ANSWER_S", 1.0)
    taken = []

    def large(_service: KafkaService, call: Call) -> None:
        taken.append(call)
        call.answer(bytes(MIB))

    monkeypatch.setattr(talk_connection, "SILENCE_S", 0.5)
    served.serve(INIT, large)
    with socket.socket() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        host, port = served.address.split(":")
        client.connect((host, int(port)))
        client.sendall(struct.pack(">ihhihhi", 16, INIT, 0, 0, -1, -1, 0) * 50)
        await until(lambda: any(connection._full for connection in served.server._connections))
        assert len(taken) < 10
        async with connected(served.address) as other:
            assert (await other.ask(ApiVersionsRequest(), 0)).error_code == 0
            await until(lambda: served.server.connections == 1)
        assert len(taken) < 10


async def test_so_many_requests_are_under_way_and_others_wait(served):
    held = Held()
    served.serve(INIT, held.serve)
    async with connected(served.address) as kafka:
        numbers = [kafka.send(ASKED, 4) for _ in range(70)]
        await held.reached(64)
        await asyncio.sleep(0.1)
        assert len(held.calls) == 64
        for call in held.calls[:3]:
            call.answer(answer())
        await held.reached(67)
        for call in held.calls[3:]:
            call.answer(answer())
        await held.reached(70)
        for call in held.calls:
            call.answer(answer())
        assert (await kafka.answer(numbers[-1])).error_code == 0


async def test_a_throttled_client_is_answered_at_once_and_then_not_read(served):
    """KIP-219."""

    def throttled(_service: KafkaService, call: Call) -> None:
        call.throttle(700)
        call.answer(answer())

    served.serve(INIT, throttled)
    loop = asyncio.get_running_loop()
    async with connected(served.address) as kafka:
        first, second = kafka.send(ASKED, 4), kafka.send(ApiVersionsRequest(), 0)
        assert (await kafka.answer(first)).throttle_time_ms == 700
        answered = loop.time()
        await kafka.answer(second)
        assert loop.time() - answered > 0.5
        number = kafka.send(ApiVersionsRequest(), 0)
        await kafka.answer(number)
        assert loop.time() - answered < 30


async def test_a_long_request_goes_in_steps_and_others_have_their_turn(served):
    order = []

    def long(_service: KafkaService, call: Call) -> Any:
        for step in range(50):
            order.append(step)
            yield
        call.answer(answer())

    def short(_service: KafkaService, call: Call) -> None:
        order.append("short")
        call.answer(answer())

    served.serve(INIT, long)
    served.serve(CREATE_TOPICS, short)
    async with connected(served.address) as kafka, connected(served.address) as other:
        assert (await other.ask(ApiVersionsRequest(), 0)).error_code == 0
        first, second = kafka.send(ASKED, 4), kafka.send(ApiVersionsRequest(), 0)
        other.send(CreateTopicsRequest(), 5)
        await kafka.answer(first)
        await kafka.answer(second)
    assert 0 < order.index("short") < 50 or order[0] == "short"
    assert [step for step in order if step != "short"] == list(range(50))


async def test_requests_that_wait_have_little_time_together_in_a_turn_of_the_loop(served):
    taken = []

    def slow(_service: KafkaService, call: Call) -> None:
        time.sleep(TURN_S)
        taken.append(call)
        call.answer(answer())

    served.serve(INIT, slow)
    async with contextlib.AsyncExitStack() as stack:
        clients = [await stack.enter_async_context(connected(served.address)) for _ in range(6)]
        for client in clients:
            client.writer.write(struct.pack(">ihhihhi", 16, INIT, 0, 0, -1, -1, 0) * 20)
        await until(lambda: len({call.connection for call in taken}) == len(clients))
        await asyncio.sleep(0)
        turns = []
        while len(taken) < 100:
            before = len(taken)
            await asyncio.sleep(0)
            turns.append(len(taken) - before)
        assert sorted(turns)[len(turns) // 2] <= 2, turns
        await until(lambda: len(taken) == 120)


async def test_connections_of_both_protocols_share_the_places_of_a_host(tmp_path, monkeypatch):
    monkeypatch.setattr(server_module, "MAX_CONNECTIONS", 3)
    async with (
        serving(tmp_path, limits=ConnectionLimits(per_host=2)) as served,
        channel_to(served.address) as channel,
        connected(served.address) as kafka,
    ):
        assert await ask(channel, "a") == ["a"]
        assert (await kafka.ask(ApiVersionsRequest(), 0)).error_code == 0
        async with connected(served.address) as third:
            third.send(ApiVersionsRequest(), 0)
            assert await third.rest() == b""
        assert (await kafka.ask(ApiVersionsRequest(), 0)).error_code == 0


async def test_who_asks_nothing_for_long_is_closed_and_who_waits_for_an_answer_is_not(tmp_path, monkeypatch):
    monkeypatch.setattr(server_module, "SWEEP_S", 0.1)
    held = Held()
    async with serving(tmp_path, limits=ConnectionLimits(idle_ms=1000)) as served:
        served.serve(INIT, held.serve)
        async with connected(served.address) as waits, connected(served.address) as idle:
            number = waits.send(ASKED, 4)
            await idle.ask(ApiVersionsRequest(), 0)
            assert await idle.rest() == b""
            held.calls[0].answer(answer(3))
            assert (await waits.answer(number)).producer_id == 3


# -- the end


async def test_what_is_under_way_ends_with_the_connection(served):
    closed, gone, held = [], [], Held()

    class Kept:
        def close(self) -> None:
            closed.append(self)

    def keeps(_service: KafkaService, call: Call) -> None:
        call.connection.kept["session"] = Kept()
        call.answer(bytes(8 * MIB), lambda: gone.append("large"))

    served.serve(INIT, held.run)
    served.serve(CREATE_TOPICS, keeps)
    async with connected(served.address) as kafka:
        for _ in range(3):
            kafka.send(ASKED, 4)
        kafka.send(CreateTopicsRequest(), 5)
        await held.reached(3)
        await until(lambda: len(gone) < 1)
        assert not closed
    await until(lambda: held.cancelled == 3)
    assert (len(closed), gone) == (1, ["large"])
    held.calls[0].answer(answer(), lambda: gone.append("late"))
    assert gone == ["large", "late"], "memory is given back, though nobody is there"


async def test_a_server_that_stops_answers_what_is_under_way_and_reads_no_more(tmp_path):
    held = Held()
    async with serving(tmp_path) as served:
        served.serve(INIT, held.serve)
        async with connected(served.address) as kafka:
            number = kafka.send(ASKED, 4)
            await held.reached(1)
            stopping = asyncio.create_task(served.server.stop(S))
            await asyncio.sleep(0.1)
            kafka.send(ASKED, 4)
            await asyncio.sleep(0.1)
            assert (len(held.calls), stopping.done()) == (1, False)
            held.calls[0].answer(answer(9))
            assert (await kafka.answer(number)).producer_id == 9
            await stopping
            assert await kafka.rest() == b""
            assert len(held.calls) == 1


# -- what a connection costs


async def test_an_idle_connection_takes_4_kib_at_most(served):
    host, port = served.address.split(":")
    question = struct.pack(">ihhih", 10, API_VERSIONS, 0, 0, -1)

    def connect(count: int) -> list[socket.socket]:
        clients = []
        for _ in range(count):
            client = socket.create_connection((host, int(port)))
            client.sendall(question)
            assert client.recv(1000)
            clients.append(client)
        return clients

    clients = await asyncio.to_thread(connect, 30)
    gc.collect()
    tracemalloc.start()
    try:
        clients += await asyncio.to_thread(connect, 100)
        await asyncio.sleep(0.05)
        gc.collect()
        assert tracemalloc.get_traced_memory()[0] <= 100 * 4096, "the client's socket included"
    finally:
        tracemalloc.stop()
        for client in clients:
            client.close()
    await until(lambda: not served.server.connections)


async def test_a_client_whose_machine_has_vanished_loses_its_place_in_a_minute(served):
    """The kernel asks, and gives up; both protocols have the same sockets."""
    async with connected(served.address) as kafka:
        await kafka.ask(ApiVersionsRequest(), 0)
        (connection,) = served.server._connections
        taken = connection._transport.get_extra_info("socket")
        options = (socket.TCP_USER_TIMEOUT, socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL)
        assert [taken.getsockopt(socket.IPPROTO_TCP, option) for option in options] == [60_000, 30, 10]
        assert taken.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
