"""ACLs as values: what may be one, and what fits a filter."""

import pytest

from replog.common.acl import OPERATIONS, Acl, AclFilter, Operation, PatternType, Permission, ResourceType, checked
from replog.errors import ErrorCode, ReplogError

SOUND = Acl(
    ResourceType.TOPIC, "flights", PatternType.LITERAL, "User:ann", "10.0.0.7", Operation.READ, Permission.ALLOW
)


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"resource_name": "*"},
        {"pattern_type": PatternType.PREFIXED, "resource_name": "f."},
        {"principal": "User:*", "host": "*"},
        {"principal": "User:CN=ann, O=x"},
        {"principal": "Broker:1", "host": "10.0.0.0/8"},
        {"principal": "Controller:main", "host": "2001:db8::/32"},
        {
            "resource_type": ResourceType.CLUSTER,
            "resource_name": "kafka-cluster",
            "operation": Operation.CLUSTER_ACTION,
        },
    ],
)
def test_what_may_apply_is_taken_as_it_is(changes):
    acl = SOUND._replace(**changes)
    assert checked(acl) == acl


def test_an_address_is_written_as_connections_have_it():
    assert checked(SOUND._replace(host="2001:DB8:0::1")).host == "2001:db8::1"
    assert checked(SOUND._replace(host="::ffff:10.0.0.7")).host == "10.0.0.7"
    assert checked(SOUND._replace(host="fe80::1%eth0")).host == "fe80::1"
    assert checked(SOUND._replace(host="10.1.2.3/8")).host == "10.0.0.0/8"


@pytest.mark.parametrize(
    ("host", "asks", "applies"),
    [
        ("10.0.0.0/8", "10.255.0.1", True),
        ("10.0.0.0/8", "11.0.0.1", False),
        ("0.0.0.0/0", "2001:db8::1", False),
        ("2001:db8::/32", "2001:db8:7::1", True),
        ("2001:db8::/32", "2001:db9::1", False),
        ("10.0.0.7", "10.0.0.7", True),
        ("10.0.0.0/8", "somewhere", False),
    ],
)
@pytest.mark.parametrize("permission", [Permission.ALLOW, Permission.DENY])
def test_a_range_of_addresses_applies_to_those_in_it(host, asks, applies, permission):
    """KIP-1276."""
    assert SOUND._replace(host=host, permission=permission).speaks_of(asks, Operation.READ) is applies


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"resource_type": ResourceType.ANY}, "ANY resource"),
        ({"pattern_type": PatternType.MATCH}, "LITERAL or PREFIXED"),
        ({"operation": Operation.CLUSTER_ACTION}, "to a TOPIC one can do ALL, ALTER"),
        ({"operation": Operation.ANY}, "is for ANY"),
        ({"permission": Permission.ANY}, "say ALLOW or DENY"),
        ({"resource_name": ""}, "names no topic"),
        ({"resource_name": "../x"}, "names no topic"),
        ({"resource_name": "f" * 250}, "249 at most"),
        ({"resource_name": "*", "pattern_type": PatternType.PREFIXED}, "names no topic"),
        ({"resource_type": ResourceType.CLUSTER, "operation": Operation.ALTER}, "LITERAL kafka-cluster"),
        ({"principal": "ann"}, "write User:NAME"),
        ({"principal": "User:"}, "write User:NAME"),
        ({"principal": "User:a\nb"}, "write User:NAME"),
        ({"principal": "User:" + "a" * 300}, "at most 256"),
        ({"host": "example.org"}, "names are not looked up"),
        ({"host": "10.0.0.0/33"}, "names no host"),
        ({"host": "::ffff:10.0.0.0/104"}, "stands for one of IPv4"),
        ({"principal": "user:bob", "permission": Permission.DENY}, "write User:NAME"),
        ({"principal": "Group:x"}, "write User:NAME"),
        ({"principal": "User:bob "}, "without spaces around it"),
        ({"operation": Operation(99)}, "is for UNKNOWN_99"),
        ({"permission": Permission(99)}, "say ALLOW or DENY"),
        ({"host": ""}, "names no host"),
    ],
)
def test_what_could_never_apply_is_refused_with_a_remedy(changes, words):
    with pytest.raises(ReplogError, match="an ACL of") as caught:
        checked(SOUND._replace(**changes))
    assert caught.value.code is ErrorCode.INVALID_REQUEST
    assert words in caught.value.message


def test_numbers_are_kafkas():
    assert (ResourceType.CLUSTER, PatternType.PREFIXED, Operation.IDEMPOTENT_WRITE, Permission.ALLOW) == (4, 4, 12, 3)
    assert all(Operation.ALL in operations for operations in OPERATIONS.values())


@pytest.mark.parametrize(
    ("wanted", "fits"),
    [
        (AclFilter(), True),
        (AclFilter(*SOUND), True),
        (AclFilter(resource_type=ResourceType.CLUSTER), False),
        (AclFilter(resource_name="flights"), True),
        (AclFilter(resource_name="flight"), False),
        (AclFilter(principal="User:bob"), False),
        (AclFilter(host="*"), False),
        (AclFilter(operation=Operation.ALL), False),
        (AclFilter(permission=Permission.DENY), False),
        (AclFilter(pattern_type=PatternType.PREFIXED, resource_name="flights"), False),
        (AclFilter(pattern_type=PatternType.MATCH, resource_name="flights"), True),
        (AclFilter(pattern_type=PatternType.MATCH, resource_name="flights.eu"), False),
    ],
)
def test_a_filter_fits_by_what_it_names(wanted, fits):
    assert wanted.fits(SOUND) is fits


@pytest.mark.parametrize(
    ("pattern_type", "name", "fits"),
    [
        (PatternType.LITERAL, "*", True),
        (PatternType.PREFIXED, "fl", True),
        (PatternType.PREFIXED, "flights", True),
        (PatternType.PREFIXED, "flights.eu", False),
        (PatternType.LITERAL, "fl", False),
    ],
)
def test_match_finds_all_that_applies_to_a_resource(pattern_type, name, fits):
    acl = SOUND._replace(pattern_type=pattern_type, resource_name=name)
    assert AclFilter(ResourceType.TOPIC, "flights", PatternType.MATCH).fits(acl) is fits


def test_only_a_filter_that_leaves_nothing_open_means_exactly_one():
    assert AclFilter(*SOUND).exactly == SOUND
    assert all(AclFilter(*SOUND)._replace(**{name: None}).exactly is None for name in ("principal", "host"))
    assert AclFilter(*SOUND)._replace(operation=Operation.ANY).exactly is None
    assert AclFilter(*SOUND)._replace(pattern_type=PatternType.MATCH).exactly is None
