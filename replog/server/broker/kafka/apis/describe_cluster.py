"""DescribeCluster 0–2: the brokers, a broker that takes what is for the controller, and what the client may do."""

from replog.kafka import messages
from replog.server.broker.kafka.call import Call
from replog.server.broker.kafka.cluster_rows import cluster_operations, controller_id, endpoints
from replog.server.broker.kafka.service import KafkaService

BROKERS, CONTROLLERS = 1, 2  # types of endpoints
MISMATCHED, UNSUPPORTED = 114, 115  # Kafka's codes: a controller was asked for, or neither


def serve(service: KafkaService, call: Call) -> None:
    asked = call.message.endpoint_type
    if asked != BROKERS:
        code = MISMATCHED if asked == CONTROLLERS else UNSUPPORTED
        said = f"endpoint type {asked} was asked for, and this is a broker: type {BROKERS}"
        call.answer(messages.DescribeClusterResponse(error_code=code, error_message=said))
        return
    live = endpoints(service)
    listed = endpoints(service, fenced=True) if call.message.include_fenced_brokers else live
    response = messages.DescribeClusterResponse(
        cluster_id=service.context.image.cluster_id,
        controller_id=controller_id(service, live),
        brokers=list(listed.values()),
    )
    if call.message.include_cluster_authorized_operations:
        response = response._replace(cluster_authorized_operations=cluster_operations(call))
    call.answer(response)
