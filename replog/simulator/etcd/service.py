"""The services of an etcd, as `replog.server.controller.etcd` calls them."""

from random import Random
from typing import Any

from replog.errors import ErrorCode
from replog.rpc.methods import Method
from replog.rpc.transport import ServerStream
from replog.rpc.v1 import etcd_pb2 as pb
from replog.server.clock import Clock
from replog.server.controller.etcd.store import EtcdStore
from replog.server.controller.formatting import first_records
from replog.simulator.etcd.state import EtcdState


class EtcdService:
    """Handlers for `KV` and `Lease`. Each call first expires leases, as etcd would have done in time."""

    def __init__(self, state: EtcdState, clock: Clock) -> None:
        self._state = state
        self._clock = clock

    def _now(self) -> EtcdState:
        self._state.expire(self._clock.monotonic_ms())
        return self._state

    async def range(self, request: pb.RangeRequest) -> pb.RangeResponse:
        return self._now().range(request)

    async def txn(self, request: pb.TxnRequest) -> pb.TxnResponse:
        state = self._now()
        leases = [operation.request_put.lease for operation in request.success]
        if missing := [lease for lease in leases if lease and not state.has_lease(lease)]:
            raise ErrorCode.INVALID_REQUEST.error(f"requested lease {missing[0]} not found")
        return state.txn(request)

    async def lease_grant(self, request: pb.LeaseGrantRequest) -> pb.LeaseGrantResponse:
        lease = self._now().grant(request.TTL, self._clock.monotonic_ms())
        return pb.LeaseGrantResponse(ID=lease, TTL=request.TTL)

    async def lease_revoke(self, request: pb.LeaseRevokeRequest) -> pb.LeaseRevokeResponse:
        self._now().revoke(request.ID)
        return pb.LeaseRevokeResponse()

    async def lease_keep_alive(self, stream: ServerStream) -> None:
        while (request := await stream.receive()) is not None:
            ttl_s = self._now().keep_alive(request.ID, self._clock.monotonic_ms())
            await stream.send(pb.LeaseKeepAliveResponse(ID=request.ID, TTL=ttl_s))


PREFIX = "/replog/"


class _AtOnce:
    """An `EtcdClient` that waits for nothing."""

    endpoints: tuple[str, ...] = ("here",)

    def __init__(self, state: EtcdState) -> None:
        self._state = state

    async def call(self, _method: Method, request: Any) -> Any:
        return self._state.txn(request)


def format_at_once(state: EtcdState, rng: Random) -> None:
    _, records = first_records(None, rng)
    creating = EtcdStore(_AtOnce(state), PREFIX, rng).create(records)
    try:
        creating.send(None)
    except StopIteration:
        return
    raise AssertionError("it has waited")
