"""Errors of whole calls between grpcio's objects and `replog.rpc.status`."""

import grpc

from replog.errors import ReplogError
from replog.rpc.status import DETAILS_KEY, CallStatus, from_status

STATUS_CODES = {code.value[0]: code for code in grpc.StatusCode}


def from_rpc_error(error: grpc.RpcError, address: str) -> ReplogError:
    trailers = error.trailing_metadata() if hasattr(error, "trailing_metadata") else None
    details = dict(trailers or ()).get(DETAILS_KEY, b"")
    return from_status(CallStatus(error.code().value[0], error.details() or "", details), address)
