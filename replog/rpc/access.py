"""The access to each method: who may call it, and what ACLs must allow (Kafka's operations, as its requests need them).

The role comes from the peer's certificate, never from what a request claims."""

from dataclasses import dataclass
from enum import Enum
from typing import Any

from replog.common.acl import CLUSTER_NAME, Operation
from replog.errors import ErrorCode, ReplogError
from replog.rpc.peer import Peer, Role


class Imposture(ReplogError):
    """A peer's certificate does not fit its call. `resource` and `rule` are for the audit log."""

    def __init__(self, message: str, resource: str, rule: str) -> None:
        super().__init__(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, message)
        self.resource = resource
        self.rule = rule


class On(Enum):
    """The resource of an operation."""

    CLUSTER = "the cluster"
    TOPIC = "the topic that the request names"
    TOPIC_OR_CLUSTER = "either of them"
    SOME_TOPIC = "the cluster; or there is a topic that it may write to"
    ROWS = "each topic that the request names: its service refuses them one by one"


@dataclass(frozen=True, slots=True)
class Access:
    """The rules of one method."""

    role: Role = Role.ANY  # the role that may call it
    claim: str = ""  # the request's field with the id of the broker that asks; the certificate must have it, too
    operation: Operation | None = None  # an ACL must allow it, if there is an authorizer; None: nothing
    on: On = On.CLUSTER

    def check_role(self, path: str, asks: Peer) -> None:
        """Raise `Imposture` if the peer has another role."""
        if self.role is not Role.ANY and asks.role is not Role.ANY and asks.role is not self.role:
            raise Imposture(
                f"{path} is for a {self.role}'s certificate; {asks.principal} at {asks.host} is a {asks.role}",
                f"CLUSTER:{CLUSTER_NAME}",
                f"it is for a {self.role}'s certificate",
            )

    def check_claim(self, path: str, asks: Peer, request: Any) -> None:
        """Raise `Imposture` if the request claims to be another broker's."""
        if self.claim and asks.role is Role.BROKER and str(getattr(request, self.claim)) != asks.name:
            claimed = getattr(request, self.claim)
            raise Imposture(
                f"{path}: {self.claim}={claimed} is not the broker of the certificate, "
                f"{asks.principal} at {asks.host}; issue one for each broker: replog tls issue broker ID",
                f"BROKER:{claimed}",
                "it is not the broker of the certificate",
            )


ANYBODY = Access()  # it shows nothing of anybody's data
ACTION = Operation.CLUSTER_ACTION  # a certificate of the role is enough for it, without an ACL
ACCESS = {
    "Controller/RegisterBroker": Access(Role.BROKER, "broker_id", ACTION),
    "Controller/Heartbeat": Access(Role.BROKER, "broker_id", ACTION),
    "Controller/AlterPartition": Access(Role.BROKER, "broker_id", ACTION),
    "Controller/AllocateProducerIds": Access(Role.BROKER, "broker_id", ACTION),
    "Controller/WatchMetadata": Access(Role.BROKER, "broker_id", ACTION),
    "Controller/UnregisterBroker": Access(operation=Operation.ALTER),
    "Controller/CreateTopic": Access(operation=Operation.CREATE, on=On.TOPIC_OR_CLUSTER),
    "Controller/CreatePartitions": Access(operation=Operation.ALTER, on=On.TOPIC),
    "Controller/DeleteTopic": Access(operation=Operation.DELETE, on=On.TOPIC),
    "Controller/AlterTopicConfigs": Access(operation=Operation.ALTER_CONFIGS, on=On.TOPIC),
    "Controller/AlterBrokerConfigs": Access(operation=Operation.ALTER_CONFIGS),
    "Controller/AlterClientQuotas": Access(operation=Operation.ALTER_CONFIGS),
    "Controller/DescribeClientQuotas": Access(operation=Operation.DESCRIBE_CONFIGS),
    "Controller/ElectLeaders": Access(operation=Operation.ALTER),
    "Controller/DescribeLogEnds": Access(operation=Operation.DESCRIBE),
    "Controller/AlterPartitionReassignments": Access(operation=Operation.ALTER),
    "Controller/ListPartitionReassignments": Access(operation=Operation.DESCRIBE),
    "Controller/DescribePartitionChanges": Access(operation=Operation.DESCRIBE),
    "Controller/CreateAcls": Access(operation=Operation.ALTER),
    "Controller/DeleteAcls": Access(operation=Operation.ALTER),
    "Controller/DescribeAcls": Access(operation=Operation.DESCRIBE),
    "Controller/ReportAudit": Access(operation=ACTION),  # an auditor may do nothing else by it: brokers have a role
    "Controller/DescribeAudit": Access(operation=Operation.DESCRIBE),
    "Presence/AreYou": Access(Role.CONTROLLER, operation=ACTION),
    "Replica/Fetch": Access(Role.BROKER, "replica_id", ACTION),
    "Log/Produce": Access(operation=Operation.WRITE, on=On.ROWS),
    "Log/ProduceOnce": Access(operation=Operation.WRITE, on=On.ROWS),
    "Log/Fetch": Access(operation=Operation.READ, on=On.ROWS),
    "Log/FetchOnce": Access(operation=Operation.READ, on=On.ROWS),
    "Log/ListOffsets": Access(operation=Operation.DESCRIBE, on=On.ROWS),
    "Log/OffsetsForLeaderEpoch": Access(operation=Operation.DESCRIBE, on=On.ROWS),
    "Log/DeleteRecords": Access(operation=Operation.DELETE, on=On.ROWS),
    "Log/GetMetadata": Access(operation=Operation.DESCRIBE, on=On.ROWS),
    "Log/InitProducerId": Access(operation=Operation.IDEMPOTENT_WRITE, on=On.SOME_TOPIC),
    "LogDirs/AlterReplicaLogDirs": Access(operation=Operation.ALTER),
    "LogDirs/DescribeLogDirs": Access(operation=Operation.DESCRIBE),
    "Inspection/DescribeReplicas": Access(operation=Operation.DESCRIBE, on=On.ROWS),
    "Inspection/ReadFile": Access(operation=Operation.READ, on=On.TOPIC),
    "Inspection/ReadBatchHeaders": Access(operation=Operation.READ, on=On.TOPIC),
    "Health/Check": ANYBODY,
    "Health/List": ANYBODY,
    "Health/Watch": ANYBODY,
    "ServerReflection/ServerReflectionInfo": ANYBODY,
}
"""Every method of every server, by service and name: one that is not here cannot be served."""
