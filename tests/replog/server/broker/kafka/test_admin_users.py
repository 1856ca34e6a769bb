"""ACLs and quotas of users as Kafka's clients see and alter them, and what clients may ask at all."""

from collections.abc import AsyncIterator
from functools import partial
from typing import Any

import pytest

from replog.common.acl import CLUSTER_NAME, Acl, AclFilter, Operation, PatternType, Permission, ResourceType
from replog.errors import ErrorCode
from replog.kafka import messages
from replog.metadata.records import acl_filter_to_message, acl_to_binding
from replog.rpc.v1 import controller_pb2
from replog.server.broker.kafka.apis.delete_acls import MAX_WIDE_ACL_FILTERS
from tests.replog.server.broker.conftest import InProcessCluster, eventually
from tests.replog.server.broker.kafka.client import Client, connected

AUTHORIZER = {
    "authorizer_class_name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow_everyone_if_no_acl_found": True,  # brokers and clients are all User:ANONYMOUS here
}
ANY, TOPIC, GROUP, CLUSTER = 1, 2, 3, 4
MATCH, LITERAL, PREFIXED = 2, 3, 4
READ, WRITE, ALTER, DESCRIBE, CLUSTER_ACTION, DESCRIBE_CONFIGS, ALTER_CONFIGS = 3, 4, 7, 8, 9, 10, 11
DENY, ALLOW = 2, 3
INVALID = ErrorCode.INVALID_REQUEST
ME = "User:ANONYMOUS"


@pytest.fixture
async def cluster(cluster: InProcessCluster) -> InProcessCluster:
    """One with an authorizer."""
    await cluster.controller.stop()
    await cluster._server.stop(0)
    await cluster.start_controller(**AUTHORIZER, super_users=ME)  # brokers check what clients may do
    await cluster.start_broker(1, **AUTHORIZER)
    return cluster


@pytest.fixture
async def client(cluster: InProcessCluster) -> AsyncIterator[Client]:
    async with connected(cluster.brokers[1].address) as client:
        yield client


def acl(
    name: str = "t",
    who: str = "User:ann",
    what: int = READ,
    kind: int = TOPIC,
    pattern: int = LITERAL,
    allow: int = ALLOW,
) -> messages.CreateAclsRequestCreation:
    return messages.CreateAclsRequestCreation(kind, name, pattern, who, "*", what, allow)


async def create(client: Client, *acls: messages.CreateAclsRequestCreation, version: int = 3) -> list[int]:
    return [row.error_code for row in (await client.ask(messages.CreateAclsRequest(acls), version)).results]


async def shown(client: Client, *filter_of: Any, version: int = 3) -> list[Any]:
    response = await client.ask(messages.DescribeAclsRequest(*filter_of), version)
    assert response.error_code == 0, response.error_message
    return [(*row[:3], *rule) for row in response.resources for rule in row.acls]


EVERYTHING = (ANY, None, ANY, None, None, ANY, ANY)


async def test_acls_are_made_shown_and_deleted(client: Client) -> None:
    for version in (1, 2, 3):
        made = [acl(), acl("p", pattern=PREFIXED, what=WRITE), acl("kafka-cluster", ME, ALTER, CLUSTER)]
        assert await create(client, *made, made[0], version=version) == [0, 0, 0, 0]
        assert sorted(await shown(client, *EVERYTHING, version=version)) == sorted(map(tuple, made))
        for wanted, fitting in [
            ((TOPIC, "t", LITERAL, None, None, ANY, ANY), [0]),
            ((TOPIC, "px", MATCH, None, None, ANY, ANY), [1]),
            ((TOPIC, "px", LITERAL, None, None, ANY, ANY), []),
            ((ANY, None, ANY, "User:ann", "*", WRITE, ALLOW), [1]),
            ((ANY, None, ANY, "User:bob", None, ANY, ANY), []),
            ((CLUSTER, None, ANY, None, None, ANY, DENY), []),
            ((GROUP, None, ANY, None, None, ANY, ANY), []),
        ]:
            assert await shown(client, *wanted, version=version) == [tuple(made[number]) for number in fitting]
        filters = [
            (TOPIC, "t", LITERAL, "User:ann", "*", READ, ALLOW),
            (TOPIC, None, ANY, None, None, ANY, ANY),
            (GROUP, "g", LITERAL, None, None, ANY, ANY),
            (0, None, ANY, None, None, ANY, ANY),
        ]
        asked = messages.DeleteAclsRequest([messages.DeleteAclsRequestFilter(*each) for each in filters])
        results = (await client.ask(asked, version)).filter_results
        assert [row.error_code for row in results] == [0, 0, 0, INVALID]
        gone = [[tuple(each[2:]) for each in row.matching_acls] for row in results]
        assert [sorted(each) for each in gone] == [[tuple(made[0])], sorted(map(tuple, made[:2])), [], []]
        assert await shown(client, *EVERYTHING) == [tuple(made[2])]


