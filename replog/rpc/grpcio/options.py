"""Options of gRPC's channels and servers, `replog.rpc.tls` for them, and channels for callers without an event loop."""

from typing import Any

import grpc

from replog.errors import ErrorCode
from replog.rpc.limits import MAX_ANSWER_BYTES, MAX_CONNECTIONS, MAX_REQUEST_BYTES, MAX_STREAMS
from replog.rpc.tls import Material, Tls

WINDOW = 256 << 10  # bytes of a stream that may arrive before anybody reads them: slow links carry so much in seconds
_FLOW = (
    ("grpc.http2.lookahead_bytes", WINDOW),
    ("grpc.http2.bdp_probe", 0),  # otherwise gRPC finds the window by pings behind messages, also those of idle brokers
)
SERVER_OPTIONS = (
    *_FLOW,
    ("grpc.max_receive_message_length", MAX_REQUEST_BYTES),
    ("grpc.max_send_message_length", MAX_ANSWER_BYTES),
    ("grpc.max_allowed_incoming_connections", MAX_CONNECTIONS),
    ("grpc.max_concurrent_streams", MAX_STREAMS),
    ("grpc.so_reuseport", 0),  # two brokers must never share a port
    ("grpc.http2.min_ping_interval_without_data_ms", 1000),
    ("grpc.http2.max_ping_strikes", 0),
)
CHANNEL_OPTIONS = (
    *_FLOW,
    ("grpc.max_receive_message_length", MAX_ANSWER_BYTES),
    ("grpc.max_send_message_length", MAX_REQUEST_BYTES),
    ("grpc.use_local_subchannel_pool", 1),  # a lost connection is this channel's own
    ("grpc.initial_reconnect_backoff_ms", 50),
    ("grpc.min_reconnect_backoff_ms", 3000),  # gRPC's name for the time that an attempt to connect may take
    ("grpc.max_reconnect_backoff_ms", 1000),
    ("grpc.keepalive_time_ms", 5000),  # so much silence brings a ping, which finds a vanished peer without a request
    ("grpc.keepalive_timeout_ms", 5000),  # TCP must acknowledge the ping, or any data, within this time
    ("grpc.http2.ping_timeout_ms", 30_000),  # the peer's process must answer within it, maybe after another answer
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.dns_min_time_between_resolutions_ms", 500),  # half a minute by default: a host that moved is found at once
    ("grpc.enable_http_proxy", 0),
)


def channel_credentials(material: Material) -> Any:
    return grpc.ssl_channel_credentials(material.roots, material.key, material.chain)


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
    return grpc.ssl_server_certificate_configuration([(material.key, material.chain)], material.roots)


def blocking_channel(address: str, tls: Tls | None) -> Any:
    if tls is None:
        return grpc.insecure_channel(address, options=CHANNEL_OPTIONS)
    return grpc.secure_channel(address, channel_credentials(tls.material), options=CHANNEL_OPTIONS)
