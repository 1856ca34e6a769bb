"""DeleteAcls 1–3: every ACL that a filter fits is deleted, and shown."""

from itertools import islice
from typing import Any

from replog.common.acl import Acl, AclFilter, Operation
from replog.kafka import messages
from replog.metadata.records import acl_filter_to_message
from replog.rpc.limits import MAX_ACLS_PER_REQUEST
from replog.rpc.v1 import controller_pb2 as pb
from replog.server.broker.kafka.acl_rows import filter_of, fitting_acls
from replog.server.broker.kafka.admin_rows import check, check_count, told_in
from replog.server.broker.kafka.call import Call
from replog.server.broker.kafka.forwarding import ask_controller, deadline, until_all_know
from replog.server.broker.kafka.service import KafkaService
from replog.server.work import in_slices

MAX_WIDE_ACL_FILTERS = 100  # one request's; each is compared with every ACL


async def serve(service: KafkaService, call: Call) -> messages.DeleteAclsResponse:
    request: messages.DeleteAclsRequest = call.message
    until_s = deadline(service, service.context.config.request_timeout_ms)
    check(call, Operation.ALTER)
    check_count(len(request.filters), MAX_ACLS_PER_REQUEST, "filters")
    present = dict.fromkeys(await fitting_acls(service, AclFilter(), until_s))
    gone, rows, wide = dict[Acl, None](), [], 0
    for asked in request.filters:
        row: dict[str, Any] = {}
        with told_in(row):
            wanted = filter_of(asked)
            if (exact := wanted.exactly) is None:
                check_count(wide := wide + 1, MAX_WIDE_ACL_FILTERS, "filters that may fit more than one ACL")
                fitting = [acl async for acl in in_slices(present) if wanted.fits(acl)]
            else:
                fitting = [exact] if exact in present else []
            row["matching_acls"] = [messages.DeleteAclsResponseMatchingAcl(0, None, *acl) for acl in fitting]
            gone |= dict.fromkeys(fitting)
        rows.append(messages.DeleteAclsResponseFilterResult(**row))
    version = 0
    for first in range(0, len(gone), MAX_ACLS_PER_REQUEST):  # exactly these, so that the answer says what is gone
        lot = islice(gone, first, first + MAX_ACLS_PER_REQUEST)
        exactly = pb.DeleteAclsRequest(filters=(acl_filter_to_message(AclFilter(*acl)) for acl in lot))
        version = (await ask_controller(service, "delete_acls", exactly, until_s)).metadata_version
    await until_all_know(service, version, until_s)
    return messages.DeleteAclsResponse(filter_results=rows)
