"""An etcd for simulated clusters, on one host that loses nothing: its state, its services, a new cluster's metadata."""

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from random import Random
from typing import Any

from replog.errors import ErrorCode
from replog.rpc.methods import Method
from replog.rpc.transport import ServerStream
from replog.rpc.v1 import etcd_pb2 as pb
from replog.server.clock import Clock
from replog.server.controller.etcd.store import EtcdStore
from replog.server.controller.formatting import first_records

PREFIX = "/replog/"


@dataclass(slots=True)
class _Lease:
    ttl_s: int
    until_ms: int
    keys: set[bytes] = field(default_factory=set)


class EtcdState:
    """Every key's values by revision, and leases with their time. Times are milliseconds of one clock. Pure."""

    def __init__(self) -> None:
        self.revision = 1
        self._values: dict[bytes, list[pb.KeyValue]] = {}  # oldest first; without a create revision: a deletion
        self._leases: dict[int, _Lease] = {}
        self._next_lease = 1

    def range(self, request: pb.RangeRequest) -> pb.RangeResponse:
        known = list(self._found(request.key, request.range_end, request.revision or self.revision))
        limit = request.limit or len(known)
        return pb.RangeResponse(header=self._header(), kvs=known[:limit], more=len(known) > limit)

    def txn(self, request: pb.TxnRequest) -> pb.TxnResponse:
        holds = all(map(self._holds, request.compare))
        operations = request.success if holds else request.failure
        if any(operation.WhichOneof("request") != "request_range" for operation in operations):
            self.revision += 1
        responses = list(map(self._do, operations))
        return pb.TxnResponse(header=self._header(), succeeded=holds, responses=responses)

    def _holds(self, compare: pb.Compare) -> bool:
        known = self._now(compare.key)
        if compare.target == pb.Compare.CREATE:
            return (known.create_revision if known else 0) == compare.create_revision
        return (known.mod_revision if known else 0) == compare.mod_revision

    def _do(self, operation: pb.RequestOp) -> pb.ResponseOp:
        match operation.WhichOneof("request"):
            case "request_range":
                return pb.ResponseOp(response_range=self.range(operation.request_range))
            case "request_put":
                self._put(operation.request_put)
                return pb.ResponseOp(response_put=pb.PutResponse(header=self._header()))
            case _:
                deleted = operation.request_delete_range
                self._delete([known.key for known in self._found(deleted.key, deleted.range_end, self.revision)])
                return pb.ResponseOp(response_delete_range=pb.DeleteRangeResponse(header=self._header()))

    def _put(self, request: pb.PutRequest) -> None:
        before = self._now(request.key)
        created = before.create_revision if before else self.revision
        if before and before.lease in self._leases:
            self._leases[before.lease].keys.discard(request.key)
        if request.lease:
            self._leases[request.lease].keys.add(request.key)
        self._values.setdefault(request.key, []).append(
            pb.KeyValue(
                key=request.key,
                create_revision=created,
                mod_revision=self.revision,
                value=request.value,
                lease=request.lease,
            )
        )

    def _delete(self, keys: Iterable[bytes]) -> None:
        for key in keys:
            self._values[key].append(pb.KeyValue(key=key, mod_revision=self.revision))

    def _found(self, first: bytes, end: bytes, revision: int) -> Iterator[pb.KeyValue]:
        keys = sorted(key for key in self._values if first <= key < end) if end else [first]
        for key in keys:
            values = self._values.get(key, [])
            at = bisect_right(values, revision, key=lambda value: value.mod_revision)
            if at and values[at - 1].create_revision:
                yield values[at - 1]

    def _now(self, key: bytes) -> pb.KeyValue | None:
        return next(self._found(key, b"", self.revision), None)

    def _header(self) -> pb.ResponseHeader:
        return pb.ResponseHeader(revision=self.revision)

    def grant(self, ttl_s: int, now_ms: int) -> int:
        lease, self._next_lease = self._next_lease, self._next_lease + 1
        self._leases[lease] = _Lease(ttl_s, now_ms + 1000 * ttl_s)
        return lease

    def keep_alive(self, lease: int, now_ms: int) -> int:
        """Renew a lease, and return its whole time in seconds; 0: there is no such lease."""
        known = self._leases.get(lease)
        if known is None:
            return 0
        known.until_ms = now_ms + 1000 * known.ttl_s
        return known.ttl_s

    def revoke(self, lease: int) -> None:
        known = self._leases.pop(lease, None)
        if known is not None and known.keys:
            self.revision += 1
            self._delete(sorted(known.keys))

    def expire(self, now_ms: int) -> None:
        for lease in [lease for lease, known in self._leases.items() if known.until_ms <= now_ms]:
            self.revoke(lease)

    def has_lease(self, lease: int) -> bool:
        return lease in self._leases


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
