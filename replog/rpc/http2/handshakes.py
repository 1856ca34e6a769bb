"""TLS handshakes of one server that have not ended: how many, and for how long; and what its log says of bad ones."""

import asyncio
import logging
from typing import Protocol

from replog.rpc.limits import HANDSHAKE_S, MAX_HANDSHAKES
from replog.rpc.tls import Tls

logger = logging.getLogger(__name__)

LINES_A_SECOND = 10  # of the log; the others are counted


class Refusals:
    """What a server's log says of connections that it refuses; a flood of them does not fill a disk."""

    def __init__(self) -> None:
        self._second = self._lines = self._unsaid = 0

    def say(self, who: str, why: str) -> None:
        second = int(asyncio.get_running_loop().time())
        if second != self._second:
            self._second, self._lines = second, 0
        if self._lines == LINES_A_SECOND:
            self._unsaid += 1
            return
        self._lines += 1
        unsaid = f" ({self._unsaid} more were refused since the last line)" if self._unsaid else ""
        self._unsaid = 0
        logger.warning("refused a connection of %s: %s%s", who, why, unsaid)


class Shaking(Protocol):
    """A connection in its handshake."""

    def give_up_handshake(self, why: str) -> None: ...


class Handshakes:
    def __init__(self, tls: Tls) -> None:
        self.tls = tls
        self._under_way: dict[Shaking, asyncio.TimerHandle] = {}  # the oldest first

    def begin(self, wire: Shaking) -> None:
        """The one that waits longest gives way: then who comes now has time to end it, however many others never do."""
        self.tls.look_soon()
        loop = asyncio.get_running_loop()
        self._under_way[wire] = loop.call_later(
            HANDSHAKE_S, wire.give_up_handshake, f"its TLS handshake did not end within {HANDSHAKE_S:g} s"
        )
        if len(self._under_way) > MAX_HANDSHAKES:
            next(iter(self._under_way)).give_up_handshake(f"{MAX_HANDSHAKES} younger TLS handshakes are under way")

    def end(self, wire: Shaking) -> None:
        """It is done, or its connection is gone."""
        if (timer := self._under_way.pop(wire, None)) is not None:
            timer.cancel()
