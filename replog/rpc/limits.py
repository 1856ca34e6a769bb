"""The rules of each method on a server: who may call it, how many calls at once, how large a request, and how much it
lists.

Each method has its own room, so idle streams of clients cannot block heartbeats. A call too many is refused with
THROTTLING_QUOTA_EXCEEDED, which may pass; a request that is too large, or lists too much, with INVALID_REQUEST before
it is parsed."""

from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from google.protobuf.message import Message

from replog.common.acl import Operation
from replog.config.properties import MAX_BATCH_BYTES
from replog.errors import ErrorCode
from replog.log.formats.segment_file import MAX_HEADERS
from replog.rpc.peer import ACTION, ANYBODY, Access, On, Role
from replog.topic import MAX_CLUSTER_PARTITIONS, MAX_PARTITIONS

M = TypeVar("M", bound=Message)

KIB, MIB = 1 << 10, 1 << 20
MAX_REQUEST_BYTES = MAX_BATCH_BYTES + 2 * MIB  # one message; gRPC holds it until it ends, and it may never end
MAX_ANSWER_BYTES = 64 * MIB  # one message of a server
DEFAULT_ANSWER_BYTES = 4 * MIB  # gRPC's own default for clients
MAX_UNREAD_BYTES = 256 * MIB  # all messages of a server that are incomplete or wait for their handlers
MAX_CONNECTIONS = 5000  # one server's; a further one is closed
MAX_HANDSHAKES = 1000  # unfinished ones of TLS on one server; with one more, the oldest is closed
HANDSHAKE_S = 10.0  # a longer handshake is given up
MAX_STREAMS = 1000  # calls and streams of one connection; further ones wait at the client
MAX_PARTITIONS_PER_REQUEST = 10_000  # a broker takes so many in a request, or topics: the most partitions of a topic
MAX_BATCHES_PER_REQUEST = 250  # one produce
MAX_PARTITIONS_OF_BROKERS = 2000  # a broker's own request, to the controller or a leader; it names 500 at most
MAX_REPLICAS_PER_REQUEST = 100_000  # one request to the controller, over all partitions that it names
MAX_OFFLINE_PER_REQUEST = 1000  # one heartbeat: replicas, and log ends
MAX_ACLS_PER_REQUEST = 1000  # also filters
MAX_VERIFIED = 1000  # partitions that an audit reports
MAX_ALTERED_PER_REQUEST = 1000  # one of Kafka's requests: topics and brokers whose settings change, or users
MAX_CONFIGS_PER_REQUEST = 100  # one request, to set and to delete: more than there are


@dataclass(frozen=True, slots=True)
class Limit:
    """The limits of one method on one server."""

    calls: int  # calls and streams at once
    request_bytes: int  # one message, without the record batches behind it
    listed: int = 0  # entries of each of its lists
    replicas: int = 0  # all entries' together, where an entry lists some


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """The limits of one server, besides `MAX_CONNECTIONS`."""

    per_host: int = MAX_CONNECTIONS  # max.connections.per.ip
    idle_ms: int = 600_000  # connections.max.idle.ms: without a call for so long it is closed


DEFAULT_LIMITS = ConnectionLimits()

OF_BROKER = Access(Role.BROKER, "broker_id", ACTION)


def _acl(operation: str, on: On = On.CLUSTER, *, forwarded: bool = False) -> Access:
    return Access(operation=Operation[operation], on=on, forwarded=forwarded)


_admin = partial(_acl, forwarded=True)


