"""The plan for this broker's replica of a partition, after a change of the metadata (§2.3). Pure."""

from enum import Enum
from typing import NamedTuple

from replog.metadata.values import PartitionState, Topic


class ReplicaPlan(Enum):
    """A plan. All except KEEP need the disk first; to LEAD, the start of the new epoch is made durable (EP-3)."""

    DELETE = "delete"
    CREATE = "create"
    REPLACE = "delete, and create another"
    LEAD = "lead in a new epoch"
    KEEP = "keep, or have none"


class Present(NamedTuple):
    """The broker's present replica."""

    topic_id: bytes | None  # None: it has no log
    is_hosted: bool  # True without a log: a move between directories was interrupted, and the next start ends it
    led_epoch: int = -1


def plan_replica(broker_id: int, state: PartitionState | None, topic: Topic | None, present: Present) -> ReplicaPlan:
    """Return the plan for a replica. `state` and `topic` are None if they are deleted."""
    is_here = present.is_hosted or present.topic_id is not None
    if state is None or topic is None or broker_id not in state.replicas:  # CT-17, CT-19
        return ReplicaPlan.DELETE if is_here else ReplicaPlan.KEEP
    if state.contradicts_itself:  # no role follows from it, and no file may
        return ReplicaPlan.KEEP
    if present.topic_id not in (None, topic.topic_id):  # the name was deleted and created again (CT-18)
        return ReplicaPlan.REPLACE
    if not is_here:
        return ReplicaPlan.CREATE
    leads_anew = state.leader == broker_id and state.leader_epoch > present.led_epoch
    return ReplicaPlan.LEAD if leads_anew else ReplicaPlan.KEEP
