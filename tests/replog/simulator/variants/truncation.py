"""Wrong ways for a follower to find where its log differs from its leader's."""

from typing import Any
from weakref import WeakKeyDictionary

import replog.log.log
from follower import partition_follower
from follower.fetch_session_handler import FetchSessionHandler
from follower.partition_follower import FetchState, FollowerProgress, PartitionFollower
from leader import delayed_fetch, partition_leader
from leader.fetch_session import FetchSession
from leader.follower_session import FollowerSession
from replog.errors import ErrorCode, ReplogError
from replog.log.epochs import LeaderEpochCache
from replog.log.fetch import FetchAnswer, FetchPartition, SessionRow, answer_of, diverges, read_log
from replog.log.formats import validation
from replog.log.formats.batch import iterate_batches
from replog.log.log import Log
from replog.log.offsets import EpochEndOffset
from replog.topic import TopicPartition
from tests.replog.simulator.variants import Variant

_become_follower = PartitionFollower.become_follower
_next_fetch = PartitionFollower.next_fetch
_on_answer = PartitionFollower.on_answer
_truncate = PartitionFollower._truncate
_is_current = PartitionFollower._is_current
_take_row = FetchSessionHandler._take_row
_check_replicated_batches = validation.check_replicated_batches


def _unvalidated(fetch: FetchPartition | None) -> FetchPartition | None:
    return fetch and fetch._replace(last_fetched_epoch=None)


def _accepts_unvalidated(self: PartitionFollower, request: FetchPartition) -> bool:
    return _is_current(self, request._replace(last_fetched_epoch=self.log.epochs.latest_epoch))


def _cut_to_high_watermark(self: PartitionFollower, *arguments: Any) -> bool:
    started_over = _become_follower(self, *arguments)
    if started_over:
        self.fetch_state = FetchState.TRUNCATING
    return started_over


def _fetch_unvalidated(self: PartitionFollower, *arguments: Any) -> FetchPartition | None:
    return _unvalidated(_next_fetch(self, *arguments))


def _one_round(self: PartitionFollower, *arguments: Any) -> FollowerProgress:
    progress = _truncate(self, *arguments)
    _cut_in_epoch[self] = self.leader_epoch
    return progress


def _fetch_after_one_round(self: PartitionFollower, *arguments: Any) -> FetchPartition | None:
    fetch = _next_fetch(self, *arguments)
    return _unvalidated(fetch) if _cut_in_epoch.get(self) == self.leader_epoch else fetch


def _is_current_after_one_round(self: PartitionFollower, request: FetchPartition) -> bool:
    if _cut_in_epoch.get(self) == self.leader_epoch:
        return _accepts_unvalidated(self, request)
    return _is_current(self, request)


def _leaders_word(leader: EpochEndOffset, local: EpochEndOffset, log_end_offset: int) -> int:
    return min(leader.end_offset, log_end_offset)


_cut_in_epoch: WeakKeyDictionary[PartitionFollower, int] = WeakKeyDictionary()


def _no_fence(requested: int | None, local: int) -> ErrorCode:
    return ErrorCode.NONE


def _is_current_in_any_epoch(self: PartitionFollower, request: FetchPartition) -> bool:
    return _is_current(self, request._replace(current_leader_epoch=self.leader_epoch))


def _take_high_watermark_of_divergence(self, request, answer, now_ms):
    if _is_current(self, request) and answer.diverging is not None and answer.high_watermark >= 0:
        self._update_high_watermark(answer.high_watermark)
    return _on_answer(self, request, answer, now_ms)


def _keep_high_watermark_of_truncation(self: Log, offset: int) -> bool:
    before = self.high_watermark
    truncated = _truncate_log(self, offset)
    self.high_watermark = before
    return truncated


_truncate_log = Log.truncate_to


def _take_any_push(self: PartitionFollower, leader_epoch: int | None, offset: int) -> bool:
    return leader_epoch == self.leader_epoch and self._update_high_watermark(offset)


def _push_at_once(self: FetchSession[Any], tp: TopicPartition) -> None:
    _mark(self, tp)
    if not isinstance(self, FollowerSession):
        return
    request = self.named[tp].request
    leader_or_error = self._leaders.leader_for_fetch(tp, request)
    if not isinstance(leader_or_error, ErrorCode):
        self._send_pushed([SessionRow(tp, request, answer_of(leader_or_error.log))])


