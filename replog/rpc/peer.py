"""The peer of a call, as its connection proves it, and its access to each method: who may call it, and what ACLs must
allow (Kafka's operations, as its requests need them). A request's claim counts for nothing."""

from contextvars import ContextVar
from dataclasses import dataclass
from enum import Enum, StrEnum
from typing import Any

from replog.common.acl import CLUSTER_NAME, Operation
from replog.errors import ErrorCode, ReplogError

ANONYMOUS = "User:ANONYMOUS"  # Kafka's name for a peer that proved nothing


class Role(StrEnum):
    """The part of the cluster's own work that a peer may do."""

    BROKER = "broker"
    CONTROLLER = "controller"
    CLIENT = "client"
    ANY = "any"  # a network without TLS is trusted: a peer may be each of them


@dataclass(frozen=True, slots=True)
class Peer:
    principal: str  # `User:NAME`, `Broker:ID` or `Controller:NAME`, as Kafka writes it
    role: Role
    host: str  # its address, as the connection has it

    @property
    def name(self) -> str:
        return self.principal.partition(":")[2]


_PEER: ContextVar[Peer] = ContextVar("peer")


def anonymous(host: str, role: Role = Role.ANY) -> Peer:
    """Return a peer that proved nothing. Over TLS, where no certificate is required, it is a client."""
    return Peer(ANONYMOUS, role, host.partition("%")[0])  # an IPv6 link has its interface after %


def peer() -> Peer:
    """Return the peer of the call whose handler runs: in its task, in its subtasks, and in callbacks of `each`. Raises
    LookupError elsewhere."""
    return _PEER.get()


def handling(asks: Peer) -> None:
    """Set the peer. A transport calls this before it handles a message, or starts the task that does."""
    if _PEER.get(None) is not asks:
        _PEER.set(asks)


class Imposture(ReplogError):
    """A peer's certificate does not fit its call. `resource` and `rule` are for the audit log."""

    def __init__(self, message: str, resource: str, rule: str) -> None:
        super().__init__(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, message)
        self.resource = resource
        self.rule = rule


class On(Enum):
    """The resource of an operation."""

    CLUSTER = "the cluster"
    TOPIC = "the topic that the request names"
    TOPIC_OR_CLUSTER = "either of them"
    SOME_TOPIC = "the cluster; or there is a topic that it may write to"
    ROWS = "each topic that the request names: its service refuses them one by one"


@dataclass(frozen=True, slots=True)
class Access:
    role: Role = Role.ANY  # the role that may call it
    claim: str = ""  # the request's field with the id of the broker that asks; the certificate must have it, too
    operation: Operation | None = None  # an ACL must allow it, if there is an authorizer; None: nothing
    on: On = On.CLUSTER
    forwarded: bool = False  # a broker may pass it on for a client of Kafka's protocol, whose ACLs it has checked

    def check_role(self, path: str, asks: Peer) -> None:
        """Raise `Imposture` if the peer has another role."""
        if self.role is not Role.ANY and asks.role is not Role.ANY and asks.role is not self.role:
            raise Imposture(
                f"{path} is for a {self.role}'s certificate; {asks.principal} at {asks.host} is a {asks.role}",
                f"CLUSTER:{CLUSTER_NAME}",
                f"it is for a {self.role}'s certificate",
            )

    def check_claim(self, path: str, asks: Peer, request: Any) -> None:
        """Raise `Imposture` if the request claims to be another broker's."""
        if self.claim and asks.role is Role.BROKER and str(getattr(request, self.claim)) != asks.name:
            claimed = getattr(request, self.claim)
            raise Imposture(
                f"{path}: {self.claim}={claimed} is not the broker of the certificate, "
                f"{asks.principal} at {asks.host}; issue one for each broker: replog tls issue broker ID",
                f"BROKER:{claimed}",
                "it is not the broker of the certificate",
            )


ANYBODY = Access()  # it shows nothing of anybody's data
ACTION = Operation.CLUSTER_ACTION  # a certificate of the role is enough for it, without an ACL
