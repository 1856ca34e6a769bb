"""A partition's state in one word, and what a change did to it. Pure."""

from typing import Any

from replog.client.descriptions import PartitionChange, PartitionDescription, TopicDescription

STATES = ("offline", "below min", "out of sync", "moving", "not preferred", "in sync")  # the worst first


def state_of(topic: TopicDescription, partition: PartitionDescription) -> str:
    """Return the worst state that is true of the partition."""
    if partition.leader < 0:
        return "offline"
    if len(partition.isr) < topic.min_insync_replicas(partition):
        return "below min"
    if partition.out_of_sync:
        return "out of sync"
    if partition.adding_replicas or partition.removing_replicas:
        return "moving"
    return "in sync" if partition.leader == partition.replicas[0] else "not preferred"


def told(change: PartitionChange) -> dict[str, Any]:
    """Return a change for the page: when, of which partition, why, and what it did, in words."""
    before, after = change.before, change.after
    did: list[tuple[str, str]] = []
    if after.leader != before.leader:
        leader = "no leader" if after.leader < 0 else f"leader {after.leader}"
        former = "" if before.leader < 0 else f", before it {before.leader}"
        did.append(("fault" if after.leader < 0 else "election", leader + former))
    elif after.leader_epoch != before.leader_epoch:
        did.append(("election", f"leader {after.leader} again, in epoch {after.leader_epoch}"))
    if after.recovering and not before.recovering:
        did.append(("fault", "an unclean election: committed records may be lost"))
    for word, old, new in (("in sync", before.isr, after.isr), ("eligible to lead", before.elr, after.elr)):
        left, joined = sorted(set(old) - set(new)), sorted(set(new) - set(old))
        kind = "isr" if joined or word != "in sync" else "fault"
        if left or joined:
            did.append(
                (kind, " ".join([word, *(f"−{broker}" for broker in left), *(f"+{broker}" for broker in joined)]))
            )
    if after.reassigning and (after.adding, after.removing) != (before.adding, before.removing):
        ways = [*(f"+{broker}" for broker in after.adding), *(f"−{broker}" for broker in after.removing)]
        did.append(("move", " ".join(["moving", *ways])))
    elif before.reassigning and not after.reassigning:
        did.append(("move", f"moved: replicas {','.join(map(str, after.replicas))}"))
    return {
        "version": change.version,
        "at": change.at_ms,
        "key": str(change.partition),
        "why": change.reason,
        "did": did or [("isr", "another partition epoch")],
    }
