"""What the ACLs of a cluster say, against a model that walks through all of them."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from replog.common.acl import ANYBODY, OPERATIONS, Acl, Operation, PatternType, Permission, ResourceType, applies
from replog.metadata.acl_table import AclTable

NAMES = ["a", "ab", "abc", "b", "abd", "*"]
PRINCIPALS = ["User:ann", "User:bob", ANYBODY]
HOSTS = ["*", "10.0.0.1", "10.0.0.2"]
TOPIC_OPERATIONS = sorted(OPERATIONS[ResourceType.TOPIC])

acls = st.builds(
    Acl,
    st.just(ResourceType.TOPIC),
    st.sampled_from(NAMES),
    st.sampled_from([PatternType.LITERAL, PatternType.PREFIXED]),
    st.sampled_from(PRINCIPALS),
    st.sampled_from(HOSTS),
    st.sampled_from(TOPIC_OPERATIONS),
    st.sampled_from([Permission.ALLOW, Permission.ALLOW, Permission.DENY]),
).filter(lambda acl: acl.pattern_type is PatternType.LITERAL or acl.resource_name != "*")


def allows(acl: Acl, operation: Operation) -> bool:
    if acl.operation in (Operation.ALL, operation):
        return True
    if operation is Operation.DESCRIBE:
        return acl.operation in (Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER)
    return operation is Operation.DESCRIBE_CONFIGS and acl.operation is Operation.ALTER_CONFIGS


def model(known, principal, host, operation, name):
    """(allowed, some ACL names the resource)."""
    on_resource = [acl for acl in known if applies(acl.pattern_type, acl.resource_name, name)]
    mine = [acl for acl in on_resource if acl.principal in (principal, ANYBODY) and acl.host in ("*", host)]
    denied = any(a.permission is Permission.DENY and a.operation in (Operation.ALL, operation) for a in mine)
    allowed = any(a.permission is Permission.ALLOW and allows(a, operation) for a in mine)
    return allowed and not denied, bool(on_resource)


@settings(max_examples=400)
@given(
    st.lists(acls, max_size=12),
    st.lists(st.integers(0, 11), max_size=6),
    st.sampled_from(["User:ann", "User:bob", "User:eve"]),
    st.sampled_from(HOSTS[1:]),
    st.sampled_from(TOPIC_OPERATIONS[1:]),
    st.sampled_from(["a", "ab", "abc", "abcd", "b", "c"]),
)
def test_a_verdict_is_what_all_acls_together_say(made, deleted, principal, host, operation, name):
    table, known = AclTable(), {}
    for number, acl in enumerate(made):
        if acl not in known.values():
            known[number] = acl
            table.put(str(number), acl)
    for number in deleted:
        if known.pop(number, None) is not None:
            table.put(str(number), None)
    verdict = table.verdict(principal, host, operation, ResourceType.TOPIC, name)
    assert (verdict.allowed, verdict.known) == model(known.values(), principal, host, operation, name), known
    assert verdict.acl is None or verdict.acl in known.values()
    assert not table.verdict(principal, host, operation, ResourceType.CLUSTER, name).known
    assert set(table.ids) == set(known.values())


@settings(max_examples=400)
@given(st.lists(acls, max_size=12, unique=True), st.sampled_from(["User:ann", "User:eve"]), st.sampled_from(HOSTS[1:]))
def test_some_resource_is_allowed_where_an_acl_allows_more_than_others_deny(made, principal, host):
    """KIP-679, for WRITE: any name at all may be a resource, so the model tries all that these patterns tell apart."""
    table = AclTable()
    for number, acl in enumerate(made):
        table.put(str(number), acl)
    names = [n for name in NAMES[:-1] for n in (name, name + "z")] + ["zz"]
    some = any(model(made, principal, host, Operation.WRITE, name)[0] for name in names)
    assert table.allows_any(principal, host, Operation.WRITE, ResourceType.TOPIC) is some, made


def test_nothing_is_left_of_what_was_deleted():
    table = AclTable()
    acl = Acl(ResourceType.TOPIC, "ab", PatternType.PREFIXED, "User:a", "*", Operation.READ, Permission.ALLOW)
    for _ in range(3):
        table.put("1", acl)
        table.put("1", None)
        table.put("1", None)
    assert not any([table.by_id, table.ids, table._patterns, table._of_principal, *table._lengths.values()])
    assert table.generation == 9


class Counted(dict):
    looked = 0

    def __contains__(self, key):
        type(self).looked += 1
        return super().__contains__(key)


@pytest.mark.parametrize("others", [0, 5000])
def test_a_look_up_costs_what_applies_and_not_what_there_is(others):
    table = AclTable()
    for number in range(others):
        name = f"t{number}"
        table.put(
            name,
            Acl(
                ResourceType.TOPIC, name, PatternType.PREFIXED, f"User:{number}", "*", Operation.READ, Permission.ALLOW
            ),
        )
    table.put("x", Acl(ResourceType.TOPIC, "ab", PatternType.PREFIXED, "User:a", "*", Operation.READ, Permission.ALLOW))
    table._patterns = Counted(table._patterns)
    Counted.looked = 0
    assert table.verdict("User:a", "h", Operation.READ, ResourceType.TOPIC, "abc").allowed
    assert Counted.looked <= 2 + 5, "two literal names, and one prefix of each length that there is"
