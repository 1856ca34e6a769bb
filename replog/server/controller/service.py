"""The Controller service: one method an rpc, from the wire to a decision and back. Whole calls fail with ReplogError;
what concerns one partition is in the answer."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Sequence, Sized
from typing import TypeVar

from replog.controller.alter_partition import Proposal, Verdict
from replog.controller.broker_lifecycle import Heartbeat
from replog.controller.configs import AlteredConfigs, ConfigChange
from replog.controller.decision import Decision
from replog.controller.elections import Election
from replog.controller.leader_elections import Elected
from replog.controller.producer_ids import BLOCK_SIZE
from replog.controller.reassignments import Reassignment
from replog.controller.registration import Registration
from replog.controller.topics import MAX_CLUSTER_PARTITIONS, NewTopic
from replog.errors import ErrorCode, ReplogError
from replog.metadata.records import partition_to_record
from replog.rpc.limits import check_fits
from replog.rpc.v1 import controller_pb2 as pb
from replog.rpc.v1 import metadata_pb2
from replog.server.controller.active_controller import ActiveController
from replog.topic import TopicPartition

A = TypeVar("A")
B = TypeVar("B")
C = TypeVar("C")

LOT = 250  # partitions of one commit: some 20 ms
_ELECTIONS = {pb.PREFERRED: Election.PREFERRED, pb.UNCLEAN: Election.UNCLEAN}


class ControllerService:
    """Handlers for `replog.v1.Controller`."""

    def __init__(self, controller: ActiveController) -> None:
        self._controller = controller

    async def register_broker(self, request: pb.RegisterBrokerRequest) -> pb.RegisterBrokerResponse:
        state = self._controller.state
        registration = Registration(
            cluster_id=request.cluster_id,
            broker_id=request.broker_id,
            incarnation_id=request.incarnation_id,
            address=request.address,
            rack=request.rack,
            previous_broker_epoch=request.previous_broker_epoch,
        )
        broker_epoch = await self._controller.decide(lambda now_ms: state.register_broker(registration, now_ms))
        return pb.RegisterBrokerResponse(
            cluster_id=state.image.cluster_id,
            broker_epoch=broker_epoch,
            session_timeout_ms=state.sessions.timeout_ms,
        )

    async def heartbeat(self, request: pb.HeartbeatRequest) -> pb.HeartbeatResponse:
        heartbeat = Heartbeat(
            broker_id=request.broker_id,
            broker_epoch=request.broker_epoch,
            metadata_version=request.metadata_version,
            want_fence=request.want_fence,
            want_shutdown=request.want_shutdown,
        )
        answer = await self._controller.heartbeat(heartbeat)
        return pb.HeartbeatResponse(**answer._asdict())

    async def alter_partition(self, request: pb.AlterPartitionRequest) -> pb.AlterPartitionResponse:
        state, sender = self._controller.state, (request.broker_id, request.broker_epoch)
        proposals = [_proposal(request.broker_id, item) for item in request.partitions]
        present = await self._controller.present_heirs(*sender, proposals)
        results = await self._in_lots(
            proposals, lambda lot, now_ms: state.alter_partition(*sender, lot, present, now_ms), _verdict
        )
        return pb.AlterPartitionResponse(partitions=results)

    def watch_metadata(self, request: pb.WatchMetadataRequest) -> AsyncIterator[pb.MetadataDelta]:
        return self._controller.watch(request)

    async def create_topic(self, request: pb.CreateTopicRequest) -> pb.CreateTopicResponse:
        topic = NewTopic(
            topic=request.topic,
            partitions=request.partitions,
            replication_factor=request.replication_factor,
            configs=dict(request.configs),
            assignment=[replicas.broker_ids for replicas in request.assignment],
            validate_only=request.validate_only,
            topic_id=request.topic_id,
        )
        created = await self._controller.decide(lambda _: self._controller.state.create_topic(topic))
        return pb.CreateTopicResponse(**created._asdict())

    async def allocate_producer_ids(self, request: pb.AllocateProducerIdsRequest) -> pb.AllocateProducerIdsResponse:
        broker = request.broker_id, request.broker_epoch
        first = await self._controller.decide(lambda _: self._controller.state.allocate_producer_ids(*broker))
        return pb.AllocateProducerIdsResponse(first_producer_id=first, count=BLOCK_SIZE)

    async def delete_topic(self, request: pb.DeleteTopicRequest) -> pb.DeleteTopicResponse:
        topic = request.topic, request.topic_id
        version = await self._controller.decide(lambda _: self._controller.state.delete_topic(*topic))
        return pb.DeleteTopicResponse(metadata_version=version)

    async def alter_topic_configs(self, request: pb.AlterTopicConfigsRequest) -> pb.AlterConfigsResponse:
        topic, change = request.topic, _config_change(request)
        return _altered(
            await self._controller.decide(lambda _: self._controller.state.alter_topic_configs(topic, change))
        )

    async def alter_broker_configs(self, request: pb.AlterBrokerConfigsRequest) -> pb.AlterConfigsResponse:
        broker_id, change = request.broker_id, _config_change(request)
        return _altered(
            await self._controller.decide(lambda _: self._controller.state.alter_broker_configs(broker_id, change))
        )

    async def elect_leaders(self, request: pb.ElectLeadersRequest) -> pb.ElectLeadersResponse:
        if request.all_partitions and request.partitions:
            raise ReplogError(ErrorCode.INVALID_REQUEST, "all partitions, or some by name, but not both")
        election = _ELECTIONS.get(request.election_type)
        if election is None:
            raise ReplogError(ErrorCode.INVALID_REQUEST, f"there is no election type {request.election_type}")
        state = self._controller.state
        wanted = list(state.image.partitions) if request.all_partitions else _names(request.partitions)
        results = await self._in_lots(wanted, lambda lot, _: state.elect_leaders(election, lot), _elected)
        if request.all_partitions:
            results = [result for result in results if result.error_code != int(ErrorCode.ELECTION_NOT_NEEDED)]
        return pb.ElectLeadersResponse(partitions=results)

    async def alter_partition_reassignments(
        self, request: pb.AlterPartitionReassignmentsRequest
    ) -> pb.AlterPartitionReassignmentsResponse:
        state, wanted = self._controller.state, [_reassignment(item) for item in request.partitions]
        results = await self._in_lots(
            wanted, lambda lot, _: state.alter_partition_reassignments(lot), _reassignment_result
        )
        return pb.AlterPartitionReassignmentsResponse(partitions=results)

    async def list_partition_reassignments(
        self, request: pb.ListPartitionReassignmentsRequest
    ) -> pb.ListPartitionReassignmentsResponse:
        _check_count(request.partitions)
        names, state = _names(request.partitions), self._controller.state
        ongoing = await self._controller.decide(lambda _: Decision([], state.list_partition_reassignments(names)))
        answer = pb.ListPartitionReassignmentsResponse(
            partitions=[
                pb.OngoingPartitionReassignment(
                    topic=tp.topic,
                    partition=tp.partition,
                    replicas=moving.replicas,
                    adding_replicas=moving.adding,
                    removing_replicas=moving.removing,
                )
                for tp, moving in ongoing
            ]
        )
        check_fits(answer.ByteSize(), request.max_bytes)
        return answer

    async def _in_lots(
        self,
        items: Sequence[A],
        decide: Callable[[Sequence[A], int], Decision[list[B]]],
        answer: Callable[[A, B], C],
    ) -> list[C]:
        """What `decide` makes of all items; some at a time, each lot one commit, and heartbeats get in between."""
        _check_count(items)
        results: list[C] = []
        for first in range(0, len(items) or 1, LOT):
            lot = items[first : first + LOT]
            results += map(answer, lot, await self._in_one_lot(lot, decide))
            await asyncio.sleep(0)  # a lot that changes nothing waits for nobody
        return results

    async def _in_one_lot(self, lot: Sequence[A], decide: Callable[[Sequence[A], int], Decision[list[B]]]) -> list[B]:
        return await self._controller.decide(lambda now_ms: decide(lot, now_ms))


def _names(partitions: Iterable[pb.PartitionName]) -> list[TopicPartition]:
    return [TopicPartition(name.topic, name.partition) for name in partitions]


def _check_count(partitions: Sized) -> None:
    if len(partitions) > MAX_CLUSTER_PARTITIONS:
        raise ReplogError(
            ErrorCode.INVALID_REQUEST,
            f"{len(partitions)} partitions in one request; a cluster has at most {MAX_CLUSTER_PARTITIONS}",
        )


def _proposal(sender: int, item: pb.AlterPartitionItem) -> Proposal:
    return Proposal(
        topic_partition=TopicPartition(item.topic, item.partition),
        topic_id=item.topic_id,
        sender=sender,
        leader_epoch=item.leader_epoch,
        partition_epoch=item.partition_epoch,
        isr=tuple((member.broker_id, member.broker_epoch) for member in item.new_isr),
        recovering=item.recovery_state != metadata_pb2.RECOVERED,
    )


def _verdict(proposal: Proposal, verdict: Verdict) -> pb.AlterPartitionResult:
    tp, state = proposal.topic_partition, verdict.state
    record = None if state is None else partition_to_record(tp, proposal.topic_id, state)
    return pb.AlterPartitionResult(topic=tp.topic, partition=tp.partition, error_code=verdict.error.name, state=record)


def _config_change(request: pb.AlterTopicConfigsRequest | pb.AlterBrokerConfigsRequest) -> ConfigChange:
    return ConfigChange(dict(request.set), list(request.delete), request.validate_only)


def _altered(altered: AlteredConfigs) -> pb.AlterConfigsResponse:
    return pb.AlterConfigsResponse(configs=altered.configs, metadata_version=altered.metadata_version)


def _elected(tp: TopicPartition, elected: Elected) -> pb.ElectLeadersResult:
    return pb.ElectLeadersResult(
        topic=tp.topic,
        partition=tp.partition,
        error_code=elected.error.code.name,
        error_message=elected.error.message,
        leader=elected.leader,
    )


def _reassignment(item: pb.ReassignablePartition) -> Reassignment:
    target = item.target.broker_ids if item.HasField("target") else None
    return Reassignment(TopicPartition(item.topic, item.partition), target)


def _reassignment_result(reassignment: Reassignment, error: ReplogError) -> pb.AlterPartitionReassignmentResult:
    tp = reassignment.topic_partition
    return pb.AlterPartitionReassignmentResult(
        topic=tp.topic, partition=tp.partition, error_code=error.code.name, error_message=error.message
    )
