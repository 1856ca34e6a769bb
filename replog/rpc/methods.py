"""Every rpc of the contracts as a value: its path, its shape, its codecs. Built from the descriptors, not by hand."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from google.protobuf.descriptor import MethodDescriptor, ServiceDescriptor
from google.protobuf.message_factory import GetMessageClass

from replog.rpc import codec
from replog.rpc.limits import ETCD_LIMIT, RULES, Limit
from replog.rpc.lists import Lists
from replog.rpc.peer import ANYBODY, Access
from replog.rpc.v1 import controller_pb2, etcd_pb2, inspection_pb2, log_dirs_pb2, log_pb2, presence_pb2, replica_pb2

ETCD = "replog.etcd.v1"


@dataclass(frozen=True, slots=True)
class Method:
    """One rpc. `handler_name` is its Python name: CreateTopic is served by `create_topic`."""

    path: str
    handler_name: str
    client_streaming: bool
    server_streaming: bool
    encode_request: Callable[[Any], bytes]
    decode_request: Callable[[bytes], Any]
    encode_response: Callable[[Any], bytes]
    decode_response: Callable[[bytes], Any]
    limit: Limit
    access: Access


def _method(descriptor: MethodDescriptor) -> Method:
    request, response = GetMessageClass(descriptor.input_type), GetMessageClass(descriptor.output_type)
    service = descriptor.containing_service
    is_etcds = service.file.package == ETCD
    limit, access = (ETCD_LIMIT, ANYBODY) if is_etcds else RULES[f"{service.name}/{descriptor.name}"]
    name = "".join("_" + letter.lower() if letter.isupper() else letter for letter in descriptor.name).lstrip("_")
    return Method(
        path=f"/{f'etcdserverpb.{service.name}' if is_etcds else service.full_name}/{descriptor.name}",
        handler_name=name,
        client_streaming=descriptor.client_streaming,
        server_streaming=descriptor.server_streaming,
        encode_request=_encoder(request),
        decode_request=_request_decoder(request, limit),
        encode_response=_encoder(response),
        decode_response=codec.RecordsDecoder(response) if codec.carries_records(response) else response.FromString,
        limit=limit,
        access=access,
    )


def _encoder(message_type: Any) -> Callable[[Any], bytes]:
    return codec.encode_with_records if codec.carries_records(message_type) else message_type.SerializeToString


def _request_decoder(message_type: Any, limit: Limit) -> Callable[[bytes], Any]:
    if codec.carries_records(message_type):
        return codec.RecordsDecoder(message_type, limit.request_bytes, limit.listed)
    return codec.LimitedDecoder(
        message_type, limit.request_bytes, Lists(message_type.DESCRIPTOR, limit.listed, limit.replicas)
    )


def methods_of(service: ServiceDescriptor) -> dict[str, Method]:
    """Return the service's methods by the name of their handler; of other people's, those that have rules."""
    is_ours = service.file.package.startswith("replog.")
    served = (each for each in service.methods if is_ours or f"{service.name}/{each.name}" in RULES)
    return {method.handler_name: method for method in map(_method, served)}


LOG = log_pb2.DESCRIPTOR.services_by_name["Log"]
REPLICA = replica_pb2.DESCRIPTOR.services_by_name["Replica"]
INSPECTION = inspection_pb2.DESCRIPTOR.services_by_name["Inspection"]
LOG_DIRS = log_dirs_pb2.DESCRIPTOR.services_by_name["LogDirs"]
PRESENCE = presence_pb2.DESCRIPTOR.services_by_name["Presence"]
CONTROLLER = controller_pb2.DESCRIPTOR.services_by_name["Controller"]
ETCD_KV = etcd_pb2.DESCRIPTOR.services_by_name["KV"]
ETCD_LEASE = etcd_pb2.DESCRIPTOR.services_by_name["Lease"]

Log = methods_of(LOG)
Replica = methods_of(REPLICA)
Inspection = methods_of(INSPECTION)
LogDirs = methods_of(LOG_DIRS)
Presence = methods_of(PRESENCE)
Controller = methods_of(CONTROLLER)
EtcdKV = methods_of(ETCD_KV)
EtcdLease = methods_of(ETCD_LEASE)
