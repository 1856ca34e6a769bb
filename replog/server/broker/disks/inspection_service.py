"""The Inspection service: it describes and reads replicas as they lie on disk, for audits. It only reads."""

import contextlib
import errno
import os
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice, pairwise
from pathlib import Path
from typing import TypeVar

from replog.errors import ErrorCode, ReplogError
from replog.log.directories.log_manager import LogManager
from replog.log.errors import CorruptRecord
from replog.log.files.filesystem import read_exactly
from replog.log.files.opening import open_fd
from replog.log.formats.batch import HEADER, HEADER_SIZE, BatchHeader
from replog.log.formats.checkpoint import LEADER_EPOCH_CHECKPOINT
from replog.log.formats.segment_file import MAX_HEADERS, read_headers
from replog.log.indexes.index import sealed_digest
from replog.log.segment import Segment
from replog.rpc import methods
from replog.rpc.codec import WithRecords
from replog.rpc.limits import fitting
from replog.rpc.peer import peer
from replog.rpc.v1 import inspection_pb2 as pb
from replog.server.authorizer import refused_topic
from replog.server.broker.clients.quotas import CONSUMED, ClientQuotas
from replog.server.broker.context import BrokerContext
from replog.server.broker.replicas.hosted_replicas import HostedPartition, HostedReplicas
from replog.server.work import in_slices, in_thread
from replog.topic import TopicPartition

PIECE_BYTES = 256 << 10

_SUFFIX = {
    int(pb.LOG): ".log",
    int(pb.OFFSET_INDEX): ".index",
    int(pb.TIME_INDEX): ".timeindex",
    int(pb.DIGEST_INDEX): ".digest",
}


@dataclass(eq=False)
class InspectionService:
    """Handlers for `replog.v1.Inspection`. Calls may name any replica of this broker, leader or follower."""

    _context: BrokerContext
    _replicas: HostedReplicas
    _quotas: ClientQuotas
    logs: LogManager | None = None  # set before any replica is hosted
    longest_step_s: Callable[[], float] = lambda: 0.0  # the event loop's, if it is watched

    async def describe_replicas(self, request: pb.DescribeReplicasRequest) -> pb.DescribeReplicasResponse:
        replicas, segments = [], []
        permits = self._context.authorizer.permits(methods.Inspection["describe_replicas"], quietly=not request.topic)
        if request.topic and not permits(request.topic):
            raise refused_topic(request.topic)
        asked = sorted(item for item in self._replicas.hosted.items() if request.topic in ("", item[0].topic))
        async for tp, hosted in in_slices(asked):
            if permits(tp.topic) and self._replicas.hosted.get(tp) is hosted:
                here = () if request.without_segments else hosted.log.segments
                replicas.append(_describe(hosted, self._cleaned_to(hosted), here))
                segments.append(here)
        if request.digests:
            for replica, here in zip(replicas, segments, strict=True):
                digests = await in_thread(partial(_digests, here))
                for segment, digest in zip(replica.segments[:-1], digests, strict=True):
                    if digest is not None:
                        segment.digest = digest
        answer = pb.DescribeReplicasResponse(
            broker_id=self._context.config.node_id,
            replicas=replicas,
            longest_step_us=round(1e6 * self.longest_step_s()),
        )
        return fitting(answer, request.max_bytes)

    def _cleaned_to(self, hosted: HostedPartition) -> int:
        """Return the offset up to which the log may be cleaned. A cleaning under way, or one that was given up, may
        have swapped in segments beyond the checkpoint."""
        tp, checkpoint = hosted.topic_partition, None
        if self.logs is not None and self.logs.get(tp) is hosted.log:
            checkpoint = self.logs.cleaned_offsets(tp).get(tp)
        return max(checkpoint or 0, hosted.log.swapped_to)

    async def read_file(self, request: pb.ReadFileRequest) -> AsyncIterator[WithRecords[pb.ReadFileResponse]]:
        if request.position < 0 or request.size < 0:
            raise ErrorCode.INVALID_REQUEST.error(
                f"position {request.position}, size {request.size}: neither may be negative"
            )
        path = self._file(request.topic, request.partition, request.segment_base_offset, request.file)
        if request.file == pb.LEADER_EPOCH_CHECKPOINT:  # otherwise it could lag behind the log (divergence 31)
            with contextlib.suppress(ReplogError):  # a full disk keeps the file as it is, and that is read
                await in_thread(self._hosted(request.topic, request.partition).log.epochs.save)
        throttle = self._quotas.of(peer(), CONSUMED)
        async with _opened(path) as (file, size):
            position = request.position
            end = min(position + request.size, size) if request.size else size
            while True:
                wanted = max(0, min(PIECE_BYTES, end - position))
                await throttle.turn()
                piece = await _disk(path, partial(read_exactly, file, position, wanted))
                throttle.record(len(piece))
                yield WithRecords(pb.ReadFileResponse(position=position, file_size=size), (piece,))
                position += len(piece)
                if position >= end or not piece:
                    return

    async def read_batch_headers(
        self, request: pb.ReadBatchHeadersRequest
    ) -> AsyncIterator[WithRecords[pb.ReadBatchHeadersResponse]]:
        positions = request.positions
        if min(request.position, request.max_headers, *positions) < 0:
            raise ErrorCode.INVALID_REQUEST.error(
                f"position {request.position}, max_headers {request.max_headers} or one of {len(positions)} positions "
                "is negative"
            )
        path = self._file(request.topic, request.partition, request.segment_base_offset, pb.LOG)
        throttle = self._quotas.of(peer(), CONSUMED)
        await throttle.turn()
        async with _opened(path) as (file, size):
            if positions:
                pieces = await _disk(path, lambda: [read_exactly(file, at, HEADER_SIZE) for at in positions])
                if any(len(header) < HEADER_SIZE for header in pieces):
                    raise ErrorCode.OFFSET_OUT_OF_RANGE.error(f"{path.name} is shorter now; describe the replica again")
                throttle.record(len(pieces) * HEADER_SIZE)
                yield WithRecords(pb.ReadBatchHeadersResponse(), pieces)
                return
            walk = read_headers(file, size, request.position)
            left = request.max_headers or size
            while headers := await _disk(path, partial(_headers, walk, min(left, MAX_HEADERS))):
                throttle.record(len(headers) * HEADER_SIZE)
                yield WithRecords(pb.ReadBatchHeadersResponse(), headers)
                left -= len(headers)
                await throttle.turn()

    def _file(self, topic: str, partition: int, base_offset: int, kind: int) -> Path:
        hosted = self._hosted(topic, partition)
        if kind == pb.LEADER_EPOCH_CHECKPOINT:
            return hosted.log.directory / LEADER_EPOCH_CHECKPOINT
        if kind not in _SUFFIX:
            raise ErrorCode.INVALID_REQUEST.error(f"file {kind}: a segment has no such file")
        for segment in hosted.log.segments:
            if segment.base_offset == base_offset:
                return segment.path.with_suffix(_SUFFIX[kind])
        raise ErrorCode.OFFSET_OUT_OF_RANGE.error(
            f"{hosted.topic_partition} has no segment {base_offset}; describe the replica again"
        )

    def _hosted(self, topic: str, partition: int) -> HostedPartition:
        hosted = self._replicas.hosted.get(TopicPartition(topic, partition))
        if hosted is None:
            raise ErrorCode.UNKNOWN_TOPIC_OR_PARTITION.error(
                f"broker {self._context.config.node_id} has no replica of {topic}-{partition}"
            )
        return hosted