_mark = FetchSession.mark


def _diverges_below_log_start(log: Log, request: FetchPartition, *arguments: Any, **options: Any) -> FetchAnswer:
    if request.last_fetched_epoch is not None and request.fetch_offset < log.log_start_offset:
        end = log.end_offset_for_epoch(request.last_fetched_epoch)
        if end.end_offset >= 0 and diverges(end, request.last_fetched_epoch, request.fetch_offset):
            return answer_of(log)._replace(diverging=end)
    return read_log(log, request, *arguments, **options)


def _take_log_start_of_divergence(self, request, answer, now_ms):
    progress = _on_answer(self, request, answer, now_ms)
    if answer.diverging is not None and answer.log_start_offset > request.fetch_offset:
        try:
            self.log.maybe_increment_log_start_offset(answer.log_start_offset)
        except ReplogError as error:
            return self.fail(str(error))
    return progress


def _keep_trailing_epoch(self: LeaderEpochCache, offset: int) -> None:
    kept = [entry for entry in self.entries if entry[1] <= offset]
    if offset >= 0 and len(kept) < len(self.entries):
        self.replace(kept)


def _keep_high_watermark(self: Log, offset: int) -> None:
    before = self.high_watermark
    _truncate_fully(self, offset)
    self.high_watermark = before


_truncate_fully = Log.truncate_fully_and_start_at


def _take_old_answers(self: FetchSessionHandler, row: SessionRow, now_ms: int) -> None:
    named = self._named.get(row.topic_partition)
    _take_row(self, row if named is None else row._replace(request=named), now_ms)


def _check_no_continuity(records: Any, log_end_offset: int, latest_epoch: int, *, holes: bool) -> Any:
    first = next((header.base_offset for _, header in iterate_batches(records)), log_end_offset)
    return _check_replicated_batches(records, first, 0, holes=holes)


VARIANTS = [
    Variant(
        "truncate-to-hw",
        "swarm",
        (PartitionFollower, "become_follower", _cut_to_high_watermark),
        (PartitionFollower, "next_fetch", _fetch_unvalidated),
        (PartitionFollower, "_is_current", _accepts_unvalidated),
    ),
    Variant(
        "kip-101-only",
        "swarm",
        (PartitionFollower, "_truncate", _one_round),
        (PartitionFollower, "next_fetch", _fetch_after_one_round),
        (PartitionFollower, "_is_current", _is_current_after_one_round),
        (partition_follower, "truncation_target", _leaders_word),
    ),
    Variant(
        "no-leader-epoch-fencing",
        "failover",
        (partition_leader, "check_leader_epoch", _no_fence),
        (delayed_fetch, "check_leader_epoch", _no_fence),
        (partition_follower, "check_leader_epoch", _no_fence),
        (PartitionFollower, "_is_current", _is_current_in_any_epoch),
    ),
    Variant(
        "no-epoch-validation",
        "swarm",
        (PartitionFollower, "next_fetch", _fetch_unvalidated),
        (PartitionFollower, "_is_current", _accepts_unvalidated),
    ),
    Variant(
        "hw-of-diverging-answer-kept",
        "failover",
        (PartitionFollower, "on_answer", _take_high_watermark_of_divergence),
        (Log, "truncate_to", _keep_high_watermark_of_truncation),
    ),
    Variant(
        "pushed-before-validation",
        "failover",
        (PartitionFollower, "on_high_watermark", _take_any_push),
        (FetchSession, "mark", _push_at_once),
    ),
    Variant(
        "divergence-below-log-start-taken",
        "laggards",
        (partition_leader, "read_log", _diverges_below_log_start),
        (PartitionFollower, "on_answer", _take_log_start_of_divergence),
    ),
    Variant("trailing-epoch-kept", "swarm", (LeaderEpochCache, "truncate_from_end", _keep_trailing_epoch)),
    Variant("hw-kept-by-full-truncation", "swarm", (Log, "truncate_fully_and_start_at", _keep_high_watermark)),
    Variant(
        "old-answers-are-appended",
        "failover",
        (PartitionFollower, "_is_current", lambda self, request: self.fetch_state is FetchState.FETCHING),
        (FetchSessionHandler, "_take_row", _take_old_answers),
        (replog.log.log, "check_replicated_batches", _check_no_continuity),
    ),
]
