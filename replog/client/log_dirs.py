"""Brokers' log directories, as an admin sees them."""

from collections.abc import Mapping
from dataclasses import dataclass

from replog.errors import ErrorCode, ReplogError
from replog.rpc.v1 import log_dirs_pb2 as pb
from replog.topic import TopicPartition


@dataclass(frozen=True, slots=True)
class ReplicaInfo:
    size: int  # bytes
    offset_lag: int  # behind the high watermark; of a copy in the making, behind the replica; -1 if that is gone
    is_future: bool  # a copy in the making, which will take the replica's place


@dataclass(frozen=True, slots=True)
class LogDirDescription:
    log_dir: str
    error: ErrorCode
    total_bytes: int  # of the file system; -1 if it does not tell
    usable_bytes: int
    replicas: tuple[tuple[TopicPartition, ReplicaInfo], ...]


def alter_request(moves: Mapping[TopicPartition, str]) -> pb.AlterReplicaLogDirsRequest:
    return pb.AlterReplicaLogDirsRequest(
        replicas=[
            pb.ReplicaLogDir(topic=tp.topic, partition=tp.partition, log_dir=log_dir) for tp, log_dir in moves.items()
        ]
    )


def alter_results(response: pb.AlterReplicaLogDirsResponse) -> dict[TopicPartition, ReplogError | None]:
    return {
        TopicPartition(result.topic, result.partition): ReplogError(ErrorCode(result.error_code), result.error_message)
        if result.error_code
        else None
        for result in response.replicas
    }


def descriptions(response: pb.DescribeLogDirsResponse) -> tuple[LogDirDescription, ...]:
    return tuple(
        LogDirDescription(
            described.log_dir,
            ErrorCode(described.error_code),
            described.total_bytes,
            described.usable_bytes,
            tuple(
                (TopicPartition(r.topic, r.partition), ReplicaInfo(r.size, r.offset_lag, r.is_future))
                for r in sorted(described.replicas, key=lambda replica: (replica.topic, replica.partition))
            ),
        )
        for described in response.log_dirs
    )
