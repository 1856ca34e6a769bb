"""An admin's calls for partitions: offsets, elections, moves to other brokers, and their changes."""

from collections.abc import Mapping, Sequence

from replog.client.admin.calls import Calls, error_of, names_of, partition_of, replicas_of
from replog.client.arguments import by_partition, check_type, whole
from replog.client.descriptions import (
    ElectionResult,
    ElectionType,
    LogEnds,
    PartitionChange,
    PartitionChanges,
    PartitionReassignment,
    ReplicaLogEnd,
)
from replog.client.offsets import OffsetAndTimestamp, ask_leaders, list_offsets
from replog.config.properties import MAX_LONG
from replog.errors import ErrorCode, ReplogError
from replog.metadata.records import partition_from_record
from replog.rpc.limits import MAX_ANSWER_BYTES
from replog.rpc.methods import Controller, Log
from replog.rpc.v1 import controller_pb2, log_pb2
from replog.topic import TopicPartition


class Partitions(Calls):
    async def list_offsets(
        self, timestamps: Mapping[TopicPartition, int], read_committed: bool = False
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """Return each partition's first offset at or after its timestamp (ms, offsets.LATEST or offsets.EARLIEST)."""
        check_type(bool, "True or False", read_committed=read_committed)
        return await list_offsets(
            self._metadata, self._backoff, timestamps, read_committed=read_committed, timeout_s=self._timeout_s
        )

    async def delete_records(self, offsets: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Delete records before each offset (-1: the high watermark), and return each partition's new low watermark.

        The high watermark is the leader's at that moment. A request whose answer is lost is sent again; with -1 it then
        also deletes what was committed meanwhile, or its answer names less than the first try deleted."""
        offsets = by_partition("offsets", offsets)

        def request(partitions: list[TopicPartition], timeout_s: float) -> log_pb2.DeleteRecordsRequest:
            return log_pb2.DeleteRecordsRequest(
                timeout_ms=int(timeout_s * 900),  # so the broker can still say what it waits for
                partitions=[
                    log_pb2.DeleteRecordsPartition(topic=p.topic, partition=p.partition, offset=offsets[p])
                    for p in partitions
                ],
            )

        for partition, offset in offsets.items():
            whole(f"the offset of {partition}", offset, MAX_LONG)
        method = Log["delete_records"]
        results = await ask_leaders(self._metadata, self._backoff, list(offsets), method, request, self._timeout_s)
        return {partition: result.low_watermark for partition, result in results.items()}

    async def elect_leaders(
        self, kind: ElectionType, partitions: Sequence[TopicPartition] | None = None
    ) -> dict[TopicPartition, ElectionResult]:
        """Hold an election in each partition; None: in all, but return only those that needed one.

        UNCLEAN makes the live replica that goes furthest the leader of a partition without one, and may lose committed
        records for good: see `describe_log_ends` first.
        The results' errors are ELECTION_NOT_NEEDED, PREFERRED_LEADER_NOT_AVAILABLE, ELIGIBLE_LEADERS_NOT_AVAILABLE and
        UNKNOWN_TOPIC_OR_PARTITION (CT-11)."""
        if kind not in [*ElectionType]:
            raise ErrorCode.INVALID_REQUEST.error(f"kind={kind!r}: {' or '.join(ElectionType)}")
        names = names_of(() if partitions is None else partitions)
        request = controller_pb2.ElectLeadersRequest(
            election_type=ElectionType(kind).name, all_partitions=partitions is None, partitions=names
        )
        response = await self._ask_controller(Controller["elect_leaders"], request)
        return {partition_of(result): ElectionResult(result.leader, error_of(result)) for result in response.partitions}

    async def describe_log_ends(self, partitions: Sequence[TopicPartition] = ()) -> dict[TopicPartition, LogEnds]:
        """Return how far the replicas go in those of `partitions` that have no leader; none named: of all (CT-30).

        Waits some seconds for live brokers that have not said it yet."""
        request = controller_pb2.DescribeLogEndsRequest(partitions=names_of(partitions), max_bytes=MAX_ANSWER_BYTES)
        response = await self._ask_controller(Controller["describe_log_ends"], request)
        return {
            partition_of(described): LogEnds(described.strategy, tuple(map(_log_end, described.replicas)))
            for described in response.partitions
        }

    async def alter_partition_reassignments(
        self, targets: Mapping[TopicPartition, Sequence[int] | None], throttle: int = 0
    ) -> dict[TopicPartition, ReplogError | None]:
        """Start to move each partition to these brokers, in preference order; None cancels its move.

        Data is copied in the background (see `list_partition_reassignments`). Returns each partition's error:
        INVALID_REPLICA_ASSIGNMENT, NO_REASSIGNMENT_IN_PROGRESS, UNKNOWN_TOPIC_OR_PARTITION (CT-14, CT-16).

        No broker copies or sends more than `throttle` bytes per second for moves of the same throttle; 0: no limit.
        Raises UNSUPPORTED_VERSION if the controller is too old for that; the partitions move nevertheless."""
        request = controller_pb2.AlterPartitionReassignmentsRequest(throttle=whole("throttle", throttle, MAX_LONG))
        for tp, target in by_partition("targets", targets).items():
            replicas = None if target is None else replicas_of(target)
            request.partitions.add(topic=tp.topic, partition=tp.partition, target=replicas)
        response = await self._ask_controller(Controller["alter_partition_reassignments"], request)
        if response.throttle != throttle:
            why = "the controller is of a release that throttles no moves, so they go on without; cancel or let them"
            raise ErrorCode.UNSUPPORTED_VERSION.error(why)
        return {partition_of(result): error_of(result) for result in response.partitions}

    async def list_partition_reassignments(
        self, partitions: Sequence[TopicPartition] = ()
    ) -> dict[TopicPartition, PartitionReassignment]:
        """Return those of `partitions` that are being reassigned, as the controller knows it; none named: of all."""
        request = controller_pb2.ListPartitionReassignmentsRequest(
            partitions=names_of(partitions), max_bytes=MAX_ANSWER_BYTES
        )
        response = await self._ask_controller(Controller["list_partition_reassignments"], request)
        return {
            partition_of(result): PartitionReassignment(
                tuple(result.replicas), tuple(result.adding_replicas), tuple(result.removing_replicas), result.throttle
            )
            for result in response.partitions
        }

    async def describe_partition_changes(self, after_version: int = 0) -> PartitionChanges:
        """Return changes of partitions after a metadata version, with reasons, as far as the controller keeps them."""
        changes: list[PartitionChange] = []
        whole("after_version", after_version, MAX_LONG)
        while True:
            request = controller_pb2.DescribePartitionChangesRequest(after_version=after_version)
            response = await self._ask_controller(Controller["describe_partition_changes"], request)
            changes += map(_change, response.changes)
            if not response.changes:
                return PartitionChanges(response.kept_since_ms, tuple(changes))
            after_version = response.changes[-1].version


def _log_end(known: controller_pb2.KnownLogEnd) -> ReplicaLogEnd:
    last_epoch, end = (known.last_epoch, known.end_offset) if known.is_known else (None, None)
    return ReplicaLogEnd(known.broker_id, known.is_live, last_epoch, end, known.had_everything, known.is_offline)


def _change(made: controller_pb2.PartitionChange) -> PartitionChange:
    states = partition_from_record(made.before), partition_from_record(made.after)
    return PartitionChange(made.version, made.at_ms, partition_of(made.after), made.reason, *states)
