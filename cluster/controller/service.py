"""The Controller service: one method an rpc. Whole calls fail with ReplogError; what concerns one partition is in the
answer."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Sequence, Sized
from typing import TypeVar

from cluster.controller.controller import Controller
from cluster.controller.elections import Election
from cluster.controller.records import Decision
from cluster.controller.topics import MAX_CLUSTER_PARTITIONS
from replog.errors import ErrorCode, ReplogError
from replog.rpc.v1 import controller_pb2 as pb
from replog.topic import TopicPartition

A = TypeVar("A")
B = TypeVar("B")

LOT = 250  # partitions of one commit: some 20 ms
_ELECTIONS = {pb.PREFERRED: Election.PREFERRED, pb.UNCLEAN: Election.UNCLEAN}


class ControllerService:
    """Handlers for `replog.v1.Controller`."""

    def __init__(self, controller: Controller) -> None:
        self._controller = controller

    async def register_broker(self, request: pb.RegisterBrokerRequest) -> pb.RegisterBrokerResponse:
        state = self._controller.state
        return await self._controller.decide(lambda now_ms: state.register_broker(request, now_ms))

    async def heartbeat(self, request: pb.HeartbeatRequest) -> pb.HeartbeatResponse:
        return await self._controller.heartbeat(request)

    async def alter_partition(self, request: pb.AlterPartitionRequest) -> pb.AlterPartitionResponse:
        state, sender = self._controller.state, (request.broker_id, request.broker_epoch)
        present = await self._controller.present_heirs(request)
        results = await self._in_lots(
            request.partitions, lambda lot, now_ms: state.alter_partition(*sender, lot, present, now_ms)
        )
        return pb.AlterPartitionResponse(partitions=results)

    def watch_metadata(self, request: pb.WatchMetadataRequest) -> AsyncIterator[pb.MetadataDelta]:
        return self._controller.watch(request)

    async def create_topic(self, request: pb.CreateTopicRequest) -> pb.CreateTopicResponse:
        return await self._controller.decide(lambda _: self._controller.state.create_topic(request))

    async def allocate_producer_ids(self, request: pb.AllocateProducerIdsRequest) -> pb.AllocateProducerIdsResponse:
        return await self._controller.decide(lambda _: self._controller.state.allocate_producer_ids(request))

    async def delete_topic(self, request: pb.DeleteTopicRequest) -> pb.DeleteTopicResponse:
        return await self._controller.decide(lambda _: self._controller.state.delete_topic(request))

    async def alter_topic_configs(self, request: pb.AlterTopicConfigsRequest) -> pb.AlterConfigsResponse:
        return await self._controller.decide(lambda _: self._controller.state.alter_topic_configs(request))

    async def alter_broker_configs(self, request: pb.AlterBrokerConfigsRequest) -> pb.AlterConfigsResponse:
        return await self._controller.decide(lambda _: self._controller.state.alter_broker_configs(request))

    async def elect_leaders(self, request: pb.ElectLeadersRequest) -> pb.ElectLeadersResponse:
        if request.all_partitions and request.partitions:
            raise ReplogError(ErrorCode.INVALID_REQUEST, "all partitions, or some by name, but not both")
        election = _ELECTIONS.get(request.election_type)
        if election is None:
            raise ReplogError(ErrorCode.INVALID_REQUEST, f"there is no election type {request.election_type}")
        state = self._controller.state
        wanted = list(state.image.partitions) if request.all_partitions else _names(request.partitions)
        results = await self._in_lots(wanted, lambda lot, _: state.elect_leaders(election, lot))
        if request.all_partitions:
            results = [result for result in results if result.error_code != int(ErrorCode.ELECTION_NOT_NEEDED)]
        return pb.ElectLeadersResponse(partitions=results)

    async def alter_partition_reassignments(
        self, request: pb.AlterPartitionReassignmentsRequest
    ) -> pb.AlterPartitionReassignmentsResponse:
        state = self._controller.state
        results = await self._in_lots(request.partitions, lambda lot, _: state.alter_partition_reassignments(lot))
        return pb.AlterPartitionReassignmentsResponse(partitions=results)

    async def list_partition_reassignments(
        self, request: pb.ListPartitionReassignmentsRequest
    ) -> pb.ListPartitionReassignmentsResponse:
        _check_count(request.partitions)
        state = self._controller.state
        return await self._controller.decide(lambda _: state.list_partition_reassignments(_names(request.partitions)))

    async def _in_lots(self, items: Sequence[A], decide: Callable[[Sequence[A], int], Decision[list[B]]]) -> list[B]:
        """What `decide` answers of all items; some at a time, each lot one commit, and heartbeats get in between."""
        _check_count(items)
        results: list[B] = []
        for first in range(0, len(items) or 1, LOT):
            results += await self._in_one_lot(items[first : first + LOT], decide)
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
