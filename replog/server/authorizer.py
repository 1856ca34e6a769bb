"""Permissions of peers, by the ACLs of this process's image, and refusals (KIP-801, KIP-679).

Without `authorizer.class.name` everything is allowed."""

import inspect
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from google.protobuf.descriptor import ServiceDescriptor

from replog.common.acl import CLUSTER_NAME, Operation, ResourceType
from replog.config.processes import AuthorizerConfig
from replog.errors import ErrorCode, ReplogError
from replog.metadata.acl_table import AclTable
from replog.rpc.access import Access, On
from replog.rpc.methods import Method, methods_of
from replog.rpc.peer import Peer, Role, peer
from replog.server.audit_log import AuditLog

MAX_REMEMBERED = 10_000  # topics that a stream was allowed
_FAILED = {
    ResourceType.TOPIC: ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ResourceType.CLUSTER: ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
}

Permits = Callable[[str], bool]
"""Returns True if a topic is allowed."""


def everything(_topic: str) -> bool:
    return True


class Authorizer:
    """The permissions of one process. `acls` may change at any time, and count from the next question on."""

    def __init__(self, config: AuthorizerConfig, acls: AclTable, audit: AuditLog) -> None:
        self.enabled = bool(config.authorizer_class_name)
        self._super_users = frozenset(config.super_users)
        self._default = config.allow_everyone_if_no_acl_found
        self._acls = acls
        self.audit = audit

    @property
    def generation(self) -> int:
        return self._acls.generation

    def permits(self, method: Method, *, quietly: bool = False) -> Permits:
        """Return the topics allowed to the call whose handler runs. `quietly`: it lists topics, so those left out are
        not denials."""
        operation = method.access.operation
        if not self.enabled or operation is None:
            return everything
        return StreamPermits(self, peer(), operation, method.path, quietly=quietly)

    def allows(
        self, asks: Peer, operation: Operation, kind: ResourceType, name: str, path: str, *, quietly: bool = False
    ) -> bool:
        """Return True if a peer may do it. A denial goes to the audit log, unless `quietly`."""
        if asks.principal in self._super_users:
            return True
        verdict = self._acls.verdict(asks.principal, asks.host, operation, kind, name)
        allowed = verdict.allowed or (not verdict.known and self._default)
        if not allowed and not quietly:
            rule = "no ACL allows it" if verdict.acl is None else str(verdict.acl)
            self.audit.denied(asks, operation.name, f"{kind.name}:{name}", path, rule)
        return allowed

    def check(self, method: Method, request: Any) -> None:
        """Check a whole call. Topics that are answered row by row are checked by `permits`.

        Raises CLUSTER_AUTHORIZATION_FAILED, TOPIC_AUTHORIZATION_FAILED."""
        access, asks = method.access, peer()
        if access.operation is None or access.on is On.ROWS or _proved(access, asks):
            return
        kind, name = ResourceType.CLUSTER, CLUSTER_NAME
        if access.on is On.SOME_TOPIC and self._allows_some_topic(asks, method.path):
            return
        if access.on in (On.TOPIC, On.TOPIC_OR_CLUSTER):
            on_cluster = access.on is On.TOPIC_OR_CLUSTER
            if on_cluster and self.allows(asks, access.operation, kind, name, method.path, quietly=True):
                return
            kind, name = ResourceType.TOPIC, request.topic
        if not self.allows(asks, access.operation, kind, name, method.path):
            raise refusal(asks, access.operation, kind, name)

    def check_cluster(self, asks: Peer, operation: Operation, path: str) -> None:
        """Raises CLUSTER_AUTHORIZATION_FAILED if there is an authorizer that does not allow it."""
        if self.enabled and not self.allows(asks, operation, ResourceType.CLUSTER, CLUSTER_NAME, path):
            raise refusal(asks, operation, ResourceType.CLUSTER, CLUSTER_NAME)

    def _allows_some_topic(self, asks: Peer, path: str) -> bool:
        """Return True if the peer may write to some topic, which may not exist yet (KIP-679)."""
        kind, write = ResourceType.TOPIC, Operation.WRITE
        return self.allows(asks, write, kind, "", path, quietly=True) or self._acls.allows_any(
            asks.principal, asks.host, write, kind
        )


class StreamPermits:
    """The topics allowed to a call or stream. It remembers them until an ACL changes."""

    def __init__(
        self, authorizer: Authorizer, asks: Peer, operation: Operation, path: str, *, quietly: bool = False
    ) -> None:
        self._authorizer = authorizer
        self._asks = asks
        self._operation = operation
        self._path = path
        self._quietly = quietly
        self._allowed: set[str] = set()
        self._generation = authorizer.generation

    def __call__(self, topic: str) -> bool:
        if self._generation != self._authorizer.generation or len(self._allowed) > MAX_REMEMBERED:
            self._generation = self._authorizer.generation
            self._allowed.clear()
        if topic in self._allowed:
            return True
        if self._authorizer.allows(
            self._asks, self._operation, ResourceType.TOPIC, topic, self._path, quietly=self._quietly
        ):
            self._allowed.add(topic)
            return True
        return False


def _proved(access: Access, asks: Peer) -> bool:
    """Return True if the peer's certificate names the role that the method is for: then no ACL is needed."""
    return access.role is not Role.ANY and asks.role is access.role


def refusal(asks: Peer, operation: Operation, kind: ResourceType, name: str) -> ReplogError:
    return ReplogError(
        _FAILED[kind],
        f"{asks.principal} from {asks.host} may not {operation.name} {kind.name} {name[:300]}; "
        "an administrator of the cluster can allow it: replog acl add",
    )


def refused_topic(topic: str) -> ReplogError:
    """Return the error for a topic's row in an answer."""
    return ErrorCode.TOPIC_AUTHORIZATION_FAILED.error(
        f"topic {topic[:300]}: no ACL allows it, or one denies it; an administrator can allow it: replog acl add"
    )


def guarded(service: ServiceDescriptor, handlers: object, authorizer: Authorizer) -> object:
    """Return the handlers behind the checks of whole calls, on every transport."""
    if not authorizer.enabled:
        return handlers
    methods = methods_of(service)
    return SimpleNamespace(
        **{name: _guarded(method, getattr(handlers, name), authorizer) for name, method in methods.items()}
    )


def _guarded(method: Method, handler: Callable[..., Any], authorizer: Authorizer) -> Callable[..., Any]:
    if method.access.operation is None or method.access.on is On.ROWS:
        return handler

    async def answered(request: Any) -> Any:
        authorizer.check(method, request)
        return await handler(request)

    def begun(request: Any) -> Any:
        authorizer.check(method, request)
        return handler(request)

    return answered if inspect.iscoroutinefunction(handler) else begun
