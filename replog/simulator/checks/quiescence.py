"""INV-21: once faults have stopped for long enough, everything agrees."""

from collections.abc import Iterable

from replog.simulator.checks.chain import all_headers
from replog.simulator.checks.partition_ledger import PartitionLedger
from replog.simulator.checks.seen_replica import SeenReplica
from replog.simulator.checks.world import WatchedWorld


def _unsettled(world: WatchedWorld, partition: PartitionLedger) -> str | None:
    state = partition.state
    assert state is not None
    live = {broker_id for broker_id in state.replicas if world.brokers.get(broker_id) is not None}
    if set(state.isr) != live:
        return f"the ISR is {list(state.isr)}, and {sorted(live)} of {list(state.replicas)} live"
    for broker_id in state.replicas:
        replica = partition.replicas.get(broker_id)
        if broker_id not in live:
            continue
        if replica is None:
            return f"broker {broker_id} hosts no replica"
        if replica.log.failure is not None:
            return f"broker {broker_id} serves a log that has failed: {replica.log.failure}"
        if replica.epoch != state.leader_epoch:
            return f"broker {broker_id} is in epoch {replica.epoch}, the controller in {state.leader_epoch}"
        if replica.high_watermark != replica.end or replica.end != partition.replicas[state.leader].end:
            return f"broker {broker_id} has HW {replica.high_watermark} and end {replica.end}: {replica}"
        if replica.log.last_stable_offset != replica.end:
            return f"broker {broker_id} has a transaction that is not decided at {replica.log.last_stable_offset}"
    return None


def check_quiescence(world: WatchedWorld, partitions: Iterable[PartitionLedger]) -> None:
    """INV-21: the ISR has every live replica, high watermarks are at the log ends, and all logs hold the same bytes."""
    for partition in partitions:
        if partition.deleted or partition.state is None:
            continue
        why = _unsettled(world, partition)
        if why is not None:
            partition.fail("INV-21", why)
        for replica in partition.replicas.values():
            if replica.broker_id in partition.state.replicas and world.brokers.get(replica.broker_id) is not None:
                _check_files(partition, replica)
        _check_equal(partition)


def _check_files(partition: PartitionLedger, replica: SeenReplica) -> None:
    """Check that the files hold what the checks followed step by step."""
    if replica.compacted:
        return
    seen = [(batch.epoch, batch.base, batch.next, batch.crc) for batch in replica.chain.batches]
    held = [(h.leader_epoch, h.base_offset, h.next_offset, h.crc) for h in all_headers(replica.log)]
    if seen[len(seen) - len(held) :] != held:
        partition.fail("INV-21", f"broker {replica.broker_id}'s files hold {held}, its appends made {seen}")


def _check_equal(partition: PartitionLedger) -> None:
    assert partition.state is not None
    leader = partition.replicas[partition.state.leader]
    for member in partition.state.isr:
        if partition.lacks(partition.replicas[member], leader.end, leader.chain):
            partition.fail("INV-21", f"broker {member}'s log is not that of leader {leader.broker_id}")
