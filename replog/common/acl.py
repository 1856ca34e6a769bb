"""Access control lists in Kafka's words: who may do what to which resource, from where (KIP-11, KIP-290). Pure values.

An ACL allows or denies a principal, from a host, an operation on the resources that a pattern names."""

import re
from collections.abc import Mapping
from enum import IntEnum
from functools import lru_cache
from ipaddress import IPv6Network, ip_address, ip_network
from typing import NamedTuple, Self

from replog.errors import ErrorCode
from replog.topic import MAX_TOPIC_NAME_LENGTH

WILDCARD = "*"  # means any, as a host or a LITERAL resource name
ANYBODY = "User:*"
CLUSTER_NAME = "kafka-cluster"  # the one resource of its type
MAX_PRINCIPAL_LENGTH = 256  # characters

_PRINCIPAL = re.compile(r"(User|Broker|Controller):(?! )[^\x00-\x1f\x7f]+(?<! )")  # connections have such names
_TOPIC = re.compile(r"[a-zA-Z0-9._-]+")


class _Word(IntEnum):
    """A word, or a number of a later release, which can be stored, shown and removed, but applies to nothing."""

    @classmethod
    def _missing_(cls, value: object) -> Self | None:
        if not isinstance(value, int):
            return None
        word = int.__new__(cls, value)
        word._name_, word._value_ = f"UNKNOWN_{value}", value
        return word


class ResourceType(_Word):
    """The kind of thing that an ACL protects."""

    ANY = 1  # filters only
    TOPIC = 2
    CLUSTER = 4


class PatternType(_Word):
    """Says if a resource has exactly the name, or begins with it."""

    ANY = 1  # filters only
    MATCH = 2  # filters only: every pattern that applies to the resource of this name
    LITERAL = 3
    PREFIXED = 4


class Operation(_Word):
    """Something that may be done with a resource."""

    ANY = 1  # filters only
    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12


class Permission(_Word):
    """ALLOW or DENY. A DENY that fits counts before every ALLOW."""

    ANY = 1  # filters only
    DENY = 2
    ALLOW = 3


OPERATIONS: Mapping[ResourceType, frozenset[Operation]] = {
    kind: frozenset(Operation[name] for name in names.split())
    for kind, names in (
        (ResourceType.TOPIC, "ALL READ WRITE CREATE DELETE ALTER DESCRIBE DESCRIBE_CONFIGS ALTER_CONFIGS"),
        (
            ResourceType.CLUSTER,
            "ALL CREATE ALTER DESCRIBE CLUSTER_ACTION DESCRIBE_CONFIGS ALTER_CONFIGS IDEMPOTENT_WRITE",
        ),
    )
}
"""The operations on each type of resource."""

_IMPLIED = {
    Operation.DESCRIBE: (Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER),
    Operation.DESCRIBE_CONFIGS: (Operation.ALTER_CONFIGS,),
}
"""Operations that, where they are allowed, allow this one, too. To deny them does not deny it."""


_PERMISSIONS = (Permission.ALLOW, Permission.DENY)
_PATTERNS = (PatternType.LITERAL, PatternType.PREFIXED)


class Acl(NamedTuple):
    """A rule that allows or denies a principal, from a host, an operation on some resources."""

    resource_type: ResourceType
    resource_name: str
    pattern_type: PatternType
    principal: str
    host: str
    operation: Operation
    permission: Permission

    def speaks_of(self, host: str, operation: Operation) -> bool:
        """Return True if it allows or denies its principal this operation, from there."""
        if self.permission not in _PERMISSIONS or self.pattern_type not in _PATTERNS:
            return False
        if not (self.host in (WILDCARD, host) or _in_range(self.host, host)):
            return False
        if self.operation in (Operation.ALL, operation):
            return True
        return self.permission is Permission.ALLOW and self.operation in _IMPLIED.get(operation, ())

    def __str__(self) -> str:
        return (
            f"{self.permission.name} {self.principal} from {self.host}: {self.operation.name} on "
            f"{self.resource_type.name} {self.pattern_type.name} {self.resource_name}"
        )


class AclFilter(NamedTuple):
    """Selects ACLs. ANY, and None, fit everything."""

    resource_type: ResourceType = ResourceType.ANY
    resource_name: str | None = None
    pattern_type: PatternType = PatternType.ANY
    principal: str | None = None
    host: str | None = None
    operation: Operation = Operation.ANY
    permission: Permission = Permission.ANY

    @property
    def exactly(self) -> Acl | None:
        """The one ACL that can fit, or None if several can."""
        anything = (None, ResourceType.ANY, PatternType.ANY, Operation.ANY, Permission.ANY)
        if self.pattern_type is PatternType.MATCH or any(each in anything for each in self):
            return None
        return Acl(*self)  # type: ignore[arg-type]

    def fits(self, acl: Acl) -> bool:
        """Return True if the ACL is one that the filter asks for."""
        return (
            self.resource_type in (ResourceType.ANY, acl.resource_type)
            and self._fits_name(acl)
            and self.principal in (None, acl.principal)
            and self.host in (None, acl.host)
            and self.operation in (Operation.ANY, acl.operation)
            and self.permission in (Permission.ANY, acl.permission)
        )

    def _fits_name(self, acl: Acl) -> bool:
        if self.pattern_type is PatternType.MATCH:
            return self.resource_name is None or applies(acl.pattern_type, acl.resource_name, self.resource_name)
        return self.pattern_type in (PatternType.ANY, acl.pattern_type) and self.resource_name in (
            None,
            acl.resource_name,
        )


