"""What an admin does with users: what they may do (ACLs), and how much (quotas)."""

from collections.abc import Iterable, Mapping, Sequence

from replog.acl import Acl, AclFilter
from replog.client.admin.calls import Calls
from replog.client.arguments import listed, texts
from replog.metadata.records import acl_filter_to_message, acl_of_binding, acl_to_binding
from replog.rpc.limits import MAX_ANSWER_BYTES
from replog.rpc.methods import Controller
from replog.rpc.v1 import controller_pb2


class Access(Calls):
    async def create_acls(self, acls: Iterable[Acl]) -> int:
        """All of them, or none; answers how many are new. Brokers go by them a moment later.

        Raises INVALID_REQUEST, SECURITY_DISABLED."""
        request = controller_pb2.CreateAclsRequest(acls=map(acl_to_binding, acls))
        response: controller_pb2.CreateAclsResponse = await self._ask_controller(Controller["create_acls"], request)
        return response.created

    async def delete_acls(self, filters: Iterable[AclFilter]) -> int:
        """Every ACL that one of the filters fits; answers how many. Brokers go by it a moment later.

        Raises INVALID_REQUEST, SECURITY_DISABLED."""
        request = controller_pb2.DeleteAclsRequest(filters=map(acl_filter_to_message, filters))
        response: controller_pb2.DeleteAclsResponse = await self._ask_controller(Controller["delete_acls"], request)
        return response.deleted

    async def describe_acls(self, wanted: AclFilter = AclFilter()) -> list[Acl]:  # noqa: B008 (immutable)
        """Those that fit, by resource. Raises SECURITY_DISABLED."""
        request = controller_pb2.DescribeAclsRequest(filter=acl_filter_to_message(wanted), max_bytes=MAX_ANSWER_BYTES)
        response = await self._ask_controller(Controller["describe_acls"], request)
        return list(map(acl_of_binding, response.acls))

    async def alter_client_quotas(
        self, user: str, configs: Mapping[str, str], delete: Sequence[str] = (), validate_only: bool = False
    ) -> dict[str, str]:
        """As `alter_topic_configs`, for what a user (`User:NAME`; "": each without a quota of its own) may take of a
        broker.

        Raises INVALID_CONFIG, INVALID_REQUEST."""
        request = controller_pb2.AlterClientQuotasRequest(
            user=user, set=texts(configs), delete=listed("delete", delete, "names"), validate_only=validate_only
        )
        response = await self._ask_controller(Controller["alter_client_quotas"], request)
        return dict(response.configs)

    async def describe_client_quotas(self) -> dict[str, dict[str, str]]:
        """By user."""
        request = controller_pb2.DescribeClientQuotasRequest(max_bytes=MAX_ANSWER_BYTES)
        response = await self._ask_controller(Controller["describe_client_quotas"], request)
        return {quota.user: dict(quota.configs) for quota in response.quotas}
