"""Clients that ask for much and take nothing, for `benchmarks/attacks.py` and tests/replog/processes/test_attacks.py.

An attack is a context manager: inside of it the attack is under way.

`python -m benchmarks.attackers NAME ADDRESS` is a separate process (`Beside`) that begins an attack when
ordered, answers once it is under way, and ends it when stdin ends.
"""

import asyncio
import contextlib
import os
import ssl
import struct
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple, Self

from h2.connection import H2Connection
from h2.events import ConnectionTerminated, ResponseReceived, StreamReset
from h2.exceptions import ProtocolError

from benchmarks.harness import Figures, answer_orders
from benchmarks.peers.peer import CONTROLLER, broker_name
from replog.client import Admin, Producer
from replog.client.records import encode_batch
from replog.config.listeners import parse_address
from replog.errors import DENIALS, ReplogError
from replog.kafka.frames import API_VERSIONS
from replog.rpc.codec import WithRecords
from replog.rpc.grpcio.channel import CHANNEL_OPTIONS, ENDED_EARLY, GrpcChannel
from replog.rpc.limits import LIMITS, MAX_REQUEST_BYTES, MAX_STREAMS, MAX_UNREAD_BYTES, MIB
from replog.rpc.methods import Controller, Inspection, Log, Method, Replica
from replog.rpc.tls import Tls
from replog.rpc.transport import Stream
from replog.rpc.transports import client_tls
from replog.rpc.v1 import inspection_pb2, log_pb2
from replog.server.broker.disks.inspection_service import PIECE_BYTES
from replog.server.process import raise_limit

VICTIM = 1  # the broker that has the topics
BULK, PACKED = "bulk", "packed"
STORED = 60 * MIB  # bytes of BULK, more than any answer may hold
PACKED_PARTITIONS = 100  # each has one batch
EXPANDED = 250 * MIB  # the uncompressed size of that batch
CALL_S = 120.0
AT_ONCE = 100  # streams that are opened before the server has a turn

ANSWERS = 64 * MIB  # queued.max.response.bytes
COPIES = 3  # copies of an answer under way: as read, as one message, and in gRPC's buffers
SLACK = 96 * MIB  # caches, fragments, and the needs of other producers
CLIENTS = {Log["produce"]: b"\x22\x00", Log["fetch"]: b"\x32\x00"}  # the shortest partition in a request
FOLLOWERS = {Replica["fetch"]: b"\x32\x00"}
CONTROLLERS = {
    Controller["alter_partition"]: b"\x1a\x00",
    Controller["elect_leaders"]: b"\x1a\x00",
    Controller["alter_partition_reassignments"]: b"\x0a\x00",
}
UNREAD_BUDGET = COPIES * ANSWERS + SLACK
UNFINISHED_BUDGET = MAX_UNREAD_BYTES + SLACK
READERS_BUDGET = LIMITS["Inspection/ReadFile"].calls * COPIES * PIECE_BYTES + SLACK
REFUSALS = (ConnectionTerminated, ResponseReceived, StreamReset)  # any answer to an unfinished call refuses it
FRAME = 16_384  # bytes of a frame that every server accepts
STREAM = 1


