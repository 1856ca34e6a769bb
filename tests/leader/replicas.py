"""Replicas for the tests of both roles: logs in the notation of the worked cases, brokers, a leader and its follower.

`"3:10-14"` is records 10 to 14 of leader epoch 3, one batch each; `"(6@15)"` is epoch 6 begun at 15 without a record.
"""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

from follower.partition_follower import FollowerProgress, PartitionFollower
from leader.follower_state import FetchContext
from leader.isr import IsrProposal
from leader.partition_leader import LeaderAppend, PartitionLeader
from replog.errors import ErrorCode
from replog.log.fetch import FetchAnswer, FetchPartition, Reading
from replog.log.formats.batch import iterate_batches
from replog.log.log import Log
from replog.log.offsets import Isolation
from replog.metadata.values import BrokerRegistration, PartitionState
from replog.topic import TopicPartition
from tests.replog.log.batches import client_batch, open_log

TP = TopicPartition("t", 0)
LAG_MS = 10_000
NOW_MS = 1_000_000  # far from the beginning of time
ONE_MIB = 1 << 20


def log_of(directory: Path, *runs: str, high_watermark: int = 0, **settings: Any) -> Log:
    """A log of one-record batches; one that begins above 0 has its log start there."""
    log = open_log(directory, **{"min_insync_replicas": 1, **settings})
    for run in runs:
        if match := re.fullmatch(r"\((\d+)@(\d+)\)", run):
            epoch, start = map(int, match.groups())
            assert log.log_end_offset in (0, start), f"{run} does not begin at the log end {log.log_end_offset}"
            log.assign_epoch_start(epoch)
            continue
        epoch, first, last = (int(number) for number in re.split("[:-]", run))
        if log.log_end_offset == 0 and first > 0:
            log.truncate_fully_and_start_at(first)
        assert log.log_end_offset == first, f"{run} does not begin at the log end {log.log_end_offset}"
        for _ in range(first, last + 1):
            append_record(log, epoch)
    log.update_high_watermark(high_watermark)
    return log


def append_record(log: Log, epoch: int, size: int = 0) -> None:
    """Append a record whose value tells its epoch and offset, in a batch of `size` bytes if given."""
    log.append_as_leader(record(epoch, log.log_end_offset, size), leader_epoch=epoch, now_ms=0)


def record(epoch: int = 0, offset: int = 0, size: int = 0) -> bytes:
    """A client batch of one record; `size` bytes in all if given."""
    value = f"{epoch}:{offset}".encode()
    batch = client_batch(value)
    while size and len(batch) != size:  # the length's own bytes grow with it
        value = value[: len(value) + size - len(batch)].ljust(len(value) + size - len(batch), b".")
        batch = client_batch(value)
    return batch


def records_of(log: Log) -> list[tuple[int, int]]:
    """(offset, leader epoch) of every batch from the log start on."""
    return [(header.base_offset, header.leader_epoch) for _, header in iterate_batches(bytes_of(log))]


def bytes_of(log: Log, start: int | None = None) -> bytes:
    """The log from `start` (its log start) to its end."""
    data = bytearray()
    offset = log.log_start_offset if start is None else start
    while offset < log.log_end_offset:
        chunk = bytes(log.read(offset, ONE_MIB, Isolation.LOG_END, min_one_message=True).records)
        *_, (position, last) = iterate_batches(chunk)
        data += chunk[: position + last.size]  # a read may end within a batch
        offset = last.next_offset
    return bytes(data)


class Brokers:
    """The registrations that a leader sees; broker n has broker epoch 100 + n."""

    def __init__(self, *broker_ids: int) -> None:
        self._brokers = {
            broker_id: BrokerRegistration(
                broker_id, 100 + broker_id, b"", f"127.0.0.1:{9000 + broker_id}", "", False, False
            )
            for broker_id in broker_ids
        }

    def broker(self, broker_id: int) -> BrokerRegistration | None:
        return self._brokers.get(broker_id)

    def change(self, broker_id: int, **changes: Any) -> None:
        self._brokers[broker_id] = replace(self._brokers[broker_id], **changes)


def state(
    leader: int = 1,
    epoch: int = 0,
    partition_epoch: int = 0,
    isr: tuple[int, ...] = (1, 2, 3),
    replicas: tuple[int, ...] = (1, 2, 3),
    elr: tuple[int, ...] = (),
) -> PartitionState:
    return PartitionState(replicas, isr, leader, epoch, partition_epoch, elr)


