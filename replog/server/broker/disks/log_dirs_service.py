"""The LogDirs service: the contents of a broker's log directories, and moves between them."""

import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from replog.errors import ErrorCode, ReplogError
from replog.log.directories.log_directory import LogDirectory
from replog.log.directories.log_manager import LogManager
from replog.rpc.limits import fitting
from replog.rpc.status import wire_code
from replog.rpc.v1 import log_dirs_pb2 as pb
from replog.server.broker.context import BrokerContext
from replog.server.broker.disks.moves import ReplicaMoves
from replog.server.broker.replicas.hosted_replicas import HostedReplicas
from replog.server.work import in_slices, in_thread
from replog.topic import TopicPartition, validate_topic_name


@dataclass(eq=False)
class LogDirsService:
    """Handlers for `replog.v1.LogDirs`. They refuse everything before `logs` and `moves` are set."""

    _context: BrokerContext
    _replicas: HostedReplicas
    logs: LogManager | None = None
    moves: ReplicaMoves | None = None

    async def alter_replica_log_dirs(self, request: pb.AlterReplicaLogDirsRequest) -> pb.AlterReplicaLogDirsResponse:
        """Start, cancel or refuse each replica's move; see `ReplicaMoves.move`."""
        if self.moves is None:
            raise self._starting()
        results = []
        for replica in request.replicas:
            result = pb.ReplicaLogDirResult(topic=replica.topic, partition=replica.partition)
            try:
                if replica.partition < 0:
                    raise ErrorCode.INVALID_REQUEST.error(f"partition {replica.partition} is negative")
                tp = TopicPartition(validate_topic_name(replica.topic), replica.partition)
                await self._check_room(tp, replica.log_dir)
                await self.moves.move(tp, replica.log_dir)
            except ReplogError as error:  # even if the disk fails, nothing has happened to the replica
                result.error_code, result.error_message = wire_code(error.code), error.message
            results.append(result)
        return pb.AlterReplicaLogDirsResponse(replicas=results)

    async def _check_room(self, tp: TopicPartition, directory: str) -> None:
        """Raises INVALID_REQUEST if the directory has no room: a full disk would stop the broker."""
        assert self.logs is not None
        size = self.logs.bytes_to_copy(tp, directory)
        (described,) = await in_thread(partial(_file_systems, [Path(directory)]))
        if size > described.usable_bytes >= 0:
            raise ErrorCode.INVALID_REQUEST.error(
                f"{tp} has {size:,} bytes, and {directory} has room for {described.usable_bytes:,}; make room there"
            )

    async def describe_log_dirs(self, request: pb.DescribeLogDirsRequest) -> pb.DescribeLogDirsResponse:
        topics = dict.fromkeys(request.topics)
        log_dirs = await self.described(lambda topic, _: not topics or topic in topics)
        answer = pb.DescribeLogDirsResponse(broker_id=self._context.config.node_id, log_dirs=log_dirs)
        return fitting(answer, request.max_bytes)

    async def described(self, wanted: Callable[[str, int], bool]) -> Sequence[pb.LogDirDescription]:
        """Return all directories, with those replicas that are wanted."""
        if self.logs is None:
            raise self._starting()
        logs = self.logs
        described = await in_thread(partial(_file_systems, [directory.path for directory in logs.directories]))
        for directory, description in zip(logs.directories, described, strict=True):
            if directory.offline is not None:
                description.error_code = wire_code(ErrorCode.KAFKA_STORAGE_ERROR)
            async for replica in in_slices(self._described(logs, directory)):
                if wanted(replica.topic, replica.partition):
                    description.replicas.append(replica)
        return described

    def _described(self, logs: LogManager, directory: LogDirectory) -> Iterator[pb.LogDirReplica]:
        for tp, log in list(directory.logs.items()):  # replicas may come and go between slices
            lag = max(0, log.high_watermark - log.log_end_offset) if tp in self._replicas.hosted else -1
            yield pb.LogDirReplica(topic=tp.topic, partition=tp.partition, size=log.size, offset_lag=lag)
        for tp, future in list(directory.futures.items()):
            current, size, end = logs.get(tp), future.log.size, future.log.log_end_offset
            lag = max(0, current.log_end_offset - end) if current is not None else -1
            yield pb.LogDirReplica(topic=tp.topic, partition=tp.partition, size=size, offset_lag=lag, is_future=True)

    def _starting(self) -> ReplogError:
        return ErrorCode.BROKER_NOT_AVAILABLE.error(
            f"broker {self._context.config.node_id} is starting and has not loaded its logs yet"
        )


def _file_systems(directories: Sequence[Path]) -> list[pb.LogDirDescription]:
    """Return each directory with the room there is. Waits for the disks."""
    described = []
    for directory in directories:
        description = pb.LogDirDescription(log_dir=os.path.abspath(directory), total_bytes=-1, usable_bytes=-1)
        try:
            usage = shutil.disk_usage(directory)
            description.total_bytes, description.usable_bytes = usage.total, usage.free
        except OSError:
            description.error_code = wire_code(ErrorCode.KAFKA_STORAGE_ERROR)
        described.append(description)
    return described
