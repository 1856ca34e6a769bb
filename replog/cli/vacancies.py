"""Partitions without a leader, for an operator: how far each replica goes, and what an election would cost."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from replog.command.output import note
from replog.errors import ReplogError
from replog.topic import TopicPartition

if TYPE_CHECKING:
    from replog.client.descriptions import LogEnds, ReplicaLogEnd


async def log_ends_of(admin: Any, partitions: Sequence[TopicPartition]) -> "dict[TopicPartition, LogEnds]":
    """Ask what replicas without a leader said of their logs. Return {} if the controller cannot say, like 0.1.0's."""
    try:
        return await admin.describe_log_ends(partitions) if partitions else {}
    except ReplogError as error:
        note(f"how far the replicas go is not known: {error}")
        return {}


def how_far(replica: "ReplicaLogEnd") -> str:
    had = ", had all acknowledged records when it stopped" if replica.had_everything else ""
    who = f"  broker {replica.broker_id}{'' if replica.is_live else ', not alive'}{had}"
    if replica.is_offline:
        return f"{who}: is offline, its files have failed; see the broker's log"
    if replica.end_offset is None:
        return f"{who}: has not said how far it goes"
    if replica.last_epoch == -1:
        return f"{who}: has no records"
    return f"{who}: up to offset {replica.end_offset}, last leader epoch {replica.last_epoch}"


def at_stake(log_ends: "LogEnds") -> str:
    """Say how far each replica goes, who would be elected now, and what would be lost by that."""
    known, chosen = "\n".join(map(how_far, log_ends.replicas)), log_ends.furthest
    if chosen is None:
        return f"{known}\n  nobody can be elected: no live replica has said how far it goes"
    lost = [text for replica in log_ends.replicas if (text := _lost(replica, chosen))]
    return f"{known}\n  broker {chosen.broker_id} would be elected; lost would be {', and '.join(lost) or 'nothing'}"


def _lost(replica: "ReplicaLogEnd", chosen: "ReplicaLogEnd") -> str:
    """Say which records `replica` has and `chosen` has not; "" if none."""
    if replica.end_offset is None or chosen.end_offset is None:
        return f"what only broker {replica.broker_id} has"
    if (replica.last_epoch, replica.end_offset) <= (chosen.last_epoch, chosen.end_offset):
        return ""
    more = f"{replica.end_offset - chosen.end_offset} records from offset {chosen.end_offset} on"
    later = f"what broker {replica.broker_id} has of later leader epochs"
    return f"{more}, which broker {replica.broker_id} has" if replica.last_epoch == chosen.last_epoch else later
