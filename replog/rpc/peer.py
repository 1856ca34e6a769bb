"""The peer of a call, as its connection proves it. No claim of a request is in here."""

from contextvars import ContextVar
from dataclasses import dataclass
from enum import StrEnum

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


def anonymous(host: str) -> Peer:
    """Return a peer that proved nothing."""
    return Peer(ANONYMOUS, Role.ANY, host.partition("%")[0])  # an IPv6 link has its interface after %


def unproved(host: str) -> Peer:
    """Return a peer that came over TLS and showed no certificate, where none is required."""
    return Peer(ANONYMOUS, Role.CLIENT, host.partition("%")[0])


def peer() -> Peer:
    """Return the peer of the call whose handler runs: in its task, in its subtasks, and in callbacks of `each`. Raises
    LookupError elsewhere."""
    return _PEER.get()


def handling(asks: Peer) -> None:
    """Set the peer. A transport calls this before it handles a message, or starts the task that does."""
    if _PEER.get(None) is not asks:
        _PEER.set(asks)
