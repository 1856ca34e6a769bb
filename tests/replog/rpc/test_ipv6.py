"""An address of IPv6, in brackets, is listened at and reached like any other."""

import socket

import pytest

from replog.rpc import methods
from tests.replog.rpc.handlers import Handlers, ask, channel_to


async def test_a_server_at_an_ipv6_address_is_reached(transport):
    with socket.socket(socket.AF_INET6) as probe:
        try:
            probe.bind(("::1", 0))
        except OSError as error:
            pytest.skip(f"no IPv6 here: {error}")
    server = transport.listen("[::1]:0")
    handlers = Handlers()
    server.add(methods.LOG, handlers)
    address = await server.start()
    assert address.startswith("[::1]:")
    try:
        assert not await transport.is_refused(address, 60.0)
        async with channel_to(address, transport) as channel:
            assert await ask(channel, "a") == ["a"]
        assert [peer.host for peer in handlers.peers] == ["::1"]
    finally:
        await server.stop(0)
    assert await transport.is_refused(address, 60.0)
