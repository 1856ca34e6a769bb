"""Who refuses, and who is only silent; on real sockets."""

import asyncio
import contextlib
import socket

from replog.rpc.transports import H2Transport

is_refused = H2Transport().is_refused


def a_listener(backlog: int = 16) -> socket.socket:
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen(backlog)
    return listener


def address_of(listener: socket.socket) -> str:
    return f"127.0.0.1:{listener.getsockname()[1]}"


async def test_an_address_where_nobody_listens_any_more_is_refused():
    listener = a_listener()
    address = address_of(listener)
    assert not await is_refused(address, 60)
    listener.close()
    assert await is_refused(address, 60)


async def test_a_name_is_refused_if_nobody_listens_at_any_of_its_addresses():
    with a_listener() as listener:
        port = listener.getsockname()[1]
        assert not await is_refused(f"localhost:{port}", 60)
    assert await is_refused(f"localhost:{port}", 60)


async def test_silence_is_no_refusal():
    with a_listener(backlog=0) as full, contextlib.ExitStack() as waiting:
        for _ in range(4):  # more than it takes
            client = waiting.enter_context(socket.socket())
            client.setblocking(False)
            client.connect_ex(full.getsockname())
        begun = asyncio.get_running_loop().time()
        assert not await is_refused(address_of(full), 0.3)
        assert asyncio.get_running_loop().time() - begun >= 0.25, "it gave no answer"


async def test_a_name_that_cannot_be_one_is_no_refusal():
    assert not await is_refused(f"{'x' * 70}.example:9092", 60)
