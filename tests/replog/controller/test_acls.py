"""ACLs are made and deleted whole, and twice is as once."""

import pytest

from replog.common.acl import Acl, AclFilter, Operation, PatternType, Permission, ResourceType
from replog.controller import acls
from replog.controller.acls import MAX_ACLS, MAX_WIDE_FILTERS
from replog.errors import ErrorCode
from replog.rpc.v1 import controller_pb2 as pb
from replog.rpc.v1 import metadata_pb2

STANDARD = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
READ = Acl(ResourceType.TOPIC, "t", PatternType.LITERAL, "User:ann", "*", Operation.READ, Permission.ALLOW)


@pytest.fixture
def guarded(make_cluster):
    return make_cluster(authorizer_class_name=STANDARD)


def create(cluster, *wanted):
    return cluster.do(cluster.state.create_acls(wanted))


def delete(cluster, *filters):
    return cluster.do(cluster.state.delete_acls(filters))


def test_what_is_there_is_not_made_again(guarded):
    other = READ._replace(operation=Operation.WRITE)
    assert create(guarded, READ, READ) == (1, guarded.image.version)
    assert create(guarded, READ, other) == (1, guarded.image.version)
    assert guarded.state.describe_acls(AclFilter()) == [READ, other]
    assert len({change.name for change in guarded.history if change.kind == "acl"}) == 2


def test_one_that_is_wrong_and_none_is_made(guarded, refused):
    version = guarded.image.version
    with refused(ErrorCode.INVALID_REQUEST, "names no host"):
        create(guarded, READ, READ._replace(host="there"))
    assert guarded.image.version == version
    assert not guarded.image.acls.by_id


def test_filters_delete_what_they_fit_and_nothing_more(guarded):
    bob = READ._replace(principal="User:bob")
    prefixed = READ._replace(pattern_type=PatternType.PREFIXED)
    create(guarded, READ, bob, prefixed)
    assert delete(guarded, AclFilter(principal="User:carl")).altered == 0
    assert delete(guarded, AclFilter(*bob), AclFilter(principal="User:bob")) == (1, guarded.image.version)
    assert guarded.state.describe_acls(AclFilter(resource_name="t")) == [READ, prefixed]
    assert delete(guarded, AclFilter()).altered == 2
    assert not guarded.image.acls.ids


def test_an_acl_is_deleted_in_the_words_that_made_it(guarded):
    there = READ._replace(host="2001:DB8:0::1")
    create(guarded, there)
    assert guarded.state.describe_acls(AclFilter(host=there.host)) == [READ._replace(host="2001:db8::1")]
    assert delete(guarded, AclFilter(*there)).altered == 1
    assert delete(guarded, AclFilter(*there._replace(host="nowhere"))).altered == 0


def test_requests_and_their_number_are_bounded(guarded, refused, monkeypatch):
    many = [READ._replace(principal=f"User:{number}") for number in range(1000)]
    monkeypatch.setattr(acls, "MAX_ACLS", 3)
    create(guarded, *many[:2])
    with refused(ErrorCode.INVALID_REQUEST, "at most 3", "PREFIXED"):
        create(guarded, *many[:4])
    assert create(guarded, *many[:3]).altered == 1
    with refused(ErrorCode.INVALID_REQUEST, f"at most {MAX_WIDE_FILTERS}"):
        delete(guarded, *[AclFilter(resource_name=str(number)) for number in range(MAX_WIDE_FILTERS + 1)])
    assert delete(guarded, *map(AclFilter._make, many)).altered == 3
    assert MAX_ACLS == 10_000


def test_without_an_authorizer_they_are_refused(cluster, refused):
    for ask in (
        lambda: cluster.state.create_acls([READ]),
        lambda: cluster.state.delete_acls([AclFilter()]),
        lambda: cluster.state.describe_acls(AclFilter()),
    ):
        with refused(ErrorCode.SECURITY_DISABLED, "authorizer.class.name"):
            ask()


async def test_over_the_wire_and_after_a_restart(running):
    settings = {"authorizer_class_name": STANDARD}
    binding = metadata_pb2.AclBinding(
        resource_type="RESOURCE_TYPE_TOPIC",
        resource_name="t",
        pattern_type="PATTERN_TYPE_LITERAL",
        principal="User:ann",
        host="*",
        operation="ACL_OPERATION_READ",
        permission_type="ACL_PERMISSION_TYPE_ALLOW",
    )
    every = pb.AclBindingFilter(
        resource_type="RESOURCE_TYPE_ANY",
        pattern_type="PATTERN_TYPE_ANY",
        operation="ACL_OPERATION_ANY",
        permission_type="ACL_PERMISSION_TYPE_ANY",
    )
    async with running(**settings) as r:
        created = await r.service.create_acls(pb.CreateAclsRequest(acls=[binding]))
        assert (created.created, created.metadata_version) == (1, r.image.version)
    async with running(**settings) as r:
        assert list(r.image.acls.ids) == [READ]
        described = await r.service.describe_acls(pb.DescribeAclsRequest(filter=every))
        assert list(described.acls) == [binding]
        assert (await r.service.delete_acls(pb.DeleteAclsRequest(filters=[every]))).deleted == 1
        assert not r.image.acls.ids


@pytest.mark.parametrize("field", ["resource_type", "pattern_type", "operation", "permission_type"])
async def test_a_filter_that_leaves_a_word_out_is_refused(running, refused, field):
    """It might be meant to delete less than everything."""
    wanted = {"resource_type": 1, "pattern_type": 1, "operation": 1, "permission_type": 1} | {field: 0}
    async with running(authorizer_class_name=STANDARD) as r:
        with refused(ErrorCode.INVALID_REQUEST, "not understood"):
            await r.service.delete_acls(pb.DeleteAclsRequest(filters=[pb.AclBindingFilter(**wanted)]))
