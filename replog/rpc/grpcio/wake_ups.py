"""Lets gRPC's thread wake the event loop once for a burst of events.

For each event that thread writes a byte into a socket. The loop reads one byte and takes all events, and is then woken
again for every other byte, with nothing left to do. When some 280 bytes are unread, the thread waits at each write
until the loop has read one; events after a burst wait as many rounds."""

import asyncio
import fcntl
import socket
import struct
import termios
from collections.abc import Callable
from typing import Any

import grpc.aio

_COUNT = struct.Struct("i")


def take_together() -> None:
    """Call it in the running loop, before it uses gRPC, and when no other loop of this process does.

    A later gRPC writes once only, not into a socket, and is left alone."""
    loop = asyncio.get_running_loop()
    add_reader = loop.add_reader

    def add(reading: Any, handle: Callable[[], object]) -> None:
        if isinstance(reading, socket.socket):
            add_reader(reading, _take, reading, handle)
        else:
            add_reader(reading, handle)

    loop.add_reader = add  # type: ignore[method-assign, assignment]  # gRPC names its socket nowhere else
    try:
        grpc.aio.init_grpc_aio()
    finally:
        del loop.add_reader


def _take(reading: socket.socket, handle: Callable[[], object]) -> None:
    """Read all bytes but one, then call `handle`, which reads one itself, and fails without. Every byte comes after its
    event, so `handle` finds the events of all bytes read here."""
    if (waiting := unread(reading)) > 1:
        reading.recv(waiting - 1)
    handle()


def unread(reading: socket.socket) -> int:
    (count,) = _COUNT.unpack(fcntl.ioctl(reading, termios.FIONREAD, bytes(_COUNT.size)))
    return int(count)
