"""A broker whose stream is lost is asked for, on real connections; its session would last for ten minutes."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator

import pytest

from replog.errors import ErrorCode
from replog.metadata.values import proof
from replog.rpc import methods
from replog.rpc.transports import H2Transport
from replog.rpc.v1 import controller_pb2 as pb
from replog.rpc.v1 import presence_pb2
from replog.server.broker.identity import Identity, PresenceService
from replog.server.controller import inquiries, watchers

INCARNATION, OTHER = b"a" * 16, b"o" * 16


@contextlib.asynccontextmanager
async def listening(incarnation: bytes = INCARNATION, broker_id: int = 1) -> AsyncIterator[str]:
    server = H2Transport().listen("127.0.0.1:0")
    server.add(methods.PRESENCE, PresenceService(Identity(broker_id, incarnation)))
    yield await server.start()
    await server.stop(0)


class Watching:
    """The controller with one broker on it, registered, unfenced and following."""

    def __init__(self, running, address):
        self.running = running
        self.address = address
        self.broker_id = 1

    async def begin(self):
        self.epoch = await self.running.register(1, INCARNATION, self.address)
        await self.running.heartbeat(1)
        assert not self.fenced
        self.stream = await self.follow()
        return self

    async def follow(self):
        request = pb.WatchMetadataRequest(broker_id=1, incarnation_id=INCARNATION)
        stream = self.running.service.watch_metadata(request)
        await asyncio.wait_for(anext(stream), 60)
        return stream

    @property
    def fenced(self):
        return self.running.image.brokers[1].fenced

    async def inquired(self):
        """Until nothing is asked any more."""
        async with asyncio.timeout(60):
            await asyncio.gather(*self.running.controller._inquiries._running.values())


@pytest.fixture
async def nowhere():
    """An address that refuses connections."""
    async with listening() as address:
        pass
    return address


@pytest.fixture
def watching(running):
    @contextlib.asynccontextmanager
    async def start(address):
        async with running(broker_session_timeout_ms=600_000) as r:
            yield await Watching(r, address).begin()

    return start


async def test_ct_21_a_broker_whose_address_refuses_is_fenced_and_its_successor_may_register_at_once(watching, nowhere):
    """CT-21. After a false alarm its next heartbeat brings it back."""
    async with watching(nowhere) as broker:
        await broker.stream.aclose()
        await broker.inquired()
        assert broker.fenced
        assert not (await broker.running.heartbeat(1)).is_fenced
        again = await broker.follow()
        await again.aclose()
        await broker.inquired()
        assert broker.fenced
        assert await broker.running.register(1, OTHER) > broker.epoch


@pytest.mark.parametrize(("incarnation", "broker_id"), [(OTHER, 1), (INCARNATION, 2)])
async def test_ct_21_a_broker_in_whose_place_another_process_answers_is_fenced(watching, incarnation, broker_id):
    """CT-21: also one that has not registered yet."""
    async with listening(incarnation, broker_id) as address, watching(address) as broker:
        await broker.stream.aclose()
        await broker.inquired()
        assert broker.fenced


async def test_ct_21_a_broker_that_was_there_once_is_asked_for_again_when_its_next_stream_is_lost(watching):
    """CT-21: what it said once is no answer to the next question."""
    server = H2Transport().listen("127.0.0.1:0")
    server.add(methods.PRESENCE, PresenceService(Identity(1, INCARNATION)))
    async with watching(await server.start()) as broker:
        await broker.stream.aclose()
        await broker.inquired()
        assert not broker.fenced
        again = await broker.follow()
        await server.stop(0)
        await again.aclose()
        await broker.inquired()
        assert broker.fenced


async def test_ct_21_silence_means_nothing(watching, monkeypatch):
    """CT-21: a process that is paused, say."""
    monkeypatch.setattr(inquiries, "PATIENCE_S", 0.1)
    monkeypatch.setattr(inquiries, "ASKED_AFTER_S", (0.0, 0.01))
    with socket.socket() as mute:
        mute.bind(("127.0.0.1", 0))
        mute.listen()
        async with watching(f"127.0.0.1:{mute.getsockname()[1]}") as broker:
            await broker.stream.aclose()
            await broker.inquired()
            assert not broker.fenced


async def test_ct_21_a_process_that_still_closes_what_it_had_open_is_asked_for_again(watching):
    """CT-21: its port was open a moment longer than its stream."""
    with socket.socket() as closing:
        closing.bind(("127.0.0.1", 0))
        closing.listen()
        async with watching(f"127.0.0.1:{closing.getsockname()[1]}") as broker:
            await broker.stream.aclose()
            connection, _ = await asyncio.to_thread(closing.accept)
            closing.close()
            connection.close()
            await broker.inquired()
            assert broker.fenced


async def test_a_broker_that_has_opened_another_stream_is_not_asked_for_and_has_one_only(watching, nowhere):
    async with watching(nowhere) as broker:
        newer = await broker.follow()
        with pytest.raises(StopAsyncIteration):
            while True:
                await asyncio.wait_for(anext(broker.stream), 60)
        assert not broker.running.controller._inquiries._running
        assert not broker.fenced
        await newer.aclose()
        await broker.inquired()
        assert broker.fenced


async def test_a_registered_broker_finds_room_to_follow_when_strangers_take_all_there_is(
    watching, refused, monkeypatch
):
    monkeypatch.setattr(watchers, "MAX_WATCHERS", 1)
    async with watching("127.0.0.1:1") as broker, broker.running.watch() as stranger, broker.running.watch() as another:
        await stranger()
        with refused(ErrorCode.BROKER_NOT_AVAILABLE, "1 watch already"):
            await another()
        again = await broker.follow()
        await again.aclose()


async def test_ct_1_a_second_registration_has_the_first_process_asked_and_succeeds_if_that_is_gone(
    running, refused, nowhere
):
    """CT-1, CT-21: no stream of the first one was ever lost: it had none."""
    async with running(broker_session_timeout_ms=600_000) as r:
        first = await r.register(1, INCARNATION, nowhere)
        with refused(ErrorCode.DUPLICATE_BROKER_REGISTRATION, "broker 1", nowhere, "asked whether it is gone"):
            await r.register(1, OTHER, "elsewhere:1")
        async with asyncio.timeout(60):
            await asyncio.gather(*r.controller._inquiries._running.values())
        assert await r.register(1, OTHER, "elsewhere:1") > first


@pytest.mark.parametrize("follows", [True, False])
async def test_ct_1_a_second_registration_is_refused_while_the_first_process_is_there(watching, refused, follows):
    """CT-1, CT-21: however often it tries."""
    async with listening() as address, watching(address) as broker:
        if not follows:
            await broker.stream.aclose()
        for _ in range(3):
            with refused(ErrorCode.DUPLICATE_BROKER_REGISTRATION, "broker 1"):
                await broker.running.register(1, OTHER, "elsewhere:1")
            await broker.inquired()
        assert not broker.fenced
        assert broker.running.image.brokers[1].address == address


async def test_ct_21_a_process_proves_that_it_knows_its_incarnation_and_nobody_learns_it(refused):
    """CT-21: an answer that was heard once is none to the next question."""
    service = PresenceService(Identity(3, INCARNATION))
    first, second = [await service.are_you(presence_pb2.AreYouRequest(nonce=n * 16)) for n in (b"1", b"2")]
    assert first.proof == proof(INCARNATION, 3, b"1" * 16) != second.proof
    assert first.proof not in (proof(OTHER, 3, b"1" * 16), proof(INCARNATION, 4, b"1" * 16))
    assert INCARNATION not in first.SerializeToString()
    with refused(ErrorCode.INVALID_REQUEST, "a nonce of 3 bytes", "16"):
        await service.are_you(presence_pb2.AreYouRequest(nonce=b"abc"))


async def test_ct_21_who_listens_at_the_address_of_a_broker_does_not_hear_its_incarnation_id(watching):
    """CT-21: and to say yes does not help it."""

    class Impostor:
        def __init__(self) -> None:
            self.heard: list[presence_pb2.AreYouRequest] = []

        async def are_you(self, request: presence_pb2.AreYouRequest) -> presence_pb2.AreYouResponse:
            self.heard.append(request)
            return presence_pb2.AreYouResponse(yes=True)

    impostor, server = Impostor(), H2Transport().listen("127.0.0.1:0")
    server.add(methods.PRESENCE, impostor)
    async with watching(await server.start()) as broker:
        await broker.stream.aclose()
        await broker.inquired()
        assert broker.fenced
    await server.stop(0)
    assert [INCARNATION in request.SerializeToString() for request in impostor.heard] == [False]
