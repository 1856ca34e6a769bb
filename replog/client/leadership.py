"""Elections and reassignments, as an admin sees them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from replog.errors import ErrorCode, ReplogError
from replog.rpc.v1 import controller_pb2 as pb
from replog.topic import TopicPartition


class ElectionType(StrEnum):
    PREFERRED = "preferred"  # the first replica, if it is in sync
    UNCLEAN = "unclean"  # any live replica where there is no leader: committed records may be lost


@dataclass(frozen=True, slots=True)
class ElectionResult:
    leader: int  # now; -1: none
    error: ReplogError | None  # why there was no election


@dataclass(frozen=True, slots=True)
class PartitionReassignment:
    """One that is under way. `replicas` are the target's, then those that leave."""

    replicas: tuple[int, ...]
    adding_replicas: tuple[int, ...]
    removing_replicas: tuple[int, ...]


def elect_request(kind: ElectionType, partitions: Sequence[TopicPartition] | None) -> pb.ElectLeadersRequest:
    return pb.ElectLeadersRequest(
        election_type=kind.name, all_partitions=partitions is None, partitions=_names(partitions or ())
    )


def elect_results(response: pb.ElectLeadersResponse) -> dict[TopicPartition, ElectionResult]:
    return {_tp(result): ElectionResult(result.leader, _error(result)) for result in response.partitions}


def reassign_request(targets: Mapping[TopicPartition, Sequence[int] | None]) -> pb.AlterPartitionReassignmentsRequest:
    return pb.AlterPartitionReassignmentsRequest(
        partitions=[
            pb.ReassignablePartition(
                topic=tp.topic,
                partition=tp.partition,
                target=None if target is None else pb.ReplicaAssignment(broker_ids=target),
            )
            for tp, target in targets.items()
        ]
    )


def reassign_results(response: pb.AlterPartitionReassignmentsResponse) -> dict[TopicPartition, ReplogError | None]:
    return {_tp(result): _error(result) for result in response.partitions}


def list_request(partitions: Sequence[TopicPartition]) -> pb.ListPartitionReassignmentsRequest:
    return pb.ListPartitionReassignmentsRequest(partitions=_names(partitions))


def reassignments(response: pb.ListPartitionReassignmentsResponse) -> dict[TopicPartition, PartitionReassignment]:
    return {
        _tp(result): PartitionReassignment(
            tuple(result.replicas), tuple(result.adding_replicas), tuple(result.removing_replicas)
        )
        for result in response.partitions
    }


def _names(partitions: Sequence[TopicPartition]) -> list[pb.PartitionName]:
    return [pb.PartitionName(topic=tp.topic, partition=tp.partition) for tp in partitions]


def _tp(result: Any) -> TopicPartition:
    return TopicPartition(result.topic, result.partition)


def _error(result: Any) -> ReplogError | None:
    code = ErrorCode(result.error_code)
    return None if code is ErrorCode.NONE else ReplogError(code, result.error_message)
