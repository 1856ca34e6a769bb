"""DescribeAcls 1–3: the ACLs that a filter fits, by resource."""

from replog.common.acl import Operation
from replog.kafka import messages
from replog.server.broker.kafka.acl_rows import filter_of, fitting_acls
from replog.server.broker.kafka.admin_rows import check
from replog.server.broker.kafka.call import Call
from replog.server.broker.kafka.forwarding import deadline
from replog.server.broker.kafka.service import KafkaService
from replog.server.work import in_slices


async def serve(service: KafkaService, call: Call) -> messages.DescribeAclsResponse:
    check(call, Operation.DESCRIBE)
    until_s = deadline(service, service.context.config.request_timeout_ms)
    rows: dict[tuple[int, str, int], list[messages.DescribeAclsResponseAcl]] = {}
    async for acl in in_slices(await fitting_acls(service, filter_of(call.message), until_s)):
        rows.setdefault(acl[:3], []).append(messages.DescribeAclsResponseAcl(*acl[3:]))
    resources = [messages.DescribeAclsResponseResource(*each, acls) for each, acls in rows.items()]
    return messages.DescribeAclsResponse(resources=resources)