RULES = {
    # the controller's, for brokers: a cluster has at most 1,000; a registration lists replicas that the broker lacks
    "Controller/RegisterBroker": (Limit(1000, MIB, MAX_CLUSTER_PARTITIONS, MAX_CLUSTER_PARTITIONS), OF_BROKER),
    "Controller/Heartbeat": (Limit(2000, 512 * KIB, MAX_OFFLINE_PER_REQUEST), OF_BROKER),
    "Controller/AlterPartition": (Limit(1000, 8 * MIB, MAX_PARTITIONS_OF_BROKERS, MAX_REPLICAS_PER_REQUEST), OF_BROKER),
    "Controller/AllocateProducerIds": (Limit(1000, 64 * KIB), OF_BROKER),
    "Controller/WatchMetadata": (Limit(2000, 64 * KIB), OF_BROKER),
    # the controller's, for administrators
    "Controller/UnregisterBroker": (Limit(100, 64 * KIB), _acl("ALTER")),
    "Controller/CreateTopic": (
        Limit(100, MIB, MAX_PARTITIONS, MAX_REPLICAS_PER_REQUEST),
        _admin("CREATE", On.TOPIC_OR_CLUSTER),
    ),
    "Controller/CreatePartitions": (
        Limit(100, MIB, MAX_PARTITIONS, MAX_REPLICAS_PER_REQUEST),
        _admin("ALTER", On.TOPIC),
    ),
    "Controller/DeleteTopic": (Limit(100, 64 * KIB), _admin("DELETE", On.TOPIC)),
    "Controller/AlterTopicConfigs": (Limit(100, MIB, MAX_CONFIGS_PER_REQUEST), _admin("ALTER_CONFIGS", On.TOPIC)),
    "Controller/AlterBrokerConfigs": (Limit(100, MIB, MAX_CONFIGS_PER_REQUEST), _admin("ALTER_CONFIGS")),
    "Controller/AlterClientQuotas": (Limit(100, MIB, MAX_CONFIGS_PER_REQUEST), _admin("ALTER_CONFIGS")),
    "Controller/DescribeClientQuotas": (Limit(100, 64 * KIB), _acl("DESCRIBE_CONFIGS")),
    "Controller/ElectLeaders": (Limit(100, 8 * MIB, MAX_CLUSTER_PARTITIONS), _admin("ALTER")),
    "Controller/DescribeLogEnds": (Limit(100, 8 * MIB, MAX_CLUSTER_PARTITIONS), _acl("DESCRIBE")),
    "Controller/AlterPartitionReassignments": (
        Limit(100, 8 * MIB, MAX_CLUSTER_PARTITIONS, MAX_REPLICAS_PER_REQUEST),
        _admin("ALTER"),
    ),
    "Controller/ListPartitionReassignments": (Limit(100, 8 * MIB, MAX_CLUSTER_PARTITIONS), _admin("DESCRIBE")),
    "Controller/DescribePartitionChanges": (Limit(100, 64 * KIB), _acl("DESCRIBE")),
    "Controller/CreateAcls": (Limit(100, MIB, MAX_ACLS_PER_REQUEST), _admin("ALTER")),
    "Controller/DeleteAcls": (Limit(100, MIB, MAX_ACLS_PER_REQUEST), _admin("ALTER")),
    "Controller/DescribeAcls": (Limit(100, 64 * KIB), _admin("DESCRIBE")),
    # an auditor may do nothing else by it: brokers have a role
    "Controller/ReportAudit": (Limit(16, MIB, MAX_VERIFIED), _acl("CLUSTER_ACTION")),
    "Controller/DescribeAudit": (Limit(100, 64 * KIB), _acl("DESCRIBE")),
    # a broker's, for the controller and for other brokers
    "Presence/AreYou": (Limit(100, 64 * KIB), Access(Role.CONTROLLER, operation=ACTION)),
    # it may forget all, and names fewer
    "Replica/Fetch": (Limit(1000, 8 * MIB, MAX_CLUSTER_PARTITIONS), Access(Role.BROKER, "replica_id", ACTION)),
    # a broker's, for clients
    "Log/Produce": (Limit(2000, 2 * MIB, MAX_BATCHES_PER_REQUEST), _acl("WRITE", On.ROWS)),
    "Log/ProduceOnce": (Limit(500, 2 * MIB, MAX_BATCHES_PER_REQUEST), _acl("WRITE", On.ROWS)),
    "Log/Fetch": (Limit(2000, 2 * MIB, MAX_PARTITIONS_PER_REQUEST), _acl("READ", On.ROWS)),
    "Log/FetchOnce": (Limit(500, 2 * MIB, MAX_PARTITIONS_PER_REQUEST), _acl("READ", On.ROWS)),
    "Log/ListOffsets": (Limit(200, 2 * MIB, MAX_PARTITIONS_PER_REQUEST), _acl("DESCRIBE", On.ROWS)),
    "Log/OffsetsForLeaderEpoch": (Limit(200, 2 * MIB, MAX_PARTITIONS_PER_REQUEST), _acl("DESCRIBE", On.ROWS)),
    "Log/DeleteRecords": (Limit(200, 2 * MIB, MAX_PARTITIONS_PER_REQUEST), _acl("DELETE", On.ROWS)),
    "Log/GetMetadata": (Limit(500, 2 * MIB, MAX_PARTITIONS_PER_REQUEST), _acl("DESCRIBE", On.ROWS)),
    "Log/InitProducerId": (Limit(500, 64 * KIB), _acl("IDEMPOTENT_WRITE", On.SOME_TOPIC)),
    "LogDirs/AlterReplicaLogDirs": (Limit(16, 8 * MIB, MAX_PARTITIONS_PER_REQUEST), _acl("ALTER")),
    "LogDirs/DescribeLogDirs": (Limit(16, 2 * MIB, MAX_PARTITIONS_PER_REQUEST), _acl("DESCRIBE")),
    # a broker's, for audits
    "Inspection/DescribeReplicas": (Limit(16, 64 * KIB), _acl("DESCRIBE", On.ROWS)),
    "Inspection/ReadFile": (Limit(64, 64 * KIB), _acl("READ", On.TOPIC)),
    "Inspection/ReadBatchHeaders": (Limit(64, 64 * KIB, MAX_HEADERS), _acl("READ", On.TOPIC)),
    # both servers'
    "Health/Check": (Limit(1000, 64 * KIB), ANYBODY),
}
"""The limits and the access of every method of every server, by service and name: one that is not here cannot be
served."""
LIMITS = {row: limit for row, (limit, _) in RULES.items()}
ACCESS = {row: access for row, (_, access) in RULES.items()}

ETCD_LIMIT = Limit(1000, 2 * MIB, 128)  # the simulator's etcd; a real one takes 1.5 MiB and as many operations


def fitting(answer: M, max_bytes: int) -> M:
    """Return the answer, if it fits. Raises as `check_fits`."""
    check_fits(answer.ByteSize(), max_bytes)
    return answer


def check_fits(size: int, max_bytes: int) -> None:
    """Raise INVALID_REQUEST if an answer of `size` bytes is more than its client takes: `max_bytes`, 0 for gRPC's
    default."""
    if size > (max_bytes or DEFAULT_ANSWER_BYTES):
        default = "" if max_bytes else ", which is what a client takes that does not say max_bytes"
        raise ErrorCode.INVALID_REQUEST.error(
            f"the answer has {size} bytes, and at most {max_bytes or DEFAULT_ANSWER_BYTES} were asked for{default}; "
            "name less in one request, or take more and say so in max_bytes"
        )
