"""ElectLeaders 0–2: preferred elections, and unclean ones (CT-11)."""

from replog.common.acl import Operation
from replog.errors import ErrorCode
from replog.kafka import messages
from replog.rpc.v1 import controller_pb2 as pb
from replog.server.broker.kafka.admin_rows import by_topic, check, outcome_of, partition_names
from replog.server.broker.kafka.call import Call
from replog.server.broker.kafka.forwarding import ask_controller, deadline
from replog.server.broker.kafka.service import KafkaService

_ELECTIONS = {0: pb.PREFERRED, 1: pb.UNCLEAN}


async def serve(service: KafkaService, call: Call) -> messages.ElectLeadersResponse:
    request: messages.ElectLeadersRequest = call.message
    check(call, Operation.ALTER)
    if request.election_type not in _ELECTIONS:  # otherwise it might be an unclean one
        raise ErrorCode.INVALID_REQUEST.error(f"there is no election type {request.election_type}; 0 is preferred")
    asked = pb.ElectLeadersRequest(
        election_type=_ELECTIONS[request.election_type],
        all_partitions=request.topic_partitions is None,
        partitions=partition_names(request.topic_partitions or ()),
    )
    answer = await ask_controller(service, "elect_leaders", asked, deadline(service, request.timeout_ms))
    rows = (
        (row.topic, messages.ElectLeadersResponsePartitionResult(row.partition, **outcome_of(row)))
        for row in answer.partitions
    )
    topics = [messages.ElectLeadersResponseReplicaElectionResult(*each) for each in (await by_topic(rows)).items()]
    return messages.ElectLeadersResponse(replica_election_results=topics)