async def prepare(bootstrap: str, expanded: int = EXPANDED) -> None:
    """Create and fill the topics that attackers ask for, on one broker."""
    async with Admin(bootstrap) as admin:
        await admin.create_topic(BULK, assignment=[(VICTIM,)])
        await admin.create_topic(PACKED, assignment=[(VICTIM,)] * PACKED_PARTITIONS)
        described = await admin.describe_cluster()
    async with Producer(bootstrap) as producer:
        value = bytes(250_000)
        for _ in range(STORED // len(value)):
            await producer.send(BULK, value)
    (address,) = (broker.address for broker in described.brokers if broker.broker_id == VICTIM)
    records = await asyncio.to_thread(packed, expanded)
    async with asyncio.timeout(CALL_S), _connected(address) as channel:
        for number in range(PACKED_PARTITIONS):
            partition = log_pb2.ProducePartition(topic=PACKED, partition=number, records_size=len(records))
            head = log_pb2.ProduceRequest(acks=-1, timeout_ms=30_000, partitions=[partition])
            stored = WithRecords(head, (records,))
            while (await channel.call(Log["produce_once"], stored, CALL_S)).answers[0].partitions[0].error_code:
                await asyncio.sleep(0.05)  # the broker does not know the partition yet


def packed(size: int) -> bytes:
    """Return a small gzip batch of two records, the first of `size` bytes, at times 1000 and 1001."""
    return bytes(encode_batch([(1000, None, bytes(size), ()), (1001, None, b"late", ())], "gzip"))


def bulk_request(max_wait_ms: int = 0, min_bytes: int = 1) -> log_pb2.FetchRequest:
    partition = log_pb2.FetchPartition(topic=BULK, partition=0, fetch_offset=0, partition_max_bytes=STORED)
    return log_pb2.FetchRequest(max_wait_ms=max_wait_ms, min_bytes=min_bytes, max_bytes=STORED, partitions=[partition])


# -- attacks that hold on


class UnfinishedMessage:
    """One call of `path` whose request has `size` bytes, of which the last is never sent."""

    def __init__(self, address: str, path: str, size: int) -> None:
        self._address = address
        self._path = path
        self._size = size
        self._h2 = H2Connection()
        self._opened = asyncio.Event()
        self.refused = False  # True also if the connection has ended

    async def __aenter__(self) -> Self:
        host, _, port = self._address.rpartition(":")
        tls = client_tls()
        self._reader, self._writer = await asyncio.open_connection(host, int(port), ssl=tls and tls.material.client)
        self._h2.initiate_connection()
        headers = {":method": "POST", ":scheme": "http", ":path": self._path, ":authority": self._address}
        headers |= {"te": "trailers", "content-type": "application/grpc"}
        self._h2.send_headers(STREAM, list(headers.items()))
        self._writer.write(self._h2.data_to_send())
        self._listening = asyncio.create_task(self._listen())
        return self

    async def __aexit__(self, *_: object) -> None:
        self._listening.cancel()
        await asyncio.gather(self._listening, return_exceptions=True)
        self._writer.close()
        with contextlib.suppress(OSError):
            await self._writer.wait_closed()

    async def send_all_but_the_end(self) -> None:
        """Send as fast as the server accepts it; return early if it refuses."""
        frames = [struct.pack(">BI", 0, self._size), *[bytes(FRAME)] * ((self._size - 1) // FRAME)]
        with contextlib.suppress(OSError):
            for data in frames:
                while not self.refused and self._h2.local_flow_control_window(STREAM) < len(data):
                    self._opened.clear()
                    await self._opened.wait()
                if self.refused:
                    return
                self._h2.send_data(STREAM, data)
                self._writer.write(self._h2.data_to_send())
                await self._writer.drain()

    async def _listen(self) -> None:
        with contextlib.suppress(OSError, ProtocolError):
            while data := await self._reader.read(1 << 16):
                events = self._h2.receive_data(data)
                self._writer.write(self._h2.data_to_send())
                self._opened.set()
                if any(isinstance(event, REFUSALS) for event in events):
                    break
        self.refused = True
        self._opened.set()


@contextlib.asynccontextmanager
async def unfinished(address: str, path: str, messages: int, size: int) -> AsyncIterator[list[UnfinishedMessage]]:
    """Send messages without their last bytes, each on its own connection."""
    async with contextlib.AsyncExitStack() as stack:
        opened = [await stack.enter_async_context(UnfinishedMessage(address, path, size)) for _ in range(messages)]
        await asyncio.gather(*(message.send_all_but_the_end() for message in opened))
        yield opened


class DeafChannel(GrpcChannel):
    """A channel that receives 64 KiB a stream ahead of its reader; other channels receive `WINDOW`."""

    OPTIONS = (*CHANNEL_OPTIONS, ("grpc.http2.lookahead_bytes", 64 << 10))


@contextlib.asynccontextmanager
async def unread(
    address: str, method: Method, streams: int, connections: int, requests: Iterable[object] = ()
) -> AsyncIterator[list[Stream]]:
    """Open streams that ask and do not read."""
    channels = [DeafChannel(address, client_tls()) for _ in range(connections)]
    opened: list[Stream] = []
    try:
        for number in range(streams):
            opened.append(channels[number % connections].open(method))
            if number % AT_ONCE == 0:
                await asyncio.sleep(0.05)
        for stream in opened:
            with contextlib.suppress(ReplogError):  # the server may have refused it
                for request in requests:
                    await stream.send(request)
        yield opened
    finally:
        for stream in opened:
            stream.cancel()
        for channel in channels:
            await channel.close()


def fetch_streams(address: str, streams: int) -> AbstractAsyncContextManager[list[Stream]]:
    """Open fetch streams, each on its own connection, with five requests for everything."""
    return unread(address, Log["fetch"], streams, streams, [bulk_request()] * 5)


def single_fetches(address: str, calls: int) -> AbstractAsyncContextManager[list[Stream]]:
    return unread(address, Log["fetch_once"], calls, calls, [bulk_request()])


def parked_fetches(address: str, fetches: int) -> AbstractAsyncContextManager[list[Stream]]:
    """Park fetches on one stream, which all wake together."""
    return unread(address, Log["fetch"], 1, 1, [bulk_request(max_wait_ms=2000, min_bytes=STORED * 2)] * fetches)


def file_readers(address: str, streams: int) -> AbstractAsyncContextManager[list[Stream]]:
    request = inspection_pb2.ReadFileRequest(topic=BULK)
    return unread(address, Inspection["read_file"], streams, -(-streams // 200), [request])


def idle_streams(address: str, streams: int) -> AbstractAsyncContextManager[list[Stream]]:
    """Open streams that send nothing, at a controller."""
    return unread(address, Controller["watch_metadata"], streams, -(-streams // MAX_STREAMS))


def unfinished_messages(address: str, messages: int) -> AbstractAsyncContextManager[list[UnfinishedMessage]]:
    return unfinished(address, Log["produce"].path, messages, MAX_REQUEST_BYTES)


# -- attacks that ask again and again


Asking = Callable[[str, int], AbstractAsyncContextManager[None]]


def again(ask: Callable[[str, int], Awaitable[object]]) -> Asking:
    """Return an attack that asks again and again."""

    @contextlib.asynccontextmanager
    async def attack(address: str, size: int) -> AsyncIterator[None]:
        async def repeat() -> None:
            while True:
                await ask(address, size)

        repeating = asyncio.create_task(repeat())
        try:
            yield
            if repeating.done():
                repeating.result()
        finally:
            repeating.cancel()
            await asyncio.gather(repeating, return_exceptions=True)

    return attack


async def ask_for_empty_partitions(address: str, asked: Mapping[Method, bytes], size: int) -> None:
    """Send each method a request of `size` bytes of empty partitions. Raises AssertionError if it is answered."""
    async with _connected(address) as channel:
        for method, partition in asked.items():
            stream = channel.open(replace(method, encode_request=lambda data: data))
            with contextlib.suppress(ReplogError):
                await stream.send(partition * (size // len(partition)))
            try:
                await stream.receive(CALL_S)
            except ReplogError as refused:
                if "names too much" in str(refused) or refused.code in DENIALS or ENDED_EARLY in refused.message:
                    continue
                raise
            raise AssertionError(f"{method.path} with {size // len(partition)} partitions was answered")


def empty_partitions(asked: Mapping[Method, bytes]) -> Asking:
    return again(lambda address, size: ask_for_empty_partitions(address, asked, size))


async def look_up(address: str, partitions: int) -> list[log_pb2.ListOffsetsPartitionResult]:
    """Look up offsets by time in that many of the batches that expand."""
    named = [log_pb2.ListOffsetsPartition(topic=PACKED, partition=n, timestamp=1001) for n in range(partitions)]
    async with _connected(address) as channel:
        request = log_pb2.ListOffsetsRequest(partitions=named)
        return list((await channel.call(Log["list_offsets"], request, CALL_S)).partitions)


async def connect_and_leave(address: str, connections: int) -> None:
    """Open and close many connections at once; over TLS, each after its whole handshake."""
    host, port = parse_address(address)
    tls = client_tls()

    async def once() -> None:
        with contextlib.suppress(OSError):
            context = None if tls is None else tls.material.client
            _, writer = await asyncio.open_connection(host, port, ssl=context)
            writer.transport.abort()

    await asyncio.gather(*(once() for _ in range(connections)))


@contextlib.asynccontextmanager
async def silent_connections(address: str, connections: int) -> AsyncIterator[None]:
    """Open connections that send nothing; over TLS, their handshakes never end."""
    host, port = parse_address(address)
    async with contextlib.AsyncExitStack() as stack:
        for number in range(connections):
            with contextlib.suppress(OSError):
                _, writer = await asyncio.open_connection(host, port)
                stack.callback(writer.transport.abort)
            if number % AT_ONCE == 0:
                await asyncio.sleep(0.01)
        yield


@contextlib.asynccontextmanager
async def kafka_connections(address: str, connections: int) -> AsyncIterator[None]:
    """Open connections of Kafka's clients: some ask and read nothing, others send a frame that never ends."""
    host, port = parse_address(address)
    question = struct.pack(">ihhih", 10, API_VERSIONS, 0, 0, -1)
    endless = struct.pack(">ihh", MAX_REQUEST_BYTES, 0, 9) + bytes(MIB)
    async with contextlib.AsyncExitStack() as stack:
        for number in range(connections):
            with contextlib.suppress(OSError):
                _, writer = await asyncio.open_connection(host, port, limit=1, ssl=_kafka_tls(client_tls()))
                stack.callback(writer.transport.abort)
                writer.write(question * 10_000 if number % 2 else endless)
        yield


def _kafka_tls(tls: Tls | None) -> ssl.SSLContext | None:
    """Return the TLS of a client that offers no HTTP/2."""
    if tls is None:
        return None
    context = ssl.create_default_context(cadata=tls.material.roots.decode())
    if tls.files.keystore is not None:
        context.load_cert_chain(tls.files.keystore)
    return context


@contextlib.asynccontextmanager
async def _connected(address: str) -> AsyncIterator[GrpcChannel]:
    channel = GrpcChannel(address, client_tls())
    try:
        yield channel
    finally:
        await channel.close()


class Attack(NamedTuple):
    title: str
    run: Callable[[str, int], AbstractAsyncContextManager[object]]  # takes the address, and how many or how much
    size: int
    budget: int  # bytes by which the attacked process may grow
    at: str = broker_name(VICTIM)


ATTACKS = {
    "streams": Attack("12 fetch streams that read nothing", fetch_streams, 12, UNREAD_BUDGET),
    "calls": Attack("24 single fetches that nobody reads", single_fetches, 24, UNREAD_BUDGET),
    "parked": Attack("64 parked fetches on one stream", parked_fetches, 64, UNREAD_BUDGET),
    "readers": Attack("1,000 readers of 60 MiB that do not read", fetch_streams, 1000, UNREAD_BUDGET),
    "unfinished": Attack("30 messages that never end", unfinished_messages, 30, UNFINISHED_BUDGET),
    "files": Attack("3,000 ReadFile streams", file_readers, 3000, READERS_BUDGET),
    "look-up": Attack("look-ups by time in a batch of 250 MiB", again(look_up), 1, SLACK),
    "look-ups": Attack("… in 100 of them with one request", again(look_up), 100, SLACK),
    "partitions": Attack("two million empty partitions in 4 MiB", empty_partitions(CLIENTS), 4 * MIB, SLACK),
    "followed": Attack("four million in 8 MiB, of a follower", empty_partitions(FOLLOWERS), 8 * MIB, SLACK),
    "decided": Attack("… of the controller", empty_partitions(CONTROLLERS), 8 * MIB, SLACK, CONTROLLER),
    "connections": Attack("connections made and left", again(connect_and_leave), AT_ONCE, SLACK),
    "silent": Attack("10,000 connections that say nothing", silent_connections, 10_000, SLACK),
    "kafka": Attack("1,000 Kafka clients that read nothing, or never end", kafka_connections, 1000, UNFINISHED_BUDGET),
    "idle": Attack("10,000 idle streams at the controller", idle_streams, 10_000, SLACK, CONTROLLER),
}


async def main(name: str, address: str) -> None:
    raise_limit()
    async with contextlib.AsyncExitStack() as attack:

        async def begin() -> Figures:
            await attack.enter_async_context(ATTACKS[name].run(address, ATTACKS[name].size))
            return {}

        await answer_orders(begin=begin)


def use_idle_cpu_only() -> None:
    os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    with contextlib.suppress(OSError):  # Linux may schedule sessions against each other, too
        os.setsid()
        Path("/proc/self/autogroup").write_text("19")


if __name__ == "__main__":
    use_idle_cpu_only()
    asyncio.run(main(*sys.argv[1:]))
