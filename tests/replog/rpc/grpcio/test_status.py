"""What grpcio says of a call, as an error of ours."""

import grpc
from grpc.aio import AioRpcError, Metadata

from replog.errors import RETRIABLE, ErrorCode
from replog.rpc.grpcio.status import from_rpc_error


def test_a_call_that_ended_while_a_message_was_written_is_asked_again():
    """grpc.aio loses the status then."""
    error = AioRpcError(grpc.StatusCode.INTERNAL, Metadata(), Metadata(), details="Internal error from Core")
    failure = from_rpc_error(error, "127.0.0.1:9092")
    assert failure.code is ErrorCode.NETWORK_EXCEPTION
    assert failure.code in RETRIABLE
    assert "127.0.0.1:9092" in failure.message


def test_any_other_internal_error_is_none_that_is_asked_again():
    error = AioRpcError(grpc.StatusCode.INTERNAL, Metadata(), Metadata(), details="a defect")
    assert from_rpc_error(error, "127.0.0.1:9092").code is ErrorCode.UNKNOWN_SERVER_ERROR
