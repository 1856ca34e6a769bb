"""The leader's side of replication on the wire: each follower's stream is its fetch session (§4, divergence 11)."""

from collections.abc import Callable, Hashable, Sequence

import structlog

from leader.follower_session import FollowerSession
from replog.errors import ErrorCode
from replog.log.fetch import FetchPartition, SessionRequest, SessionRow
from replog.rpc.codec import WithRecords
from replog.rpc.limits import MAX_PARTITIONS_OF_BROKERS
from replog.rpc.status import wire_code
from replog.rpc.transport import ServerStream
from replog.rpc.v1 import replica_pb2 as pb
from replog.server.broker.context import FOLLOWER
from replog.server.broker.replicas.replica_manager import ReplicaManager
from replog.server.clock import DeadlineTimer
from replog.topic import TopicPartition

log = structlog.get_logger()


class ReplicaStream:
    """A follower's session on its stream. `wake_by` gets the time at which `session.on_time` is needed next."""

    def __init__(
        self,
        manager: ReplicaManager,
        post: Callable[[WithRecords[pb.ReplicaFetchResponse]], None],
        wake_by: Callable[[int | None], None],
    ) -> None:
        self._context = manager.context
        self._sessions = manager.sessions
        self._failure_detector = manager.replicas.failure_detector
        self._asked_s = 0.0
        self.session = FollowerSession(
            self._sessions,
            manager.replicas,
            manager.on_fetched,
            lambda rows: post(self._counted(rows)),
            lambda rows: post(self._message(rows, pushed=True)),
            wake_by,
            max_bytes=self._context.config.fetch_max_bytes,
            max_wait_ms=self._context.config.request_timeout_ms,
        )

    def on_request(self, request: pb.ReplicaFetchRequest) -> None:
        self._asked_s = self._context.clock.monotonic_s()
        now_ms = self._context.clock.monotonic_ms()
        broker = self._context.image.broker(request.replica_id)
        if broker is not None and broker.broker_epoch == request.broker_epoch:
            self._failure_detector.heard(request.replica_id, now_ms)
        self.session.on_request(_session_request(request, now_ms), now_ms)

    def _counted(self, rows: Sequence[SessionRow]) -> WithRecords[pb.ReplicaFetchResponse]:
        self._context.traffic.fetched(FOLLOWER, rows)
        self._context.traffic.answered(FOLLOWER, self._asked_s)
        return self._message(rows, pushed=False)

    def _message(self, rows: Sequence[SessionRow], *, pushed: bool) -> WithRecords[pb.ReplicaFetchResponse]:
        shared = self._sessions.shared
        if shared is None:
            return _wire_response(rows, pushed=pushed)
        contents = pushed, *map(_contents, rows)
        if contents not in shared:
            shared[contents] = _wire_response(rows, pushed=pushed)
        return shared[contents]  # type: ignore[no-any-return]


def _session_request(request: pb.ReplicaFetchRequest, now_ms: int) -> SessionRequest:
    if request.broker_epoch < 1:
        raise ErrorCode.INVALID_REQUEST.error(
            f"broker {request.replica_id} fetches with broker epoch {request.broker_epoch}; register to have one"
        )
    if len(request.partitions) > MAX_PARTITIONS_OF_BROKERS:
        raise ErrorCode.INVALID_REQUEST.error(
            f"broker {request.replica_id} names {len(request.partitions)} partitions in one fetch; at most "
            f"{MAX_PARTITIONS_OF_BROKERS}, and others in the next"
        )
    return SessionRequest(
        replica_id=request.replica_id,
        broker_epoch=request.broker_epoch,
        max_wait_ms=_common_wait_ms(request.max_wait_ms, now_ms),
        min_bytes=request.min_bytes,
        max_bytes=request.max_bytes,
        named={TopicPartition(named.topic, named.partition): _fetch_partition(named) for named in request.partitions},
        forgotten=[TopicPartition(forgotten.topic, forgotten.partition) for forgotten in request.forgotten],
    )


def _common_wait_ms(max_wait_ms: int, now_ms: int) -> int:
    """Return a wait until a whole multiple of it, so that waits without data share a wake-up (divergence 35)."""
    return max_wait_ms - now_ms % max_wait_ms if max_wait_ms > 0 else 0


def _fetch_partition(named: pb.ReplicaFetchPartition) -> FetchPartition:
    fetch_offset, max_bytes, unflushed = named.fetch_offset, named.partition_max_bytes, named.unflushed
    if max_bytes < 0 or not 0 <= unflushed <= fetch_offset:
        raise ErrorCode.INVALID_REQUEST.error(
            f"{named.topic}-{named.partition}: fetch offset {fetch_offset}, {unflushed} before it not flushed, "
            f"{max_bytes} bytes; none may be negative, nor more unflushed than there are"
        )
    epoch, last_epoch = named.current_leader_epoch, named.last_fetched_epoch
    return FetchPartition(
        fetch_offset,
        max_bytes,
        epoch,
        last_epoch if last_epoch >= 0 else None,
        named.log_start_offset,
        named.topic_id,
        unflushed,
    )


def _contents(row: SessionRow) -> Hashable:
    """Return a key that is the same for rows with the same message. It compares buffers of records by identity."""
    tp, request, answer = row
    asked = request.topic_id, request.fetch_offset, request.current_leader_epoch
    return tp, asked, answer[:6], id(answer.records)  # the first six fields: error, bounds, `diverging`


def _wire_response(rows: Sequence[SessionRow], *, pushed: bool) -> WithRecords[pb.ReplicaFetchResponse]:
    head = pb.ReplicaFetchResponse(pushed=pushed)
    for row in rows:
        _wire_result(head.partitions.add(), row)
    return WithRecords(head, [row.answer.records for row in rows if row.answer.records])


def _wire_result(result: pb.ReplicaFetchPartitionResult, row: SessionRow) -> None:
    """Fill in a row. Setting fields one by one takes less time than arguments."""
    tp, request, answer = row
    result.topic, result.partition = tp
    result.topic_id = request.topic_id
    result.fetch_offset = request.fetch_offset
    if request.current_leader_epoch is not None:
        result.leader_epoch = request.current_leader_epoch
    result.high_watermark = answer.high_watermark
    result.log_start_offset = answer.log_start_offset
    result.log_end_offset = answer.log_end_offset
    result.records_size = len(answer.records)
    if answer.error is not ErrorCode.NONE:
        result.error_code = wire_code(answer.error)
    if answer.diverging is not None:
        result.diverging_epoch.epoch, result.diverging_epoch.end_offset = answer.diverging


class ReplicaService:
    """Handlers for `replog.v1.Replica`. Sessions share a timer, as most are due together (divergences 6 and 35)."""

    def __init__(self, manager: ReplicaManager) -> None:
        self._manager = manager
        self._context = manager.context
        self._sessions: dict[FollowerSession, None] = {}
        self._timer = DeadlineTimer(manager.context.clock, self._on_time)

    async def fetch(self, stream: ServerStream) -> None:
        replica = ReplicaStream(self._manager, stream.post, self._timer.by)
        self._sessions[replica.session] = None
        try:
            await stream.each(replica.on_request)
        finally:
            replica.session.close()
            del self._sessions[replica.session]
            if not self._sessions:
                self._timer.cancel()

    def _on_time(self) -> None:
        now_ms = self._context.clock.monotonic_ms()
        for session in self._sessions:
            try:
                session.on_time(now_ms)
            except Exception:
                log.exception("answering a fetch failed")
            self._timer.by(session.next_wake_ms)
