"""One partition as its leader sees it: appends, fetches, the in-sync set and the high watermark.

| Event | Method | Rules |
|---|---|---|
| metadata names this broker leader | `become_leader` | 2.1, ST-11 to ST-15 |
| produce | `append_records_to_leader` | PR-2, PR-3 |
| a follower's fetch | `fetch_as_follower`, then `on_fetched` | FE-1 to FE-7, ST-7 to ST-10 |
| a consumer's fetch | `fetch_as_consumer` | FE-1 to FE-7, FE-19 |
| ListOffsets | `list_offset` | FE-22 |
| OffsetsForLeaderEpoch | `end_offset_for_epoch` | FT-17 |
| DeleteRecords | `delete_records`, `low_watermark` | LG-16, FT-23 |
| the periodic lag check | `check_isr` | ISR-5 |
| no in-sync replica is heard | `resign` | ISR-20 |
| the controller answers a proposal | `on_alter_partition_result` | ISR-9 |
| the topic's settings change, or another broker's state | `advance_high_watermark` | HW-2, HW-3 |

Methods that may move the high watermark return whether they did; the caller then checks the delayed operations of
the partition and informs the followers. ISR proposals are fetched with `take_proposal` after any of these events."""

from typing import ClassVar, NamedTuple, Unpack

from leader.follower_state import FetchContext, FollowerState
from leader.isr import AfterRefusal, Committed, IsrProposal, IsrState, Pending, after_refusal, high_watermark_candidate
from leader.list_offsets import ALONE, Telling, list_offset
from replog.errors import ErrorCode, ReplogError
from replog.log.fetch import FetchAnswer, FetchPartition, Reading, Shared, answer_of, check_leader_epoch, read_log
from replog.log.formats.batch import is_transactional
from replog.log.log import Log
from replog.log.offsets import NO_EPOCH, NO_OFFSET, AppendInfo, Buffer, EpochEndOffset, Isolation, TimestampAndOffset
from replog.metadata.image import MetadataImage
from replog.metadata.values import NO_BROKER_EPOCH, PartitionState
from replog.topic import TopicPartition


class LeaderAppend(NamedTuple):
    """An append; acks=all is answered once the high watermark reaches `required_offset` in this epoch (PR-9, PR-13)."""

    info: AppendInfo
    required_offset: int
    leader_epoch: int
    high_watermark_advanced: bool


