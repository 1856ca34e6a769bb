"""The console's process: its port, its certificates, its end."""

import asyncio
import contextlib
import logging
import signal
import ssl
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import uvicorn

from replog.client.admin import Admin
from replog.config.listeners import is_loopback, parse_address
from replog.console.app import LOCAL, console_app
from replog.console.board import Board
from replog.console.watcher import Watcher
from replog.errors import ErrorCode
from replog.rpc.tls import LOOK_S, stamps_of
from replog.rpc.transports import client_tls

logger = logging.getLogger(__name__)


TIMEOUT_MS = 5000  # one request to the cluster
CONNECTIONS = 300
STOP_S = 2  # otherwise it would not stop while a stream is open


class Certificates:
    """Two PEM files: the key and chain that browsers are shown, and the authorities of browsers that are let in.

    A new connection uses what the files hold now. A file that cannot be used changes nothing."""

    def __init__(self, keystore: Path, truststore: Path) -> None:
        """Raises INVALID_CONFIG that names the file."""
        self._keystore, self._truststore = keystore, truststore
        self._stamps = stamps_of(self._keystore, self._truststore)
        try:
            self._now = self._read()
        except (OSError, ssl.SSLError) as error:
            raise ErrorCode.INVALID_CONFIG.error(
                f"--keystore {keystore}, with the authorities of {truststore}: {error}"
            ) from None
        self._looked = time.monotonic()

    def context(self) -> ssl.SSLContext:
        """Return a server's context. It is replaced by the newest before a connection is shown a certificate."""
        self._now.sni_callback = self._choose
        return self._now

    def _choose(self, connection: ssl.SSLObject, _name: str | None, _first: ssl.SSLContext) -> None:
        self._look()
        connection.context = self._now

    def _look(self) -> None:
        if time.monotonic() - self._looked < LOOK_S:
            return
        self._looked = time.monotonic()
        try:
            if (stamps := stamps_of(self._keystore, self._truststore)) != self._stamps:
                self._now, self._stamps = self._read(), stamps
                logger.info("TLS: new certificates from %s and %s are in use", self._keystore, self._truststore)
        except (OSError, ssl.SSLError) as error:
            logger.warning("TLS: the certificates from before stay in use: %s: %s", self._keystore, error)

    def _read(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.verify_mode = ssl.CERT_REQUIRED
        context.num_tickets = 0  # otherwise a resumed session would not be asked for a certificate again
        context.options |= ssl.OP_NO_TICKET | ssl.OP_NO_RENEGOTIATION
        context.load_verify_locations(self._truststore)
        context.load_cert_chain(self._keystore)
        return context


class _Server(uvicorn.Server):
    """Leaves signals alone: uvicorn would raise them once more when it has stopped."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def serve(bootstrap: str, listener: str, keystore: Path | None, audit: Path | None) -> None:
    """Serve until SIGINT or SIGTERM. Raises INVALID_CONFIG."""
    try:
        host, port = parse_address(listener)
    except ValueError as error:
        raise ErrorCode.INVALID_CONFIG.error(f"--listener {error}") from None
    shown = certificates(host, listener, keystore)

    async def run() -> None:
        async with watching(bootstrap, audit) as watcher:
            server = http_server(watcher, host, port, shown)
            for number in (signal.SIGINT, signal.SIGTERM):
                asyncio.get_running_loop().add_signal_handler(number, setattr, server, "should_exit", True)
            await server.serve()

    asyncio.run(run())


def http_server(watcher: Watcher, host: str, port: int, shown: Certificates | None) -> uvicorn.Server:
    """Return a server that does not run yet."""
    config = uvicorn.Config(
        console_app(watcher, None if shown else LOCAL | {host.lower()}),
        host=host.strip("[]"),
        port=port,
        log_config=None,
        access_log=False,
        server_header=False,
        ws="none",
        lifespan="off",
        proxy_headers=False,
        limit_concurrency=CONNECTIONS,
        timeout_graceful_shutdown=STOP_S,
        ssl_context_factory=(lambda *_: shown.context()) if shown else None,
    )
    return _Server(config)


@contextlib.asynccontextmanager
async def watching(bootstrap: str, audit: Path | None = None) -> AsyncIterator[Watcher]:
    async with Admin(bootstrap, timeout_ms=TIMEOUT_MS) as admin:
        watcher = Watcher(admin, Board(), audit)
        running = asyncio.create_task(watcher.run())
        try:
            yield watcher
        finally:
            running.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await running


def certificates(host: str, listener: str, keystore: Path | None) -> Certificates | None:
    """Return the certificates; None without TLS, for this machine alone. Raises INVALID_CONFIG."""
    if keystore is None:
        if is_loopback(host):
            return None
        raise ErrorCode.INVALID_CONFIG.error(
            f"--listener {listener}: others than this machine may reach it; give --keystore FILE, the key and the "
            "certificate that browsers are shown (docs/operations.md), or listen on 127.0.0.1"
        )
    cluster = client_tls()
    if cluster is None:
        raise ErrorCode.INVALID_CONFIG.error(
            "--keystore: only certificates of the cluster's authority are let in, and REPLOG_CLIENT_CONFIG names no "
            "file with security.protocol=SSL and ssl.truststore.location (docs/security.md)"
        )
    return Certificates(keystore, cluster.files.truststore)
