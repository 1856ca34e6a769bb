"""Wrong ways for a leader to count its followers, to move the high watermark and to acknowledge."""

from typing import Any
from weakref import WeakKeyDictionary

from leader import isr, list_offsets, partition_leader
from leader.delayed_produce import DelayedProduce, PendingProduce
from leader.follower_state import FetchContext, FollowerState
from leader.isr import AfterRefusal, Pending
from leader.partition_leader import PartitionLeader
from replog.errors import ErrorCode
from replog.log.formats.batch import iterate_batches
from replog.log.log import Log
from replog.log.offsets import NO_EPOCH, Isolation
from replog.metadata.values import PartitionState
from replog.server.broker.replicas.replica_manager import ReplicaManager
from tests.replog.simulator.variants import Variant

_candidate: Any = isr.high_watermark_candidate
_become_leader = PartitionLeader.become_leader
_begin_epoch = PartitionLeader._begin_epoch
_on_fetched = PartitionLeader.on_fetched
_on_result = PartitionLeader.on_alter_partition_result
_check = DelayedProduce._check
_append = PartitionLeader.append_records_to_leader
_after_refusal = isr.after_refusal


class _CommittedOnly:
    """An ISR state whose maximal ISR is the committed one."""

    def __init__(self, state: Any) -> None:
        self.isr = self.maximal_isr = state.isr


def _candidate_of_committed(end: int, followers: dict[int, FollowerState], state: Any, **options: Any) -> int | None:
    return _candidate(end, followers, _CommittedOnly(state), **(options | {"is_eligible": lambda *_: False}))


class _WithoutLaggards(_CommittedOnly):
    def __init__(self, state: Any) -> None:
        out = state.leaving if isinstance(state, Pending) else frozenset()
        self.isr, self.maximal_isr = state.isr, state.maximal_isr - out


def _candidate_without_laggards(end: int, followers: Any, state: Any, **options: Any) -> int | None:
    return _candidate(end, followers, _WithoutLaggards(state), **options)


def _candidate_without_minimum(*arguments: Any, **options: Any) -> int | None:
    return _candidate(*arguments, **(options | {"min_insync_replicas": 1}))


def _check_without_epoch(self: DelayedProduce, produce: PendingProduce) -> ErrorCode | None:
    leader = self._lookup(produce.topic_partition)
    if isinstance(leader, ErrorCode):
        return None  # it may lead again
    return _check(self, produce._replace(leader_epoch=leader.leader_epoch))


def _check_without_minimum(self: DelayedProduce, produce: PendingProduce) -> ErrorCode | None:
    error = _check(self, produce)
    return ErrorCode.NONE if error is ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND else error


def _progress_before_append(self, context, request, answer, now_ms):
    if answer.records:
        *_, (_, last) = iterate_batches(answer.records)
        request = request._replace(fetch_offset=last.next_offset)
    return _on_fetched(self, context, request, answer, now_ms)


def _append_unchecked(self: PartitionLeader, records: Any, *, acks: int, **options: Any) -> Any:
    return _append(self, records, acks=1, **options)


def _expand_at_high_watermark(self: PartitionLeader, replica_id: int, follower: FollowerState) -> None:
    start, self.leader_epoch_start_offset = self.leader_epoch_start_offset, -1
    try:
        _expand(self, replica_id, follower)
    finally:
        self.leader_epoch_start_offset = start


def _expand_at_once(self: PartitionLeader, replica_id: int, follower: FollowerState) -> None:
    _expand_at_high_watermark(self, replica_id, follower._replace(log_end_offset=1 << 62))


_expand = PartitionLeader._expand_isr


def _begin_epoch_with_old_offsets(self: PartitionLeader, *arguments: Any) -> None:
    _begin_epoch(self, *arguments)
    for replica_id, known in _remembered.get(self.log, {}).items():
        if replica_id in self.replicas:
            self.replicas[replica_id] = self.replicas[replica_id]._replace(
                log_end_offset=known.log_end_offset, broker_epoch=known.broker_epoch
            )


def _record_and_remember(self: PartitionLeader, context: FetchContext, *arguments: Any) -> bool:
    moved = _on_fetched(self, context, *arguments)
    if context.replica_id in self.replicas:
        _remembered.setdefault(self.log, {})[context.replica_id] = self.replicas[context.replica_id]
    return moved


_remembered: WeakKeyDictionary[Log, dict[int, FollowerState]] = WeakKeyDictionary()


def _begin_epoch_as_the_next(self: PartitionLeader, leader_epoch: int, *arguments: Any) -> None:
    if self.leader_epoch != NO_EPOCH:
        self.leader_epoch = leader_epoch - 1
    _begin_epoch(self, leader_epoch, *arguments)


def _become_leader_on_equal_record(self: PartitionLeader, state: PartitionState, *arguments: Any) -> bool:
    if state.partition_epoch == self.partition_epoch:
        self.partition_epoch -= 1
    return _become_leader(self, state, *arguments)


def _refuse_nothing(error: ErrorCode) -> AfterRefusal:
    return AfterRefusal.REVERT if error is ErrorCode.INVALID_UPDATE_VERSION else _after_refusal(error)


