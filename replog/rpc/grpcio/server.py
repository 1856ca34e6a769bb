"""The server side of every call: `replog.rpc.transport` over grpc.aio."""

import asyncio
import logging
from functools import partial
from typing import Any
from urllib.parse import unquote

import grpc
import grpc.aio

from replog.config.listeners import parse_address
from replog.config.properties import MAX_INT
from replog.errors import ErrorCode, ReplogError
from replog.rpc.grpcio.channel import FLOW
from replog.rpc.limits import (
    DEFAULT_LIMITS,
    MAX_ANSWER_BYTES,
    MAX_CONNECTIONS,
    MAX_REQUEST_BYTES,
    MAX_STREAMS,
    ConnectionLimits,
)
from replog.rpc.methods import Method
from replog.rpc.peer import Peer, Role, anonymous, handling
from replog.rpc.serving import Route, Services, cannot_listen, decoded, serve, status_of
from replog.rpc.status import DETAILS_KEY
from replog.rpc.tls import Material, Tls
from replog.rpc.transport import Pump

logger = logging.getLogger(__name__)

SERVER_OPTIONS = (
    *FLOW,
    ("grpc.max_receive_message_length", MAX_REQUEST_BYTES),
    ("grpc.max_send_message_length", MAX_ANSWER_BYTES),
    ("grpc.max_allowed_incoming_connections", MAX_CONNECTIONS),
    ("grpc.max_concurrent_streams", MAX_STREAMS),
    ("grpc.so_reuseport", 0),  # two brokers must never share a port
    ("grpc.http2.min_ping_interval_without_data_ms", 1000),
    ("grpc.http2.max_ping_strikes", 0),
)
_STATUS_CODES = {code.value[0]: code for code in grpc.StatusCode}


class GrpcServerStream(Pump):
    """`replog.rpc.transport.ServerStream`."""

    waits_for_peer = True

    def __init__(self, context: Any, method: Method, asks: Peer) -> None:
        super().__init__()
        self._context = context
        self._method = method
        self._asks = asks

    async def send(self, message: Any) -> None:
        await self._context.write(message)

    async def receive(self, timeout_s: float | None = None) -> Any | None:
        async with asyncio.timeout(timeout_s):
            message = await self._context.read()
        if isinstance(message, ReplogError):  # `decoded` returns it
            raise message
        if message is grpc.aio.EOF:
            return None
        self._method.access.check_claim(self._method.path, self._asks, message)
        return message


class GrpcServer(Services):
    """`replog.rpc.transport.Server`."""

    connections = None

    def __init__(self, address: str, tls: Tls | None = None, limits: ConnectionLimits = DEFAULT_LIMITS) -> None:
        super().__init__()
        self._address = address
        self._tls = tls
        self._server = grpc.aio.server(
            options=(*SERVER_OPTIONS, ("grpc.max_connection_idle_ms", min(limits.idle_ms, MAX_INT)))
        )

    def _serve(self, route: Route) -> None:
        method = route.method

        async def serve_call(_requests: Any, context: Any) -> None:
            if (task := asyncio.current_task()) is not None:
                task.set_name(method.path)  # grpc runs each call in a task of its own
            try:
                asks = _peer(context, self._tls)
                handling(asks)
                stream = GrpcServerStream(context, method, asks)
                await serve(route, stream, asks)
                await stream.sent()
            except (asyncio.InvalidStateError, grpc.aio.UsageError, grpc.aio.InternalError):
                return  # the client has gone, so nobody gets the status
            except Exception as error:  # noqa: BLE001 (the boundary: every failure becomes a status)
                status = status_of(error)
                details = ((DETAILS_KEY, status.details),) if status.details else ()  # empty is one to grpc-go
                await context.abort(_STATUS_CODES[status.code], status.message, details)

        served = grpc.stream_stream_rpc_method_handler(
            serve_call,
            request_deserializer=partial(decoded, method.decode_request),  # gRPC would answer errors with INTERNAL
            response_serializer=method.encode_response,
        )
        _, service, name = method.path.split("/")
        self._server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, {name: served}),))

    async def start(self) -> str:
        for route in self.routes.values():
            self._serve(route)
        host, _ = parse_address(self._address)
        try:
            if self._tls is None:
                bound = self._server.add_insecure_port(self._address)
            else:
                bound = self._server.add_secure_port(self._address, server_credentials(self._tls))
        except RuntimeError:
            bound = 0
        if bound == 0:
            raise cannot_listen(self._address)
        await self._server.start()
        await self.set_serving(False)
        return f"{host}:{bound}"

    async def stop(self, grace_s: float) -> None:
        await self.set_serving(False)
        await self._server.stop(grace_s)


def _peer(context: Any, tls: Tls | None) -> Peer:
    """Return the peer. Raises CLUSTER_AUTHORIZATION_FAILED for a certificate of another cluster or kind."""
    _, _, place = unquote(context.peer()).partition(":")  # examples: ipv4:127.0.0.1:9092 and ipv6:[::1]:9092
    host = place.rpartition(":")[0].strip("[]")
    if tls is None:
        return anonymous(host)
    proved = context.auth_context()
    if "x509_pem_cert" not in proved:
        return anonymous(host, Role.CLIENT)
    try:
        return tls.accepted((name.decode() for name in proved.get("x509_subject_alternative_name", ())), host)
    except ValueError as error:
        logger.warning("refused a call of %s: %s", place, error)
        raise ErrorCode.CLUSTER_AUTHORIZATION_FAILED.error(str(error)) from None


def server_credentials(tls: Tls) -> Any:
    """Return credentials that follow the files at each handshake. Raises INVALID_CONFIG."""
    if tls.files.client_auth == "requested":
        raise ErrorCode.INVALID_CONFIG.error(
            "ssl.client.auth=requested: rpc.transport=grpcio has required and none; choose one, or rpc.transport=h2"
        )
    known = tls.material

    def changed() -> Any | None:  # gRPC's threads call it
        nonlocal known
        tls.look()
        if tls.material is known:
            return None
        known = tls.material
        return _configuration(known)

    return grpc.dynamic_ssl_server_credentials(_configuration(known), changed, tls.files.client_auth == "required")


def _configuration(material: Material) -> Any:
    return grpc.ssl_server_certificate_configuration([(material.keystore, material.keystore)], material.roots)