async def test_acls_that_can_never_apply_are_refused_one_by_one(client: Client) -> None:
    wrong = [
        acl("g", kind=GROUP),
        acl("x", kind=5),
        acl("x", kind=9),
        acl("x", kind=ANY),
        acl("other", kind=CLUSTER, what=DESCRIBE),
        acl(""),
        acl(pattern=MATCH),
        acl(what=CLUSTER_ACTION),
        acl(what=0),
        acl(allow=ANY),
        acl(who="ann"),
        acl()._replace(host="a.host"),
    ]
    assert await create(client, *wrong, acl()) == [INVALID] * len(wrong) + [0]
    assert await shown(client, *EVERYTHING) == [tuple(acl())]
    response = await client.ask(messages.CreateAclsRequest(wrong[:1]))
    assert "GROUP" in response.results[0].error_message
    for unknown in [(0, *EVERYTHING[1:]), (*EVERYTHING[:6], 4), (ANY, None, 9, *EVERYTHING[3:])]:
        assert (await client.ask(messages.DescribeAclsRequest(*unknown))).error_code == INVALID


async def test_as_many_acls_as_a_request_may_name(client: Client) -> None:
    many = [acl(f"t{number}") for number in range(1000)]
    assert set(await create(client, *many, acl())) == {INVALID}
    assert set(await create(client, *many)) == {0}
    exact = [messages.DeleteAclsRequestFilter(*each) for each in many]
    wide = messages.DeleteAclsRequestFilter(*EVERYTHING)
    for filters, codes, deleted in [
        ([*exact, wide], [INVALID] * 1001, 0),
        ([wide._replace(resource_name_filter="t7")] * (MAX_WIDE_ACL_FILTERS + 1), [0] * 100 + [INVALID], 1),
        (exact[:500], [0] * 500, 499),
        ([wide], [0], 500),
    ]:
        before = len(await shown(client, *EVERYTHING))
        results = (await client.ask(messages.DeleteAclsRequest(filters))).filter_results
        assert [row.error_code for row in results] == codes
        assert before - len(await shown(client, *EVERYTHING)) == deleted


@pytest.mark.parametrize("version", [1, 3])
async def test_without_an_authorizer_there_are_no_acls(tmp_path: Any, version: int) -> None:
    cluster = InProcessCluster(tmp_path)
    await cluster.start_controller()
    async with connected((await cluster.start_broker(1)).address) as client:
        disabled = ErrorCode.SECURITY_DISABLED
        assert await create(client, acl(), acl("g", kind=GROUP), version=version) == [disabled, disabled]
        response = await client.ask(messages.DescribeAclsRequest(*EVERYTHING), version)
        assert (response.error_code, response.resources) == (disabled, [])
        asked = messages.DeleteAclsRequest([messages.DeleteAclsRequestFilter(*EVERYTHING)])
        assert [row.error_code for row in (await client.ask(asked, version)).filter_results] == [disabled]
    await cluster.stop()


# -- what a client may ask


