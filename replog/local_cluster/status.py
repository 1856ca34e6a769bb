"""Reads the status of members and partitions from a cluster's metadata."""

from dataclasses import dataclass
from typing import Any

from replog.local_cluster.cluster_file import BROKER, LocalMember
from replog.local_cluster.processes import ProcessState
from replog.metadata.values import out_of_sync


@dataclass(frozen=True, slots=True)
class MemberStatus:
    """One line of `replog cluster status`. The counts are -1 if no running broker answers."""

    name: str
    pid: int | None
    address: str
    state: str  # running, starting, fenced, paused, stopped
    leaders: int
    replicas: int
    out_of_sync: int  # replicas that are not in the ISR, without those being added to their partition


def incomplete(metadata: Any, topic: str | None) -> list[str]:
    """Describe the partitions of `topic`, or of all topics, without a leader or with a replica out of sync."""
    return [
        f"{described.topic}-{partition.partition} with isr {list(partition.isr)} of {list(partition.replicas)}"
        + (" and no leader" if partition.leader < 0 else "")
        for described in metadata.topics
        if topic is None or described.topic == topic
        for partition in described.partitions
        if partition.leader < 0 or set(partition.isr) != set(partition.replicas)
    ]


def member_status(member: LocalMember, metadata: Any) -> MemberStatus:
    """Return a member's status. `metadata` is a GetMetadataResponse, or None if no broker answers."""
    state, broker_id = member.state.value, member.node_id
    if member.kind != BROKER or metadata is None:
        return MemberStatus(member.name, member.pid, member.address, state, -1, -1, -1)
    known = {broker.broker_id: broker for broker in metadata.brokers}
    if member.state is ProcessState.RUNNING and (broker_id not in known or known[broker_id].fenced):
        state = "fenced" if broker_id in known else "starting"
    partitions = [
        partition for topic in metadata.topics for partition in topic.partitions if broker_id in partition.replicas
    ]
    return MemberStatus(
        name=member.name,
        pid=member.pid,
        address=member.address,
        state=state,
        leaders=sum(partition.leader == broker_id for partition in partitions),
        replicas=len(partitions),
        out_of_sync=sum(bool(out_of_sync([broker_id], p.isr, p.adding_replicas)) for p in partitions),
    )
