"""The Log service: it checks requests of clients, then passes them to the partitions' leaders."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from replog.config.processes import BrokerConfig
from replog.errors import ErrorCode, ReplogError
from replog.log.fetch import CONSUMER, FetchPartition, SessionRequest, SessionRow, size_of
from replog.log.offsets import Isolation
from replog.metadata.values import NO_BROKER_EPOCH
from replog.rpc import methods
from replog.rpc.codec import WithRecords, same_fields
from replog.rpc.limits import DEFAULT_ANSWER_BYTES, MIB, check_fits, fitting
from replog.rpc.peer import peer
from replog.rpc.status import wire_code
from replog.rpc.transport import ServerStream
from replog.rpc.v1 import log_pb2 as pb
from replog.server.authorizer import Permits
from replog.server.broker.clients.consume import COLD_WAIT_MS, ConsumerStream
from replog.server.broker.clients.offsets import check_permitted, delete_records, leading, list_offset
from replog.server.broker.clients.produce import Produce, refusal
from replog.server.broker.clients.produce_stream import ProduceStream, answer, asked, batches
from replog.server.broker.clients.quotas import CONSUMED, PRODUCED, ClientQuotas
from replog.server.broker.control.producer_id_blocks import ProducerIds
from replog.server.broker.replicas.byte_pool import Lease
from replog.server.broker.replicas.look_ups import LOOK_UP_S, LookUps
from replog.server.broker.replicas.replica_manager import ReplicaManager
from replog.server.work import SLICE, in_slices
from replog.topic import TopicPartition

_ISOLATION = {int(pb.READ_UNCOMMITTED): Isolation.HIGH_WATERMARK, int(pb.READ_COMMITTED): Isolation.TXN_COMMITTED}
_BROKER = ("broker_id", "rack", "fenced", "broker_epoch", "in_controlled_shutdown", "software_version")

UNSAID_FETCH_BYTES = DEFAULT_ANSWER_BYTES - MIB  # records for a request without a limit; the head takes the rest


@dataclass(eq=False)
class LogService:
    """Handlers for `replog.v1.Log`: produce and fetch as streams and as single calls, the others as calls."""

    _manager: ReplicaManager
    _producer_ids: ProducerIds
    _quotas: ClientQuotas
    _look_ups: LookUps
    _listener: str = ""  # the name of the listener that serves it; empty: that between brokers

    def __post_init__(self) -> None:
        self._context, self._replicas = self._manager.context, self._manager.replicas

    # -- produce

    async def produce(self, stream: ServerStream) -> None:
        throttle = self._quotas.of(peer(), PRODUCED)
        await ProduceStream(self._manager, stream, self._permits("produce"), throttle).run()

    async def produce_once(self, request: WithRecords[pb.ProduceRequest]) -> pb.ProduceResponse:
        throttle = self._quotas.of(peer(), PRODUCED)
        if not await throttle.turn():
            raise throttle.exceeded()
        throttle.record(sum(map(len, request.records)))
        if not self._manager.waiting_produces.has_room:
            raise ErrorCode.THROTTLING_QUOTA_EXCEEDED.error(
                f"produces that wait for their replicas hold {self._manager.waiting_produces.capacity} bytes "
                "(queued.max.request.bytes); try again"
            )
        answered: asyncio.Future[pb.ProduceAnswer] = asyncio.get_running_loop().create_future()

        def respond(produced: Produce) -> None:
            if not answered.done():
                answered.set_result(answer(produced))

        produce = asked(self._manager, request.head, respond)
        for _ in produce.append_records(batches(request), self._permits("produce_once")):
            await asyncio.sleep(0)
        del request
        return pb.ProduceResponse(answers=[await answered])

    async def init_producer_id(self, _request: pb.InitProducerIdRequest) -> pb.InitProducerIdResponse:
        """Give out a producer id (§7). Raises BROKER_NOT_AVAILABLE while the controller cannot be asked."""
        return pb.InitProducerIdResponse(producer_id=await self._producer_ids.next_id(), producer_epoch=0)

    # -- fetch

    async def fetch(self, stream: ServerStream) -> None:
        throttle = self._quotas.of(peer(), CONSUMED)
        with contextlib.closing(ConsumerStream(self._manager, self._permits("fetch"))) as consumer:
            while (request := await stream.receive()) is not None:
                wanted = await _session_request(request, self._context.config)
                await throttle.turn()
                with Lease(self._manager.sessions.answers) as share:
                    rows = await consumer.answer(wanted, share, goes_on=request.goes_on)
                    throttle.record(size_of(rows))
                    await stream.send(_fetch_response(request, rows, self._context.config.node_id))
                del rows  # otherwise their records stay in memory until the next request

    async def fetch_once(self, request: pb.FetchRequest) -> AsyncIterator[WithRecords[pb.FetchResponse]]:
        permits = self._permits("fetch_once")
        with contextlib.closing(ConsumerStream(self._manager, permits, cold_wait_ms=COLD_WAIT_MS)) as consumer:
            wanted = await _session_request(request, self._context.config)
            throttle = self._quotas.of(peer(), CONSUMED)
            if not await throttle.turn():
                raise throttle.exceeded()
            with Lease(self._manager.sessions.answers) as share:
                rows = await consumer.answer(wanted, share, goes_on=False)
                throttle.record(size_of(rows))
                yield _fetch_response(request, rows, self._context.config.node_id)

    # -- look-ups

    async def list_offsets(self, request: pb.ListOffsetsRequest) -> pb.ListOffsetsResponse:
        """Look up offsets by time, or at the ends (FE-22)."""
        _check_named_once(set(map(_topic_partition, request.partitions)), request.partitions)
        isolation = _isolation(request.isolation_level)
        deadline_s = asyncio.get_running_loop().time() + LOOK_UP_S
        permits = self._permits("list_offsets")
        results = []
        async for partition in in_slices(request.partitions):
            result = pb.ListOffsetsPartitionResult(
                topic=partition.topic, partition=partition.partition, timestamp=-1, offset=-1, leader_epoch=-1
            )
            with _told_in(result):
                check_permitted(permits, partition.topic)
                tp, epoch = _topic_partition(partition), _optional(partition, "current_leader_epoch")
                answer = await list_offset(
                    self._manager, self._look_ups, tp, partition.timestamp, isolation, epoch, deadline_s
                )
                result.timestamp, result.offset = answer.timestamp, answer.offset
                result.leader_epoch = answer.leader_epoch
            results.append(result)
        return pb.ListOffsetsResponse(partitions=results)

    async def offsets_for_leader_epoch(
        self, request: pb.OffsetsForLeaderEpochRequest
    ) -> pb.OffsetsForLeaderEpochResponse:
        """Answer where leader epochs end (FT-17)."""
        permits = self._permits("offsets_for_leader_epoch")
        results = []
        async for partition in in_slices(request.partitions):
            result = pb.OffsetForLeaderEpochResult(topic=partition.topic, partition=partition.partition)
            result.end.epoch = result.end.end_offset = -1
            with _told_in(result):
                check_permitted(permits, partition.topic)
                current_leader_epoch = _optional(partition, "current_leader_epoch")
                leader = leading(self._manager, _topic_partition(partition), current_leader_epoch)
                end = leader.end_offset_for_epoch(current_leader_epoch, partition.leader_epoch)
                result.end.epoch, result.end.end_offset = end
            results.append(result)
        return pb.OffsetsForLeaderEpochResponse(partitions=results)

    async def delete_records(self, request: pb.DeleteRecordsRequest) -> pb.DeleteRecordsResponse:
        """Delete records (LG-16). It answers once every live replica's log start has reached the offset, or at the
        timeout (FT-23)."""
        offsets = ((_topic_partition(partition), partition.offset) for partition in request.partitions)
        permits = self._permits("delete_records")
        response = pb.DeleteRecordsResponse()
        outcome = await delete_records(self._manager, offsets, request.timeout_ms, permits)
        async for tp, deleted in in_slices(outcome.items()):
            result = response.partitions.add(topic=tp.topic, partition=tp.partition, low_watermark=-1)
            if isinstance(deleted, ReplogError):
                result.error_code, result.error_message = wire_code(deleted.code), deleted.message
            else:
                result.low_watermark = deleted
        return response

    async def get_metadata(self, request: pb.GetMetadataRequest) -> pb.GetMetadataResponse:
        if not self._replicas.started:
            raise ErrorCode.BROKER_NOT_AVAILABLE.error(
                f"broker {self._context.config.node_id} is starting and does not know the cluster yet; ask another one"
            )
        image = self._context.image
        version = image.version  # later slices may have newer metadata
        names = [] if request.without_topics else list(request.topics) or sorted(image.topics)
        permits = self._permits("get_metadata", quietly=not request.topics)
        response = pb.GetMetadataResponse(
            cluster_id=image.cluster_id,
            controller=self._producer_ids.controller.address,
            controllers=self._context.config.controller_listener.split(","),
            brokers=[
                pb.BrokerMetadata(
                    **same_fields(broker, _BROKER),
                    address=address,
                    configs=image.broker_configs.get(broker.broker_id, {}),
                )
                for _, broker in sorted(image.brokers.items())
                if (address := broker.address_at(self._listener))
            ],
            metadata_version=version,
            controller_heard_ms_ago=self._context.clock.monotonic_ms() - self._replicas.failure_detector.controller_ms,
        )
        async for name in in_slices(names):
            if permits(name):
                await self._describe(response.topics.add(topic=name), names_only=request.names_only)
            elif request.topics:  # the answer does not say whether the topic exists; a list leaves it out
                response.topics.add(topic=name, error_code=wire_code(ErrorCode.TOPIC_AUTHORIZATION_FAILED))
        return fitting(response, request.max_bytes)

    async def _describe(self, described: pb.TopicMetadata, *, names_only: bool) -> None:
        topic = self._context.image.topics.get(described.topic)
        if topic is None:
            described.error_code = wire_code(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            return
        described.topic_id = topic.topic_id
        if names_only:
            return
        described.configs.update(topic.configs)
        async for number, state in in_slices(self._context.image.partitions_of(topic.name).items()):
            described.partitions.add(
                partition=number,
                leader=state.leader,
                leader_epoch=state.leader_epoch,
                replicas=state.replicas,
                isr=state.isr,
                elr=state.elr,
                partition_epoch=state.partition_epoch,
                adding_replicas=state.adding,
                removing_replicas=state.removing,
                throttle=state.throttle,
            )

    def _permits(self, method: str, *, quietly: bool = False) -> Permits:
        return self._context.authorizer.permits(methods.Log[method], quietly=quietly)


@contextlib.contextmanager
def _told_in(result: Any) -> Iterator[None]:
    """Have the row of a partition say why it is refused."""
    try:
        yield
    except ReplogError as error:
        result.error_code, result.error_message = wire_code(error.code), error.message


def _check_named_once(named: Collection[object], partitions: Sequence[object]) -> None:
    if len(named) < len(partitions):
        raise ErrorCode.INVALID_REQUEST.error("a request names each partition once")


def _topic_partition(named: Any) -> TopicPartition:
    return TopicPartition(named.topic, named.partition)


def _optional(message: Any, field: str) -> Any:
    return getattr(message, field) if message.HasField(field) else None


def _isolation(level: int) -> Isolation:
    isolation = _ISOLATION.get(level)
    if isolation is None:
        raise ErrorCode.INVALID_REQUEST.error(f"isolation level {level} is none that is known")
    return isolation


def _fetch_partition(partition: pb.FetchPartition, max_bytes: int) -> FetchPartition:
    if partition.partition_max_bytes < 0:
        raise ErrorCode.INVALID_REQUEST.error(
            f"partition_max_bytes {partition.partition_max_bytes} may not be negative"
        )
    return FetchPartition(
        fetch_offset=partition.fetch_offset,
        max_bytes=partition.partition_max_bytes or max_bytes,
        current_leader_epoch=_optional(partition, "current_leader_epoch"),
        last_fetched_epoch=_optional(partition, "last_fetched_epoch"),
        topic_id=partition.topic_id,
    )


async def _session_request(request: pb.FetchRequest, config: BrokerConfig) -> SessionRequest:
    """Parse a request, in slices if it names many partitions. Raises INVALID_REQUEST."""
    max_bytes = max(0, request.max_bytes or UNSAID_FETCH_BYTES)
    named: dict[TopicPartition, FetchPartition] = {}
    for number, partition in enumerate(request.partitions, 1):
        named[_topic_partition(partition)] = _fetch_partition(partition, max_bytes)
        if not number % SLICE:  # `in_slices` would cost every fetch of one partition a microsecond
            await asyncio.sleep(0)
    _check_named_once(named, request.partitions)
    rack = _optional(request, "rack_id")
    return SessionRequest(
        replica_id=CONSUMER,
        broker_epoch=NO_BROKER_EPOCH,
        max_wait_ms=request.max_wait_ms,
        min_bytes=max(0, request.min_bytes),
        max_bytes=max_bytes,
        named=named,
        forgotten=[_topic_partition(partition) for partition in request.forgotten],
        isolation=_isolation(request.isolation_level),
        rack=rack if config.replica_selector_class or rack is None else "",
    )


def _fetch_response(
    request: pb.FetchRequest, rows: Sequence[SessionRow], broker_id: int
) -> WithRecords[pb.FetchResponse]:
    results = [_fetch_result(row, broker_id) for row in rows]
    head = pb.FetchResponse(correlation_id=request.correlation_id, partitions=results)
    if not request.max_bytes:  # a first batch that is larger than the default comes whole (FE-9)
        check_fits(head.ByteSize() + size_of(rows), 0)
    return WithRecords(head, [row.answer.records for row in rows if row.answer.records])


def _fetch_result(row: SessionRow, broker_id: int) -> pb.FetchPartitionResult:
    tp, _, answer = row
    result = pb.FetchPartitionResult(
        topic=tp.topic,
        partition=tp.partition,
        error_code=wire_code(answer.error),
        high_watermark=answer.high_watermark,
        last_stable_offset=answer.last_stable_offset,
        log_start_offset=answer.log_start_offset,
        records_size=len(answer.records),
    )
    if answer.error is not ErrorCode.NONE:
        result.error_message = answer.why or refusal(answer.error, tp, broker_id).message
    if answer.diverging is not None:
        result.diverging_epoch.epoch = answer.diverging.epoch
        result.diverging_epoch.end_offset = answer.diverging.end_offset
    if answer.preferred_read_replica is not None:
        result.preferred_read_replica = answer.preferred_read_replica
    for aborted in answer.aborted:
        result.aborted_transactions.add(producer_id=aborted.producer_id, first_offset=aborted.first_offset)
    return result
