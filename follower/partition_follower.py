"""One partition as a follower sees it: what to fetch next, and what an answer does to the local log (section 7).

| State | Meaning | Leaves on |
|---|---|---|
| TRUNCATING | the log has no epochs: it must be cut to its high watermark first (FT-3) | the next `next_fetch` |
| FETCHING | fetch at the log end; perhaps after a delay | a failure that retrying cannot cure |
| FAILED | nothing is fetched; `failure` says why | metadata with a newer leader epoch (FT-2) |

The fetch offset is always the log end, and the last fetched epoch is the latest of the epoch cache. So an answer that
raced with a truncation or with an election does not fit any longer, and is dropped (FT-8)."""

from enum import Enum
from typing import ClassVar, NamedTuple

from replog.errors import ErrorCode, ReplogError
from replog.log.errors import RetriableLogError, UnexpectedAppendOffset
from replog.log.fetch import ANY_TOPIC, FetchAnswer, FetchPartition, Reading, check_leader_epoch, read_log
from replog.log.formats.batch import iterate_batches
from replog.log.log import Log
from replog.log.offsets import NO_EPOCH, Buffer, EpochEndOffset, Isolation
from replog.metadata.values import NO_LEADER, PartitionState
from replog.topic import TopicPartition

FIRST_BACKOFF_MS = 20
ALARM_ROUNDS = 3  # answers of "out of range" for an offset that is in range, until the follower complains


class FetchState(Enum):
    TRUNCATING = "truncating"
    FETCHING = "fetching"
    FAILED = "failed"


class FollowerProgress(NamedTuple):
    """The changes that an answer made. `note` tells operators of something that should not have happened."""

    appended_bytes: int = 0
    bounds_moved: bool = False  # consumers may wait for the high watermark or the log start (FE-14)
    high_watermark_fell: bool = False  # a new leader may know a lower one (HW-14)
    truncated_to: int | None = None
    note: str | None = None
    alarm: bool = False  # the note is an error that an operator must look into (FT-15, FT-21)
    refused: bool = False  # the records do not fit here, or are damaged


NO_PROGRESS = FollowerProgress()


