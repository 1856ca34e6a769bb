"""The two transports over sockets, the choice of one for a process's calls, and its TLS.

The setting `rpc.transport`, or the environment, names it. Both speak gRPC, so each talks to the other, and to any
client."""

import asyncio
import os
import socket
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar

from replog.config.listeners import Listener, is_loopback, parse_address
from replog.config.processes import ClientSecurity, ServerConfig
from replog.config.properties import load_settings
from replog.errors import ErrorCode
from replog.rpc.grpcio.channel import GrpcChannel
from replog.rpc.grpcio.server import GrpcServer
from replog.rpc.http2.shells.channel import H2Channel
from replog.rpc.http2.shells.server import H2Server
from replog.rpc.limits import DEFAULT_LIMITS, ConnectionLimits
from replog.rpc.names import look_up
from replog.rpc.peer import Role
from replog.rpc.tls import Tls, TlsFiles
from replog.rpc.transport import Channel, Server, Transport

PathLike = str | Path | None
VARIABLE = "REPLOG_RPC_TRANSPORT"
CLIENT_CONFIG = "REPLOG_CLIENT_CONFIG"  # a file of `ClientSecurity`
DEFAULT = "h2"


class SocketTransport:
    """`replog.rpc.transport.Transport` by a kind of channel and a kind of server."""

    channel: ClassVar[type[Any]]
    server: ClassVar[type[Any]]

    def __init__(self, tls: Tls | None = None, limits: ConnectionLimits = DEFAULT_LIMITS) -> None:
        """`limits` are the servers'; gRPC's own do not count by host."""
        self.tls = tls
        self._limits = limits

    def connect(self, address: str) -> Channel:
        channel: Channel = self.channel(address, self.tls)
        return channel

    def listen(self, address: str) -> Server:
        server: Server = self.server(address, self.tls, self._limits)
        return server

    async def is_refused(self, address: str, timeout_s: float) -> bool:
        """Ask the host itself, because gRPC has one code for all failures. A name with several addresses is refused
        when each of them is."""
        host, port = parse_address(address)
        try:
            async with asyncio.timeout(timeout_s):
                places = await look_up(host, port, socket.AI_ADDRCONFIG)
                for place in places:
                    if not await _refuses(*place):
                        return False
        except (TimeoutError, OSError, UnicodeError):
            return False
        return bool(places)


async def _refuses(family: int, kind: int, protocol: int, _: str, place: tuple[object, ...]) -> bool:
    with socket.socket(family, kind, protocol) as connection:
        connection.setblocking(False)
        try:
            await asyncio.get_running_loop().sock_connect(connection, place)
        except ConnectionRefusedError:
            return True
        return False


class H2Transport(SocketTransport):
    channel, server = H2Channel, H2Server


class GrpcTransport(SocketTransport):
    channel, server = GrpcChannel, GrpcServer


TRANSPORTS: dict[str, type[SocketTransport]] = {"grpcio": GrpcTransport, "h2": H2Transport}


def transport_named(name: str = "", tls: Tls | None = None, connections: ServerConfig | None = None) -> Transport:
    """Return `grpcio` or `h2`; without a name, the one that the variable names. `connections` bounds those to its
    servers.

    Raises INVALID_CONFIG for another name there."""
    name = name or os.environ.get(VARIABLE, "") or DEFAULT
    if name not in TRANSPORTS:
        raise ErrorCode.INVALID_CONFIG.error(f"{VARIABLE}={name!r}: choose {' or '.join(TRANSPORTS)}")
    if connections is None:
        return TRANSPORTS[name](tls)
    limits = ConnectionLimits(connections.max_connections_per_ip, connections.connections_max_idle_ms)
    return TRANSPORTS[name](tls, limits)


def client_transport(ssl_truststore_location: PathLike = None, ssl_keystore_location: PathLike = None) -> Transport:
    """Return a transport with these files for TLS; without any, as the file in `REPLOG_CLIENT_CONFIG` says.

    Raises INVALID_CONFIG."""
    if ssl_truststore_location is ssl_keystore_location is None:
        return transport_named(tls=client_tls())
    files = {"ssl.truststore.location": ssl_truststore_location, "ssl.keystore.location": ssl_keystore_location}
    given = {name: str(path) for name, path in files.items() if path is not None}
    return transport_named(tls=client_tls_of({"security.protocol": "SSL", **given}, "the client"))


def client_tls(path: str = "") -> Tls | None:
    """Return the TLS of a file of `ClientSecurity`: by default the variable's. Raises INVALID_CONFIG."""
    path = path or os.environ.get(CLIENT_CONFIG, "")
    return _client_tls(path) if path else None


def tls_of(settings: Mapping[str, str], source: str) -> Tls | None:
    """Return the TLS of a client that shows the certificate of a process with these settings. Raises INVALID_CONFIG."""
    own = {field.alias for field in ClientSecurity.model_fields.values()}
    config = ClientSecurity.parse({name: value for name, value in settings.items() if name in own}, source)
    return None if config.security_protocol == "PLAINTEXT" else _tls(config, None)


@lru_cache(maxsize=100)
def _client_tls(path: str) -> Tls | None:
    return client_tls_of(load_settings(Path(path)), path)


def client_tls_of(properties: Mapping[str, str], source: str) -> Tls | None:
    """Return the TLS of settings of `ClientSecurity`, which `source` has. Raises INVALID_CONFIG."""
    config = ClientSecurity.parse(properties, source)
    if config.security_protocol == "PLAINTEXT" and (config.ssl_keystore_location or config.ssl_truststore_location):
        raise ErrorCode.INVALID_CONFIG.error(
            f"{source} names a keystore or a truststore, and security.protocol is PLAINTEXT, which uses neither; add "
            "security.protocol=SSL, or leave them out"
        )
    return None if config.security_protocol == "PLAINTEXT" else _tls(config, None)


def server_tls(config: ServerConfig, listeners: Sequence[Listener], role: Role, own_name: str = "") -> Tls | None:
    """Return the TLS of a process that listens there, None in plaintext. Its certificate must have the role, and the
    name if one is given.

    Raises INVALID_CONFIG, also for a listener without TLS that other machines may reach."""
    for listener in listeners:
        host, _ = parse_address(listener.bind)
        if listener.protocol == "PLAINTEXT" and not is_loopback(host) and not config.allow_plaintext:
            raise ErrorCode.INVALID_CONFIG.error(
                f"listeners={listener.bind}: all who reach it may read, write and stop this cluster; set "
                "security.protocol=SSL (docs/security.md), or allow.plaintext=true if the network keeps others out"
            )
    if all(listener.protocol != "SSL" for listener in listeners):
        return None
    tls = _tls(config, config.ssl_client_auth)
    identity = tls.material.identity
    if identity is None:
        raise ErrorCode.INVALID_CONFIG.error("security.protocol=SSL: ssl.keystore.location is missing")
    if identity.role is not role or (own_name and identity.name != own_name):
        raise ErrorCode.INVALID_CONFIG.error(
            f"ssl.keystore.location={config.ssl_keystore_location} says {identity.uri}, and this is "
            f"{role} {own_name}; make its own with: replog tls issue {role} {own_name or 'NAME'}"
        )
    return tls


def _tls(config: ClientSecurity, client_auth: str | None) -> Tls:
    if config.ssl_truststore_location is None:
        raise ErrorCode.INVALID_CONFIG.error("security.protocol=SSL: ssl.truststore.location is missing")
    return Tls(TlsFiles(config.ssl_keystore_location, config.ssl_truststore_location, client_auth or "required"))
