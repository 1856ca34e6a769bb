"""How far every replica of a topic is, asked of the brokers themselves."""

from collections.abc import Callable
from typing import Any

from cluster.cli.output import note

UNKNOWN_OFFSETS: dict[str, int | None] = {"log_start": None, "high_watermark": None, "log_end": None}


def replica_offsets(
    topic: str, cluster: Any, complain: Callable[[str], None] = note
) -> dict[tuple[int, int], dict[str, int | None]]:
    """(partition, broker) to offsets, as each broker of a ClusterDescription tells them of its own replicas.

    `complain` hears of each broker that does not answer.
    """
    from cluster.local import probe
    from replog.errors import ReplogError
    from replog.rpc.methods import Inspection
    from replog.rpc.v1 import inspection_pb2

    found: dict[tuple[int, int], dict[str, int | None]] = {}
    request = inspection_pb2.DescribeReplicasRequest(topic=topic)
    for broker in cluster.brokers:
        if broker.fenced:
            continue
        try:
            answer = probe.call(broker.address, Inspection["describe_replicas"], request, probe.CALL_TIMEOUT_S)
        except ReplogError as error:
            complain(f"no offsets from broker {broker.broker_id}: {error.message}")
            continue
        for replica in answer.replicas:
            found[replica.partition, broker.broker_id] = {
                "log_start": replica.log_start_offset,
                "high_watermark": replica.high_watermark,
                "log_end": replica.log_end_offset,
            }
    return found
