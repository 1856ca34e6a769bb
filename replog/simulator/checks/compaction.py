"""Checks compacted logs record by record: a cleaning removes only what it may, and changes nothing that it keeps.

Replicas of a compacted log hold different batches (CL-10), but the same record at each offset and epoch. So the ledger
keeps their records, one object for each, where it keeps the batches of other logs (`chain`)."""

from collections.abc import Iterable
from itertools import takewhile

from replog.simulator.checks.chain import Kept, Records, records_of, transactions
from replog.simulator.checks.partition_ledger import PartitionLedger
from replog.simulator.checks.seen_replica import SeenReplica
from replog.simulator.plan import FOR_EVER_MS


def follow_records(partition: PartitionLedger, replica: SeenReplica, *, rewritten: bool) -> None:
    """Note what was appended to a compacted log, and check what was cleaned. Call it before `replica.end` is updated.
    `rewritten`: the log was truncated, or is seen for the first time."""
    segments = replica.log.segments
    there = {segment.base_offset: segment for segment in segments}
    known = [segment for segment in replica.sealed if segment.base_offset >= segments[0].base_offset]
    cleaned = any(there.get(segment.base_offset) is not segment for segment in known)
    replica.sealed = segments[:-1]
    if rewritten or cleaned:
        files = [(segment.path, segment.size) for segment in segments]
        before, replica.records = replica.records, _interned(partition, replica, records_of(files))
        if not rewritten:
            partition.done["cleanings"] += 1
            check_cleaning(partition, replica, before, replica.records, below=replica.end)
    elif replica.log.log_end_offset != replica.end:
        files = [(segment.path, segment.size) for segment in segments if segment.next_offset > replica.end]
        replica.records |= _interned(partition, replica, records_of(files, replica.end))


def _interned(partition: PartitionLedger, replica: SeenReplica, kept: Iterable[Kept]) -> dict[int, Kept]:
    """INV-13, CL-8: each record is the same in every log. INV-14: offsets rise, and epochs do not fall."""
    interned: dict[int, Kept] = {}
    offset, epoch = -1, 0
    for each in kept:
        record = each.record
        known = partition.records.setdefault((each.epoch, record.offset), record)
        if known != record:
            partition.fail("INV-13", f"broker {replica.broker_id} holds {record}, and elsewhere it is {known}")
        if record.offset <= offset or each.epoch < epoch:
            partition.fail("INV-14", f"broker {replica.broker_id} holds {each} behind offset {offset}, epoch {epoch}")
        offset, epoch = record.offset, each.epoch
        interned[offset] = each._replace(record=known)
    return interned


def check_cleaning(
    partition: PartitionLedger, replica: SeenReplica, before: Records, after: Records, *, below: int
) -> None:
    """Check a cleaning (CL-5, CL-6, CL-8) of what lies between the log start and the offset `below`."""
    start = replica.log.log_start_offset
    who = f"broker {replica.broker_id}'s cleaning"
    for offset in takewhile(lambda offset: offset < below, after):
        if offset not in before:
            partition.fail("CL-8", f"{who} made {after[offset]}")
    void, undecided = transactions(before)
    latest = {
        kept.record.key: offset
        for offset, kept in before.items()
        if kept.commits is None and offset not in void and offset not in undecided
    }
    for offset, kept in before.items():
        if offset in after or not start <= offset < below or offset in void:
            continue
        if kept.commits is not None:
            marked = _marked(before, offset, kept.producer_id)
            if marked & after.keys():
                partition.fail("CL-6", f"{who} took the marker {kept}, and left data of its transaction: {marked}")
        elif offset in undecided:
            partition.fail("CL-1", f"{who} took {kept} of a transaction that is not decided")
        elif latest[kept.record.key] == offset and kept.record.value is not None:
            partition.fail("CL-5", f"{who} took {kept}, the latest of its key")
        elif latest[kept.record.key] == offset:
            if not kept.expires or replica.log.config.delete_retention_ms >= FOR_EVER_MS:
                partition.fail("CL-6", f"{who} took the tombstone {kept} before its time")
            older = next((other for other in after.values() if _outlives(other, kept)), None)
            if older is not None:
                partition.fail("CL-5", f"{who} took the tombstone {kept}, and left {older}")


def _marked(records: Records, marker: int, producer_id: int) -> set[int]:
    """Return the offsets of the data in the transaction that the marker ends."""
    offsets: set[int] = set()
    for offset, kept in records.items():
        if offset >= marker:
            break
        if kept.producer_id == producer_id and kept.transactional:
            offsets = offsets | {offset} if kept.commits is None else set()
    return offsets


def _outlives(other: Kept, tombstone: Kept) -> bool:
    """Return True if `other` is older data of the tombstone's key, which readers would find again."""
    of_key = other.commits is None and other.record.key == tombstone.record.key
    return of_key and other.record.offset < tombstone.record.offset