REQUESTS: list[tuple[int, Any, Any]] = [  # what the cluster's ACLs must allow, the request, its field with rows
    (DESCRIBE_CONFIGS, messages.DescribeConfigsRequest([messages.DescribeConfigsRequestResource(4, "1")]), "results"),
    (
        ALTER_CONFIGS,
        messages.IncrementalAlterConfigsRequest([messages.IncrementalAlterConfigsRequestResource(4, "1")]),
        "responses",
    ),
    (ALTER_CONFIGS, messages.AlterConfigsRequest([messages.AlterConfigsRequestResource(4, "1")]), "responses"),
    (DESCRIBE_CONFIGS, messages.ListConfigResourcesRequest(), None),
    (DESCRIBE, messages.DescribeLogDirsRequest(None), None),
    (ALTER, messages.ElectLeadersRequest(0, None, 30_000), None),
    (ALTER, messages.AlterPartitionReassignmentsRequest(30_000), None),
    (DESCRIBE, messages.ListPartitionReassignmentsRequest(30_000), None),
    (DESCRIBE, messages.DescribeAclsRequest(*EVERYTHING), None),
    (ALTER, messages.CreateAclsRequest([acl("other")]), "results"),
    (
        ALTER,
        messages.DeleteAclsRequest([messages.DeleteAclsRequestFilter(TOPIC, "no", 3, None, None, 1, 1)]),
        "filter_results",
    ),
    (DESCRIBE_CONFIGS, messages.DescribeClientQuotasRequest(), None),
    (
        ALTER_CONFIGS,
        messages.AlterClientQuotasRequest(
            [messages.AlterClientQuotasRequestEntry([messages.AlterClientQuotasRequestEntity("user", "ann")], [])]
        ),
        "entries",
    ),
]


NOWHERE = messages.AlterReplicaLogDirsRequestDir("/no/such", [messages.AlterReplicaLogDirsRequestTopic("t", [0])])
IMPLIED = {ALTER: {DESCRIBE}, ALTER_CONFIGS: {DESCRIBE_CONFIGS}}


async def test_each_request_needs_its_permission(cluster: InProcessCluster, client: Client) -> None:
    """Where only one operation on the cluster is allowed, only what needs that is done."""
    image = cluster.brokers[1].context.image
    for allowed in (DESCRIBE, ALTER, DESCRIBE_CONFIGS, ALTER_CONFIGS):
        whole = ResourceType.CLUSTER, CLUSTER_NAME, PatternType.LITERAL
        only = Acl(*whole, ME, "*", Operation(allowed), Permission.ALLOW)
        await cluster.control("create_acls", controller_pb2.CreateAclsRequest(acls=[acl_to_binding(only)]))
        await eventually(partial(image.acls.ids.__contains__, only))
        for what, request, field in REQUESTS:
            response = await client.ask(request)
            codes = [row.error_code for row in getattr(response, field)] if field else [response.error_code]
            is_allowed = what in {allowed, *IMPLIED.get(allowed, ())}
            assert codes == [0 if is_allowed else ErrorCode.CLUSTER_AUTHORIZATION_FAILED], (allowed, what, request)
        (topic,) = (await client.ask(messages.AlterReplicaLogDirsRequest([NOWHERE]))).results
        expected = ErrorCode.LOG_DIR_NOT_FOUND if allowed == ALTER else ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        assert [row.error_code for row in topic.partitions] == [expected]
        every = acl_filter_to_message(AclFilter())
        await cluster.control("delete_acls", controller_pb2.DeleteAclsRequest(filters=[every]))
        await eventually(lambda: not image.acls.ids)


async def test_each_topic_needs_its_permission(cluster: InProcessCluster, client: Client) -> None:
    await cluster.ask_for_topic("open", 1, 1)
    await cluster.ask_for_topic("secret", 1, 1)
    hidden = [acl("secret", ME, what, allow=DENY) for what in (DESCRIBE_CONFIGS, ALTER_CONFIGS)]
    await create(client, *hidden)
    resources = [messages.DescribeConfigsRequestResource(TOPIC, name) for name in ("secret", "open")]
    denied = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    results = (await client.ask(messages.DescribeConfigsRequest(resources))).results
    assert [(row.error_code, bool(row.configs)) for row in results] == [(denied, False), (0, True)]
    config = messages.IncrementalAlterConfigsRequestConfig("flush.ms", 0, "5")
    altered = [messages.IncrementalAlterConfigsRequestResource(TOPIC, name, [config]) for name in ("secret", "open")]
    responses = (await client.ask(messages.IncrementalAlterConfigsRequest(altered))).responses
    assert [row.error_code for row in responses] == [denied, 0]
    assert "flush.ms" not in cluster.controller.state.image.topics["secret"].configs