def _describe(hosted: HostedPartition, cleaned_to: int, segments: Sequence[Segment]) -> pb.ReplicaDescription:
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
        segments=[pb.SegmentDescription(base_offset=segment.base_offset, size=segment.size) for segment in segments],
        epochs=[pb.EpochEntry(epoch=epoch, start_offset=start) for epoch, start in log.epochs.entries],
        cleaned_to=cleaned_to,
        topic_id=hosted.topic_id,
    )


def _digests(segments: Sequence[Segment]) -> list[int | None]:
    """Return the digest of each sealed segment; None if it has none."""
    return [
        sealed_digest(segment.digest_index.path, segment.base_offset, following.base_offset)
        for segment, following in pairwise(segments)
    ]


def _headers(walk: Iterator[tuple[int, BatchHeader]], count: int) -> list[bytes]:
    """Return the next `count` headers, or fewer if the batches end."""
    headers: list[bytes] = []
    with contextlib.suppress(CorruptRecord):
        headers.extend(HEADER.pack(*header) for _, header in islice(walk, count))
    return headers


@contextlib.asynccontextmanager
async def _opened(path: Path) -> AsyncIterator[tuple[int, int]]:
    """Yields the descriptor and the size of a file."""
    opened: list[int] = []  # filled by the thread: a call that is cancelled meanwhile gets no result to close

    def size_of_opened() -> int:
        opened.append(open_fd(path, os.O_RDONLY))
        return os.fstat(opened[0]).st_size

    try:
        size = await _disk(path, size_of_opened)
        yield opened[0], size
    finally:
        for file in opened:
            await in_thread(partial(os.close, file))  # a thread, since closing a deleted file frees its blocks


T = TypeVar("T")


async def _disk(path: Path, work: Callable[[], T]) -> T:
    """Do `work` in a thread. Raises OFFSET_OUT_OF_RANGE if the file is gone, KAFKA_STORAGE_ERROR if the disk fails, and
    TooManyOpenFiles, which is retriable."""
    try:
        return await in_thread(work)
    except OSError as error:
        if error.errno == errno.ENOENT:
            raise ErrorCode.OFFSET_OUT_OF_RANGE.error(f"{path.name} is gone; describe the replica again") from None
        raise ErrorCode.KAFKA_STORAGE_ERROR.error(f"{path.name} cannot be read: {error}") from None
