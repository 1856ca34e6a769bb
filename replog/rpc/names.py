"""Looks up hosts' names.

It has its own threads: those of the event loop wait for disks, and one disk that hangs may take them all. Even then a
broker must reach its controller."""

import asyncio
import logging
import socket
from collections.abc import Iterable
from functools import partial
from ipaddress import ip_address
from typing import Any

from replog.config.listeners import Listener, parse_address
from replog.errors import ReplogError
from replog.rpc.tasks import Daemons

logger = logging.getLogger(__name__)

AT_ONCE = 4  # further look-ups wait
ANSWER_S = 10.0
UNKNOWN = "its name does not resolve"

_asking = Daemons(AT_ONCE)


async def look_up(host: str, port: int, flags: int = 0) -> list[tuple[Any, ...]]:
    """Look a host up as `getaddrinfo` does. Raises OSError, UnicodeError."""
    host = host.strip("[]")
    ask = partial(socket.getaddrinfo, host, port, type=socket.SOCK_STREAM, flags=flags)
    try:
        ip_address(host)
    except ValueError:
        return await _asking.do(ask)
    return ask()  # an address leads to itself, without a wait


def unless_unknown(question: str, errors: Iterable[ReplogError]) -> str:
    """Return the question that ends a sentence, or nothing if no host's name resolved: it is answered then."""
    return "" if all(UNKNOWN in error.message for error in errors) else f"; {question}?"


async def warn_of_unknown(listeners: Iterable[Listener]) -> None:
    """Log a line for each advertised name that this host does not resolve. It may be right: others may resolve it.

    Names are asked one after the other, so no more than one thread waits for a silent name server."""
    for address in (listener.advertised for listener in listeners if listener.advertised):
        try:
            async with asyncio.timeout(ANSWER_S):
                await look_up(*parse_address(address))
        except (OSError, UnicodeError) as error:
            reason = str(error) or f"no answer within {ANSWER_S:.0f} s"
            logger.warning("advertised.listeners: %s does not resolve on this host: %s; do others?", address, reason)
