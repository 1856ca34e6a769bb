"""Asks a host itself if a process listens at an address, because gRPC has one code for all failures."""

import asyncio
import socket

from replog.config.listeners import parse_address
from replog.rpc.names import look_up


async def is_refused(address: str, timeout_s: float) -> bool:
    """Return True if the host says that nobody listens there. Without an answer, such a host or a way there: False.

    A name with several addresses is refused when each of them is."""
    host, port = parse_address(address)
    try:
        async with asyncio.timeout(timeout_s):
            places = await look_up(host, port, socket.AI_ADDRCONFIG)
            for family, kind, protocol, _, place in places:
                if not await _refuses(socket.socket(family, kind, protocol), place):
                    return False
    except (TimeoutError, OSError, UnicodeError):
        return False
    return bool(places)


async def _refuses(connection: socket.socket, place: tuple[object, ...]) -> bool:
    with connection:
        connection.setblocking(False)
        try:
            await asyncio.get_running_loop().sock_connect(connection, place)
        except ConnectionRefusedError:
            return True
        return False
