"""An admin's calls for users: what they may do (ACLs), and how much (quotas)."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

from replog.client.admin.calls import Calls
from replog.client.arguments import changes, check_type, each
from replog.common.acl import Acl, AclFilter
from replog.metadata.records import acl_filter_to_message, acl_of_binding, acl_to_binding
from replog.rpc.limits import MAX_ANSWER_BYTES
from replog.rpc.methods import Controller
from replog.rpc.v1 import controller_pb2

T = TypeVar("T")


class Access(Calls):
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


def _of_type(kind: type[T], name: str, given: Iterable[T]) -> Iterator[T]:
    """Yield each, once its fields are what the class says. Raises TypeError."""
    for acl in each(kind, f"an {kind.__name__}", name, given, f"{kind.__name__}s"):
        for field, of in kind.__annotations__.items():
            check_type(of, getattr(of, "__name__", str(of)), **{f"{field} of {name}": getattr(acl, field)})
        yield acl
