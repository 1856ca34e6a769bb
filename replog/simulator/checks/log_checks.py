"""Checks one replica's log, also when a copy in another directory took its place (7.7): its bounds, its batches or
records, and its epoch cache (INV-1, INV-13 to INV-16)."""

from collections.abc import Iterable

from replog.log.epochs import EpochEntry
from replog.log.formats.batch import BatchHeader
from replog.log.log import Log
from replog.simulator.checks.chain import Chain, all_headers, cache_text, headers_from
from replog.simulator.checks.compaction import follow_records
from replog.simulator.checks.partition_ledger import PartitionLedger
from replog.simulator.checks.seen_replica import SeenReplica


def follow_log(partition: PartitionLedger, replica: SeenReplica) -> bool:
    """Update `replica` from its log, and check what is new there. Return True if batches may have gone."""
    log = replica.log
    end, start, generation = log.log_end_offset, log.log_start_offset, log.generation
    rewritten = generation != replica.generation
    runs = len(replica.chain.runs)
    if not replica.compacted:
        if rewritten:
            _compare(partition, replica, all_headers(log))
        elif end != replica.end:
            _append(partition, replica, headers_from(log, replica.end))
        last = replica.chain.last
        if last is not None and last.next != end:
            partition.fail("INV-16", f"broker {replica.broker_id}'s log ends at {end}, and its last batch is {last}")
    else:
        follow_records(partition, replica, rewritten=rewritten)
    latest = log.epochs.latest
    changed = rewritten or latest is not replica.latest or start != replica.start or runs != len(replica.chain.runs)
    replica.end, replica.start, replica.generation, replica.latest = end, start, generation, latest
    _check_bounds(partition, replica)
    if changed and not replica.compacted:
        _check_cache(partition, replica)
    return rewritten


def _compare(partition: PartitionLedger, replica: SeenReplica, headers: Iterable[BatchHeader]) -> None:
    """Update the chain of a log that was truncated, and perhaps appended to since.

    Batches below the log start may have gone with their segments."""
    chain, headers = replica.chain, iter(headers)
    first = next(headers, None)
    if first is None:
        partition.done["truncations"] += bool(chain.batches)
        chain.cut(0)
        return
    slot = chain.slot_from(first.base_offset)
    if slot > 0:
        kept = chain.batches[slot:]
        chain.cut(0)
        for batch in kept:
            chain.append(batch)
    count = 0
    new = [first]
    for header in (first, *headers):
        if len(new) == 1 and count < len(chain.batches) and _is(chain, count, header):
            count += 1
        else:
            new.append(header)
    partition.done["truncations"] += count < len(chain.batches)
    chain.cut(count)
    _append(partition, replica, new[1:])


def _is(chain: Chain, slot: int, header: BatchHeader) -> bool:
    batch = chain.batches[slot]
    return (batch.base, batch.next, batch.epoch, batch.crc) == (
        header.base_offset,
        header.next_offset,
        header.leader_epoch,
        header.crc,
    )


def _append(partition: PartitionLedger, replica: SeenReplica, headers: list[BatchHeader]) -> None:
    chain = replica.chain
    previous = chain.last
    for header in headers:
        if previous is not None:
            if header.base_offset != previous.next:
                partition.fail(
                    "INV-16",
                    f"broker {replica.broker_id}'s log goes on with offset {header.base_offset} after {previous}",
                )
            if header.leader_epoch < previous.epoch:
                partition.fail(
                    "INV-14",
                    f"broker {replica.broker_id}'s log goes on at offset {header.base_offset} with epoch "
                    f"{header.leader_epoch}, after {previous}",
                )
            if previous.next <= replica.log.log_start_offset:
                previous = None  # below its leader's log start a follower may keep another tail; nobody can read it
        previous = partition.intern(header, previous, replica)
        chain.append(previous)


def _check_bounds(partition: PartitionLedger, replica: SeenReplica) -> None:
    high_watermark = replica.log.high_watermark
    if not 0 <= replica.start <= high_watermark <= replica.end:
        partition.fail(
            "INV-1",
            f"broker {replica.broker_id}: not 0 <= log start {replica.start} <= high watermark {high_watermark} "
            f"<= log end {replica.end}",
        )


def _check_cache(partition: PartitionLedger, replica: SeenReplica) -> None:
    """INV-15: the cache has the epochs of the batches at and above the log start, with their start offsets.

    An entry at the log end is of an epoch without records yet; a deposed leader may still have it."""
    entries = replica.log.epochs.entries
    before = (-1, -1)
    for entry in entries:
        if entry[0] <= before[0] or entry[1] <= before[1]:
            _wrong_cache(partition, replica, f"entry {entry} does not rise above {before}")
        before = entry
    if before[1] > replica.end:
        _wrong_cache(partition, replica, f"entry {before} begins behind the log end {replica.end}")
    cached = [entry for entry in entries if entry[1] < replica.end]
    expected = _expected(replica)
    if (
        [epoch for epoch, _ in cached] != [epoch for epoch, _ in expected]
        or cached[1:] != expected[1:]
        or (cached and cached[0][1] > max(expected[0][1], replica.start))
    ):
        _wrong_cache(partition, replica, f"the batches say {cache_text(expected)}")


def _expected(replica: SeenReplica) -> list[EpochEntry]:
    """Return the epochs of the batches at and above the log start, with their start offsets."""
    if replica.start == replica.end:
        return []
    runs = replica.chain.runs
    return [run for slot, run in enumerate(runs) if slot + 1 == len(runs) or runs[slot + 1][1] > replica.start]


def _wrong_cache(partition: PartitionLedger, replica: SeenReplica, why: str) -> None:
    entries = cache_text(replica.log.epochs.entries)
    partition.fail("INV-15", f"broker {replica.broker_id}'s epoch cache is {entries}: {why}")


def follow_move(partition: PartitionLedger, replica: SeenReplica) -> None:
    """Check that the new log has the old one's bounds, epochs and batches, and follow it from now on. A leader's high
    watermark and last stable offset may rise: the copy is flushed, and the old log may have waited for that (LG-18)."""
    old, new = replica.log, replica.hosted.log
    partition.done["moves between directories"] += 1
    leads = replica.hosted.leader is not None
    rose = leads and new.high_watermark > old.high_watermark and new.last_stable_offset >= old.last_stable_offset
    if _log(old) != _log(new) or not (rose or _bounds(old) == _bounds(new)):
        partition.fail("7.7", f"broker {replica.broker_id} had {_shown(old)}, and after its move has {_shown(new)}")
    before = replica.chain.batches[replica.chain.slot_from(new.log_start_offset) :]
    replica.take_log(new)
    follow_log(partition, replica)
    after = replica.chain.batches[replica.chain.slot_from(new.log_start_offset) :]
    if before != after:
        partition.fail("7.7", f"broker {replica.broker_id} had batches {before}, and after its move has {after}")


def _log(log: Log) -> object:
    return log.log_start_offset, log.log_end_offset, log.epochs.entries


def _bounds(log: Log) -> object:
    return log.last_stable_offset, log.high_watermark


def _shown(log: Log) -> str:
    return (
        f"start {log.log_start_offset}, LSO {log.last_stable_offset}, HW {log.high_watermark}, "
        f"end {log.log_end_offset}, epochs {log.epochs.entries}"
    )