class PartitionFollower:
    """The follower's role, kept while this broker follows without a break. Times are monotonic ms."""

    WATCHED: ClassVar = frozenset({"leader_epoch"})  # the simulator's checks see each assignment

    def __init__(self, topic_partition: TopicPartition, log: Log, *, backoff_ms: int) -> None:
        self.topic_partition = topic_partition
        self.log = log
        self.leader_id = NO_LEADER
        self.leader_epoch = NO_EPOCH
        self.partition_epoch = -1
        self.fetch_state = FetchState.FETCHING
        self.failure: str | None = None
        self.isr: tuple[int, ...] = ()
        self.lag: int | None = None  # records below the leader's high watermark; None until the leader has answered
        self._backoff_ms = backoff_ms
        self.next_retry_ms: int | None = None  # when a delayed partition may be fetched again
        self._refusals = 0  # refusals by this leader in a row
        self._matches_leader = False  # an answer of this epoch was accepted: this log is a prefix of the leader's
        self._rounds_out_of_range = 0

    def become_follower(self, state: PartitionState, now_ms: int) -> bool:
        """Apply a metadata record that names another leader, or none (2.2).

        True if the leader epoch rose: then fetching starts over, and answers in flight are void (FT-3). A record that
        changes only the ISR or the replicas leaves fetching, its delay and its failure alone."""
        if state.partition_epoch < self.partition_epoch:
            return False
        assert state.leader_epoch >= self.leader_epoch, f"{state} is newer, and epoch {self.leader_epoch} falls"
        self.partition_epoch = state.partition_epoch
        self.leader_id = state.leader
        self.isr = state.isr
        if state.leader_epoch <= self.leader_epoch:
            return False
        self.leader_epoch = state.leader_epoch
        has_epochs = self.log.epochs.latest_epoch is not None
        self.fetch_state = FetchState.FETCHING if has_epochs else FetchState.TRUNCATING
        self.failure = None
        self.lag = None
        self.next_retry_ms = None
        self._refusals = 0
        self._matches_leader = False
        self._rounds_out_of_range = 0
        return True

    # Asking

    def next_fetch(self, now_ms: int, max_bytes: int, topic_id: bytes = ANY_TOPIC) -> FetchPartition | None:
        """Return the fetch to send (FT-6), or None without a leader, after a failure, during a delay, or while a
        truncation is being settled (LG-10).

        Raises KAFKA_STORAGE_ERROR, and the partition has failed then."""
        if self.leader_id == NO_LEADER or self.fetch_state is FetchState.FAILED:
            return None
        if self._is_delayed(now_ms):
            return None
        self.next_retry_ms = None
        if self.fetch_state is FetchState.TRUNCATING:
            try:
                self.log.truncate_to(self.log.high_watermark)
            except RetriableLogError:
                self._delay(now_ms)
                return None
            except ReplogError as error:
                self.fail(str(error))
                raise
            self.fetch_state = FetchState.FETCHING
        if not self.log.settled:
            return None
        return FetchPartition(
            fetch_offset=self.log.log_end_offset,
            max_bytes=max_bytes,
            current_leader_epoch=self.leader_epoch,
            last_fetched_epoch=self.log.epochs.latest_epoch,
            log_start_offset=self.log.kept_start_offset,
            topic_id=topic_id,
            unflushed=self.log.log_end_offset - self.log.promised_offset,
        )

    def check_leader_only(self, current_leader_epoch: int | None) -> ErrorCode:
        """The error for a request that only a leader may answer: fenced first, then refused (FE-2)."""
        error = check_leader_epoch(current_leader_epoch, self.leader_epoch)
        return ErrorCode.NOT_LEADER_OR_FOLLOWER if error is ErrorCode.NONE else error

    def fetch_as_consumer(self, request: FetchPartition, isolation: Isolation, how: Reading) -> FetchAnswer:
        """Answer a consumer that the leader sent here, up to the bound that this replica knows (FE-20, FE-21).

        Errors are in the answer, never raised; they say nothing about the partition, only about this copy of it."""
        error = check_leader_epoch(request.current_leader_epoch, self.leader_epoch)
        if error is not ErrorCode.NONE:
            return FetchAnswer(error)
        return read_log(self.log, request, isolation, how)

    # Answers

    def on_answer(self, request: FetchPartition, answer: FetchAnswer, now_ms: int) -> FollowerProgress:
        """Act on the leader's answer to `request` (7.3). A late answer is dropped (FT-8), except its high watermark:
        the leader does not send the same one twice (FE-17).

        Raises KAFKA_STORAGE_ERROR, and the partition has failed then. Any other error is a note and a delay."""
        if not self._is_current(request):
            has_mark = answer.error is ErrorCode.NONE and answer.diverging is None
            changed = has_mark and self.on_high_watermark(request.current_leader_epoch, answer.high_watermark)
            return FollowerProgress(bounds_moved=True) if changed else NO_PROGRESS
        if self._is_delayed(now_ms):
            return NO_PROGRESS
        try:
            if answer.error is ErrorCode.NONE and answer.diverging is not None:
                return self._truncate(answer.diverging, now_ms)
            if answer.error is ErrorCode.NONE:
                return self._take(answer, now_ms)
            if answer.error is ErrorCode.OFFSET_OUT_OF_RANGE:
                return self._recover_range(answer, now_ms)
        except RetriableLogError as error:
            self._delay(now_ms)
            return FollowerProgress(note=str(error))
        except ReplogError as error:
            failed = self.fail(str(error))
            if error.code is ErrorCode.KAFKA_STORAGE_ERROR:
                raise
            return failed
        if answer.error is ErrorCode.FENCED_LEADER_EPOCH:
            return self.fail(f"the leader has a newer epoch than {self.leader_epoch}; waiting for metadata")
        # A new leader may not have begun its role yet, and will in a moment (divergence 17).
        self._delay(now_ms, min(self._backoff_ms, FIRST_BACKOFF_MS << min(self._refusals, 20)))
        self._refusals += 1
        return NO_PROGRESS

    def on_failure(self, request: FetchPartition, now_ms: int) -> None:
        """The whole fetch failed (FT-11): wait before the next."""
        if self._is_current(request):
            self._delay(now_ms)

    def on_high_watermark(self, leader_epoch: int | None, offset: int) -> bool:
        """Take a high watermark that the leader pushed, clamped as HW-9. Return True if the local one rose.

        It is ignored until an answer of this epoch was accepted: before that, the records below it may differ from the
        leader's."""
        if leader_epoch != self.leader_epoch or self.fetch_state is not FetchState.FETCHING:
            return False
        return self._matches_leader and offset > self.log.high_watermark and self._update_high_watermark(offset)

    def _is_current(self, request: FetchPartition) -> bool:
        return (
            self.fetch_state is FetchState.FETCHING
            and request.current_leader_epoch == self.leader_epoch
            and request.fetch_offset == self.log.log_end_offset
            and request.last_fetched_epoch == self.log.epochs.latest_epoch
        )

    def _take(self, answer: FetchAnswer, now_ms: int) -> FollowerProgress:
        """Append, then set the high watermark, then the log start (FT-10, FT-23)."""
        self._matches_leader = True
        self._refusals = 0
        self._rounds_out_of_range = 0
        if answer.records:
            end_before = self.log.log_end_offset
            try:
                self._append_records_to_follower(answer.records, answer.log_start_offset)
            except ReplogError as error:
                if error.code is ErrorCode.KAFKA_STORAGE_ERROR:
                    raise
                self._delay(now_ms)
                note = f"refused records after offset {self.log.log_end_offset} (fetched from {end_before}): {error}"
                return FollowerProgress(note=note, refused=not isinstance(error, RetriableLogError))
            if not self.log.settled:  # the old records must go first; these are fetched again
                return FollowerProgress(bounds_moved=True)
        self.lag = max(0, answer.high_watermark - self.log.log_end_offset)  # FT-10
        before = self.log.high_watermark
        moved = answer.high_watermark >= 0 and self._update_high_watermark(answer.high_watermark)
        if answer.log_start_offset > self.log.log_start_offset:
            moved |= self.log.maybe_increment_log_start_offset(answer.log_start_offset)
        return FollowerProgress(len(answer.records), moved, self.log.high_watermark < before)

    def _append_records_to_follower(self, records: Buffer, leader_log_start: int) -> None:
        """Append the records, except if the log must be settled first."""
        if self.log.log_end_offset == leader_log_start and not self.log.hides_all:
            _, first = next(iterate_batches(records), (0, None))  # none: there was room for the start of one batch
            if first is not None and first.leader_epoch != self.log.epochs.latest_epoch and self.log.size:
                # The leader has nothing from before this offset, no epoch either, so it cannot compare this log there.
                # No reader may see those records any more, even after a crash (INV-13).
                self.log.hide_all()
        try:
            if self.log.settled:
                self.log.append_as_follower(records)
        except UnexpectedAppendOffset as error:
            # The leader's log start is inside of a batch, and this log begins or ends there: it is empty, or has
            # no record that the leader still has (FT-13).
            end = self.log.log_end_offset
            begins_here = end in (self.log.log_start_offset, leader_log_start)
            if not (begins_here and error.first_offset < end <= error.last_offset):
                raise
            self.log.truncate_fully_and_start_at(error.first_offset)
            if self.log.settled:
                self.log.append_as_follower(records)

    def _update_high_watermark(self, offset: int) -> bool:
        before = self.log.high_watermark
        self.log.update_high_watermark(offset)  # clamps to [log start, log end]; not max-ed (HW-9)
        return self.log.high_watermark != before

    # Divergence

    def _truncate(self, leader: EpochEndOffset, now_ms: int) -> FollowerProgress:
        """Cut the log once by 7.4. The rest of a diverging answer is ignored, its high watermark too (FT-9)."""
        end_before, epoch_before = self.log.log_end_offset, self.log.epochs.latest_epoch
        target = truncation_target(leader, self.log.end_offset_for_epoch(leader.epoch), end_before)
        progress = self._truncate_to(target)
        if (self.log.log_end_offset, self.log.epochs.latest_epoch) == (end_before, epoch_before):
            if self.log.size and self.log.log_start_offset == end_before:
                # All records here are hidden, and the last ones are not the leader's (INV-14).
                self.log.truncate_fully_and_start_at(end_before)
                return progress
            self._delay(now_ms)  # each round makes progress (FT-14); if the leader repeats itself, wait
            return FollowerProgress(note=f"the leader's diverging answer {leader} asks for no truncation; retrying")
        return progress

    def _truncate_to(self, target: int) -> FollowerProgress:
        high_watermark_before = self.log.high_watermark
        self._matches_leader = False
        self.log.truncate_to(target)
        log_end = self.log.log_end_offset  # below the target if that lies inside of a batch
        note = None
        if log_end < high_watermark_before:
            note = (
                f"truncated to {log_end}, {high_watermark_before - log_end} records below the high watermark "
                f"{high_watermark_before}: committed records are gone here, because a replica without them was elected "
                "(an unclean election), or through a lost unflushed suffix"
            )
        changed = self.log.high_watermark != high_watermark_before
        return FollowerProgress(truncated_to=log_end, bounds_moved=changed, note=note, alarm=note is not None)

    def _recover_range(self, answer: FetchAnswer, now_ms: int) -> FollowerProgress:
        """Recover when the leader cannot serve the fetch offset (7.5, FT-19); its answer has the bounds of its log."""
        start, end = answer.log_start_offset, answer.log_end_offset
        if not 0 <= start <= end:
            self._delay(now_ms)
            return FollowerProgress(note=f"the leader's log bounds {start} to {end} make no sense; retrying")
        if end < self.log.log_end_offset:
            return self._truncate_to(end)  # the epoch of the next fetch shows a mismatch below
        if start > self.log.log_end_offset:
            before = self.log.high_watermark
            self._matches_leader = False
            self.log.truncate_fully_and_start_at(start)  # the high watermark follows (FT-22)
            return FollowerProgress(truncated_to=start, bounds_moved=self.log.high_watermark != before)
        self._delay(now_ms)  # the offset is in range, so the leader lacks the epoch: try again (FT-21)
        self._rounds_out_of_range += 1
        if self._rounds_out_of_range % ALARM_ROUNDS:
            return NO_PROGRESS
        return FollowerProgress(
            note=f"{self._rounds_out_of_range} times out of range at {self.log.log_end_offset}, although the leader "
            f"has {start} to {end}: it lacks leader epoch {self.log.epochs.latest_epoch}; its epoch cache must be "
            "rebuilt",
            alarm=True,
        )

    # Delay and failure

    def _is_delayed(self, now_ms: int) -> bool:
        return self.next_retry_ms is not None and now_ms < self.next_retry_ms

    def _delay(self, now_ms: int, delay_ms: int | None = None) -> None:
        self.next_retry_ms = now_ms + (self._backoff_ms if delay_ms is None else delay_ms)

    def fail(self, reason: str) -> FollowerProgress:
        """Fetch no more of this partition, and leave the others alone (FT-12)."""
        self.fetch_state = FetchState.FAILED
        self.failure = reason
        self.next_retry_ms = None
        return FollowerProgress(note=f"stopped fetching: {reason}")


def truncation_target(leader: EpochEndOffset, local: EpochEndOffset, log_end_offset: int) -> int:
    """Return the offset to truncate to, given the ends of one epoch in the leader's log and in this one.

    `leader` is the diverging answer, `local` this log's own end offset for `leader.epoch`. If the two epochs differ,
    the cut is not final: the next fetch carries an older last epoch and is judged again, until one is accepted. Every
    round lowers the latest local epoch, so there are at most as many rounds as epochs.

    | Row | This log | Cut to |
    |---|---|---|
    | 3 | has no usable epoch cache | the leader's end |
    | 4 | does not know the epoch, only an older one | that one's end here (not final) |
    | 5 | knows the epoch | the lesser of both ends |

    The cut is never past this log's end. Rows 1 and 2 belong to forms of the protocol that replog does not use."""
    if local.end_offset < 0:
        return min(leader.end_offset, log_end_offset)
    if local.epoch != leader.epoch:
        return min(local.end_offset, log_end_offset)
    return min(leader.end_offset, local.end_offset, log_end_offset)
