"""The rows that describe a cluster: where a listener's clients find brokers, who leads, and what a client may do."""

from typing import Any

from replog.common.acl import CLUSTER_NAME, OPERATIONS, Operation, ResourceType
from replog.errors import ErrorCode, ReplogError
from replog.kafka.messages import DescribeClusterResponseBroker
from replog.metadata.values import PartitionState
from replog.server.broker.kafka.call import Call
from replog.server.broker.kafka.service import KafkaService
from replog.topic import validate_topic_name

LISTENER_NOT_FOUND = 72  # Kafka's code
INTERNAL_TOPICS = frozenset({"__consumer_offsets", "__transaction_state"})  # Kafka's own: no client makes them
CLUSTER_METADATA = "__cluster_metadata"  # nor that of its controllers
NEVER_MADE = INTERNAL_TOPICS | {CLUSTER_METADATA}


Endpoints = dict[int, DescribeClusterResponseBroker]


def endpoints(service: KafkaService, *, fenced: bool = False) -> Endpoints:
    """Return the brokers that live and have this listener, by id; with `fenced` the others, too. Raises
    BROKER_NOT_AVAILABLE."""
    if not service.replicas.started:
        raise ErrorCode.BROKER_NOT_AVAILABLE.error("this broker is starting, and does not know the cluster yet")
    live = {}
    for broker_id, broker in sorted(service.context.image.brokers.items()):
        host, _, port = broker.address_at(service.listener).rpartition(":")
        if host and (fenced or not broker.fenced):
            row = (broker_id, host.strip("[]"), int(port), broker.rack or None, broker.fenced)
            live[broker_id] = DescribeClusterResponseBroker(*row)
    return live


def controller_id(service: KafkaService, live: Endpoints) -> int:
    """Return the broker to which clients send what a controller decides. Each broker passes it on, as in Kafka: so the
    one that is asked, if it lives. -1: none."""
    node_id = service.context.config.node_id
    return node_id if node_id in live else min(live, default=-1)


def partition_fields(service: KafkaService, number: int, state: PartitionState, live: Endpoints) -> dict[str, Any]:
    """Return the fields that describe a partition. It has no leader if clients of this listener reach none."""
    error: int = ErrorCode.NONE
    if state.leader not in live:
        leader = service.context.image.brokers.get(state.leader)
        error = LISTENER_NOT_FOUND if leader and not leader.fenced else ErrorCode.LEADER_NOT_AVAILABLE
    return {
        "error_code": error,
        "partition_index": number,
        "leader_id": -1 if error else state.leader,
        "leader_epoch": state.leader_epoch,
        "replica_nodes": state.replicas,
        "isr_nodes": state.isr,
        "offline_replicas": [replica for replica in state.replicas if replica not in live],
    }


def why_unknown(name: str) -> int:
    """Return the error for a topic that is not there."""
    try:
        validate_topic_name(name)
    except ReplogError as error:
        return error.code
    return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def topic_operations(call: Call, name: str) -> int:
    """Return the operations that the client may do, a bit for each by its number (KIP-430)."""
    return _operations(call, ResourceType.TOPIC, name)


def cluster_operations(call: Call) -> int:
    is_shown = call.allows(Operation.DESCRIBE, ResourceType.CLUSTER, CLUSTER_NAME)
    return _operations(call, ResourceType.CLUSTER, CLUSTER_NAME) if is_shown else 0


def _operations(call: Call, kind: ResourceType, name: str) -> int:
    known = OPERATIONS[kind] - {Operation.ALL}
    return sum(1 << operation for operation in known if call.allows(operation, kind, name, quietly=True))
