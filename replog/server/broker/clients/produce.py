"""A produce request: append to every partition, then answer or wait for the in-sync replicas (§3)."""

from collections.abc import Callable, Iterable

from leader.delayed_produce import DelayedProduce, PendingProduce
from replog.errors import ErrorCode, ReplogError
from replog.log.formats.batch import producer_of
from replog.log.offsets import Buffer
from replog.rpc.status import wire_code
from replog.rpc.v1 import log_pb2 as pb
from replog.server.authorizer import Permits, refused_topic
from replog.server.broker.clients.refusals import refusal
from replog.server.broker.replicas.replica_manager import ReplicaManager
from replog.server.broker.traffic import PRODUCE
from replog.topic import TopicPartition

VALID_ACKS = (-1, 0, 1)
BATCH_BYTES = 2500  # measured memory of a batch that waits for its replicas, without its records


class Produce:
    """A request, from its append to its answer (PR-1..PR-11). It does not keep the records.

    `done` is called once, with one result per batch in `answer`, in their order; offsets are -1 on error."""

    def __init__(self, manager: ReplicaManager, head: pb.ProduceRequest, done: Callable[["Produce"], None]) -> None:
        self.acks = head.acks
        self.answer = pb.ProduceAnswer(correlation_id=head.correlation_id)
        self._manager = manager
        self._context = manager.context
        self._replicas = manager.replicas
        self._timeout_ms = max(0, min(head.timeout_ms, self._context.config.request_timeout_ms))
        self._done = done
        self._held = 0
        self._begun_s = self._context.clock.monotonic_s()

    def append_records(self, batches: Iterable[tuple[TopicPartition, Buffer]], permits: Permits) -> None:
        """Append batches to the topics that `permits` allows."""
        pending: dict[int, PendingProduce] = {}
        for index, (tp, records) in enumerate(batches):
            self._context.traffic.produced(tp.topic)
            result = self.answer.partitions.add()
            result.topic, result.partition = tp
            result.base_offset = result.log_append_time_ms = result.log_start_offset = -1
            try:
                if not permits(tp.topic):
                    raise refused_topic(tp.topic)
                if (waits := self._append_to_local_log(tp, records, result)) is not None:
                    pending[index] = waits
            except ReplogError as error:
                self._context.traffic.not_produced(tp.topic, error.code)
                result.error_code = wire_code(error.code)
                result.error_message = error.message
        if not pending:  # PR-8
            self._end()
            return
        self._held = len(self.answer.partitions) * BATCH_BYTES
        self._manager.waiting_produces.add(self._held)
        operation = DelayedProduce(pending, self._replicas.leader, self._timeout_ms, self._settle)
        self._manager.produces.complete_or_watch(operation, [waits.topic_partition for waits in pending.values()])

    def _append_to_local_log(
        self, tp: TopicPartition, records: Buffer, result: pb.ProducePartitionResult
    ) -> PendingProduce | None:
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
        passed = context.traffic.topic(tp.topic)
        passed.bytes_in += len(records)
        passed.messages_in += appended.info.last_offset - appended.info.first_offset + 1
        result.base_offset = appended.info.first_offset
        result.log_append_time_ms = appended.info.log_append_time
        result.log_start_offset = appended.info.log_start_offset
        promised = self.acks == 1 and leader.log.promised_offset >= appended.required_offset
        if promised or self.acks == 0:
            return None
        return PendingProduce(tp, appended.required_offset, appended.leader_epoch, self.acks)

    def _settle(self, errors: dict[int, ErrorCode]) -> None:
        self._manager.waiting_produces.add(-self._held)
        for index, error in errors.items():
            if error is not ErrorCode.NONE:
                result = self.answer.partitions[index]
                tp = TopicPartition(result.topic, result.partition)
                result.error_code, result.base_offset = wire_code(error), -1
                self._context.traffic.not_produced(tp.topic, error)
                result.error_message = f"appended to {tp}, but not known to be safe: it may be there (PR-12)"
        self._end()

    def _end(self) -> None:
        self._context.traffic.answered(PRODUCE, self._begun_s)
        self._done(self)
