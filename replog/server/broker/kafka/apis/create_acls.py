"""CreateAcls 1–3: ACLs are made, all that are right in one step."""

from typing import Any

from replog.common.acl import Operation
from replog.kafka import messages
from replog.metadata.records import acl_to_binding
from replog.rpc.limits import MAX_ACLS_PER_REQUEST
from replog.rpc.v1 import controller_pb2 as pb
from replog.server.broker.kafka.acl_rows import acl_of
from replog.server.broker.kafka.admin_rows import check, check_count, told_in
from replog.server.broker.kafka.call import Call
from replog.server.broker.kafka.forwarding import ask_controller, deadline, until_all_know
from replog.server.broker.kafka.service import KafkaService
from replog.server.work import in_slices


async def serve(service: KafkaService, call: Call) -> messages.CreateAclsResponse:
    request: messages.CreateAclsRequest = call.message
    until_s = deadline(service, service.context.config.request_timeout_ms)
    check(call, Operation.ALTER)
    check_count(len(request.creations), MAX_ACLS_PER_REQUEST, "ACLs")
    rows, acls = [], []
    async for creation in in_slices(request.creations):
        row: dict[str, Any] = {}
        with told_in(row):
            acls.append(acl_to_binding(acl_of(creation)))
        rows.append(messages.CreateAclsResponseResult(**row))
    created = await ask_controller(service, "create_acls", pb.CreateAclsRequest(acls=acls), until_s)
    if created.created:
        await until_all_know(service, created.metadata_version, until_s)
    return messages.CreateAclsResponse(results=rows)
