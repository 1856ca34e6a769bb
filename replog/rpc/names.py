"""Where a host's name leads.

Threads of their own ask: those of the event loop wait for disks, and one that hangs may take them all. Even then a
broker must reach its controller.
"""

import asyncio
import socket
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from ipaddress import ip_address
from typing import Any

AT_ONCE = 4  # a further one waits

_asking = ThreadPoolExecutor(AT_ONCE, "names")


async def look_up(host: str, port: int, flags: int = 0) -> list[tuple[Any, ...]]:
    """As `getaddrinfo`. Raises OSError, UnicodeError."""
    host = host.strip("[]")
    ask = partial(socket.getaddrinfo, host, port, type=socket.SOCK_STREAM, flags=flags)
    try:
        ip_address(host)
    except ValueError:
        return await asyncio.get_running_loop().run_in_executor(_asking, ask)
    return ask()  # which leads to itself
