"""Finds loopback ports for a local cluster."""

import os
import random
import socket
from collections import deque
from collections.abc import Iterable

HOST = "127.0.0.1"

# Below the usual range for outgoing connections (32768 and up), otherwise a peer that tries to reach a broker that is
# down might get the broker's own port as its source, and the broker could not start again.
FIRST, LAST = 15_000, 32_000
_ATTEMPTS = 200

# Descriptors of sockets that are bound and never listen. They reserve ports, in all processes, until their servers
# listen and while these are down. The servers can bind them, since both allow the address's reuse.
_RESERVED: deque[int] = deque()
_MOST_RESERVED = 256


def is_free(port: int) -> bool:
    """Return True if a server could listen on `port` now."""
    try:
        socket.create_server((HOST, port)).close()
    except OSError:
        return False
    return True


def free_port(taken: Iterable[int]) -> int:
    """Return a free port that is not in `taken`. It stays reserved for its server until this process ends, or has
    reserved many more. Raises OSError if none is found."""
    rng, excluded = random.SystemRandom(), set(taken)
    for _ in range(_ATTEMPTS):
        port = rng.randint(FIRST, LAST)
        if port not in excluded and reserve(port):
            return port
    raise OSError(f"no free port found on {HOST} between {FIRST} and {LAST} after {_ATTEMPTS} attempts")


def reserve(port: int) -> bool:
    """Return True if `port` is free; it stays reserved like that of `free_port`."""
    reservation = socket.socket()
    try:
        reservation.bind((HOST, port))  # reuse is allowed only later, otherwise two reservations could share a port
    except OSError:
        reservation.close()
        return False
    reservation.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    _RESERVED.append(reservation.detach())
    if len(_RESERVED) > _MOST_RESERVED:
        os.close(_RESERVED.popleft())
    return True
