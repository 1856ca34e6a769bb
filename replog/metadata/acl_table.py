"""The ACLs of a cluster, and their decisions on requests (`StandardAuthorizer`'s rules, KIP-801). Pure.

A look-up costs what applies to the resource and the principal, however many ACLs there are."""

from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import NamedTuple

from replog.common.acl import ANYBODY, WILDCARD, Acl, Operation, PatternType, Permission, ResourceType

Pattern = tuple[ResourceType, PatternType, str]


class Verdict(NamedTuple):
    """`acl` is the one that decided, if any did; `known` is True if there are any for the resource."""

    allowed: bool
    acl: Acl | None
    known: bool


class AclTable:
    """Holds ACLs by their ids and patterns. `generation` changes with every change."""

    def __init__(self) -> None:
        self.generation = 0
        self.by_id: dict[str, Acl] = {}
        self.ids: dict[Acl, str] = {}
        self._patterns: dict[Pattern, dict[str, dict[Acl, None]]] = {}  # then by principal
        self._of_principal: dict[str, dict[Acl, None]] = {}  # only those that allow something
        self._lengths: defaultdict[ResourceType, Counter[int]] = defaultdict(Counter)  # the prefixes' lengths

    def put(self, acl_id: str, acl: Acl | None) -> None:
        """Add an ACL, or delete it (None)."""
        self.generation += 1
        if (old := self.by_id.pop(acl_id, None)) is not None:
            self._remove(old)
        if acl is not None:
            self.by_id[acl_id] = acl
            self._add(acl, acl_id)

    def _add(self, acl: Acl, acl_id: str) -> None:
        self.ids[acl] = acl_id
        pattern = _pattern(acl)
        if pattern not in self._patterns:
            self._patterns[pattern] = {}
            if acl.pattern_type is PatternType.PREFIXED:
                self._lengths[acl.resource_type][len(acl.resource_name)] += 1
        self._patterns[pattern].setdefault(acl.principal, {})[acl] = None
        if acl.permission is Permission.ALLOW:
            self._of_principal.setdefault(acl.principal, {})[acl] = None

    def _remove(self, acl: Acl) -> None:
        del self.ids[acl]
        pattern = _pattern(acl)
        principals = self._patterns[pattern]
        _discard(principals, acl)
        if not principals:
            del self._patterns[pattern]
            if acl.pattern_type is PatternType.PREFIXED:
                lengths = self._lengths[acl.resource_type]
                lengths[len(acl.resource_name)] -= 1
                lengths += Counter()  # forgets lengths of which there are none
        if acl.permission is Permission.ALLOW:
            _discard(self._of_principal, acl)

    def verdict(self, principal: str, host: str, operation: Operation, kind: ResourceType, name: str) -> Verdict:
        """Decide on a request: any DENY wins, then any ALLOW."""
        allows, known = None, False
        for pattern in self._applying(kind, name):
            known = True
            for acl in self._speaking(pattern, principal, host, operation):
                if acl.permission is Permission.DENY:
                    return Verdict(False, acl, True)
                allows = acl
        return Verdict(allows is not None, allows, known)

    def allows_any(self, principal: str, host: str, operation: Operation, kind: ResourceType) -> bool:
        """Return True if there may be a resource of the type for which this is allowed (KIP-679)."""
        for who in (principal, ANYBODY):
            for acl in self._of_principal.get(who, ()):
                if acl.resource_type is kind and acl.speaks_of(host, operation):
                    covering = self._covering(acl)
                    spoken = (s for pattern in covering for s in self._speaking(pattern, principal, host, operation))
                    if all(other.permission is Permission.ALLOW for other in spoken):
                        return True
        return False

    def _covering(self, acl: Acl) -> Iterator[Pattern]:
        """Yield the patterns that apply to everything that the ACL's pattern names."""
        if acl.pattern_type is PatternType.LITERAL:
            return self._applying(acl.resource_type, acl.resource_name)
        applying = self._applying(acl.resource_type, acl.resource_name)
        return (each for each in applying if each[1] is PatternType.PREFIXED or each[2] == WILDCARD)

    def _applying(self, kind: ResourceType, name: str) -> Iterator[Pattern]:
        for literal in dict.fromkeys((name, WILDCARD)):
            if (pattern := (kind, PatternType.LITERAL, literal)) in self._patterns:
                yield pattern
        for length in self._lengths[kind]:
            if length <= len(name) and (pattern := (kind, PatternType.PREFIXED, name[:length])) in self._patterns:
                yield pattern

    def _speaking(self, pattern: Pattern, principal: str, host: str, operation: Operation) -> Iterator[Acl]:
        principals = self._patterns[pattern]
        for who in (principal, ANYBODY):
            for acl in principals.get(who, ()):
                if acl.speaks_of(host, operation):
                    yield acl


def _pattern(acl: Acl) -> Pattern:
    return acl.resource_type, acl.pattern_type, acl.resource_name


def _discard(principals: dict[str, dict[Acl, None]], acl: Acl) -> None:
    del principals[acl.principal][acl]
    if not principals[acl.principal]:
        del principals[acl.principal]