class PartitionLeader:
    """The leader's role, kept while this broker leads without a break. Times are monotonic ms."""

    WATCHED: ClassVar = frozenset({"leader_epoch", "state"})  # the simulator's checks run after each assignment

    def __init__(
        self,
        topic_partition: TopicPartition,
        broker_id: int,
        log: Log,
        brokers: MetadataImage,
        *,
        replica_lag_time_max_ms: int,
    ) -> None:
        self.topic_partition = topic_partition
        self.broker_id = broker_id
        self.log = log
        self.leader_epoch = NO_EPOCH
        self.partition_epoch = -1
        self.leader_epoch_start_offset = NO_OFFSET
        self.state: IsrState = Committed(frozenset())  # its `isr` is accepted (ST-1), its `maximal_isr` may be (ST-2)
        self.replicas: dict[int, FollowerState] = {}  # every assigned replica but this one
        self.eligible_leaders: tuple[int, ...] = ()  # not in the ISR (ISR-15)
        self._brokers = brokers
        self._max_lag_ms = replica_lag_time_max_ms
        self._broker_epoch = NO_BROKER_EPOCH
        self._unsubmitted: IsrProposal | None = None
        self._reached = 0  # the high watermark, which never falls in a leadership

    @property
    def min_insync_replicas(self) -> int:
        """The minimum in effect: never more than there are replicas (PR-2)."""
        return min(self.log.config.min_insync_replicas, len(self.replicas) + 1)

    @property
    def log_ends(self) -> dict[int, int]:
        """Each replica's log end, as far as this leader knows; -1: the replica has not fetched in this leadership."""
        others = {replica_id: follower.log_end_offset for replica_id, follower in self.replicas.items()}
        return {self.broker_id: self.log.log_end_offset, **others}

    # Elections

    def become_leader(self, state: PartitionState, broker_epoch: int, now_ms: int) -> bool:
        """Apply a metadata record that names this broker leader (2.1). Return True if the high watermark advanced.

        The start of a new epoch is durable before this returns (ST-13). Nothing is truncated or waited for, even after
        an unclean election (ST-15). A record that is old or already applied is ignored: resetting a proposal for it
        could drop a member that the controller has accepted since. Raises KAFKA_STORAGE_ERROR, and nothing has changed
        then."""
        assert state.leader == self.broker_id, f"{self.topic_partition}: {state} does not name {self.broker_id}"
        is_new_epoch = state.leader_epoch > self.leader_epoch
        if state.partition_epoch < self.partition_epoch:
            return False
        if state.partition_epoch == self.partition_epoch and not is_new_epoch:
            return False
        if is_new_epoch:
            self.log.assign_epoch_start(state.leader_epoch)
        isr = frozenset(state.isr)
        self.replicas = {
            replica_id: self.replicas.get(replica_id, FollowerState())
            for replica_id in state.replicas
            if replica_id != self.broker_id
        }
        for replica_id in (self.state.isr - isr) & self.replicas.keys():
            self.replicas[replica_id] = self.replicas[replica_id].withdrawn()
        self._commit(state)
        self._unsubmitted = None
        if is_new_epoch:
            self._begin_epoch(state.leader_epoch, isr, now_ms)
        self._broker_epoch = broker_epoch
        return self.advance_high_watermark(now_ms)

    def _commit(self, state: PartitionState) -> None:
        assert state.partition_epoch >= self.partition_epoch, f"{self.topic_partition}: {state} is old"
        assert state.leader_epoch >= self.leader_epoch, f"{self.topic_partition}: epoch {self.leader_epoch} falls"
        assert self.broker_id in state.isr, f"{self.topic_partition}: {state} has its leader out of sync"
        self.state = Committed(frozenset(state.isr))
        self.eligible_leaders = state.elr
        self.partition_epoch = state.partition_epoch

    def _begin_epoch(self, leader_epoch: int, isr: frozenset[int], now_ms: int) -> None:
        # Another may have led in an epoch that this broker missed, and followers may have truncated to its log.
        was_leader = self.leader_epoch != NO_EPOCH and leader_epoch == self.leader_epoch + 1
        self.leader_epoch = leader_epoch
        self.leader_epoch_start_offset, self._reached = self.log.log_end_offset, self.log.high_watermark
        for replica_id, follower in self.replicas.items():
            self.replicas[replica_id] = follower.after_election(
                in_isr=replica_id in isr,
                was_leader=was_leader,
                epoch_start_offset=self.leader_epoch_start_offset,
                now_ms=now_ms,
            )

    # Produce

    def append_records_to_leader(
        self, records: Buffer, *, acks: int, wall_ms: int, now_ms: int, apart_ms: int = 0
    ) -> LeaderAppend:
        """Append batches in the current epoch (PR-3). LogAppendTime stamps `wall_ms`; another clock may show `apart_ms`
        less (CT-28).

        Raises NOT_ENOUGH_REPLICAS, INVALID_TXN_STATE for a transactional batch (no coordinator could end its
        transaction), NOT_LEADER_OR_FOLLOWER while the start of another epoch is made durable, or what the log refuses;
        nothing is appended then."""
        if (self.log.epochs.latest_epoch or 0) > self.leader_epoch or not self.log.settled:
            # the noted start of an epoch must stay the log end (ST-13), and a truncation must be settled first
            raise ErrorCode.NOT_LEADER_OR_FOLLOWER.error(
                f"{self.topic_partition} is about to begin another epoch; retry"
            )
        if acks == -1 and len(self.state.isr) < self.min_insync_replicas:
            raise ErrorCode.NOT_ENOUGH_REPLICAS.error(
                f"{self.topic_partition} has {len(self.state.isr)} replicas in sync {sorted(self.state.isr)}, "
                f"fewer than the {self.min_insync_replicas} that acks=all needs; retry when more have caught up"
            )
        if is_transactional(records):
            raise ErrorCode.INVALID_TXN_STATE.error(
                "transactional batches are not taken; send without a transactional id"
            )
        end_before = self.log.log_end_offset
        info = self.log.append_as_leader(records, leader_epoch=self.leader_epoch, now_ms=wall_ms, apart_ms=apart_ms)
        if self.log.log_end_offset > end_before:
            for replica_id, follower in self.replicas.items():
                if follower.context is not None:
                    self.replicas[replica_id] = follower.settled()
        return LeaderAppend(info, info.last_offset + 1, self.leader_epoch, self.advance_high_watermark(now_ms))

    # Fetch

    def fetch_as_follower(
        self, context: FetchContext, request: FetchPartition, how: Reading, shared: Shared | None = None
    ) -> FetchAnswer:
        """Answer a follower, up to the log end. Errors are in the answer, never raised.

        OFFSET_OUT_OF_RANGE comes with the log's start and end, with which the follower recovers. Records that another
        follower has asked for are taken from `shared`, not read again."""
        error = check_leader_epoch(request.current_leader_epoch, self.leader_epoch)
        if error is ErrorCode.NONE and context.replica_id not in self.replicas:
            # This leader may only be behind: a caller that sends an epoch should try again (FE-3).
            fenced = request.current_leader_epoch is not None
            error = ErrorCode.UNKNOWN_LEADER_EPOCH if fenced else ErrorCode.NOT_LEADER_OR_FOLLOWER
        if error is ErrorCode.NONE and not self._is_registered(context):
            error = ErrorCode.NOT_LEADER_OR_FOLLOWER
        if error is not ErrorCode.NONE:
            return FetchAnswer(error)
        if shared is None:
            return read_log(self.log, request, Isolation.LOG_END, how)
        log, most = self.log, min(request.max_bytes, how.max_bytes)
        bounds = log.high_watermark, log.log_start_offset, log.log_end_offset
        asked = log, bounds, request.fetch_offset, request.last_fetched_epoch, most, how.min_one
        answer: FetchAnswer = shared.get(asked) or read_log(log, request, Isolation.LOG_END, how)
        if answer.records:
            shared[asked] = answer
        return answer

    def fetch_as_consumer(
        self, request: FetchPartition, isolation: Isolation, how: Reading, *, client_rack: str = "", alone: bool = False
    ) -> FetchAnswer:
        """Answer a consumer, up to the bound of `isolation`. Errors are in the answer, never raised.

        A consumer that names its rack is sent to the replica there, without records, if it has the offset (FE-19).
        An isolated leader (`alone`) gives what it has, and redirects readers that want more."""
        error = check_leader_epoch(request.current_leader_epoch, self.leader_epoch)
        if error is not ErrorCode.NONE:
            return FetchAnswer(error)
        preferred = self._read_replica(client_rack, request.fetch_offset) if client_rack else self.broker_id
        if preferred != self.broker_id:
            return answer_of(self.log)._replace(preferred_read_replica=preferred)
        answer = read_log(self.log, request, isolation, how)
        if alone and answer.error is ErrorCode.NONE and request.fetch_offset >= self.log.limit(isolation):
            return FetchAnswer(ErrorCode.NOT_LEADER_OR_FOLLOWER, why=f"{self.topic_partition}: {ALONE}")
        return answer

    def _read_replica(self, client_rack: str, fetch_offset: int) -> int:
        """Return the broker that should serve a consumer of this rack, as Kafka's RackAwareReplicaSelector does.

        This one, if it is there. Else, of the live followers there that have the offset, the one with the highest log
        end; among equals the one caught up last, then the one with the highest id. A follower outside of the committed
        ISR could keep a consumer behind a growing lag."""
        leader = self._brokers.broker(self.broker_id)
        if leader is not None and leader.rack == client_rack:
            return self.broker_id
        near = [
            (follower.log_end_offset, follower.caught_up_ms, replica_id)
            for replica_id, follower in self.replicas.items()
            if replica_id in self.state.isr
            and follower.log_start_offset <= fetch_offset <= follower.log_end_offset
            and (broker := self._brokers.broker(replica_id)) is not None
            and broker.rack == client_rack
            and not broker.fenced
        ]
        return max(near)[2] if near else self.broker_id

    def _is_registered(self, context: FetchContext) -> bool:
        """Return True if the fetch comes from the follower's registration that this leader knows (ST-7.1).

        An earlier registration is over. A later one is not confirmed yet, and would count for what is committed
        (divergence 40)."""
        broker = self._brokers.broker(context.replica_id)
        return broker is not None and context.broker_epoch == broker.broker_epoch

    def on_fetched(self, context: FetchContext, request: FetchPartition, answer: FetchAnswer, now_ms: int) -> bool:
        """Note where the follower is, let it into the ISR if it may, advance the high watermark (ST-10).

        Call it once for a request, with its first read. A refusal does not count (ST-9). While a follower is level,
        each request of the same asker counts (ST-7). Return True if the high watermark moved, or the follower's log
        start, which may move the low watermark (FT-23)."""
        if answer.is_refusal:
            return False
        before = self.replicas[context.replica_id]
        after = before.after_fetch(
            context,
            fetch_offset=request.fetch_offset - request.unflushed,
            log_start_offset=request.log_start_offset,
            leader_end_offset=answer.log_end_offset,
            now_ms=now_ms,
        )
        self.replicas[context.replica_id] = after
        self._expand_isr(context.replica_id, after)
        moved = after.log_end_offset != before.log_end_offset
        advanced = moved and self.advance_high_watermark(now_ms)
        return advanced or after.log_start_offset != before.log_start_offset

    def is_caught_up(self, context: FetchContext) -> bool:
        """Return True if the follower is in sync and had all at its last fetch: there is nothing for it to read."""
        follower = self.replicas.get(context.replica_id)
        return (
            follower is not None
            and follower.context is context
            and follower.log_end_offset == self.log.log_end_offset
            and context.replica_id in self.state.isr
        )

    def stops_asking(self, context: FetchContext) -> None:
        """Count later requests of this asker no more for this partition."""
        follower = self.replicas.get(context.replica_id)
        if follower is not None and follower.context is context:
            self.replicas[context.replica_id] = follower.settled()

    # ISR and high watermark

    def _is_eligible(self, replica_id: int, follower: FollowerState) -> bool:
        """Return True if the controller would admit this replica with the broker epoch of its fetches (ISR-2)."""
        broker = self._brokers.broker(replica_id)
        return broker is not None and broker.active and follower.broker_epoch in (NO_BROKER_EPOCH, broker.broker_epoch)

    def _expand_isr(self, replica_id: int, follower: FollowerState) -> None:
        """Propose a replica that has reached the high watermark and this epoch's start (ISR-1, ISR-3, ISR-4).

        A replica that ends at the log start may still have records from before it, which nothing can compare any more.
        It must hide them first, with its next answer: no reader may see them again (FT-23, INV-13)."""
        log_start = self.log.log_start_offset
        if (
            isinstance(self.state, Committed)
            and replica_id not in self.state.isr
            and follower.log_end_offset >= self.log.high_watermark
            and follower.log_end_offset >= self.leader_epoch_start_offset
            and (follower.log_end_offset > log_start or follower.log_start_offset >= log_start)
            and self._is_eligible(replica_id, follower)
        ):
            self._propose(joining=frozenset({replica_id}))

    @property
    def all_caught_up(self) -> bool:
        """True if all members of the ISR have all, and it is committed: only an event can change that, not time."""
        end, others = self.log.log_end_offset, self.state.isr - {self.broker_id}
        caught_up = all(member in self.replicas and self.replicas[member].log_end_offset == end for member in others)
        settled = isinstance(self.state, Committed) and not self.eligible_leaders
        return caught_up and settled and self.log.high_watermark == end

    def check_isr(self, now_ms: int) -> bool:
        """Propose to drop members that have fallen behind (ISR-5); call every half `replica.lag.time.max.ms`.

        Return True if the high watermark advanced, because a replica outside of the ISR is not waited for any
        longer."""
        if isinstance(self.state, Committed):
            leader_end_offset = self.log.log_end_offset
            out_of_sync = frozenset(
                replica_id
                for replica_id in self.state.isr - {self.broker_id}
                if replica_id not in self.replicas
                or not self.replicas[replica_id].is_caught_up(leader_end_offset, now_ms, self._max_lag_ms)
            )
            if out_of_sync:
                self._propose(leaving=out_of_sync)
        return self.advance_high_watermark(now_ms)

    def resign(self) -> None:
        """Propose to leave the ISR, and so to lead no more (ISR-20), unless another proposal is under way."""
        if isinstance(self.state, Committed):
            self._propose(leaving=frozenset({self.broker_id}))

    def _propose(self, *, joining: frozenset[int] = frozenset(), leaving: frozenset[int] = frozenset()) -> None:
        isr = (self.state.isr | joining) - leaving
        members = tuple((replica_id, self._fetched_broker_epoch(replica_id)) for replica_id in sorted(isr))
        self._unsubmitted = IsrProposal(self.leader_epoch, self.partition_epoch, members, self.log_ends)
        self.state = Pending(self.state.isr, self._unsubmitted, joining, leaving)

    def _fetched_broker_epoch(self, replica_id: int) -> int:
        """Return the broker epoch with which the replica holds the data (6.3).

        For a member of the ISR that has not fetched yet it is the registered one: a new registration would have taken
        it out of the ISR. The controller refuses proposals without it (D40)."""
        if replica_id == self.broker_id:
            return self._broker_epoch
        follower, broker = self.replicas.get(replica_id), self._brokers.broker(replica_id)
        if follower is not None and follower.broker_epoch != NO_BROKER_EPOCH:
            return follower.broker_epoch
        return broker.broker_epoch if broker is not None else NO_BROKER_EPOCH

    def take_proposal(self) -> IsrProposal | None:
        """Return the proposal to submit now, once; None if there is none or it was taken already."""
        proposal, self._unsubmitted = self._unsubmitted, None
        return proposal

    def on_alter_partition_result(
        self, proposal: IsrProposal, error: ErrorCode, state: PartitionState | None, now_ms: int
    ) -> bool:
        """Act on the controller's answer (ISR-9); `state` comes with consent. True if the high watermark advanced."""
        pending = self.state
        if isinstance(pending, Committed) or pending.proposal is not proposal:
            return False  # metadata has moved on
        if error is not ErrorCode.NONE:
            action = after_refusal(error)
            if action is AfterRefusal.REVERT:
                self.state = Committed(pending.isr)
            elif action is AfterRefusal.RESUBMIT:
                self._unsubmitted = proposal
            return self.advance_high_watermark(now_ms)
        assert state is not None, f"{self.topic_partition}: an accepted proposal comes with the new state"
        if state.leader_epoch != self.leader_epoch or state.partition_epoch < self.partition_epoch:
            return False  # metadata will follow
        self._commit(state)
        return self.advance_high_watermark(now_ms)

    def advance_high_watermark(self, now_ms: int) -> bool:
        """Raise the high watermark to its candidate, never lower it (HW-4). True if it rose; try at any time (HW-1).

        It stays while there are eligible leaders outside of the ISR: the controller then relies on nothing being
        committed (ISR-16), and may know of a higher minimum than this broker does yet."""
        assert self.log.high_watermark >= self._reached, f"{self.topic_partition}: high watermark {self._reached} falls"
        self._reached = self.log.high_watermark
        if self.eligible_leaders:
            return False
        candidate = high_watermark_candidate(
            self.log.promised_offset,
            self.replicas,
            self.state,
            min_insync_replicas=self.min_insync_replicas,
            is_eligible=self._is_eligible,
            now_ms=now_ms,
            max_lag_ms=self._max_lag_ms,
        )
        if candidate is None or candidate <= self.log.high_watermark:
            return False
        return self.log.maybe_increment_high_watermark(candidate)

    # Offsets

    def list_offset(
        self, timestamp: int, isolation: Isolation, current_leader_epoch: int | None, **how: Unpack[Telling]
    ) -> TimestampAndOffset:
        """Find the offset for a timestamp, the latest (-1) or the earliest (-2), as `list_offsets` does with `how`.

        Raises FENCED_LEADER_EPOCH, UNKNOWN_LEADER_EPOCH or OFFSET_NOT_AVAILABLE."""
        self._require_epoch(current_leader_epoch)
        return list_offset(self.log, timestamp, isolation, self.leader_epoch, self.leader_epoch_start_offset, **how)

    def end_offset_for_epoch(self, current_leader_epoch: int | None, epoch: int) -> EpochEndOffset:
        """Find the end of `epoch` in this log (FT-17). Raises FENCED_LEADER_EPOCH or UNKNOWN_LEADER_EPOCH."""
        self._require_epoch(current_leader_epoch)
        return self.log.end_offset_for_epoch(epoch)

    def _require_epoch(self, current_leader_epoch: int | None) -> None:
        error = check_leader_epoch(current_leader_epoch, self.leader_epoch)
        if error is not ErrorCode.NONE:
            raise ReplogError(
                error,
                f"{self.topic_partition}: the request is of leader epoch {current_leader_epoch}, this leader of "
                f"{self.leader_epoch}; refresh the metadata and retry",
            )

    def low_watermark(self) -> int:
        """The least log start that this and every live replica keep through a crash (FT-23); -1 if one is not known."""
        log_starts = [self.log.kept_start_offset]
        for replica_id, follower in self.replicas.items():
            broker = self._brokers.broker(replica_id)
            if broker is not None and not broker.fenced:
                log_starts.append(follower.log_start_offset)
        return min(log_starts)

    def delete_records(self, offset: int) -> int:
        """Raise the log start to `offset`, -1 meaning the high watermark; return the offset meant (LG-16, FT-23).

        Raises OFFSET_OUT_OF_RANGE above the high watermark. The deletion is done when the low watermark is there."""
        target = self.log.high_watermark if offset == -1 else offset
        if not 0 <= target <= self.log.high_watermark:
            raise ErrorCode.OFFSET_OUT_OF_RANGE.error(
                f"{self.topic_partition}: cannot delete records up to {offset}; the high watermark is "
                f"{self.log.high_watermark}"
            )
        self.log.maybe_increment_log_start_offset(target)
        return target
