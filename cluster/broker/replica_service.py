"""The leader's side of replication on the wire: each follower's stream is its fetch session (§4, divergence 6)."""

import asyncio
from collections.abc import Callable

from cluster.broker.outbox import Outbox
from cluster.broker.replica_manager import ReplicaManager
from leader.delayed_fetch import DelayedFetch, FetchRow
from leader.fetch_sizes import FetchRound, read_partitions
from replog.errors import ErrorCode, ReplogError
from replog.fetch import FetchAnswer, FetchPartition, PartitionRead
from replog.log.offsets import Buffer, Isolation
from replog.rpc.codec import WithRecords
from replog.rpc.status import wire_code
from replog.rpc.transport import ServerStream
from replog.rpc.v1 import replica_pb2 as pb
from replog.topic import TopicPartition

PUSH_DELAY_S = 0.005  # high watermarks that move within this time go out in one message
MAX_SESSION_PARTITIONS = 100_000
MAX_UNSENT_ANSWERS = 2


class ReplicaFetchSession:
    """What one follower fetches from this broker, and what it was last told (FE-10b, FE-17)."""

    def __init__(self, manager: ReplicaManager, outbox: Outbox[WithRecords[pb.ReplicaFetchResponse]]) -> None:
        self._manager = manager
        self._outbox = outbox
        self._partitions: dict[TopicPartition, tuple[bytes, FetchPartition]] = {}
        self._told: dict[TopicPartition, tuple[int, int]] = {}  # high watermark and log start last sent
        self._request = pb.ReplicaFetchRequest()
        self._parked: DelayedFetch | None = None
        self._moved: dict[TopicPartition, None] = {}
        self._push_timer: asyncio.TimerHandle | None = None

    def on_request(self, request: pb.ReplicaFetchRequest) -> None:
        """Take over what changed, record the follower's progress, answer now or when there is something to say."""
        self._answer_parked()
        self._request = request
        self._manager.hearing.heard(request.replica_id, self._manager.clock.monotonic_ms())
        for forgotten in request.forgotten:
            tp = TopicPartition(forgotten.topic, forgotten.partition)
            self._partitions.pop(tp, None)
            self._told.pop(tp, None)
        for named in request.partitions:
            tp = TopicPartition(named.topic, named.partition)
            if tp not in self._partitions and len(self._partitions) >= MAX_SESSION_PARTITIONS:
                raise ReplogError(
                    ErrorCode.INVALID_REQUEST, f"a fetch session holds at most {MAX_SESSION_PARTITIONS} partitions"
                )
            fetch = _fetch_partition(named)
            known = self._partitions.get(tp)
            if known is not None and known[1].current_leader_epoch != fetch.current_leader_epoch:
                self._told.pop(tp, None)  # what it was told in another epoch it may not have taken
            self._partitions[tp] = (named.topic_id, fetch)
        found = self._read(record_progress=True)
        min_bytes = max(1, min(request.min_bytes, self._limit))
        if found.answers_at_once(max_wait_ms=request.max_wait_ms, min_bytes=min_bytes):
            self._respond(found)
            return
        self._parked = DelayedFetch(
            [FetchRow(tp, fetch, found.reads[tp].metadata) for tp, (_, fetch) in self._partitions.items()],
            isolation=Isolation.LOG_END,
            min_bytes=min_bytes,
            lookup=self._manager.leader,
            timeout_ms=min(request.max_wait_ms, self._manager.config.request_timeout_ms),
            respond=self._answer_again,
            is_throttled=self._is_throttled,
        )
        self._manager.fetches.complete_or_watch(self._parked, self._partitions)
        self._push_soon()

    @property
    def _limit(self) -> int:
        return min(self._request.max_bytes, self._manager.config.fetch_max_bytes)

    def _read(self, *, record_progress: bool) -> FetchRound:
        """One pass over the session's partitions under the request's limits (FE-8, FE-9)."""
        now_ms = self._manager.clock.monotonic_ms()

        def read(tp: TopicPartition, fetch: FetchPartition, max_bytes: int, min_one: bool) -> PartitionRead:
            hosted = self._manager.hosted.get(tp)
            if hosted is not None and self._partitions[tp][0] != hosted.topic_id:  # whose epochs are other ones (FE-1)
                return PartitionRead(FetchAnswer(ErrorCode.INCONSISTENT_TOPIC_ID))
            leader = self._manager.leader_for_epoch(tp, fetch.current_leader_epoch)
            if isinstance(leader, ErrorCode):
                return PartitionRead(FetchAnswer(leader))
            if self._is_throttled(tp):
                max_bytes, min_one = 0, False  # empty; its progress counts all the same
            found = leader.fetch_as_follower(
                self._request.replica_id,
                self._request.broker_epoch,
                fetch,
                max_bytes=max_bytes,
                min_one=min_one,
                now_ms=now_ms,
                record_progress=record_progress,
            )
            if found.high_watermark_advanced or found.log_start_changed:
                self._manager.touched(tp, high_watermark_advanced=True)
            self._manager.propose(tp, leader)
            return found

        return read_partitions([(tp, fetch) for tp, (_, fetch) in self._partitions.items()], read, self._limit)

    def _is_throttled(self, tp: TopicPartition) -> bool:
        """Whether this follower gets nothing of `tp` for now; one that is in sync always gets all (FE-23)."""
        hosted = self._manager.hosted[tp]
        return (
            hosted.leader_throttled
            and hosted.leader is not None
            and self._request.replica_id not in hosted.leader.isr
            and self._manager.leader_quota.is_exceeded(self._manager.clock.monotonic_ms())
        )

    def _answer_again(self) -> None:
        """A parked fetch completes: a fresh read of everything, which records no progress (FE-13, ST-9)."""
        self._parked = None
        self._respond(self._read(record_progress=False))

    def _answer_parked(self) -> None:
        if self._parked is not None:
            self._parked.force_complete()

    def _respond(self, found: FetchRound) -> None:
        """Send what is new; partitions that gave data go to the end of the order (FE-10b, FE-17)."""
        results: list[pb.ReplicaFetchPartitionResult] = []
        records: list[Buffer] = []
        for tp, read in found.reads.items():
            answer = read.answer
            told = (answer.high_watermark, answer.log_start_offset)
            failed = answer.error is not ErrorCode.NONE
            if not failed and not answer.records and answer.diverging is None and self._told.get(tp) == told:
                continue
            if failed or answer.diverging is not None:
                self._told.pop(tp, None)  # the follower takes no high watermark from such an answer (FT-9)
            else:
                self._told[tp] = told
            results.append(self._result(tp, answer))
            if answer.records:
                records.append(answer.records)
                self._partitions[tp] = self._partitions.pop(tp)
                if self._manager.hosted[tp].leader_throttled:  # what goes to followers in sync counts too (KIP-73)
                    self._manager.leader_quota.record(len(answer.records), self._manager.clock.monotonic_ms())
        self._outbox.put(WithRecords(pb.ReplicaFetchResponse(partitions=results), records))

    def _result(self, tp: TopicPartition, answer: FetchAnswer) -> pb.ReplicaFetchPartitionResult:
        topic_id, fetch = self._partitions[tp]
        result = pb.ReplicaFetchPartitionResult(
            topic=tp.topic,
            partition=tp.partition,
            error_code=wire_code(answer.error),
            fetch_offset=fetch.fetch_offset,
            leader_epoch=fetch.current_leader_epoch,
            high_watermark=answer.high_watermark,
            log_start_offset=answer.log_start_offset,
            log_end_offset=answer.log_end_offset,
            records_size=len(answer.records),
            topic_id=topic_id,
        )
        if answer.diverging is not None:
            result.diverging_epoch.epoch = answer.diverging.epoch
            result.diverging_epoch.end_offset = answer.diverging.end_offset
        return result

    def on_high_watermark(self, tp: TopicPartition) -> None:
        """A high watermark moved: if the follower waits with nothing to read, tell it soon (divergence 6)."""
        if tp in self._partitions:
            self._moved[tp] = None
            self._push_soon()

    def _push_soon(self) -> None:
        if self._moved and self._push_timer is None:
            self._push_timer = asyncio.get_running_loop().call_later(PUSH_DELAY_S, self._push)

    def _push(self) -> None:
        self._push_timer = None
        if self._parked is None:
            return  # not now: the next request's answer carries them, or it parks and they are pushed then
        moved, self._moved = self._moved, {}
        results = []
        for tp in moved:
            leader = self._manager.leader(tp)
            if tp not in self._partitions or isinstance(leader, ErrorCode):
                continue
            high_watermark, log_start_offset = leader.log.high_watermark, leader.log.log_start_offset
            told = self._told.get(tp)
            if told is not None and told[0] != high_watermark:
                self._told[tp] = (high_watermark, told[1])
                results.append(
                    self._result(tp, FetchAnswer(high_watermark=high_watermark, log_start_offset=log_start_offset))
                )
        if results:
            self._outbox.put(WithRecords(pb.ReplicaFetchResponse(pushed=True, partitions=results)))

    def close(self) -> None:
        if self._push_timer is not None:
            self._push_timer.cancel()
        self._partitions.clear()
        self._answer_parked()