def leader_of(log: Log, metadata: PartitionState, brokers: Brokers | None = None) -> PartitionLeader:
    """A leader that has just applied `metadata`."""
    leader = PartitionLeader(
        TP, metadata.leader, log, brokers or Brokers(*metadata.replicas), replica_lag_time_max_ms=LAG_MS
    )
    leader.become_leader(metadata, 100 + metadata.leader, NOW_MS)
    return leader


def fetch(
    leader: PartitionLeader,
    replica_id: int,
    offset: int,
    last_epoch: int | None = None,
    *,
    now_ms: int = NOW_MS,
    **changes: Any,
) -> FetchAnswer:
    """A fetch by a replica, in the leader's own epoch unless `current_leader_epoch` says otherwise."""
    request = FetchPartition(
        offset,
        changes.get("max_bytes", ONE_MIB),
        changes.get("current_leader_epoch", leader.leader_epoch),
        last_epoch,
        changes.get("log_start_offset", 0),
    )
    context = FetchContext(replica_id, changes.get("broker_epoch", 100 + replica_id))
    answer = leader.fetch_as_follower(context, request, Reading(ONE_MIB, min_one=True))
    leader.on_fetched(context, request, answer, now_ms)
    return answer


def proposed(leader: PartitionLeader) -> IsrProposal:
    """What it proposes now."""
    proposal = leader.take_proposal()
    assert proposal is not None, f"nothing is proposed: {leader.state}"
    return proposal


def produce(leader: PartitionLeader, *, acks: int = -1, now_ms: int = NOW_MS) -> LeaderAppend:
    """Append one record whose value tells its epoch and offset."""
    batch = record(leader.leader_epoch, leader.log.log_end_offset)
    return leader.append_records_to_leader(batch, acks=acks, wall_ms=0, now_ms=now_ms)


class LeaderFollowerPair:
    """A leader and one follower, fetching from each other round by round; `rounds` tells what was said."""

    def __init__(self, leader: PartitionLeader, follower: PartitionFollower, replica_id: int = 2) -> None:
        self.leader = leader
        self.follower = follower
        self.replica_id = replica_id
        self.now_ms = NOW_MS
        self.rounds: list[tuple[int, int | None, str]] = []

    def round(self) -> FollowerProgress:
        """One fetch, its answer, and what the follower made of it. Delays are waited out."""
        if self.follower.next_retry_ms is not None:
            self.now_ms = max(self.now_ms, self.follower.next_retry_ms)
        request = self.follower.next_fetch(self.now_ms, ONE_MIB)
        assert request is not None, f"nothing to fetch: {self.follower.fetch_state} {self.follower.failure}"
        context = FetchContext(self.replica_id, 100 + self.replica_id)
        answer = self.leader.fetch_as_follower(context, request, Reading(ONE_MIB, min_one=True))
        self.leader.on_fetched(context, request, answer, self.now_ms)
        self.rounds.append((request.fetch_offset, request.last_fetched_epoch, outcome(answer)))
        return self.follower.on_answer(request, answer, self.now_ms)

    def catch_up(self) -> None:
        """Fetch until both logs end alike and the follower knows the high watermark."""
        for _ in range(50):
            progress = self.round()
            idle = not progress.appended_bytes and progress.truncated_to is None
            if idle and self.follower.log.high_watermark == self.leader.log.high_watermark:
                return
        raise AssertionError(f"no end after 50 rounds: {self.rounds}")


def outcome(answer: FetchAnswer) -> str:
    """`ok`, `diverging E,O`, or the error's name."""
    if answer.error is not ErrorCode.NONE:
        return answer.error.name
    return f"diverging {answer.diverging.epoch},{answer.diverging.end_offset}" if answer.diverging else "ok"


def pair_of(leader_log: Log, follower_log: Log, epoch: int, isr: tuple[int, ...] = (1, 2)) -> LeaderFollowerPair:
    """Broker 1 leads in `epoch`, broker 2 follows."""
    metadata = state(epoch=epoch, isr=isr, replicas=(1, 2))
    follower = PartitionFollower(TP, follower_log, backoff_ms=1000)
    pair = LeaderFollowerPair(leader_of(leader_log, metadata), follower)
    assert follower.become_follower(metadata, NOW_MS)
    return pair
