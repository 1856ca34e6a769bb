"""Checks roles: their epochs, one leader an epoch, no fetches of dead incarnations (INV-1, INV-3, INV-4, INV-20)."""

from replog.log.offsets import NO_EPOCH
from replog.metadata.values import NO_BROKER_EPOCH
from replog.simulator.checks.partition_ledger import PartitionLedger
from replog.simulator.checks.seen_replica import SeenReplica


def follow_role(partition: PartitionLedger, replica: SeenReplica) -> tuple[bool, bool]:
    """Follow the replica's role, which is not ahead of the controller's epoch (INV-1). Return whether it led before and
    still leads, and whether it leads in a new epoch. A role that a failing disk delays has no epoch yet."""
    hosted = replica.hosted
    leader, role = hosted.leader, hosted.leader or hosted.follower
    epoch = role.leader_epoch if role is not None else NO_EPOCH
    if epoch < replica.epoch:
        partition.fail("INV-4", f"broker {replica.broker_id}'s leader epoch went back from {replica.epoch} to {epoch}")
    leads_on = leader is not None and leader is replica.leader
    new_epoch = epoch != replica.epoch
    replica.leader, replica.role, replica.epoch = leader, role, epoch
    replica.state = leader.state if leader is not None else None
    if epoch != NO_EPOCH and partition.state is not None and epoch > partition.state.leader_epoch:
        given = partition.state.leader_epoch
        partition.fail("INV-1", f"broker {replica.broker_id} is in epoch {epoch}, and the controller has given {given}")
    leads_anew = epoch != NO_EPOCH and (new_epoch or not leads_on)
    if leader is not None and leads_anew:
        _act(partition, replica)
        replica.elected_with = dict(leader.replicas)
    return leads_on, leader is not None and leads_anew


def check_log_epochs(partition: PartitionLedger, replica: SeenReplica) -> None:
    """INV-1: no batch or cache entry has an epoch above the role's, except the entry of an epoch for which the broker
    was elected: it is noted before the broker leads (divergence 26)."""
    epoch = replica.epoch
    if epoch == NO_EPOCH:
        return
    last = replica.chain.last
    if last is not None and last.epoch > epoch:
        partition.fail("INV-1", f"broker {replica.broker_id} is in epoch {epoch}, and its log has {last}")
    latest = replica.latest
    if latest is not None and latest[0] > epoch and partition.recorded_leaders.get(latest[0]) != replica.broker_id:
        partition.fail("INV-1", f"broker {replica.broker_id} is in epoch {epoch}, and its cache has {latest}")


def _act(partition: PartitionLedger, replica: SeenReplica) -> None:
    """INV-3: only one incarnation of the elected broker leads in an epoch. ST-13: it has noted where that begins."""
    epoch, acting = replica.epoch, (replica.broker_id, replica.process)
    known = partition.leaders.setdefault(epoch, acting)
    if known != acting:
        partition.fail(
            "INV-3", f"broker {replica.broker_id} acts as the leader of epoch {epoch}, as broker {known[0]} did before"
        )
    elected = partition.recorded_leaders.get(epoch)
    if elected is not None and elected != replica.broker_id:
        partition.fail("INV-3", f"broker {replica.broker_id} leads in epoch {epoch}, for which {elected} was elected")
    noted = NO_EPOCH if replica.latest is None else replica.latest[0]
    leads_next = noted > epoch and partition.recorded_leaders.get(noted) == replica.broker_id  # no records until then
    if noted != epoch and not leads_next:
        partition.fail(
            "ST-13", f"broker {replica.broker_id} leads in epoch {epoch}, and has not noted where that begins"
        )


def check_zombies(partition: PartitionLedger, replica: SeenReplica) -> None:
    """INV-20: only fetches of the incarnation that a leader knows move what it believes of a follower.

    What an election wrote was no fetch (ST-11)."""
    leader = replica.leader
    if leader is None:
        return
    for follower_id, follower in leader.replicas.items():
        broker_epoch, known_since_ms = replica.registered.get(follower_id, (NO_BROKER_EPOCH, 0))
        if (
            follower.broker_epoch not in (NO_BROKER_EPOCH, broker_epoch)
            and follower.last_fetch_ms > known_since_ms
            and replica.elected_with.get(follower_id) is not follower
        ):
            partition.fail(
                "INV-20",
                f"leader {replica.broker_id} took a fetch of broker {follower_id} in broker epoch "
                f"{follower.broker_epoch}, and knew that it is registered with {broker_epoch}",
            )
