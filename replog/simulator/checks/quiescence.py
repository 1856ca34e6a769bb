"""INV-21: once faults have stopped for long enough, everything agrees."""

from collections.abc import Iterable, Iterator, Mapping

from replog.metadata.values import PartitionState
from replog.server.broker.broker import Broker
from replog.simulator.checks.chain import all_headers
from replog.simulator.checks.partition_ledger import PartitionLedger
from replog.simulator.checks.seen_replica import SeenReplica
from replog.topic import TopicPartition


def unsettled(tp: TopicPartition, state: PartitionState, brokers: Mapping[int, Broker]) -> Iterator[str]:
    """Yield the reason, if any, why a partition is not at rest: not every live replica is in sync and in the leader's
    epoch, or some record is not committed or not stable everywhere."""
    live = [broker_id for broker_id in state.replicas if broker_id in brokers]
    still_recovering = state.recovering and len(state.replicas) > 1  # ST-15: one alone has no ISR change to say so with
    if state.leader < 0 or set(state.isr) != set(live) or still_recovering:
        yield f"leader {state.leader}, ISR {list(state.isr)} of {list(state.replicas)}, ELR {list(state.elr)}"
        return
    bounds = {}
    for broker_id in live:
        hosted = brokers[broker_id].manager.replicas.hosted.get(tp)
        if hosted is None or hosted.leader_epoch != state.leader_epoch:
            yield f"broker-{broker_id} has not taken up epoch {state.leader_epoch}"
            return
        log = hosted.log
        if log.failure is not None:
            yield f"broker-{broker_id} serves a log that has failed: {log.failure}"
            return
        bounds[broker_id] = (log.last_stable_offset, log.high_watermark, log.log_end_offset)
    if len({bound for of_broker in bounds.values() for bound in of_broker}) > 1:
        yield f"(LSO, HW, LEO) by broker: {bounds}"


def check_quiescence(brokers: Mapping[int, Broker], partitions: Iterable[PartitionLedger]) -> None:
    """INV-21: every partition is at rest, and all logs hold the same bytes."""
    for partition in partitions:
        state = partition.state
        if partition.deleted or state is None:
            continue
        for why in unsettled(partition.topic_partition, state, brokers):
            partition.fail("INV-21", why)
        leader = partition.replicas[state.leader]
        for member in state.isr:
            replica = partition.replicas[member]
            _check_files(partition, replica)
            if partition.is_incomplete(replica, leader.end, leader.chain):
                partition.fail("INV-21", f"broker {member}'s log is not that of leader {leader.broker_id}")


def _check_files(partition: PartitionLedger, replica: SeenReplica) -> None:
    """Check that the files hold what the checks followed step by step."""
    if replica.compacted:
        return
    seen = [(batch.epoch, batch.base, batch.next, batch.crc) for batch in replica.chain.batches]
    held = [(h.leader_epoch, h.base_offset, h.next_offset, h.crc) for h in all_headers(replica.log)]
    if seen[len(seen) - len(held) :] != held:
        partition.fail("INV-21", f"broker {replica.broker_id}'s files hold {held}, its appends made {seen}")
