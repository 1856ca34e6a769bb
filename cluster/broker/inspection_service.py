"""The Inspection service: replicas described and read as they lie on disk, for audits. Reads only."""

import os
from collections.abc import AsyncIterator
from pathlib import Path

from cluster.broker.partition import HostedPartition
from cluster.broker.replica_manager import ReplicaManager
from replog.errors import ErrorCode, ReplogError
from replog.log.batch import HEADER_SIZE, iterate_batches
from replog.log.offsets import Isolation
from replog.rpc.codec import WithRecords
from replog.rpc.v1 import inspection_pb2 as pb
from replog.topic import TopicPartition

PIECE_BYTES = 1 << 20

_SUFFIX = {
    int(pb.LOG): ".log",
    int(pb.OFFSET_INDEX): ".index",
    int(pb.TIME_INDEX): ".timeindex",
    int(pb.DIGEST_INDEX): ".digest",
}


class InspectionService:
    """Every call names one of this broker's replicas, leader or follower."""

    def __init__(self, manager: ReplicaManager) -> None:
        self._manager = manager

    async def describe_replicas(self, request: pb.DescribeReplicasRequest) -> pb.DescribeReplicasResponse:
        replicas = [
            _describe(hosted) for tp, hosted in sorted(self._manager.hosted.items()) if request.topic in ("", tp.topic)
        ]
        return pb.DescribeReplicasResponse(broker_id=self._manager.config.node_id, replicas=replicas)

    async def read_file(self, request: pb.ReadFileRequest) -> AsyncIterator[WithRecords[pb.ReadFileResponse]]:
        path = self._file(request)
        if request.position < 0 or request.size < 0:
            raise ReplogError(
                ErrorCode.INVALID_REQUEST, f"position {request.position}, size {request.size}: neither may be negative"
            )
        try:
            file = os.open(path, os.O_RDONLY)
        except FileNotFoundError:
            raise ReplogError(
                ErrorCode.OFFSET_OUT_OF_RANGE, f"{path.name} is gone; describe the replica again"
            ) from None
        try:
            position = request.position
            end = position + request.size if request.size else os.fstat(file).st_size
            while position < end and (piece := os.pread(file, min(PIECE_BYTES, end - position), position)):
                yield WithRecords(pb.ReadFileResponse(position=position), (piece,))
                position += len(piece)
        finally:
            os.close(file)

    def _file(self, request: pb.ReadFileRequest) -> Path:
        hosted = self._hosted(request.topic, request.partition)
        suffix = _SUFFIX.get(request.file)
        for segment in hosted.log.segments:
            if suffix is not None and segment.base_offset == request.segment_base_offset:
                return segment.path.with_suffix(suffix)
        raise ReplogError(
            ErrorCode.OFFSET_OUT_OF_RANGE,
            f"{hosted.topic_partition} has no segment {request.segment_base_offset} with a file of kind "
            f"{request.file}; describe the replica again",
        )

    async def read_batch_headers(
        self, request: pb.ReadBatchHeadersRequest
    ) -> AsyncIterator[WithRecords[pb.ReadBatchHeadersResponse]]:
        hosted = self._hosted(request.topic, request.partition)
        offset = request.from_offset
        end = request.to_offset or hosted.log.log_end_offset
        while offset < min(end, hosted.log.log_end_offset):  # its log may be another one by then (§7.7)
            found = hosted.log.read(offset, PIECE_BYTES, Isolation.LOG_END, min_one_message=True)
            view = memoryview(found.records)
            headers: list[memoryview] = []
            for position, header in iterate_batches(view):
                if header.base_offset >= end:
                    break
                headers.append(view[position : position + HEADER_SIZE])
                offset = header.next_offset
            if not headers:
                return
            yield WithRecords(pb.ReadBatchHeadersResponse(next_offset=offset), headers)

    def _hosted(self, topic: str, partition: int) -> HostedPartition:
        hosted = self._manager.hosted.get(TopicPartition(topic, partition))
        if hosted is None:
            raise ReplogError(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                f"broker {self._manager.config.node_id} has no replica of {topic}-{partition}",
            )
        return hosted


def _describe(hosted: HostedPartition) -> pb.ReplicaDescription:
    log = hosted.log
    return pb.ReplicaDescription(
        topic=hosted.topic_partition.topic,
        partition=hosted.topic_partition.partition,
        is_leader=hosted.leader is not None,
        leader_epoch=hosted.leader_epoch,
        log_start_offset=log.log_start_offset,
        high_watermark=log.high_watermark,
        log_end_offset=log.log_end_offset,
        size=log.size,
        segments=[pb.SegmentDescription(base_offset=view.base_offset, size=view.size) for view in log.segments],
        epochs=[pb.EpochEntry(epoch=epoch, start_offset=start) for epoch, start in log.epochs.entries],
    )
