"""A client's connection on a server, whatever it speaks: its peer, its place among others, the end of its trust."""

import asyncio
import ssl
from collections.abc import Callable, Iterable
from typing import NamedTuple

from replog.errors import ReplogError
from replog.rpc.http2.shells.handshakes import Handshakes, Refusals
from replog.rpc.http2.shells.reads import Reads
from replog.rpc.http2.shells.socket_shell import SocketShell
from replog.rpc.http2.shells.tls_layer import explained
from replog.rpc.http2.shells.unread import Unread
from replog.rpc.peer import Peer

SILENCE_S = 30.0  # the silence before a ping


class Shared(NamedTuple):
    """The things that the connections of one server share."""

    reads: Reads
    unread: Unread
    takes: Callable[["Accepted"], bool]  # True if there is a place for one more connection
    changes: Callable[["Accepted", "Accepted"], None]  # the second goes on in the place of the first
    on_closed: Callable[["Accepted"], None]
    on_drained: Callable[[], None]  # nothing is left of what came before `drain`, or the connection is lost
    refusals: Refusals
    handshakes: Handshakes | None  # if there are, the peer has to speak TLS


class Accepted(SocketShell):
    shared: Shared
    asks: Peer
    place_of_peer = ""  # the other end's address and port
    idle_since: float  # the loop's time, s, if nothing is under way
    unauthenticated = ""  # the reason why its certificate counts for nothing
    authorities = frozenset[bytes]()  # trusted when its handshake began

    def succeed(self, other: "Accepted") -> None:
        """Go on in the place of another one."""
        self.shared, self.asks, self.place_of_peer = other.shared, other.asks, other.place_of_peer
        self.unauthenticated, self.authorities = other.unauthenticated, other.authorities
        self.idle_since = other.idle_since
        self.shared.changes(other, self)
        self.take_over(other)

    def connection_lost(self, exc: Exception | None) -> None:
        self.shared.on_closed(self)
        super().connection_lost(exc)

    def buffer_updated(self, nbytes: int) -> None:
        if not self.lost:
            super().buffer_updated(nbytes)
            self.shared.unread.count(nbytes)

    def on_unsafe(self, error: ssl.SSLError) -> None:
        self.why = explained(error, None)
        self.log_refusal(self.why)

    @property
    def is_believed(self) -> bool:
        """True if every authority that may have issued its certificate is still trusted."""
        handshakes = self.shared.handshakes
        return handshakes is None or self.authorities <= handshakes.tls.material.authorities

    def log_refusal(self, why: str) -> None:
        self.shared.refusals.log(self.place_of_peer, why)

    # -- each kind of connection says how

    def drain(self) -> None:
        """Take nothing new; what is under way goes on."""

    @property
    def busy(self) -> bool:
        """True while something is under way that began before `drain`."""
        return False

    def tasks(self) -> list[asyncio.Task[None]]:
        """Return the handlers that run."""
        return []

    def dismiss(self, why: str) -> None:
        """End all that is under way, and close."""
        raise NotImplementedError

    @property
    def held(self) -> int:
        """The bytes of messages that are incomplete, or that no handler has taken."""
        return 0

    def holdings(self) -> Iterable[tuple[int, int, int]]:
        """Return what holds them: number, bytes, since when."""
        return ()

    def refuse(self, stream_id: int, error: ReplogError) -> None:
        """Drop what such a number holds."""
