"""Bounds the unfinished TLS handshakes of one server: how many, for how long, and their share of the event loop's time.
Also bounds the log of bad ones."""

import asyncio
import logging
import time
from collections.abc import Callable
from typing import Protocol

from replog.rpc.fair_queue import FairQueue
from replog.rpc.limits import HANDSHAKE_S, MAX_HANDSHAKES
from replog.rpc.peer import Peer
from replog.rpc.tls import Tls

logger = logging.getLogger(__name__)

SHARE = 0.25  # the part of the event loop's time for handshakes: each costs about 1 ms of it
BURST_S = 0.005  # they may take so much at once
LINES_A_SECOND = 10  # the log's; others are counted


class Refusals:
    """Logs the connections that a server refuses; a flood of them does not fill a disk."""

    def __init__(self) -> None:
        self._second = self._lines = self._unlogged = 0

    def log(self, who: str, why: str) -> None:
        second = int(asyncio.get_running_loop().time())
        if second != self._second:
            self._second, self._lines = second, 0
        if self._lines == LINES_A_SECOND:
            self._unlogged += 1
            return
        self._lines += 1
        more = f" ({self._unlogged} more were refused since the last line)" if self._unlogged else ""
        self._unlogged = 0
        logger.warning("refused a connection of %s: %s%s", who, why, more)


class Shaking(Protocol):
    """A connection in its handshake."""

    asks: Peer

    def go_on_handshake(self) -> None:
        """Continue with what has arrived."""

    def give_up_handshake(self, why: str) -> None: ...


class Handshakes:
    """Runs handshakes. When they want more time than they have, hosts take turns, and those of a host go one after the
    other. So a flood of them holds up neither calls nor, for long, handshakes of other hosts."""

    def __init__(self, tls: Tls, cpu_s: Callable[[], float] = time.thread_time) -> None:
        self.tls = tls
        self._under_way: dict[Shaking, asyncio.TimerHandle] = {}  # the oldest first
        self._waiting = FairQueue[str, Shaking]()
        self._timer: asyncio.TimerHandle | None = None  # set while some wait
        self._cpu_s = cpu_s
        self._left_s, self._as_of = BURST_S, 0.0  # the time that they may take now, by the loop's clock

    def begin(self, connection: Shaking) -> None:
        """Begin a handshake. Beyond the limit the oldest gives way, so that many silent ones do not keep others out."""
        self.tls.look_soon()
        loop = asyncio.get_running_loop()
        self._under_way[connection] = loop.call_later(
            HANDSHAKE_S, connection.give_up_handshake, f"its TLS handshake did not end within {HANDSHAKE_S:g} s"
        )
        if len(self._under_way) > MAX_HANDSHAKES:
            next(iter(self._under_way)).give_up_handshake(f"{MAX_HANDSHAKES} younger TLS handshakes are under way")

    def go_on(self, connection: Shaking) -> bool:
        """Continue a handshake whose peer has sent something, and return True; or False if others wait or have had
        their share. Then `go_on_handshake` is called later, if the handshake is not over by then."""
        if not self._waiting and self._has_time():
            self._step(connection)
            return True
        self._waiting.add(connection.asks.host, connection)
        self._wait()
        return False

    def _has_time(self) -> bool:
        now = asyncio.get_running_loop().time()
        self._left_s = min(BURST_S, self._left_s + (now - self._as_of) * SHARE)
        self._as_of = now
        return self._left_s > 0

    def _step(self, connection: Shaking) -> None:
        begun = self._cpu_s()
        connection.go_on_handshake()
        self._left_s -= self._cpu_s() - begun

    def _wait(self) -> None:
        if self._timer is None:  # else peers that hang up while they wait would leave many
            self._timer = asyncio.get_running_loop().call_later(max(0.0, -self._left_s / SHARE), self._next)

    def _next(self) -> None:
        self._timer = None
        while self._waiting and self._has_time():
            self._step(self._waiting.take())
        if self._waiting:
            self._wait()

    def end(self, connection: Shaking) -> None:
        """The handshake is done, or its connection is gone."""
        if (timer := self._under_way.pop(connection, None)) is not None:
            timer.cancel()
        self._waiting.remove(connection.asks.host, connection)
