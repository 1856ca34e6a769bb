"""Turns errors of whole calls from grpcio's objects into `replog.rpc.status`."""

import grpc

from replog.errors import ErrorCode, ReplogError
from replog.rpc.status import DETAILS_KEY, CallStatus, from_status

STATUS_CODES = {code.value[0]: code for code in grpc.StatusCode}


_HINTS = {  # gRPC's words for a connection that fails because of TLS
    "Socket closed": "if it asks for TLS there, or a certificate, set security.protocol=SSL and ssl.keystore.location",
    "WRONG_VERSION_NUMBER": "no TLS is spoken there; set security.protocol=PLAINTEXT, or choose its port for TLS",
    "CERTIFICATE_VERIFY_FAILED": "its certificate is refused; look at ssl.truststore.location, its hosts and dates",
    "Hostname Verification": "use a name or an address that it has, or issue it again with --host",
    "Unwrap failed": "it refuses our certificate, or asks for one; look at ssl.keystore.location",
}

_LOST = "Internal error from Core"  # replaces the status if that arrives while grpc.aio still writes a message
ENDED_EARLY = "the call ended before all was sent; ask again"


def from_rpc_error(error: grpc.RpcError, address: str) -> ReplogError:
    if error.details() == _LOST:
        return ErrorCode.NETWORK_EXCEPTION.error(f"{address}: {ENDED_EARLY}")
    trailers = error.trailing_metadata() if hasattr(error, "trailing_metadata") else None
    details = dict(trailers or ()).get(DETAILS_KEY, b"")
    failure = from_status(CallStatus(error.code().value[0], error.details() or "", details), address)
    if failure.code is ErrorCode.NETWORK_EXCEPTION:
        for said, hint in _HINTS.items():
            if said in failure.message:
                return ReplogError(failure.code, f"{failure.message}; {hint}")
    return failure
