"""Permissions of peers, by the ACLs of this process's image, and refusals (KIP-801, KIP-679).

Without `authorizer.class.name` everything is allowed."""

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import structlog
from google.protobuf.descriptor import ServiceDescriptor

from replog.common.acl import CLUSTER_NAME, Operation, ResourceType
from replog.config.processes import ServerConfig
from replog.errors import ErrorCode, ReplogError
from replog.metadata.acl_table import AclTable
from replog.rpc.methods import Method, methods_of
from replog.rpc.peer import On, Peer, Role, peer
from replog.server.clock import Clock

LOGGER = "replog.authorizer"
BURST = 10  # lines of a principal at once
LINE_MS = 1000  # then a line in so long
MAX_PRINCIPALS = 1000  # more principals share one allowance
MAX_SHOWN = 300  # characters of a name in a request
MAX_REMEMBERED = 10_000  # topics that a stream was allowed
_FAILED = {
    ResourceType.TOPIC: ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ResourceType.CLUSTER: ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
}

log = structlog.get_logger(LOGGER)

Permits = Callable[[str], bool]
"""Returns True if a topic is allowed."""


def everything(_topic: str) -> bool:
    return True


@dataclass(slots=True)
class _Lines:
    left: float
    since_ms: int
    left_out: int = 0


class AuditLog:
    """Logs denied requests, on a logger of their own like Kafka's kafka.authorizer.logger.

    Nobody can fill a disk with them: a principal has some lines at once, then one a second, and the next line says how
    many were left out."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lines: dict[str, _Lines] = {}

    def denied(self, asks: Peer, operation: str, resource: str, request: str, rule: str) -> None:
        """Log a denial, unless the principal has too many. `resource` is like TOPIC:flights; `rule` says which ACL
        denied it, or why none allowed it."""
        lines = self._of(asks.principal)
        if lines.left < 1:
            lines.left_out += 1
            return
        lines.left -= 1
        log.info(
            "denied",
            logger=LOGGER,
            principal=asks.principal,
            host=asks.host,
            operation=operation,
            resource=resource[:MAX_SHOWN],
            request=request,
            rule=rule,
            left_out=lines.left_out,
        )
        lines.left_out = 0

    def _of(self, principal: str) -> _Lines:
        now_ms = self._clock.monotonic_ms()
        who = principal if principal in self._lines or len(self._lines) < MAX_PRINCIPALS else ""
        lines = self._lines.setdefault(who, _Lines(BURST, now_ms))
        lines.left = min(BURST, lines.left + (now_ms - lines.since_ms) / LINE_MS)
        lines.since_ms = now_ms
        return lines


class Authorizer:
    """The permissions of one process. `acls` may change at any time, and count from the next question on."""

    def __init__(self, config: ServerConfig, acls: AclTable, audit: AuditLog) -> None:
        self.enabled = bool(config.authorizer_class_name)
        self._super_users = frozenset(config.super_users)
        self._default = config.allow_everyone_if_no_acl_found
        self._acls = acls
        self.audit = audit

    def permits(self, method: Method, *, quietly: bool = False) -> Permits:
        """Return the topics allowed to the call or stream whose handler runs, like `permits_topics`."""
        if not self.enabled:
            return everything
        return self.permits_topics(peer(), method.access.operation, method.path, quietly=quietly)

    def permits_topics(self, asks: Peer, operation: Operation | None, path: str, *, quietly: bool = False) -> Permits:
        """Return the topics on which a peer may do it. The function remembers them until an ACL changes. `quietly`: it
        lists topics, so those left out are not denials."""
        if not self.enabled or operation is None:
            return everything
        allowed, generation = set[str](), self._acls.generation

        def permitted(topic: str) -> bool:
            nonlocal generation
            if generation != self._acls.generation or len(allowed) > MAX_REMEMBERED:
                generation = self._acls.generation
                allowed.clear()
            if topic in allowed:
                return True
            if self.allows(asks, operation, ResourceType.TOPIC, topic, path, quietly=quietly):
                allowed.add(topic)
                return True
            return False

        return permitted

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
        role = Role.BROKER if access.forwarded else access.role
        is_proved = role is not Role.ANY and asks.role is role  # its certificate says so: it needs no ACL
        if access.operation is None or access.on is On.ROWS or is_proved:
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

    def check_idempotent_write(self, asks: Peer, path: str) -> None:
        """Raise CLUSTER_AUTHORIZATION_FAILED unless the peer may write idempotently, or to some topic (KIP-679)."""
        if not (self.enabled and self._allows_some_topic(asks, path)):
            self.check_cluster(asks, Operation.IDEMPOTENT_WRITE, path)

    def _allows_some_topic(self, asks: Peer, path: str) -> bool:
        """Return True if the peer may write to some topic, which may not exist yet (KIP-679)."""
        kind, write = ResourceType.TOPIC, Operation.WRITE
        return self.allows(asks, write, kind, "", path, quietly=True) or self._acls.allows_any(
            asks.principal, asks.host, write, kind
        )


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
