"""ACLs by command: which are meant by which words."""

import asyncio
from unittest.mock import AsyncMock

import pytest

from replog.cli import acl as command
from replog.common.acl import Acl, AclFilter, Operation, PatternType, Permission, ResourceType
from replog.errors import ErrorCode, ReplogError

TOPIC = ResourceType.TOPIC, "t", PatternType.LITERAL


@pytest.fixture
def asked(monkeypatch):
    """What the cluster is asked for."""
    asked = AsyncMock(acls=[], filters=[])
    asked.create_acls.side_effect = lambda acls: asked.acls.extend(acls) or len(acls)
    asked.delete_acls.side_effect = lambda filters: asked.filters.extend(filters) or 0
    asked.describe_acls.side_effect = lambda wanted: asked.filters.append(wanted) or []
    monkeypatch.setattr(command, "ask", lambda _, question: asyncio.run(question(asked)))
    return asked


def test_principals_hosts_and_operations_are_combined(asked):
    command.add(
        topic=["t"],
        allow_principal=["User:a", "User:b"],
        allow_host=["10.0.0.1"],
        deny_principal=["User:c"],
        operation=["read", "AlterConfigs"],
    )
    one = Acl(*TOPIC, "User:a", "10.0.0.1", Operation.READ, Permission.ALLOW)
    assert len(asked.acls) == 6
    assert one in asked.acls
    assert one._replace(principal="User:c", host="*", permission=Permission.DENY) in asked.acls
    assert {acl.operation for acl in asked.acls} == {Operation.READ, Operation.ALTER_CONFIGS}


def test_a_producer_and_a_consumer_get_what_they_need(asked):
    command.add(topic=["t."], pattern="prefixed", allow_principal=["User:a"], producer=True)
    assert [acl.operation.name for acl in asked.acls] == ["WRITE", "DESCRIBE", "CREATE"]
    assert {acl.pattern_type for acl in asked.acls} == {PatternType.PREFIXED}
    asked.acls.clear()
    command.add(topic=["t"], allow_principal=["User:a"], consumer=True)
    assert [acl.operation.name for acl in asked.acls] == ["READ", "DESCRIBE"]


def test_all_operations_are_meant_if_none_is_named(asked):
    command.add(cluster=True, allow_principal=["User:a"])
    cluster = ResourceType.CLUSTER, "kafka-cluster", PatternType.LITERAL
    assert asked.acls == [Acl(*cluster, "User:a", "*", Operation.ALL, Permission.ALLOW)]


def test_what_was_added_is_removed_by_the_same_words_and_all_of_a_resource_only_by_force(asked):
    words = {"topic": ["t"], "allow_principal": ["User:a"], "operation": ["Read"]}
    command.add(**words)
    command.remove(**words)
    assert [each.exactly for each in asked.filters] == asked.acls
    asked.filters.clear()
    with pytest.raises(ReplogError, match="--force"):
        command.remove(topic=["t"])
    command.remove(topic=["t"], force=True)
    assert asked.filters == [AclFilter(*TOPIC)]


def test_what_applies_to_a_topic_is_listed_and_of_some_only(asked):
    command.list_(topic=["t"], pattern="match", principal=["User:a"])
    command.list_()
    assert asked.filters == [AclFilter(*TOPIC[:2], PatternType.MATCH, principal="User:a"), AclFilter()]


@pytest.mark.parametrize(
    ("words", "remedy"),
    [
        ({"allow_principal": ["User:a"]}, "--topic or --cluster"),
        ({"topic": ["t"]}, "--allow-principal or --deny-principal"),
        ({"topic": ["t"], "allow_principal": ["User:a"], "operation": ["Reed"]}, "'Reed' is none of ALL, READ"),
    ],
)
def test_words_that_are_missing_or_wrong_are_named(asked, words, remedy):
    with pytest.raises(ReplogError, match=remedy) as caught:
        command.add(**words)
    assert caught.value.code is ErrorCode.INVALID_REQUEST
    assert not asked.acls