def _fetch_partition(named: pb.ReplicaFetchPartition) -> FetchPartition:
    if named.fetch_offset < 0 or named.partition_max_bytes < 0:
        raise ReplogError(
            ErrorCode.INVALID_REQUEST,
            f"{named.topic}-{named.partition}: fetch offset {named.fetch_offset}, {named.partition_max_bytes} bytes; "
            "neither may be negative",
        )
    return FetchPartition(
        fetch_offset=named.fetch_offset,
        max_bytes=named.partition_max_bytes,
        current_leader_epoch=named.current_leader_epoch,
        last_fetched_epoch=named.last_fetched_epoch if named.last_fetched_epoch >= 0 else None,
        log_start_offset=named.log_start_offset,
    )


class ReplicaService:
    """The Replica service."""

    def __init__(self, manager: ReplicaManager, offsets_for_leader_epoch: Callable[..., object]) -> None:
        self._manager = manager
        self.offsets_for_leader_epoch = offsets_for_leader_epoch

    async def fetch(self, stream: ServerStream) -> None:
        outbox: Outbox[WithRecords[pb.ReplicaFetchResponse]] = Outbox(stream, list, MAX_UNSENT_ANSWERS)
        session = ReplicaFetchSession(self._manager, outbox)
        self._manager.listeners[session] = None
        sender = asyncio.create_task(outbox.run())
        try:
            while (request := await stream.receive()) is not None:
                await outbox.room()
                session.on_request(request)
        finally:
            del self._manager.listeners[session]
            session.close()
            sender.cancel()
            await asyncio.gather(sender, return_exceptions=True)
