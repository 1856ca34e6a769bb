"""The cluster's metadata as plain values, which the controller decides and every role acts on."""

import hmac
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from replog.topic import TopicPartition

NO_LEADER = -1
NO_BROKER_EPOCH = -1
MISSING = -2  # stands for the last epoch of a replica that is not on its disks (CT-30)
INCARNATION_ID_SIZE = 16
NONCE_SIZE = 16
VERDICTS = ("CONSISTENT", "DIVERGED", "INCONCLUSIVE")
MAX_DIVERGED = 100
LEAST_CANDIDATES = 2  # a leader resigns only if two others can lead (CT-22): two brokers may be cut off from each other


def out_of_sync(replicas: Iterable[int], isr: Container[int], adding: Container[int]) -> tuple[int, ...]:
    """Return the replicas that are not in sync, except those that a reassignment is only just adding: a move takes no
    copy away, so nothing is under-replicated by it."""
    return tuple(replica for replica in replicas if replica not in isr and replica not in adding)


@dataclass(frozen=True, slots=True)
class PartitionState:
    """One partition's record at one partition epoch (§9.2). `replicas` is in preference order."""

    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    leader: int  # -1: none
    leader_epoch: int
    partition_epoch: int
    elr: tuple[int, ...] = ()  # eligible leader replicas (ISR-15)
    last_known_leader: int = NO_LEADER  # the last leader before the ISR became empty
    recovering: bool = False  # elected uncleanly and not yet joined (ST-15)
    adding: tuple[int, ...] = ()  # the replicas that came since a reassignment began (CT-14)
    removing: tuple[int, ...] = ()  # the replicas that leave when it completes
    throttle: int = 0  # most bytes a second that a broker copies to `adding` replicas, or sends them; 0: no limit
    last_known_elr: tuple[int, ...] = ()  # they had all that was committed until they stopped uncleanly (CT-30)

    @property
    def reassigning(self) -> bool:
        return bool(self.adding or self.removing)

    @property
    def contradicts_itself(self) -> bool:
        """True if its leader is out of sync or its epoch negative, as only a damaged or foreign store has it."""
        return self.leader not in (NO_LEADER, *self.isr) or self.leader_epoch < 0

    @property
    def behind(self) -> tuple[int, ...]:
        """The replicas that have to catch up with a leader, except those that are only just added."""
        if self.leader == NO_LEADER or len(self.isr) == len(self.replicas):
            return ()
        return out_of_sync(self.replicas, self.isr, self.adding)


@dataclass(frozen=True, slots=True)
class BrokerRegistration:
    """One registration of one broker (CT-1)."""

    broker_id: int
    broker_epoch: int
    incarnation_id: bytes = field(repr=False)  # empty where only the controller may know it
    address: str  # host:port of its listener between brokers
    rack: str
    fenced: bool
    in_controlled_shutdown: bool
    joined: bool = False  # it was unfenced once (D43)
    endpoints: tuple[tuple[str, str], ...] = ()  # names and addresses of its other listeners (D47)
    software_version: str = ""  # the release of replog that registered

    @property
    def active(self) -> bool:
        """True if it is neither fenced nor on its way out: it may lead and join in-sync sets (CT-7, ISR-2)."""
        return not self.fenced and not self.in_controlled_shutdown

    def address_at(self, listener: str) -> str:
        """Return the address of the listener of that name; an empty name means that between brokers. Empty if it has
        none of that name. A broker with one listener has it under all names (D47)."""
        return dict(self.endpoints).get(listener, "") if listener and self.endpoints else self.address


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic's identity and its settings that differ from the defaults."""

    name: str
    topic_id: bytes
    configs: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class StandingAudit:
    """The newest result of the audit that runs all the time (`replog audit follow`)."""

    verdict: str  # one of VERDICTS
    level: str
    at_ms: int  # milliseconds since 1970, by the auditor's clock, or the controller's if that is behind
    verified: tuple[tuple[TopicPartition, int], ...]  # below the offset all replicas were equal; sorted by name
    partitions: int  # so many were compared
    diverged: tuple[str, ...]  # partitions with a finding, by name; MAX_DIVERGED of them at most
    diverged_partitions: int  # the number of all of them
    consistent_at_ms: int = 0  # when it last said CONSISTENT; 0: never


class Claim(NamedTuple):
    """The registered process that a request claims to come from."""

    broker_id: int
    broker_epoch: int
    incarnation_id: bytes


def is_same(incarnation_id: bytes, other: bytes) -> bool:
    """Compare incarnation ids in constant time: one is a password that only the process and its controller know. A
    process registers with it, and names it in all later requests (CT-3)."""
    return hmac.compare_digest(incarnation_id, other)


def proof(incarnation_id: bytes, broker_id: int, nonce: bytes) -> bytes:
    """Prove to the sender of the nonce that the incarnation id is known, without telling it to anybody (CT-21)."""
    return hmac.digest(incarnation_id, broker_id.to_bytes(4, "big", signed=True) + nonce, "sha256")
