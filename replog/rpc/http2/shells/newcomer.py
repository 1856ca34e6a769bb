"""A connection whose first bytes will say what it speaks. In plaintext that is the first byte: a request of Kafka's
begins with its size, at most 100 MiB. In TLS it is what the client offers in its handshake: gRPC's always offer h2."""

import asyncio
import ssl
from collections.abc import Callable
from typing import cast

from replog.rpc.http2.shells.accepted import SILENCE_S, Accepted, Shared
from replog.rpc.http2.shells.tls_layer import HELLO, TlsLayer
from replog.rpc.peer import Role, anonymous

KAFKAS = range(7)  # the first byte of a size of at most 100 MiB

Successor = Callable[[Accepted], Accepted]


class Newcomer(Accepted):
    def __init__(self, shared: Shared, grpc: Successor | None, kafka: Successor | None) -> None:
        """At least one of both may be spoken."""
        super().__init__("the client", SILENCE_S, shared.reads)
        self.shared = shared
        self._grpc, self._kafka = grpc, kafka
        self._handshakes = shared.handshakes
        self._sealed = shared.handshakes is not None
        self._flight = b""  # the handshake's bytes, until it is its turn

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        host, port, *_ = transport.get_extra_info("peername") or ("", 0)  # none if it has already gone
        self.asks = anonymous(host, Role.ANY if self._handshakes is None else Role.CLIENT)
        self.place_of_peer = f"{host}:{port}"
        self.idle_since = asyncio.get_running_loop().time()
        if self.shared.takes(self):
            super().connection_made(transport)
            if self._handshakes is not None:
                self._handshakes.begin(self)
        else:
            self.lost = True
            cast(asyncio.Transport, transport).abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self._handshake_is_over()
        super().connection_lost(exc)

    def dismiss(self, why: str) -> None:
        self.why = why
        self.abort()

    # -- in plaintext

    def buffer_updated(self, nbytes: int) -> None:
        if self.lost or self._sealed:
            super().buffer_updated(nbytes)
        else:
            wanted = self._kafka if self._reads.room[0] in KAFKAS else self._grpc
            self._becomes(wanted).buffer_updated(nbytes)

    def _becomes(self, wanted: Successor | None) -> Accepted:
        """Return the connection that goes on; the other protocol says best what is wrong with this one."""
        successor = wanted or self._grpc or self._kafka
        assert successor is not None
        return successor(self)

    # -- TLS

    def _unseal(self, data: memoryview, now_ms: int) -> None:
        assert self._handshakes is not None
        self._flight = bytes(data)
        if not self._handshakes.go_on(self):
            self._transport.pause_reading()

    def go_on_handshake(self) -> None:
        flight, self._flight = memoryview(self._flight), b""
        self._transport.resume_reading()  # it may be paused
        super()._unseal(flight, int(self._loop.time() * 1000))

    def new_tls_layer(self, data: memoryview) -> TlsLayer | None:
        assert self._handshakes is not None
        if data[0] == HELLO:
            self.authorities = self._handshakes.tls.material.authorities
            return TlsLayer(self._handshakes.tls.server, None)
        self.give_up_handshake(f"it speaks no TLS, and began with {bytes(data[:24])!r}; set its security.protocol=SSL")
        return None

    def on_open(self, tls_layer: TlsLayer) -> Accepted:
        assert self._handshakes is not None
        self._handshake_is_over()
        try:
            if (uris := tls_layer.uris()) is not None:
                self.asks = self._handshakes.tls.accepted(uris, self.asks.host)
        except ValueError as error:
            self.log_refusal(str(error))
            self.unauthenticated = str(error)
        return self._becomes(self._grpc if tls_layer.offers_h2 else self._kafka)

    def on_unsafe(self, error: ssl.SSLError) -> None:
        self._handshake_is_over()
        super().on_unsafe(error)

    def give_up_handshake(self, why: str) -> None:
        self._handshake_is_over()
        self.log_refusal(why)
        self.why = why
        self.abort()

    def _handshake_is_over(self) -> None:
        if self._handshakes is not None:
            self._handshakes.end(self)
