"""Asks a process if it serves and what it knows, with blocking calls that have deadlines; waits as long as there is
progress."""

import time
from collections.abc import Callable
from typing import Any

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

from replog.errors import ErrorCode, ReplogError
from replog.rpc import methods
from replog.rpc.grpcio.channel import blocking_channel, from_rpc_error
from replog.rpc.limits import MAX_ANSWER_BYTES
from replog.rpc.methods import Method
from replog.rpc.tls import Tls
from replog.rpc.v1 import log_pb2

CALL_TIMEOUT_S = 2.0
PATIENCE_S = 60.0  # the longest time without any progress
TELL_S = 5.0  # the time between two lines about a long wait
POLL_S = 0.1  # the pause between two looks; as long as a look if that took longer, since it takes CPU


def is_serving(address: str, tls: Tls | None = None, service: str = "") -> bool:
    """Return True if the server at `address` answers a grpc.health.v1 check, of it or of a service, with SERVING."""
    with blocking_channel(address, tls) as channel:
        try:
            response = health_pb2_grpc.HealthStub(channel).Check(
                health_pb2.HealthCheckRequest(service=service), timeout=CALL_TIMEOUT_S
            )
        except grpc.RpcError:
            return False
    return bool(response.status == health_pb2.HealthCheckResponse.SERVING)


def metadata_of(
    address: str, timeout_s: float = CALL_TIMEOUT_S, *, without_topics: bool = False, tls: Tls | None = None
) -> Any:
    """Return the GetMetadataResponse of the broker at `address`, or None if it does not answer."""
    try:
        request = log_pb2.GetMetadataRequest(without_topics=without_topics, max_bytes=MAX_ANSWER_BYTES)
        return call(address, methods.Log["get_metadata"], request, timeout_s, tls)
    except ReplogError:
        return None


def call(address: str, method: Method, request: Any, timeout_s: float, tls: Tls | None = None) -> Any:
    """Make one unary call. Raises ReplogError."""
    with blocking_channel(address, tls) as channel:
        multi_callable = channel.unary_unary(method.path, method.encode_request, method.decode_response)
        try:
            return multi_callable(request, timeout=timeout_s)
        except grpc.RpcError as error:
            raise from_rpc_error(error, address) from None


Progress = Callable[[str], None]


def wait_for(
    missing: Callable[[], str], failure: str, patience_s: float = PATIENCE_S, progress: Progress = lambda _: None
) -> None:
    """Wait until nothing is missing. Raises REQUEST_TIMED_OUT once `missing` returned nothing new for `patience_s`."""
    said = set[str]()
    told_at = moved_at = asked_at = time.monotonic()
    while reason := missing():
        now = time.monotonic()
        if reason not in said:
            said.add(reason)
            moved_at = now
        if now >= moved_at + patience_s:
            raise ErrorCode.REQUEST_TIMED_OUT.error(f"{failure}: {reason}, and no progress in {patience_s:g} s")
        if now >= told_at + TELL_S:
            progress(f"waiting: {reason}")
            told_at = now
        time.sleep(max(POLL_S, now - asked_at))
        asked_at = time.monotonic()