def _forget_but_not_what_was_told(self: PartitionLeader, *arguments: Any) -> bool:
    before = self.partition_epoch
    advanced = _on_result(self, *arguments)
    _told[self], self.partition_epoch = self.partition_epoch, before
    return advanced


def _become_leader_unless_told(self: PartitionLeader, state: PartitionState, *arguments: Any) -> bool:
    if state.leader_epoch == self.leader_epoch and state.partition_epoch <= _told.get(self, -1):
        return False
    return _become_leader(self, state, *arguments)


_told: WeakKeyDictionary[PartitionLeader, int] = WeakKeyDictionary()


def _bound_at_once(log, timestamp, isolation, epoch, _start, **how):
    return _list_offset(log, timestamp, isolation, epoch, -1, **how)


_list_offset = list_offsets.list_offset


def _touch_for_appends_alone(self: ReplicaManager, tp: Any, high_watermark_advanced: bool) -> None:
    _touched(self, tp, False)


_touched = ReplicaManager.touched


def _not_told(self: ReplicaManager, tp: Any, visible: bool) -> None:
    """A waiter on the follower finds out at its deadline."""
    self.dirty[tp] = None


def _read_uncommitted(self, request, isolation, *how, **options):
    return _fetch_as_consumer(self, request, Isolation.LOG_END, *how, **options)


_fetch_as_consumer = PartitionLeader.fetch_as_consumer


def _list_uncommitted(self: PartitionLeader, timestamp: int, isolation: Isolation, *arguments: Any, **how: Any) -> Any:
    return _list_offset_of_leader(self, timestamp, Isolation.LOG_END, *arguments, **how)


_list_offset_of_leader = PartitionLeader.list_offset


def _is_of_this_life_or_a_later(self: PartitionLeader, context: FetchContext) -> bool:
    broker = self._brokers.broker(context.replica_id)
    return broker is None or context.broker_epoch >= broker.broker_epoch


VARIANTS = [
    Variant("hw-from-committed-isr", "isr", (partition_leader, "high_watermark_candidate", _candidate_of_committed)),
    Variant("hw-without-laggards", "isr", (partition_leader, "high_watermark_candidate", _candidate_without_laggards)),
    Variant("hw-below-min-isr", "swarm", (partition_leader, "high_watermark_candidate", _candidate_without_minimum)),
    Variant("delayed-produce-without-epoch", "failover", (DelayedProduce, "_check", _check_without_epoch)),
    Variant("ack-before-append", "swarm", (PartitionLeader, "on_fetched", _progress_before_append)),
    Variant("expand-below-epoch-start", "isr", (PartitionLeader, "_expand_isr", _expand_at_high_watermark)),
    Variant("expand-at-once", "swarm", (PartitionLeader, "_expand_isr", _expand_at_once)),
    Variant(
        "old-offsets-after-election",
        "failover",
        (PartitionLeader, "_begin_epoch", _begin_epoch_with_old_offsets),
        (PartitionLeader, "on_fetched", _record_and_remember),
    ),
    Variant("reset-on-equal-record", "isr", (PartitionLeader, "become_leader", _become_leader_on_equal_record)),
    Variant("revert-on-invalid-update-version", "stragglers", (partition_leader, "after_refusal", _refuse_nothing)),
    Variant(
        "partition-epoch-forgotten-for-good",
        "isr",
        (PartitionLeader, "on_alter_partition_result", _forget_but_not_what_was_told),
        (PartitionLeader, "become_leader", _become_leader_unless_told),
    ),
    Variant(
        "zombie-fetches-count",
        "stragglers",
        (PartitionLeader, "_is_registered", lambda self, context: True),
        (PartitionLeader, "_is_eligible", lambda self, replica_id, follower: True),
    ),
    Variant("unheard-epochs-count", "failover", (PartitionLeader, "_is_registered", _is_of_this_life_or_a_later)),
    Variant("no-epoch-start", "failover", (Log, "assign_epoch_start", lambda self, epoch, **_: None)),
    Variant("end-offset-goes-back", "failover", (partition_leader, "list_offset", _bound_at_once)),
    Variant(
        "purgatory-not-told-of-lost-leadership",
        "failover",
        (ReplicaManager, "role_changed", lambda self, tp: None),
        (ReplicaManager, "check_now", lambda self, tp: None),
    ),
    Variant("produce-not-told-of-high-watermark", "swarm", (ReplicaManager, "touched", _touch_for_appends_alone)),
    Variant(
        "all-minimums-ignored",
        "swarm",
        (PartitionLeader, "append_records_to_leader", _append_unchecked),
        (DelayedProduce, "_check", _check_without_minimum),
        (partition_leader, "high_watermark_candidate", _candidate_without_minimum),
    ),
    Variant("missed-epoch-unnoticed", "failover", (PartitionLeader, "_begin_epoch", _begin_epoch_as_the_next)),
    Variant("consumers-read-uncommitted", "swarm", (PartitionLeader, "fetch_as_consumer", _read_uncommitted)),
    Variant("uncommitted-end-offset", "swarm", (PartitionLeader, "list_offset", _list_uncommitted)),
    Variant("consumer-on-follower-not-woken", "swarm", (ReplicaManager, "on_followed", _not_told)),
]