def applies(pattern_type: PatternType, pattern: str, name: str) -> bool:
    """Return True if the pattern names the resource of this name."""
    if pattern_type is PatternType.PREFIXED:
        return name.startswith(pattern)
    return pattern in (WILDCARD, name)


def checked(acl: Acl) -> Acl:
    """Return `acl`, its host as a connection would have it. Raises INVALID_REQUEST if it can never apply."""
    if fault := _fault(acl):
        shown = f"{acl.resource_name[:60]!r}, {acl.principal[:60]!r}, {acl.host[:60]!r}"
        raise ErrorCode.INVALID_REQUEST.error(f"an ACL of {shown} {fault}")
    return acl._replace(host=as_connected(acl.host))


def as_connected(host: str) -> str:
    """Return an address as its connections have it, a range in its normal form, and anything else unchanged."""
    try:
        if "/" in host:
            return str(ip_network(host, strict=False))
        address = ip_address(host.partition("%")[0])  # an IPv6 link has its interface after %
    except ValueError:
        return host
    return str(getattr(address, "ipv4_mapped", None) or address)


@lru_cache(maxsize=10_000)
def _in_range(network: str, host: str) -> bool:
    """Return True if the range of addresses has this one (KIP-1276)."""
    try:
        return "/" in network and ip_address(host) in ip_network(network)
    except ValueError:
        return False


def is_principal(name: str) -> bool:
    """Return True if a connection could have this name, or if it is `User:*`."""
    return len(name) <= MAX_PRINCIPAL_LENGTH and _PRINCIPAL.fullmatch(name) is not None


def check_principal(name: str) -> None:
    """Raise INVALID_REQUEST unless a user could have this name."""
    if not is_principal(name) or name == ANYBODY or "/" in name:
        raise ErrorCode.INVALID_REQUEST.error(
            f"{name[:60]!r} names nobody: write User:NAME, of at most {MAX_PRINCIPAL_LENGTH} characters, no /; "
            "for each user without one of its own name none"
        )


def _fault(acl: Acl) -> str:
    if acl.resource_type not in OPERATIONS:
        return f"names a {acl.resource_type.name} resource; name a TOPIC or the CLUSTER"
    if acl.pattern_type not in _PATTERNS:
        return f"has a pattern of type {acl.pattern_type.name}; it is LITERAL or PREFIXED"
    if acl.operation not in OPERATIONS[acl.resource_type]:
        known = ", ".join(sorted(operation.name for operation in OPERATIONS[acl.resource_type]))
        return f"is for {acl.operation.name}; to a {acl.resource_type.name} one can do {known}"
    if acl.permission not in _PERMISSIONS:
        return "neither allows nor denies; say ALLOW or DENY"
    if fault := _name_fault(acl):
        return fault
    if not is_principal(acl.principal):
        return (
            "names no principal: write User:NAME (or Broker:ID, Controller:NAME), or User:* for anybody, of at most "
            f"{MAX_PRINCIPAL_LENGTH} characters, without spaces around it"
        )
    return _host_fault(acl.host)


def _name_fault(acl: Acl) -> str:
    name = acl.resource_name
    if acl.resource_type is ResourceType.CLUSTER:
        is_cluster = (acl.pattern_type, name) == (PatternType.LITERAL, CLUSTER_NAME)
        return "" if is_cluster else f"names the CLUSTER otherwise than LITERAL {CLUSTER_NAME}"
    if acl.pattern_type is PatternType.LITERAL and name == WILDCARD:
        return ""
    if len(name) > MAX_TOPIC_NAME_LENGTH or not _TOPIC.fullmatch(name):
        return (
            f"names no topic: write letters, digits, '.', '_' and '-', {MAX_TOPIC_NAME_LENGTH} at most, or LITERAL * "
            "for all"
        )
    return ""


def _host_fault(host: str) -> str:
    if host != WILDCARD:
        try:
            range_ = ip_network(host, strict=False) if "/" in host else ip_address(host)
        except ValueError:
            return (
                "names no host: write an address such as 10.0.0.7, a range such as 10.0.0.0/8, or * for all; names are "
                "not looked up"
            )
        if isinstance(range_, IPv6Network) and range_.network_address.ipv4_mapped:
            return "names a range of IPv6 that stands for one of IPv4; write that, such as 10.0.0.0/8"
    return ""
