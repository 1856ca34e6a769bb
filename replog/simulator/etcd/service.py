"""The services of an etcd, as `replog.server.controller.etcd` calls them."""

from replog.errors import ErrorCode
from replog.rpc.transport import ServerStream
from replog.rpc.v1 import etcd_pb2 as pb
from replog.server.clock import Clock
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
