"""The admin client: topics, partitions, settings, and descriptions of the cluster."""

import asyncio
import difflib
import random
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, Self, TypeVar

from replog.acl import Acl, AclFilter
from replog.backoff import Backoff
from replog.client.descriptions import (
    BrokerDescription,
    ClusterDescription,
    ElectionResult,
    ElectionType,
    LogDirDescription,
    PartitionChange,
    PartitionChanges,
    PartitionDescription,
    PartitionReassignment,
    ReplicaDescription,
    ReplicaInfo,
    TopicDescription,
)
from replog.client.metadata import Metadata
from replog.client.offsets import OffsetAndTimestamp, ask_leaders, list_offsets
from replog.errors import ErrorCode, ReplogError
from replog.metadata.records import acl_filter_to_message, acl_of_binding, acl_to_binding, partition_from_record
from replog.rpc.limits import MAX_ANSWER_BYTES
from replog.rpc.methods import Controller, Inspection, Log, LogDirs, Method
from replog.rpc.transport import Transport
from replog.rpc.transports import client_transport
from replog.rpc.v1 import controller_pb2, inspection_pb2, log_dirs_pb2, log_pb2
from replog.topic import TopicPartition, validate_topic_name

T = TypeVar("T")

LOOKED_AFTER_S = 1.0  # a call to a controller that does not answer: whether another one decides now
_UNKNOWN_TOPIC = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID)


