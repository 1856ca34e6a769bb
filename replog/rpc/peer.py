"""Who asks: what the connection of a call proves of its other end. Nothing that a request claims is in here."""

from contextvars import ContextVar
from dataclasses import dataclass
from enum import StrEnum

ANONYMOUS = "User:ANONYMOUS"  # Kafka's name for who proved nothing


class Role(StrEnum):
    """What a peer may do in the cluster's own work."""

    BROKER = "broker"
    CONTROLLER = "controller"
    CLIENT = "client"
    ANY = "any"  # without TLS the network is trusted: a peer may be each of them


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
    """Who proved nothing."""
    return Peer(ANONYMOUS, Role.ANY, host.partition("%")[0])  # without the interface of an IPv6 link


def unproved(host: str) -> Peer:
    """Who came over TLS and showed no certificate, where none is required."""
    return Peer(ANONYMOUS, Role.CLIENT, host.partition("%")[0])


def peer() -> Peer:
    """Of the call whose handler runs: in its task, in what that starts, and in what `each` calls. Raises LookupError
    elsewhere."""
    return _PEER.get()


def handling(asks: Peer) -> None:
    """A transport says before it handles something, or starts the task that does: this peer asks."""
    if _PEER.get(None) is not asks:
        _PEER.set(asks)
