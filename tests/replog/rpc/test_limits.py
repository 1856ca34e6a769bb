"""Every method has room of its own on a server, and a request a size; reaching either is an answer."""

import asyncio
import contextlib
import gc
import sys
import tracemalloc
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest
from google.protobuf.descriptor import ServiceDescriptor

from replog.errors import ErrorCode, ReplogError
from replog.rpc import limits, methods, serving
from replog.rpc.codec import RecordsDecoder, WithRecords, encode_with_records
from replog.rpc.limits import MAX_BATCHES_PER_REQUEST
from replog.rpc.peer import Peer, Role
from replog.rpc.serving import decoded
from replog.rpc.transport import Channel
from replog.rpc.v1 import controller_pb2, log_pb2
from tests.replog.rpc import handlers

SERVICES: list[ServiceDescriptor] = [
    methods.LOG,
    methods.REPLICA,
    methods.INSPECTION,
    methods.LOG_DIRS,
    methods.CONTROLLER,
    methods.PRESENCE,
]
S = 60.0
ANN, BOB, CARL = (Peer(f"User:{name}", Role.CLIENT, "h") for name in ("ann", "bob", "carl"))


class Controller:
    """Watches that say nothing; everything else is answered at once."""

    async def watch_metadata(self, _request: object) -> AsyncIterator[object]:
        await asyncio.Event().wait()
        yield controller_pb2.MetadataDelta()

    async def heartbeat(self, _request: object) -> object:
        return controller_pb2.HeartbeatResponse()

    def __getattr__(self, name: str) -> object:
        return self.heartbeat


@contextlib.asynccontextmanager
async def served(by: object, service: ServiceDescriptor) -> AsyncIterator[Channel]:
    async with handlers.serving(by, service) as address, handlers.channel_to(address) as channel:
        yield channel


async def test_idle_streams_beyond_their_limit_are_refused_and_leave_heartbeats_alone(monkeypatch):
    watch, beat, sitting = methods.Controller["watch_metadata"], methods.Controller["heartbeat"], []
    monkeypatch.setitem(limits.RULES, "Controller/WatchMetadata", (replace(watch.limit, calls=3), watch.access))

    async def sit(channel: Channel) -> None:
        async for _ in channel.watch(watch, controller_pb2.WatchMetadataRequest()):
            raise AssertionError("nothing was to be said")

    async with served(Controller(), methods.CONTROLLER) as broker:
        for _ in range(3):
            sitting.append(asyncio.create_task(sit(broker)))
            await broker.call(beat, controller_pb2.HeartbeatRequest(), S)
        refused = await handlers.error_of(sit(broker))
        assert (refused.code, refused.retriable) == (ErrorCode.THROTTLING_QUOTA_EXCEEDED, True)
        await broker.call(beat, controller_pb2.HeartbeatRequest(), S)
        assert not any(task.done() for task in sitting)
        for task in sitting:
            task.cancel()
        await asyncio.gather(*sitting, return_exceptions=True)


async def test_who_has_most_calls_gives_its_newest_to_who_has_two_less():
    room, ended, codes = serving.Gate("/x/y", limits.Limit(4, 1)), [], set()

    async def call(asks: Peer, name: str) -> None:
        try:
            with room.place(asks):
                await asyncio.Event().wait()
        except ReplogError as error:
            ended.append(name)
            codes.add(error.code)

    async def begin(asks: Peer, name: str) -> "asyncio.Task[None]":
        task = asyncio.create_task(call(asks, name))
        for _ in range(3):
            await asyncio.sleep(0)
        return task

    tasks = [await begin(ANN, f"ann {number}") for number in range(6)]
    assert ended == ["ann 4", "ann 5"], "alone she has all, and no more"
    tasks += [await begin(BOB, "bob 0"), await begin(BOB, "bob 1")]
    assert ended[2:] == ["ann 3", "ann 2"]
    tasks.append(await begin(BOB, "bob 2"))
    assert ended[4:] == ["bob 2"], "each has two"
    tasks += [await begin(CARL, "carl 0"), await begin(CARL, "carl 1")]
    assert ended[5:] == ["ann 1", "carl 1"]
    assert codes == {ErrorCode.THROTTLING_QUOTA_EXCEEDED}
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert len(room._calls) == 0