# -- quotas


def quota(
    name: str | None, *ops: tuple[str, float, bool], kind: str = "user"
) -> messages.AlterClientQuotasRequestEntry:
    entity = [messages.AlterClientQuotasRequestEntity(kind, name)]
    return messages.AlterClientQuotasRequestEntry(entity, [messages.AlterClientQuotasRequestOp(*op) for op in ops])


async def alter(client: Client, *entries: Any, validate_only: bool = False, version: int = 1) -> list[int]:
    response = await client.ask(messages.AlterClientQuotasRequest(entries, validate_only), version)
    assert [tuple(row.entity[0]) for row in response.entries] == [tuple(entry.entity[0]) for entry in entries]
    return [row.error_code for row in response.entries]


async def quotas(client: Client, *components: Any, strict: bool = False, version: int = 1) -> Any:
    asked = [messages.DescribeClientQuotasRequestComponent(*each) for each in components]
    response = await client.ask(messages.DescribeClientQuotasRequest(asked, strict), version)
    if response.error_code:
        return response.error_code
    return {row.entity[0].entity_name: {each.key: each.value for each in row.values} for row in response.entries}


async def test_quotas_of_users(cluster: InProcessCluster, client: Client) -> None:
    produced, consumed = "producer_byte_rate", "consumer_byte_rate"
    for version in (0, 1):
        ann, everybody = (
            quota("ann", (produced, 1000.0, False), (consumed, 5.0, False)),
            quota(None, (consumed, 7.0, False)),
        )
        assert await alter(client, ann, everybody, validate_only=True, version=version) == [0, 0]
        assert await quotas(client, version=version) == {}
        assert await alter(client, ann, everybody, version=version) == [0, 0]
        of_ann, of_all = {"ann": {produced: 1000.0, consumed: 5.0}}, {None: {consumed: 7.0}}
        for components, strict, expected in [
            ((), False, of_ann | of_all),
            ((), True, {}),
            ((("user", 2, None),), True, of_ann | of_all),
            ((("user", 0, "ann"),), True, of_ann),
            ((("user", 0, "bob"),), False, {}),
            ((("user", 1, None),), False, of_all),
            ((("client-id", 2, None),), False, {}),
            ((("user", 2, None), ("client-id", 2, None)), False, {}),
            ((("ip", 1, None),), False, {}),
            ((("user", 2, None), ("user", 2, None)), False, INVALID),
            ((("user", 2, None), ("ip", 2, None)), False, INVALID),
            ((("user", 3, None),), False, INVALID),
            ((("user", 0, None),), False, INVALID),
            ((("user", 1, "x"),), False, INVALID),
            ((("team", 2, None),), False, ErrorCode.UNSUPPORTED_VERSION),
        ]:
            assert await quotas(client, *components, strict=strict, version=version) == expected, components
        assert set(cluster.controller.state.image.client_quotas) == {"User:ann", "<default>"}
        gone = [quota("ann", (produced, 0, True), (consumed, 0, True)), quota(None, (consumed, 0, True))]
        assert await alter(client, *gone, version=version) == [0, 0]
        assert await quotas(client) == {}


async def test_quotas_that_are_refused(client: Client) -> None:
    key, nan = "producer_byte_rate", float("nan")
    both = quota("ann", (key, 5.0, False))
    both = both._replace(entity=[*both.entity, messages.AlterClientQuotasRequestEntity("client-id", "c")])
    wrong = [
        *(
            quota(f"u{number}", (key, value, False))
            for number, value in enumerate((0.0, -1.0, 1.5, nan, 1e30, 2.0**63))
        ),
        quota("bob", ("request_percentage", 5.0, False)),
        quota("bob2", (key, 5.0, False), (key, 0.0, True)),
        quota("", (key, 5.0, False)),
        quota("a/b", (key, 5.0, False)),
        quota("c", (key, 5.0, False), kind="client-id"),
        quota("twice", (key, 5.0, False)),
        quota("twice", (key, 6.0, False)),
        both,
    ]
    assert await alter(client, *wrong, quota("ann", (key, 5.0, False))) == [INVALID] * len(wrong) + [0]
    assert await quotas(client) == {"ann": {key: 5.0}}
