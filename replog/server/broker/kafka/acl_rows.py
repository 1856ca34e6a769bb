"""ACLs in the words of Kafka's requests: the numbers are the same, and this release protects fewer things."""

from collections.abc import Iterable

from replog.common.acl import (
    OPERATIONS,
    Acl,
    AclFilter,
    Operation,
    PatternType,
    Permission,
    ResourceType,
    as_connected,
    checked,
)
from replog.errors import ErrorCode
from replog.metadata.records import acl_filter_to_message, acl_of_binding
from replog.rpc.limits import MAX_ANSWER_BYTES
from replog.rpc.v1 import controller_pb2 as pb
from replog.server.broker.kafka.forwarding import ask_controller
from replog.server.broker.kafka.service import KafkaService

_LATER = {3: "GROUP", 5: "TRANSACTIONAL_ID", 6: "DELEGATION_TOKEN", 7: "USER"}  # resources that Kafka protects, too
_LAST = (7, 4, 15, 3)  # Kafka's highest number of each word


def _words(*words: int) -> tuple[ResourceType, PatternType, Operation, Permission]:
    """Raises INVALID_REQUEST for a word that Kafka does not know: it may mean neither nothing nor everything."""
    if any(not 0 < word <= last for word, last in zip(words, _LAST, strict=True)):
        raise ErrorCode.INVALID_REQUEST.error(
            f"resource, pattern, operation and permission {words}: give numbers from 1 to {_LAST}"
        )
    kind, pattern, operation, permission = words
    return ResourceType(kind), PatternType(pattern), Operation(operation), Permission(permission)


def filter_of(
    kind: int, name: str | None, pattern: int, who: str | None, host: str | None, operation: int, permission: int
) -> AclFilter:
    """Read a filter. Raises INVALID_REQUEST."""
    of, how, what, verdict = _words(kind, pattern, operation, permission)
    return AclFilter(of, name, how, who, None if host is None else as_connected(host), what, verdict)


def acl_of(kind: int, name: str, pattern: int, who: str, host: str, operation: int, permission: int) -> Acl:
    """Read an ACL that is to be made. Raises INVALID_REQUEST."""
    of, how, what, verdict = _words(kind, pattern, operation, permission)
    if kind in _LATER:
        known = " and ".join(each.name for each in OPERATIONS)
        raise ErrorCode.INVALID_REQUEST.error(f"{name[:60]!r} is a {_LATER[kind]}; this release protects {known} only")
    return checked(Acl(of, name, how, who, host, what, verdict))


async def fitting_acls(service: KafkaService, wanted: AclFilter, until_s: float) -> Iterable[Acl]:
    """Return the ACLs that fit, sorted by resource, as the controller has them. Raises SECURITY_DISABLED."""
    request = pb.DescribeAclsRequest(filter=acl_filter_to_message(wanted), max_bytes=MAX_ANSWER_BYTES)
    return map(acl_of_binding, (await ask_controller(service, "describe_acls", request, until_s)).acls)
