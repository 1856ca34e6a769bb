"""The HTTP server that answers `GET /metrics`, in threads of its own: slow clients do not hold the event loop.

The event loop collects the metrics, in slices; a thread writes them down."""

import asyncio
import contextlib
import socket
import threading
from collections.abc import Awaitable, Callable, Iterator
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, HTTPServer
from socketserver import TCPServer, ThreadingMixIn
from types import SimpleNamespace
from typing import Any, cast

from prometheus_client.core import Metric
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

from replog.config.listeners import is_loopback, parse_address
from replog.errors import ErrorCode, ReplogError
from replog.rpc.peer import Peer, Role, anonymous
from replog.rpc.tls import Tls

AT_ONCE = 8  # requests; more are closed
REQUEST_S = 10.0  # then a request is cut off
Families = Callable[[Peer], Awaitable[list[Metric]]]


class MetricsEndpoint:
    def __init__(self, address: str, families: Families, tls: Tls | None, *, allow_plaintext: bool) -> None:
        """`families` returns the metrics for a peer; it raises a ReplogError for one that may not see them."""
        self._address = address
        self._families = families
        self._tls = tls
        self._allow_plaintext = allow_plaintext
        self._server: _Server | None = None

    async def start(self) -> str:
        """Listen, and return the address bound. Raises INVALID_CONFIG."""
        host, port = parse_address(self._address)
        if self._tls is None and not is_loopback(host) and not self._allow_plaintext:
            raise self._wrong("others than this machine reach it; set security.protocol=SSL, or allow.plaintext=true")
        loop = asyncio.get_running_loop()

        def written(asks: Peer) -> bytes:
            asked = asyncio.run_coroutine_threadsafe(cast(Any, self._families(asks)), loop)
            collected = asked.result(REQUEST_S)
            return generate_latest(cast(Any, SimpleNamespace(collect=lambda: collected)))

        try:
            self._server = _Server(host.strip("[]"), port, written, self._tls)
        except OSError as error:
            raise self._wrong(f"{error.strerror}; each process of a host needs a port of its own") from None
        threading.Thread(target=self._server.serve_forever, name="metrics", daemon=True).start()
        return f"{host}:{self._server.server_address[1]}"

    def _wrong(self, why: str) -> ReplogError:
        return ErrorCode.INVALID_CONFIG.error(f"metrics.listener={self._address}: {why}")

    async def stop(self) -> None:
        if self._server is not None:
            await asyncio.to_thread(self._server.shutdown)
            self._server.server_close()


class _Server(ThreadingMixIn, HTTPServer):
    daemon_threads = True
    block_on_close = False

    def __init__(self, host: str, port: int, written: Callable[[Peer], bytes], tls: Tls | None) -> None:
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        super().__init__((host, port), BaseHTTPRequestHandler)
        self.written = written
        self._tls = tls
        self._places = threading.BoundedSemaphore(AT_ONCE)

    def server_bind(self) -> None:
        TCPServer.server_bind(self)  # HTTPServer's would also look up this machine's name, which may take seconds

    def process_request(self, request: Any, client_address: Any) -> None:
        if self._places.acquire(blocking=False):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._places.release()

    def finish_request(self, request: Any, client_address: Any) -> None:
        host = client_address[0]
        if self._tls is None:
            with _in_time(request):
                _Handler(request, client_address, self, anonymous(host))
            return
        self._tls.look()
        context = self._tls.server
        secured = context.wrap_socket(request, server_side=True, do_handshake_on_connect=False)
        with secured, _in_time(secured):
            secured.do_handshake()
            certificate: Any = secured.getpeercert() or {}
            uris = [value for kind, value in certificate.get("subjectAltName", ()) if kind == "URI"]
            asks = self._tls.accepted(uris, host) if certificate else anonymous(host, Role.CLIENT)
            _Handler(secured, client_address, self, asks)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Log nothing of a client that breaks off, or is refused by TLS."""


@contextlib.contextmanager
def _in_time(connection: socket.socket) -> Iterator[None]:
    """Cut the connection off if the context takes longer than `REQUEST_S`, a TLS handshake included."""
    too_late = threading.Timer(REQUEST_S, _cut, (connection,))
    too_late.daemon = True
    too_late.start()
    try:
        yield
    finally:
        too_late.cancel()


def _cut(connection: socket.socket) -> None:
    with contextlib.suppress(OSError):
        socket.socket.shutdown(connection, socket.SHUT_RDWR)  # TLS's own would change state that another thread uses


class _Handler(BaseHTTPRequestHandler):
    timeout = REQUEST_S
    server: _Server

    def __init__(self, request: socket.socket, client_address: Any, server: _Server, asks: Peer) -> None:
        self._asks = asks
        super().__init__(request, client_address, server)

    def do_GET(self) -> None:
        if self.path.partition("?")[0] != "/metrics":
            self.send_error(HTTPStatus.NOT_FOUND, "look at /metrics")
            return
        try:
            text = self.server.written(self._asks)
        except ReplogError as error:
            self.send_error(HTTPStatus.FORBIDDEN, explain=str(error))
            return
        except TimeoutError:
            self.send_error(HTTPStatus.SERVICE_UNAVAILABLE, explain="the event loop is busy; try again")
            return
        self.send_response(HTTPStatus.OK)
        self.send_header("Content-Type", CONTENT_TYPE_LATEST)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def version_string(self) -> str:
        return "replog"

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing: Prometheus asks every few seconds."""
