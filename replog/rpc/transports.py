"""Which transport carries the calls of a process: the setting `rpc.transport`, or the environment.

Both speak gRPC, so each talks to the other, and to any client.
"""

import os
from collections.abc import Callable

from replog.errors import ErrorCode, ReplogError
from replog.rpc.grpcio.channel import GrpcTransport
from replog.rpc.http2.transport import H2Transport
from replog.rpc.transport import Transport

VARIABLE = "REPLOG_RPC_TRANSPORT"
DEFAULT = "h2"
TRANSPORTS: dict[str, Callable[[], Transport]] = {"grpcio": GrpcTransport, "h2": H2Transport}


def transport_named(name: str = "") -> Transport:
    """`grpcio`, `h2`, or if nothing is said what the variable names. Raises INVALID_CONFIG for another name there."""
    name = name or os.environ.get(VARIABLE, "") or DEFAULT
    if name not in TRANSPORTS:
        raise ReplogError(ErrorCode.INVALID_CONFIG, f"{VARIABLE}={name!r}: choose {' or '.join(TRANSPORTS)}")
    return TRANSPORTS[name]()
