"""A produce request: append to every partition, then answer or wait for the in-sync replicas (§3)."""

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from leader.delayed_produce import DelayedProduce, PendingProduce
from replog.errors import ErrorCode, ReplogError
from replog.log.formats.batch import producer_of
from replog.log.offsets import Buffer
from replog.server.authorizer import Permits, refused_topic
from replog.server.broker.context import PRODUCE
from replog.server.broker.replicas.replica_manager import ReplicaManager
from replog.server.work import SLICE_S
from replog.topic import TopicPartition

VALID_ACKS = (-1, 0, 1)
BATCH_BYTES = 2500  # measured memory of a batch that waits for its replicas, without its records
_WHY = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: "broker {broker} knows no {tp}; look at the name, or refresh metadata",
    ErrorCode.NOT_LEADER_OR_FOLLOWER: "broker {broker} does not lead {tp}; refresh metadata",
    ErrorCode.KAFKA_STORAGE_ERROR: "the disk of {tp} on broker {broker} has failed; another one may lead it: "
    "refresh metadata",
    ErrorCode.FENCED_LEADER_EPOCH: "the leader epoch of the request is older than that of {tp} on broker {broker}; "
    "refresh metadata",
    ErrorCode.UNKNOWN_LEADER_EPOCH: "the leader epoch of the request is newer than that of {tp} on broker {broker}, "
    "which will hear of it; try again",
    ErrorCode.INCONSISTENT_TOPIC_ID: "{tp} on broker {broker} is of another topic of this name; refresh metadata",
}


class ProduceResult(NamedTuple):
    """The outcome for one batch; offsets and times are -1 where there are none."""

    topic_partition: TopicPartition
    base_offset: int = -1
    log_append_time: int = -1
    log_start_offset: int = -1
    error: ReplogError | None = None


class Produce:
    """A request, from its append to its answer (PR-1..PR-11). It does not keep the records.

    `done` is called once, with one result per batch in `results`, in their order."""

    def __init__(
        self,
        manager: ReplicaManager,
        acks: int,
        timeout_ms: int,
        done: Callable[["Produce"], None],
        correlation_id: int = 0,
    ) -> None:
        self.acks = acks
        self.correlation_id = correlation_id
        self.results: list[ProduceResult] = []
        self._manager = manager
        self._context = manager.context
        self._replicas = manager.replicas
        self._timeout_ms = max(0, min(timeout_ms, self._context.config.request_timeout_ms))
        self._done = done
        self._held = 0
        self._begun_s = self._context.clock.monotonic_s()

    def append_records(self, batches: Iterable[tuple[TopicPartition, Buffer]], permits: Permits) -> Iterator[None]:
        """Append batches to the topics that `permits` allows, in steps of about SLICE_S."""
        pending, begun_s = dict[int, PendingProduce](), self._begun_s
        for index, (tp, records) in enumerate(batches):
            if self._context.clock.monotonic_s() - begun_s >= SLICE_S:
                yield
                begun_s = self._context.clock.monotonic_s()
            self._context.traffic.produced(tp.topic)
            try:
                if not permits(tp.topic):
                    raise refused_topic(tp.topic)
                if (waits := self._append_to_local_log(tp, records)) is not None:
                    pending[index] = waits
            except ReplogError as error:
                self._context.traffic.not_produced(tp.topic, error.code)
                self.results.append(ProduceResult(tp, error=error.with_traceback(None)))
        if not pending:  # PR-8
            self._end()
            return
        self._held = len(self.results) * BATCH_BYTES
        self._manager.waiting_produces.add(self._held)
        operation = DelayedProduce(pending, self._replicas.leader, self._timeout_ms, self._settle)
        self._manager.produces.complete_or_watch(operation, [waits.topic_partition for waits in pending.values()])

    def _append_to_local_log(self, tp: TopicPartition, records: Buffer) -> PendingProduce | None:
        context = self._context
        if self.acks not in VALID_ACKS:
            raise ErrorCode.INVALID_REQUIRED_ACKS.error(f"acks={self.acks}; it must be 0, 1 or -1 (all)")
        leader = self._replicas.leader(tp)
        if isinstance(leader, ErrorCode):
            raise refusal(leader, tp, context.config.node_id)
        now_ms, producer = context.clock.monotonic_ms(), producer_of(records)
        is_unknown = producer >= context.image.next_producer_id
        if is_unknown and self._replicas.failure_detector.is_up_to_date(now_ms):
            raise ErrorCode.UNKNOWN_PRODUCER_ID.error(
                f"nobody was given producer id {producer}; get one with InitProducerId, or retry if it is that new"
            )
        wall_ms, apart_ms = context.time.of_append(now_ms)
        appended = leader.append_records_to_leader(
            records, acks=self.acks, wall_ms=wall_ms, now_ms=now_ms, apart_ms=apart_ms
        )
        context.throttle.served()
        self._manager.touched(tp, appended.high_watermark_advanced)
        passed, info = context.traffic.topics[tp.topic], appended.info
        passed.bytes_in += len(records)
        passed.messages_in += info.last_offset - info.first_offset + 1
        self.results.append(ProduceResult(tp, info.first_offset, info.log_append_time, info.log_start_offset))
        promised = self.acks == 1 and leader.log.promised_offset >= appended.required_offset
        if promised or self.acks == 0:
            return None
        return PendingProduce(tp, appended.required_offset, appended.leader_epoch, self.acks)

    def _settle(self, errors: dict[int, ErrorCode]) -> None:
        self._manager.waiting_produces.add(-self._held)
        for index, code in errors.items():
            if code is not ErrorCode.NONE:
                was = self.results[index]
                tp = was.topic_partition
                self._context.traffic.not_produced(tp.topic, code)
                why = f"appended to {tp}, but not known to be safe: it may be there (PR-12)"
                self.results[index] = was._replace(base_offset=-1, error=code.error(why))
        self._end()

    def _end(self) -> None:
        self._context.traffic.answered(PRODUCE, self._begun_s)
        self._done(self)


def refusal(code: ErrorCode, tp: TopicPartition, broker_id: int) -> ReplogError:
    if code is ErrorCode.TOPIC_AUTHORIZATION_FAILED:
        return refused_topic(tp.topic)
    why = _WHY.get(code, "broker {broker} does not serve {tp}; refresh metadata, and try again")
    return ReplogError(code, why.format(broker=broker_id, tp=str(tp)[:300]))
