"""An admin's calls for the cluster: its brokers, with settings, log directories and replicas, and what users may do."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

from replog.client.admin.calls import Calls, error_of, partition_of
from replog.client.arguments import by_partition, changes, check_type, each, partitions_of, whole, wholes
from replog.client.descriptions import (
    BrokerDescription,
    BrokerReplicas,
    ClusterDescription,
    LogDirDescription,
    ReplicaDescription,
    ReplicaInfo,
)
from replog.common.acl import Acl, AclFilter
from replog.config.properties import MAX_LONG
from replog.errors import ErrorCode, ReplogError
from replog.metadata.records import (
    acl_filter_to_message,
    acl_of_binding,
    acl_to_binding,
    audit_from_record,
    audit_to_record,
)
from replog.metadata.values import StandingAudit
from replog.rpc.codec import same_fields
from replog.rpc.limits import MAX_ANSWER_BYTES
from replog.rpc.methods import Controller, Inspection, LogDirs
from replog.rpc.v1 import controller_pb2, inspection_pb2, log_dirs_pb2
from replog.topic import TopicPartition

T = TypeVar("T")

_BROKER = ("broker_id", "address", "rack", "fenced", "broker_epoch", "in_controlled_shutdown", "software_version")
_REPLICA = ("is_leader", "leader_epoch", "log_start_offset", "high_watermark", "log_end_offset", "size")


class Brokers(Calls):
    async def describe_cluster(self) -> ClusterDescription:
        """Return the brokers, by id, and the controllers, as a broker knows them."""
        response = await self._retry(self._metadata.fetch)
        brokers = (
            BrokerDescription(**same_fields(broker, _BROKER), configs=dict(broker.configs))
            for broker in response.brokers
        )
        return ClusterDescription(
            **same_fields(response, ("cluster_id", "controller", "metadata_version", "controller_heard_ms_ago")),
            brokers=tuple(sorted(brokers, key=lambda broker: broker.broker_id)),
            controllers=tuple(response.controllers) or (response.controller,),
        )

    async def alter_broker_configs(
        self, broker_id: int, configs: Mapping[str, str], delete: Sequence[str] = (), validate_only: bool = False
    ) -> dict[str, str]:
        """Change a broker's settings, like `alter_topic_configs`. `delete` puts back those that it was started with.
        The broker need not run. Raises BROKER_ID_NOT_REGISTERED, INVALID_CONFIG, INVALID_REQUEST."""
        changed = changes(configs, delete, validate_only)
        request = controller_pb2.AlterBrokerConfigsRequest(broker_id=whole("broker_id", broker_id), **changed)
        response = await self._ask_controller(Controller["alter_broker_configs"], request)
        return dict(response.configs)

    async def report_audit(self, audit: StandingAudit) -> None:
        """Have the cluster keep an audit's verdict, for metrics, console and `cluster describe`. Raises
        INVALID_REQUEST."""
        check_type(StandingAudit, "a StandingAudit", audit=audit)
        wholes("the audit's counts", (audit.partitions, audit.diverged_partitions))
        wholes("the audit's times", (audit.at_ms, audit.consistent_at_ms), MAX_LONG)
        wholes("the audit's offsets", (offset for _, offset in audit.verified), MAX_LONG)
        partitions_of(partition for partition, _ in audit.verified)
        await self._ask_controller(Controller["report_audit"], audit_to_record(audit))

    async def describe_audit(self) -> StandingAudit | None:
        """Return the verdict that `report_audit` was given last; None if there is none."""
        response = await self._ask_controller(Controller["describe_audit"], controller_pb2.DescribeAuditRequest())
        return audit_from_record(response.audit) if response.HasField("audit") else None

    async def unregister_broker(self, broker_id: int) -> None:
        """Have the cluster forget a broker that will not come back; its id may be used again.

        A request whose answer is lost is sent again; BROKER_ID_NOT_REGISTERED is then a success. Raises that error,
        INVALID_REPLICA_ASSIGNMENT while the broker has replicas, and INVALID_REQUEST while it is unfenced."""
        request = controller_pb2.UnregisterBrokerRequest(broker_id=whole("broker_id", broker_id))

        async def unregister(_: bool) -> None:
            await self._call_controller(await self._metadata.fetch(), Controller["unregister_broker"], request)

        async def is_made(error: ReplogError) -> bool:
            return error.code is ErrorCode.BROKER_ID_NOT_REGISTERED

        await self._change(unregister, is_made)

    async def alter_replica_log_dirs(
        self, broker_id: int, moves: Mapping[TopicPartition, str]
    ) -> dict[TopicPartition, ReplogError | None]:
        """Move this broker's replicas of these partitions to these of its log directories.

        Data is copied in the background (see `describe_log_dirs`). The directory where a replica is cancels its move.
        Returns each replica's error, if it was refused: LOG_DIR_NOT_FOUND, or REPLICA_NOT_AVAILABLE if it does not
        exist yet: it will then be created in that directory."""
        request = log_dirs_pb2.AlterReplicaLogDirsRequest()
        for tp, log_dir in by_partition("moves", moves).items():
            check_type(str, "text", **{f"the directory of {tp}": log_dir})
            request.replicas.add(topic=tp.topic, partition=tp.partition, log_dir=log_dir)
        response = await self._ask_broker(broker_id, LogDirs["alter_replica_log_dirs"], request)
        return {partition_of(result): error_of(result) for result in response.replicas}

    async def describe_log_dirs(
        self, broker_ids: Sequence[int], topics: Sequence[str] = ()
    ) -> dict[int, tuple[LogDirDescription, ...]]:
        """Return each broker's log directories and their replicas; only those of `topics`, if any is named."""
        request = log_dirs_pb2.DescribeLogDirsRequest(
            topics=each(str, "text", "topics", topics, "names"), max_bytes=MAX_ANSWER_BYTES
        )
        described = {}
        for broker_id in wholes("broker_ids", broker_ids):
            response = await self._ask_broker(broker_id, LogDirs["describe_log_dirs"], request)
            described[broker_id] = tuple(map(_log_dir, response.log_dirs))
        return described

    async def describe_replicas(self, broker_id: int, topic: str = "") -> BrokerReplicas:
        """Return this broker's replicas of the topic, or else of all topics, that this client may describe."""
        check_type(str, "text", topic=topic)
        request = inspection_pb2.DescribeReplicasRequest(topic=topic, without_segments=True, max_bytes=MAX_ANSWER_BYTES)
        response = await self._ask_broker(broker_id, Inspection["describe_replicas"], request)
        replicas = {}
        for replica in response.replicas:
            epochs = tuple((entry.epoch, entry.start_offset) for entry in replica.epochs)
            replicas[partition_of(replica)] = ReplicaDescription(**same_fields(replica, _REPLICA), epochs=epochs)
        return BrokerReplicas(replicas, response.longest_step_us / 1e6)

    async def create_acls(self, acls: Iterable[Acl]) -> int:
        """Create all of these ACLs, or none, and return how many are new. Brokers use them a moment later.

        Raises INVALID_REQUEST, SECURITY_DISABLED."""
        request = controller_pb2.CreateAclsRequest(acls=map(acl_to_binding, _of_type(Acl, "acls", acls)))
        response: controller_pb2.CreateAclsResponse = await self._ask_controller(Controller["create_acls"], request)
        return response.created

    async def delete_acls(self, filters: Iterable[AclFilter]) -> int:
        """Delete every ACL that one of the filters fits, and return how many. Brokers follow a moment later.

        Raises INVALID_REQUEST, SECURITY_DISABLED."""
        fitting = map(acl_filter_to_message, _of_type(AclFilter, "filters", filters))
        request = controller_pb2.DeleteAclsRequest(filters=fitting)
        response: controller_pb2.DeleteAclsResponse = await self._ask_controller(Controller["delete_acls"], request)
        return response.deleted

    async def describe_acls(self, wanted: AclFilter = AclFilter()) -> list[Acl]:  # noqa: B008 (immutable)
        """Return the ACLs that fit, sorted by resource. Raises SECURITY_DISABLED."""
        (fitting,) = map(acl_filter_to_message, _of_type(AclFilter, "wanted", [wanted]))
        request = controller_pb2.DescribeAclsRequest(filter=fitting, max_bytes=MAX_ANSWER_BYTES)
        response = await self._ask_controller(Controller["describe_acls"], request)
        return list(map(acl_of_binding, response.acls))

    async def alter_client_quotas(
        self, user: str, configs: Mapping[str, str], delete: Sequence[str] = (), validate_only: bool = False
    ) -> dict[str, str]:
        """Change the quota of a user (`User:NAME`; "": each user without a quota of its own) on each broker, like
        `alter_topic_configs`. Raises INVALID_CONFIG, INVALID_REQUEST."""
        check_type(str, "text", user=user)
        request = controller_pb2.AlterClientQuotasRequest(user=user, **changes(configs, delete, validate_only))
        response = await self._ask_controller(Controller["alter_client_quotas"], request)
        return dict(response.configs)

    async def describe_client_quotas(self) -> dict[str, dict[str, str]]:
        """Return the quotas by user."""
        request = controller_pb2.DescribeClientQuotasRequest(max_bytes=MAX_ANSWER_BYTES)
        response = await self._ask_controller(Controller["describe_client_quotas"], request)
        return {quota.user: dict(quota.configs) for quota in response.quotas}


def _log_dir(described: log_dirs_pb2.LogDirDescription) -> LogDirDescription:
    replicas = [(partition_of(r), ReplicaInfo(r.size, r.offset_lag, r.is_future)) for r in described.replicas]
    return LogDirDescription(
        described.log_dir,
        ErrorCode(described.error_code),
        described.total_bytes,
        described.usable_bytes,
        tuple(sorted(replicas, key=lambda replica: replica[0])),
    )


def _of_type(kind: type[T], name: str, given: Iterable[T]) -> Iterator[T]:
    """Yield each, once its fields are what the class says. Raises TypeError."""
    for acl in each(kind, f"an {kind.__name__}", name, given, f"{kind.__name__}s"):
        for field, of in kind.__annotations__.items():
            check_type(of, getattr(of, "__name__", str(of)), **{f"{field} of {name}": getattr(acl, field)})
        yield acl
