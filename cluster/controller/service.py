"""The Controller service: one method an rpc. Whole calls fail with ReplogError; what concerns one partition is in the
answer."""

from collections.abc import AsyncIterator

from cluster.controller.controller import Controller
from cluster.controller.topics import MAX_CLUSTER_PARTITIONS
from replog.errors import ErrorCode, ReplogError
from replog.rpc.v1 import controller_pb2 as pb


class ControllerService:
    """Handlers for `replog.v1.Controller`."""

    def __init__(self, controller: Controller) -> None:
        self._controller = controller

    async def register_broker(self, request: pb.RegisterBrokerRequest) -> pb.RegisterBrokerResponse:
        state = self._controller.state
        return await self._controller.decide(lambda now_ms: state.register_broker(request, now_ms))

    async def heartbeat(self, request: pb.HeartbeatRequest) -> pb.HeartbeatResponse:
        state = self._controller.state
        return await self._controller.decide(lambda now_ms: state.heartbeat(request, now_ms))

    async def alter_partition(self, request: pb.AlterPartitionRequest) -> pb.AlterPartitionResponse:
        if len(request.partitions) > MAX_CLUSTER_PARTITIONS:
            raise ReplogError(
                ErrorCode.INVALID_REQUEST,
                f"{len(request.partitions)} partitions in one request; a cluster has at most {MAX_CLUSTER_PARTITIONS}",
            )
        return await self._controller.decide(lambda _: self._controller.state.alter_partition(request))

    def watch_metadata(self, request: pb.WatchMetadataRequest) -> AsyncIterator[pb.MetadataDelta]:
        return self._controller.watch(request.after_version)

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
