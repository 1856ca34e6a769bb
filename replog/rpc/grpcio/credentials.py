"""`replog.rpc.tls` for gRPC's own library, and channels for callers without an event loop."""

from typing import Any

import grpc

from replog.errors import ErrorCode
from replog.rpc.grpcio.options import CHANNEL_OPTIONS
from replog.rpc.tls import Material, Tls


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