async def test_a_call_whose_request_does_not_come_gives_its_place_back(monkeypatch):
    monkeypatch.setattr(serving, "REQUEST_TIMEOUT_S", 0.1)
    async with served(Controller(), methods.CONTROLLER) as channel:
        stream = channel.open(methods.Controller["heartbeat"])
        with pytest.raises(ReplogError, match="no request came"):
            await stream.receive(S)


def test_a_request_beyond_its_size_is_refused_before_it_is_parsed():
    for method in methods.Controller.values():
        with pytest.raises(ReplogError, match="names too much") as raised:
            method.decode_request(b"\x0a\x00" * (method.limit.request_bytes // 2 + 1))
        assert raised.value.code is ErrorCode.INVALID_REQUEST


def raw(method: methods.Method) -> methods.Method:
    """Sends bytes as they are."""
    return replace(method, encode_request=lambda data: data)


def test_partitions_beyond_the_limit_are_counted_before_the_head_is_parsed():
    decode = methods.Log["produce"].decode_request
    partition = log_pb2.ProducePartition(topic="t", partition=1, records_size=1)
    most = log_pb2.ProduceRequest(partitions=[partition] * MAX_BATCHES_PER_REQUEST, acks=-1, timeout_ms=9)
    decoded = decode(encode_with_records(WithRecords(most, (b"x" * (60 << 20),))))
    assert len(decoded.head.partitions) == MAX_BATCHES_PER_REQUEST
    for empty in (b"\x22\x00" * 2_000_000, b"\x22\x00" * 20_000 + b"\x7a\x01x", b"\x7a\x01x" + b"\x22\x00" * 20_000):
        with pytest.raises(ReplogError, match="names too much"):
            decode(empty)
    large = b"\x22" + b"\x80\x80\x80\x02" + bytes(4 << 20)  # one partition of 4 MiB
    for data in (large, large + b"\x7a\x01x", b"\x7a\x01x" + large):
        with pytest.raises(ReplogError, match="names too much"):
            decode(data)


def test_a_refusal_does_not_keep_the_message_that_is_refused():
    message = b"\x22\x00" * 2_000_000
    refusal = decoded(methods.Log["produce"].decode_request, message)
    assert "names too much" in str(refusal)
    assert sys.getrefcount(message) == 2, "somebody besides this test has it"  # the name here, and the argument


async def test_who_names_too_much_hears_so_late_and_the_message_is_let_go_before(monkeypatch):
    """Not when garbage is collected: some of the largest would be there at a time."""
    size, sleep, held = 4 << 20, asyncio.sleep, list[int]()

    async def noted(seconds: float) -> None:
        if seconds == serving.REFUSED_S:
            held.append(tracemalloc.get_traced_memory()[0])
        await sleep(seconds)

    monkeypatch.setattr(asyncio, "sleep", noted)
    message = b"\x22\x00" * (size // 2)
    async with served(handlers.Handlers(), methods.LOG) as channel:
        gc.disable()
        try:
            for name in ("get_metadata", "produce", "fetch"):  # a call, a stream that is received, and one handled
                for _ in range(3):
                    stream, begun_s = channel.open(raw(methods.Log[name])), asyncio.get_running_loop().time()
                    tracemalloc.start()
                    await stream.send(message)
                    with pytest.raises(ReplogError, match="names too much"):
                        await stream.receive(S)
                    held.append(tracemalloc.get_traced_memory()[0])
                    tracemalloc.stop()
                    assert asyncio.get_running_loop().time() - begun_s >= serving.REFUSED_S, name
        finally:
            gc.enable()
    assert len(held) == 2 * 9, "each was refused late"
    assert max(held) < size, held


def test_answers_have_no_such_limit():
    partitions = [log_pb2.FetchPartitionResult(partition=number) for number in range(20_000)]
    data = encode_with_records(WithRecords(log_pb2.FetchResponse(partitions=partitions), (b"x",)))
    assert len(RecordsDecoder(log_pb2.FetchResponse)(data).head.partitions) == 20_000
    assert len(methods.Log["fetch"].decode_response(data).head.partitions) == 20_000
