"""ACLs in the words of Kafka's requests: the numbers are the same, and this release protects fewer things."""

from collections.abc import Iterable
from typing import Any

from replog.common.acl import OPERATIONS, Acl, AclFilter, checked
from replog.errors import ErrorCode
from replog.metadata.records import acl_filter_of, acl_filter_to_message, acl_of_binding
from replog.rpc.limits import MAX_ANSWER_BYTES
from replog.rpc.v1 import controller_pb2 as pb
from replog.rpc.v1 import metadata_pb2
from replog.server.broker.kafka.forwarding import ask_controller
from replog.server.broker.kafka.service import KafkaService

_FIELDS = ("resource_type", "resource_name", "pattern_type", "principal", "host", "operation", "permission_type")
_LATER = {3: "GROUP", 5: "TRANSACTIONAL_ID", 6: "DELEGATION_TOKEN", 7: "USER"}  # resources that Kafka protects, too
_LAST = {"resource_type": 7, "pattern_type": 4, "operation": 15, "permission_type": 3}  # Kafka's highest words


def filter_of(asked: tuple[int | str | None, ...]) -> AclFilter:
    """Read a filter of a request. Raises INVALID_REQUEST."""
    return acl_filter_of(pb.AclBindingFilter(**_fields(asked)))


def acl_of(asked: tuple[int | str, ...]) -> Acl:
    """Read an ACL that is to be made. Raises INVALID_REQUEST."""
    fields = _fields(asked)
    if what := _LATER.get(fields["resource_type"]):
        known = " and ".join(each.name for each in OPERATIONS)
        raise ErrorCode.INVALID_REQUEST.error(f"{asked[1]!r:.60} is a {what}; this release protects {known} only")
    return checked(acl_of_binding(metadata_pb2.AclBinding(**fields)))


def _fields(asked: tuple[int | str | None, ...]) -> dict[str, Any]:
    """Raises INVALID_REQUEST for a word that Kafka does not know: it may mean neither nothing nor everything."""
    fields: dict[str, Any] = {name: value for name, value in zip(_FIELDS, asked, strict=True) if value is not None}
    for name, last in _LAST.items():
        if not 0 < fields[name] <= last:
            raise ErrorCode.INVALID_REQUEST.error(
                f"{name} {fields[name]} is not known; it is a number from 1 to {last}"
            )
    return fields


async def fitting_acls(service: KafkaService, wanted: AclFilter, until_s: float) -> Iterable[Acl]:
    """Return the ACLs that fit, sorted by resource, as the controller has them. Raises SECURITY_DISABLED."""
    request = pb.DescribeAclsRequest(filter=acl_filter_to_message(wanted), max_bytes=MAX_ANSWER_BYTES)
    return map(acl_of_binding, (await ask_controller(service, "describe_acls", request, until_s)).acls)
