"""Calls to one of several etcds, the one that answered last; after a failure the next. Keys there, and requests."""

import asyncio
from collections.abc import Sequence
from typing import Any, Protocol

from replog.config.listeners import is_loopback, parse_address
from replog.config.processes import ControllerConfig
from replog.errors import ErrorCode, ReplogError
from replog.rpc.methods import Method
from replog.rpc.tls import Tls, TlsFiles
from replog.rpc.transport import Channel, Transport
from replog.rpc.transports import transport_named
from replog.rpc.v1 import etcd_pb2 as pb

ATTEMPT_S = 1.0  # how long one etcd may take
UNSURE = frozenset({ErrorCode.NETWORK_EXCEPTION, ErrorCode.REQUEST_TIMED_OUT})  # the request may be carried out or not


def transport_to_etcd(config: ControllerConfig) -> Transport:
    """Return a transport, with TLS if there is a truststore for it.

    Raises INVALID_CONFIG, also for an etcd without TLS that other machines may reach."""
    keystore, truststore = config.metadata_etcd_ssl_keystore_location, config.metadata_etcd_ssl_truststore_location
    if truststore is not None:
        return transport_named(config.rpc_transport, Tls(TlsFiles(keystore, truststore)))
    for endpoint in config.metadata_etcd_endpoints.split(","):
        if not is_loopback(parse_address(endpoint)[0]) and not config.allow_plaintext:
            raise ErrorCode.INVALID_CONFIG.error(
                f"metadata.etcd.endpoints={endpoint}: all who reach it may change the metadata; set "
                "metadata.etcd.ssl.truststore.location and …keystore.location (docs/controllers.md), or "
                "allow.plaintext=true if the network keeps others out"
            )
    return transport_named(config.rpc_transport)


class Caller(Protocol):
    """A client, as a store needs it."""

    endpoints: tuple[str, ...]

    async def call(self, method: Method, request: Any) -> Any: ...


class EtcdClient:
    """Calls etcd. A request may be carried out more than once: its comparisons must allow that."""

    def __init__(self, transport: Transport, endpoints: Sequence[str]) -> None:
        self.endpoints = tuple(endpoints)
        self._channels: list[Channel] = [transport.connect(endpoint) for endpoint in endpoints]
        self._at = 0

    async def call(self, method: Method, request: Any) -> Any:
        """Ask each etcd once, until one answers. Raises the last one's error; NETWORK_EXCEPTION or REQUEST_TIMED_OUT if
        it is not known whether the request was carried out."""
        return await self._in_turn(lambda channel: channel.call(method, request, ATTEMPT_S))

    async def call_on_stream(self, method: Method, request: Any) -> Any:
        """Call a method of streams with one request, and return its answer. Raises as `call`."""

        async def call(channel: Channel) -> Any:
            stream = channel.open(method)
            try:
                async with asyncio.timeout(ATTEMPT_S):
                    await stream.send(request)
                    answer = await stream.receive(ATTEMPT_S)
            except TimeoutError:
                raise ErrorCode.REQUEST_TIMED_OUT.error(f"{channel.address} did not answer in time") from None
            finally:
                stream.cancel()
            if answer is None:
                raise ErrorCode.NETWORK_EXCEPTION.error(f"{channel.address} ended the stream")
            return answer

        return await self._in_turn(call)

    async def _in_turn(self, call: Any) -> Any:
        unsure: ReplogError | None = None
        for _ in self._channels:
            at = self._at
            try:
                return await call(self._channels[at])
            except ReplogError as error:
                if error.code not in UNSURE:
                    if unsure is None:
                        raise
                else:
                    unsure = error
                if at == self._at:  # otherwise two calls that fail together would skip an etcd
                    self._at = (at + 1) % len(self._channels)
        assert unsure is not None
        raise unsure

    async def close(self) -> None:
        for channel in self._channels:
            await channel.close()


class Keys:
    """The keys that the controllers of one cluster use in etcd, below a prefix that nobody else uses."""

    def __init__(self, prefix: str) -> None:
        self.prefix = prefix
        self.head = f"{prefix}head".encode()
        self.leader = f"{prefix}leader".encode()
        self.after_chunks = f"{prefix}chunk0".encode()  # sorts directly after all names that begin with chunk/

    def chunk(self, number: int) -> bytes:
        """Return the key of a chunk. Keys sort like their numbers."""
        return f"{self.prefix}chunk/{number:016x}".encode()

    def number(self, chunk: bytes) -> int:
        return int(chunk[-16:], 16)


def created_at(key: bytes, revision: int) -> pb.Compare:
    """Compare that the key was made at this revision, and not again since; 0: that it does not exist."""
    return pb.Compare(target=pb.Compare.CREATE, key=key, create_revision=revision)


def changed_at(key: bytes, revision: int) -> pb.Compare:
    """Compare that the key was last written at this revision."""
    return pb.Compare(target=pb.Compare.MOD, key=key, mod_revision=revision)


def put(key: bytes, value: bytes, lease: int = 0) -> pb.RequestOp:
    return pb.RequestOp(request_put=pb.PutRequest(key=key, value=value, lease=lease))


def get(key: bytes) -> pb.RequestOp:
    return pb.RequestOp(request_range=pb.RangeRequest(key=key))


def delete(first: bytes, end: bytes) -> pb.RequestOp:
    """Delete the keys from `first` up to, but without, `end`."""
    return pb.RequestOp(request_delete_range=pb.DeleteRangeRequest(key=first, range_end=end))


def only(response: pb.RangeResponse) -> pb.KeyValue | None:
    """Return the value that `get` has found, or None."""
    return response.kvs[0] if response.kvs else None