class Admin:
    """Every call has a deadline, `timeout_ms`, and retries what may pass until then."""

    def __init__(
        self,
        bootstrap: str | Sequence[str],
        *,
        timeout_ms: int = 30_000,
        transport: Transport | None = None,
        rng: random.Random | None = None,
    ) -> None:
        if timeout_ms <= 0:
            raise ReplogError(ErrorCode.INVALID_CONFIG, f"timeout_ms={timeout_ms} is not greater than 0")
        self._timeout_s = timeout_ms / 1000
        self._rng = rng or random.Random()
        self._backoff = Backoff(self._rng)
        self._metadata = Metadata(bootstrap, transport or client_transport(), self._rng)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        await self._metadata.close()

    async def create_topic(
        self,
        topic: str,
        partitions: int = 0,
        replication_factor: int = 0,
        configs: Mapping[str, str] | None = None,
        assignment: Sequence[Sequence[int]] = (),
        validate_only: bool = False,
    ) -> None:
        """Create it (0: the controller's defaults) and wait until a broker knows all of its leaders.

        Raises TOPIC_ALREADY_EXISTS, INVALID_* or, at the deadline, the last obstacle. While too few brokers are up that
        is INVALID_REPLICATION_FACTOR, at once: nobody waits for brokers, as in Kafka.
        """
        request = controller_pb2.CreateTopicRequest(
            topic=validate_topic_name(topic),
            partitions=partitions,
            replication_factor=replication_factor,
            configs=configs or {},
            assignment=[controller_pb2.ReplicaAssignment(broker_ids=brokers) for brokers in assignment],
            validate_only=validate_only,
            topic_id=self._rng.randbytes(16),  # by which the controller knows this request when it comes again
        )
        response: controller_pb2.CreateTopicResponse = await self._ask_controller(Controller["create_topic"], request)
        if validate_only:
            return

        async def visible() -> None:
            known = (await self._metadata.fetch((topic,))).topics
            made = [
                partition
                for described in known
                if described.topic_id == response.topic_id
                for partition in described.partitions
            ]
            led = sum(partition.leader >= 0 for partition in made)
            if led < response.partitions:
                raise ReplogError(
                    ErrorCode.LEADER_NOT_AVAILABLE,
                    f"topic {topic!r} is created, but the brokers know of leaders of only {led} of its "
                    f"{response.partitions} partitions so far; describe it until they know all",
                )

        await self._retry(visible)

    async def create_partitions(
        self,
        topic: str,
        total: int,
        assignment: Sequence[Sequence[int]] = (),
        validate_only: bool = False,
    ) -> None:
        """Add partitions until the topic has `total`, and wait until a broker knows them.

        `assignment`: the brokers of each new one. A request whose answer is lost is sent again; that there are so many
        then says that they were made. Raises INVALID_PARTITIONS unless there will be more than there are.
        """
        request = controller_pb2.CreatePartitionsRequest(
            topic=validate_topic_name(topic),
            total_count=total,
            assignment=[controller_pb2.ReplicaAssignment(broker_ids=brokers) for brokers in assignment],
            validate_only=validate_only,
        )
        lost = False

        async def count() -> int:
            return len((await self._describe(topic)).partitions)

        async def create() -> None:
            nonlocal lost
            try:
                await self._call_controller(await self._metadata.fetch(), Controller["create_partitions"], request)
            except ReplogError as error:
                if lost and error.code is ErrorCode.INVALID_PARTITIONS and await count() == total:
                    return
                lost = lost or error.code in (ErrorCode.NETWORK_EXCEPTION, ErrorCode.REQUEST_TIMED_OUT)
                raise

        async def visible() -> None:
            if (known := await count()) < total:
                raise ReplogError(
                    ErrorCode.LEADER_NOT_AVAILABLE,
                    f"topic {topic!r} has {total} partitions now, but the brokers know of {known} so far",
                )

        await self._retry(create, not_retried=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        if not validate_only:
            await self._retry(visible)

    async def delete_topic(self, topic: str) -> None:
        """Delete it and wait until a broker no longer knows it. Raises UNKNOWN_TOPIC_OR_PARTITION.

        A request whose answer is lost is sent again for the same topic, not for a new one of its name; that this is
        unknown then says that it was deleted.
        """
        request = controller_pb2.DeleteTopicRequest(topic=validate_topic_name(topic))
        lost = False

        async def delete() -> None:
            nonlocal lost
            metadata = await self._metadata.fetch((topic,))
            if not lost:
                request.topic_id = next((known.topic_id for known in metadata.topics if not known.error_code), b"")
            try:
                await self._call_controller(metadata, Controller["delete_topic"], request)
            except ReplogError as error:
                if lost and request.topic_id and error.code in _UNKNOWN_TOPIC:
                    return
                lost = lost or error.code in (ErrorCode.NETWORK_EXCEPTION, ErrorCode.REQUEST_TIMED_OUT)
                raise

        async def gone() -> None:
            response = await self._metadata.fetch((topic,))
            if any(not known.error_code and request.topic_id in (known.topic_id, b"") for known in response.topics):
                raise ReplogError(ErrorCode.REQUEST_TIMED_OUT, f"topic {topic!r} is deleted, but still known")

        await self._retry(delete, not_retried=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        await self._retry(gone)

    async def alter_topic_configs(
        self, topic: str, configs: Mapping[str, str], delete: Sequence[str] = (), validate_only: bool = False
    ) -> dict[str, str]:
        """Set `configs`, put those named by `delete` back to their defaults, keep the others; all that are set now.

        Waits until a broker uses them. Raises UNKNOWN_TOPIC_OR_PARTITION, INVALID_CONFIG, INVALID_REQUEST.
        """
        request = controller_pb2.AlterTopicConfigsRequest(
            topic=validate_topic_name(topic), set=configs, delete=delete, validate_only=validate_only
        )
        response = await self._ask_controller(Controller["alter_topic_configs"], request)
        altered = dict(response.configs)

        async def known() -> None:
            current = (await self._describe(topic)).configs
            if any(current.get(name) != altered.get(name) for name in (*configs, *delete)):
                raise ReplogError(ErrorCode.REQUEST_TIMED_OUT, f"topic {topic!r} is altered, but not yet known to be")

        if not validate_only:
            await self._retry(known, not_retried=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return altered

    async def alter_broker_configs(
        self, broker_id: int, configs: Mapping[str, str], delete: Sequence[str] = (), validate_only: bool = False
    ) -> dict[str, str]:
        """The same for a broker's settings; `delete` puts back what it was started with. It need not run.

        Raises BROKER_ID_NOT_REGISTERED, INVALID_CONFIG, INVALID_REQUEST.
        """
        request = controller_pb2.AlterBrokerConfigsRequest(
            broker_id=broker_id, set=configs, delete=delete, validate_only=validate_only
        )
        response = await self._ask_controller(Controller["alter_broker_configs"], request)
        return dict(response.configs)

    async def unregister_broker(self, broker_id: int) -> None:
        """Have the cluster forget a broker that will not come back; its id may be used again.

        Raises BROKER_ID_NOT_REGISTERED, and INVALID_REQUEST while it is unfenced or has replicas.
        """
        request = controller_pb2.UnregisterBrokerRequest(broker_id=broker_id)
        await self._ask_controller(Controller["unregister_broker"], request)

    async def alter_client_quotas(
        self, user: str, configs: Mapping[str, str], delete: Sequence[str] = (), validate_only: bool = False
    ) -> dict[str, str]:
        """The same for what a user (`User:NAME`; "": each without a quota of its own) may take of each broker.

        Raises INVALID_CONFIG, INVALID_REQUEST.
        """
        request = controller_pb2.AlterClientQuotasRequest(
            user=user, set=configs, delete=delete, validate_only=validate_only
        )
        response = await self._ask_controller(Controller["alter_client_quotas"], request)
        return dict(response.configs)

    async def describe_client_quotas(self) -> dict[str, dict[str, str]]:
        """By user."""
        request = controller_pb2.DescribeClientQuotasRequest(max_bytes=MAX_ANSWER_BYTES)
        response = await self._ask_controller(Controller["describe_client_quotas"], request)
        return {quota.user: dict(quota.configs) for quota in response.quotas}

    async def list_topics(self) -> list[str]:
        response = await self._retry(lambda: self._metadata.fetch(()))
        return sorted(topic.topic for topic in response.topics if not topic.error_code)

    async def describe_topic(self, topic: str) -> TopicDescription:
        """As the brokers know it. Raises UNKNOWN_TOPIC_OR_PARTITION, with names that are alike."""
        validate_topic_name(topic)
        try:
            return await self._retry(lambda: self._describe(topic), not_retried=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        except ReplogError as error:
            if error.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                raise
            alike = difflib.get_close_matches(topic, await self.list_topics())
            meant = f"; did you mean {' or '.join(map(repr, alike))}?" if alike else "; see the list of topics"
            raise ReplogError(error.code, error.message + meant) from None

    async def describe_topics(self) -> list[TopicDescription]:
        """All that this client may describe, by name. One answer has them all: a cluster has 20,000 partitions at most,
        which take half a MiB."""
        response = await self._retry(lambda: self._metadata.fetch(()))
        return sorted((_topic(t) for t in response.topics if not t.error_code), key=lambda described: described.topic)

    async def describe_cluster(self) -> ClusterDescription:
        response = await self._retry(self._metadata.fetch)
        brokers = (
            BrokerDescription(
                broker_id=b.broker_id,
                address=b.address,
                rack=b.rack,
                fenced=b.fenced,
                configs=dict(b.configs),
                broker_epoch=b.broker_epoch,
                in_controlled_shutdown=b.in_controlled_shutdown,
            )
            for b in response.brokers
        )
        return ClusterDescription(
            cluster_id=response.cluster_id,
            controller=response.controller,
            brokers=tuple(sorted(brokers, key=lambda broker: broker.broker_id)),
            controllers=tuple(response.controllers) or (response.controller,),
            metadata_version=response.metadata_version,
            controller_heard_ms_ago=response.controller_heard_ms_ago,
        )

    async def list_offsets(
        self, timestamps: Mapping[TopicPartition, int], read_committed: bool = False
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """For each partition the first offset at or after its timestamp (ms, offsets.LATEST or offsets.EARLIEST)."""
        return await list_offsets(
            self._metadata, self._backoff, timestamps, read_committed=read_committed, timeout_s=self._timeout_s
        )

    async def delete_records(self, offsets: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Delete what is before each offset (-1: the high watermark); the new low watermark of each partition.

        The high watermark is the leader's at that moment. A request whose answer is lost is sent again, and deletes
        then what was committed meanwhile, too; or the retry's answer names less than the first try deleted.
        """

        def request(partitions: list[TopicPartition]) -> log_pb2.DeleteRecordsRequest:
            return log_pb2.DeleteRecordsRequest(
                timeout_ms=int(self._timeout_s * 1000),
                partitions=[
                    log_pb2.DeleteRecordsPartition(topic=p.topic, partition=p.partition, offset=offsets[p])
                    for p in partitions
                ],
            )

        method = Log["delete_records"]
        results = await ask_leaders(self._metadata, self._backoff, list(offsets), method, request, self._timeout_s)
        return {partition: result.low_watermark for partition, result in results.items()}

    async def elect_leaders(
        self, kind: ElectionType, partitions: Sequence[TopicPartition] | None = None
    ) -> dict[TopicPartition, ElectionResult]:
        """Hold an election in each partition; None: in all of the cluster; only those that needed one are returned.

        UNCLEAN where there is no leader makes any live replica the leader, and may lose committed records for good.
        The results' errors are ELECTION_NOT_NEEDED, PREFERRED_LEADER_NOT_AVAILABLE, ELIGIBLE_LEADERS_NOT_AVAILABLE and
        UNKNOWN_TOPIC_OR_PARTITION (CT-11).
        """
        request = controller_pb2.ElectLeadersRequest(
            election_type=kind.name, all_partitions=partitions is None, partitions=_names(partitions or ())
        )
        response = await self._ask_controller(Controller["elect_leaders"], request)
        return {_partition(result): ElectionResult(result.leader, _error(result)) for result in response.partitions}

    async def alter_partition_reassignments(
        self, targets: Mapping[TopicPartition, Sequence[int] | None]
    ) -> dict[TopicPartition, ReplogError | None]:
        """Begin to move each partition to these brokers, in preference order; None: take back what is under way.

        Data is copied in the background (see `list_partition_reassignments`). Each partition's error, if it was
        refused: INVALID_REPLICA_ASSIGNMENT, NO_REASSIGNMENT_IN_PROGRESS, UNKNOWN_TOPIC_OR_PARTITION (CT-14, CT-16).
        """
        request = controller_pb2.AlterPartitionReassignmentsRequest()
        for tp, target in targets.items():
            replicas = None if target is None else controller_pb2.ReplicaAssignment(broker_ids=target)
            request.partitions.add(topic=tp.topic, partition=tp.partition, target=replicas)
        response = await self._ask_controller(Controller["alter_partition_reassignments"], request)
        return {_partition(result): _error(result) for result in response.partitions}

    async def list_partition_reassignments(
        self, partitions: Sequence[TopicPartition] = ()
    ) -> dict[TopicPartition, PartitionReassignment]:
        """Those of `partitions`, of all if none is named, that are being reassigned, as the controller knows it."""
        request = controller_pb2.ListPartitionReassignmentsRequest(
            partitions=_names(partitions), max_bytes=MAX_ANSWER_BYTES
        )
        response = await self._ask_controller(Controller["list_partition_reassignments"], request)
        return {
            _partition(result): PartitionReassignment(
                tuple(result.replicas), tuple(result.adding_replicas), tuple(result.removing_replicas)
            )
            for result in response.partitions
        }

    async def describe_partition_changes(self, after_version: int = 0) -> PartitionChanges:
        """What became of partitions after that version of the metadata, and why, as far as the controller keeps it."""
        changes: list[PartitionChange] = []
        while True:
            request = controller_pb2.DescribePartitionChangesRequest(after_version=after_version)
            response = await self._ask_controller(Controller["describe_partition_changes"], request)
            changes += map(_change, response.changes)
            if not response.changes:
                return PartitionChanges(response.kept_since_ms, tuple(changes))
            after_version = response.changes[-1].version

    async def create_acls(self, acls: Iterable[Acl]) -> int:
        """All of them, or none; answers how many are new. Brokers go by them a moment later.

        Raises INVALID_REQUEST, SECURITY_DISABLED.
        """
        request = controller_pb2.CreateAclsRequest(acls=map(acl_to_binding, acls))
        response: controller_pb2.CreateAclsResponse = await self._ask_controller(Controller["create_acls"], request)
        return response.created

    async def delete_acls(self, filters: Iterable[AclFilter]) -> int:
        """Every ACL that one of the filters fits; answers how many. Brokers go by it a moment later.

        Raises INVALID_REQUEST, SECURITY_DISABLED.
        """
        request = controller_pb2.DeleteAclsRequest(filters=map(acl_filter_to_message, filters))
        response: controller_pb2.DeleteAclsResponse = await self._ask_controller(Controller["delete_acls"], request)
        return response.deleted

    async def describe_acls(self, wanted: AclFilter = AclFilter()) -> list[Acl]:  # noqa: B008 (immutable)
        """Those that fit, by resource. Raises SECURITY_DISABLED."""
        request = controller_pb2.DescribeAclsRequest(filter=acl_filter_to_message(wanted), max_bytes=MAX_ANSWER_BYTES)
        response = await self._ask_controller(Controller["describe_acls"], request)
        return list(map(acl_of_binding, response.acls))

    async def alter_replica_log_dirs(
        self, broker_id: int, moves: Mapping[TopicPartition, str]
    ) -> dict[TopicPartition, ReplogError | None]:
        """Have this broker's replicas of these partitions move to these of its log directories.

        Data is copied in the background (see `describe_log_dirs`); naming the directory where a replica is calls its
        move off. Each replica's error, if it was refused: LOG_DIR_NOT_FOUND, or REPLICA_NOT_AVAILABLE if it is not
        there yet: it will then be created in that directory.
        """
        request = log_dirs_pb2.AlterReplicaLogDirsRequest()
        for tp, log_dir in moves.items():
            request.replicas.add(topic=tp.topic, partition=tp.partition, log_dir=log_dir)
        response = await self._ask_broker(broker_id, LogDirs["alter_replica_log_dirs"], request)
        return {_partition(result): _error(result) for result in response.replicas}

    async def describe_log_dirs(
        self, broker_ids: Sequence[int], topics: Sequence[str] = ()
    ) -> dict[int, tuple[LogDirDescription, ...]]:
        """Each broker's log directories and their replicas, those of `topics` only if any is named."""
        request = log_dirs_pb2.DescribeLogDirsRequest(topics=topics, max_bytes=MAX_ANSWER_BYTES)
        described = {}
        for broker_id in broker_ids:
            response = await self._ask_broker(broker_id, LogDirs["describe_log_dirs"], request)
            described[broker_id] = tuple(map(_log_dir, response.log_dirs))
        return described

    async def describe_replicas(self, broker_id: int) -> dict[TopicPartition, ReplicaDescription]:
        """This broker's replicas of what this client may describe, as it has them itself."""
        request = inspection_pb2.DescribeReplicasRequest(without_segments=True, max_bytes=MAX_ANSWER_BYTES)
        response = await self._ask_broker(broker_id, Inspection["describe_replicas"], request)
        return {_partition(replica): _replica(replica) for replica in response.replicas}

    async def _describe(self, topic: str) -> TopicDescription:
        response = await self._metadata.fetch((topic,))
        described = next((known for known in response.topics if known.topic == topic), None)
        if described is None or described.error_code:
            code = ErrorCode(described.error_code) if described is not None else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            denied = code is ErrorCode.TOPIC_AUTHORIZATION_FAILED
            why = "is not for this client; an administrator can allow it: replog acl add" if denied else "is not known"
            raise ReplogError(code, f"topic {topic!r} {why}")
        return _topic(described)

    async def _ask_controller(self, method: Method, request: Any) -> Any:
        """Call the active controller, whose address the brokers know; look for it again when it has moved."""

        async def call() -> Any:
            return await self._call_controller(await self._metadata.fetch(), method, request)

        return await self._retry(call, not_retried=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)

    async def _call_controller(self, metadata: log_pb2.GetMetadataResponse, method: Method, request: Any) -> Any:
        if not metadata.controller:
            raise ReplogError(ErrorCode.NOT_CONTROLLER, "the brokers know of no controller; is it running?")
        calling = asyncio.ensure_future(self._call("the controller", metadata.controller, method, request))
        try:
            while not calling.done():
                await asyncio.wait({calling}, timeout=LOOKED_AFTER_S)
                if not calling.done() and await self._has_moved(metadata.controller):
                    raise ReplogError(ErrorCode.NETWORK_EXCEPTION, "another controller decides now")
            return calling.result()
        finally:
            calling.cancel()

    async def _has_moved(self, controller: str) -> bool:
        """Whether a broker has found another one, as while that one is paused."""
        try:
            return bool((await self._metadata.fetch()).controller != controller)
        except ReplogError:
            return False

    async def _ask_broker(self, broker_id: int, method: Method, request: Any) -> Any:
        """Call this broker and no other. Raises BROKER_ID_NOT_REGISTERED."""

        async def call() -> Any:
            brokers = {broker.broker_id: broker.address for broker in (await self._metadata.fetch()).brokers}
            if broker_id not in brokers:
                known = ", ".join(map(str, sorted(brokers)))
                raise ReplogError(
                    ErrorCode.BROKER_ID_NOT_REGISTERED, f"there is no broker {broker_id}; there are {known}"
                )
            return await self._call(f"broker {broker_id}", brokers[broker_id], method, request)

        return await self._retry(call)

    async def _call(self, who: str, address: str, method: Method, request: Any) -> Any:
        try:
            return await self._metadata.channel(address).call(method, request, self._timeout_s)
        except ReplogError as error:
            if error.code is not ErrorCode.NETWORK_EXCEPTION:
                raise
            raise ReplogError(error.code, f"{who} does not answer; is it running? ({error.message})") from None

    async def _retry(self, call: Callable[[], Awaitable[T]], not_retried: ErrorCode | None = None) -> T:
        """Until the deadline, then raise the last error."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._timeout_s
        failures = 0
        last: ReplogError | None = None
        while True:
            try:
                async with asyncio.timeout_at(max(deadline, loop.time() + 0.1)):
                    return await call()
            except TimeoutError:
                raise last or ReplogError(ErrorCode.REQUEST_TIMED_OUT, f"no answer in {self._timeout_s:g} s") from None
            except ReplogError as error:
                last = error
                failures += 1
                delay_s = self._backoff.delay_s(failures)
                if not error.retriable or error.code is not_retried or loop.time() + delay_s >= deadline:
                    raise
                self._metadata.ask_another()
                await asyncio.sleep(delay_s)


def _topic(described: log_pb2.TopicMetadata) -> TopicDescription:
    partitions = (
        PartitionDescription(
            partition=p.partition,
            leader=p.leader,
            leader_epoch=p.leader_epoch,
            replicas=tuple(p.replicas),
            isr=tuple(p.isr),
            elr=tuple(p.elr),
            partition_epoch=p.partition_epoch,
            adding_replicas=tuple(p.adding_replicas),
            removing_replicas=tuple(p.removing_replicas),
        )
        for p in described.partitions
    )
    ordered = tuple(sorted(partitions, key=lambda partition: partition.partition))
    return TopicDescription(described.topic, described.topic_id, ordered, dict(described.configs))


def _names(partitions: Iterable[TopicPartition]) -> list[controller_pb2.PartitionName]:
    return [controller_pb2.PartitionName(topic=tp.topic, partition=tp.partition) for tp in partitions]


def _partition(result: Any) -> TopicPartition:
    return TopicPartition(result.topic, result.partition)


def _error(result: Any) -> ReplogError | None:
    return ReplogError(ErrorCode(result.error_code), result.error_message) if result.error_code else None


def _replica(told: inspection_pb2.ReplicaDescription) -> ReplicaDescription:
    return ReplicaDescription(
        is_leader=told.is_leader,
        leader_epoch=told.leader_epoch,
        log_start_offset=told.log_start_offset,
        high_watermark=told.high_watermark,
        log_end_offset=told.log_end_offset,
        size=told.size,
        epochs=tuple((entry.epoch, entry.start_offset) for entry in told.epochs),
    )


def _change(told: controller_pb2.PartitionChange) -> PartitionChange:
    states = partition_from_record(told.before), partition_from_record(told.after)
    return PartitionChange(told.version, told.at_ms, _partition(told.after), told.reason, *states)


def _log_dir(described: log_dirs_pb2.LogDirDescription) -> LogDirDescription:
    replicas = [(_partition(r), ReplicaInfo(r.size, r.offset_lag, r.is_future)) for r in described.replicas]
    return LogDirDescription(
        described.log_dir,
        ErrorCode(described.error_code),
        described.total_bytes,
        described.usable_bytes,
        tuple(sorted(replicas, key=lambda replica: replica[0])),
    )
