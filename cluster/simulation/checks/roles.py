"""Who leads: epochs of roles, one leader an epoch, zombies (INV-1, INV-3, INV-4, INV-20)."""

from cluster.simulation.checks.partition import Partition
from cluster.simulation.checks.replica import Replica
from replog.log.offsets import NO_EPOCH
from replog.metadata import NO_BROKER_EPOCH


def follow_role(partition: Partition, replica: Replica) -> tuple[bool, bool]:
    """Take over the replica's role; whether it leads on without a break, and whether it leads in a new epoch."""
    hosted = replica.hosted
    leader, role = hosted.leader, hosted.leader or hosted.follower
    epoch = role.leader_epoch if role is not None else NO_EPOCH
    if epoch < replica.epoch:
        partition.fail("INV-4", f"broker {replica.broker_id}'s leader epoch went back from {replica.epoch} to {epoch}")
    leads_on = leader is not None and leader is replica.leader
    new_epoch = epoch != replica.epoch
    replica.leader, replica.follower, replica.epoch = leader, hosted.follower, epoch
    replica.state = leader.state if leader is not None else None
    _check_epochs(partition, replica)
    leads_anew = leader is not None and epoch != NO_EPOCH and (new_epoch or not leads_on)
    if leads_anew:
        _act(partition, replica)
    return leads_on, leads_anew


def _check_epochs(partition: Partition, replica: Replica) -> None:
    """INV-1. A role that is not taken up yet, for its disk refused, has no epoch."""
    epoch, state = replica.epoch, partition.state
    if epoch == NO_EPOCH:
        return
    if state is not None and epoch > state.leader_epoch:
        partition.fail(
            "INV-1",
            f"broker {replica.broker_id} is in epoch {epoch}, and the controller has given {state.leader_epoch}",
        )


def check_log_epochs(partition: Partition, replica: Replica) -> None:
    """INV-1: nothing in the log is of an epoch that its broker does not know."""
    epoch = replica.epoch
    if epoch == NO_EPOCH:
        return
    last = replica.chain.last
    if last is not None and last.epoch > epoch:
        partition.fail("INV-1", f"broker {replica.broker_id} is in epoch {epoch}, and its log has {last}")
    if replica.latest is not None and replica.latest[0] > epoch:
        partition.fail("INV-1", f"broker {replica.broker_id} is in epoch {epoch}, and its cache has {replica.latest}")


def _act(partition: Partition, replica: Replica) -> None:
    """INV-3, with the incarnation for the broker: one that restarts must not go on leading."""
    epoch, acting = replica.epoch, (replica.broker_id, replica.process)
    known = partition.leaders.setdefault(epoch, acting)
    if known != acting:
        partition.fail(
            "INV-3", f"broker {replica.broker_id} acts as the leader of epoch {epoch}, as broker {known[0]} did before"
        )
    elected = partition.recorded_leaders.get(epoch)
    if elected is not None and elected != replica.broker_id:
        partition.fail("INV-3", f"broker {replica.broker_id} leads in epoch {epoch}, for which {elected} was elected")


def check_zombies(partition: Partition, replica: Replica, *, elected: bool) -> None:
    """INV-20: no fetch of an incarnation that the leader knows to be over moves what it thinks of a follower.

    An election (`elected`) writes its followers' states too, without a fetch (ST-11).
    """
    leader = replica.leader
    if leader is None:
        replica.followers = {}
        return
    before, replica.followers = replica.followers, dict(leader.replicas)
    if elected:
        return
    for follower_id, follower in replica.followers.items():
        registered = replica.image.brokers.get(follower_id)
        if (
            follower is not before.get(follower_id)
            and registered is not None
            and NO_BROKER_EPOCH != follower.broker_epoch < registered.broker_epoch
        ):
            partition.fail(
                "INV-20",
                f"leader {replica.broker_id} took a fetch of broker {follower_id} in broker epoch "
                f"{follower.broker_epoch}, and knows that it is registered with {registered.broker_epoch}",
            )
