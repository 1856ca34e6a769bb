"""What each method asks of ACLs, over the whole table; and who needs none."""

import asyncio
import inspect
from contextvars import copy_context

import pytest
from google.protobuf.message_factory import GetMessageClass
from structlog.testing import capture_logs

from replog.common.acl import CLUSTER_NAME, OPERATIONS, Acl, Operation, PatternType, Permission, ResourceType, checked
from replog.config.processes import ServerConfig
from replog.errors import ErrorCode, ReplogError
from replog.metadata.acl_table import AclTable
from replog.rpc import methods
from replog.rpc.limits import ACCESS
from replog.rpc.methods import methods_of
from replog.rpc.peer import On, Peer, Role, handling
from replog.server import authorizer as module
from replog.server.authorizer import BURST, LINE_MS, MAX_SHOWN, AuditLog, Authorizer, guarded
from replog.server.clock import SystemClock
from tests.scenarios.broker import ScenarioClock

STANDARD = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
SERVICES = (methods.LOG, methods.REPLICA, methods.INSPECTION, methods.LOG_DIRS, methods.PRESENCE, methods.CONTROLLER)
ANN = Peer("User:ann", Role.CLIENT, "10.0.0.1")
CALLS = [(service, method) for service in SERVICES for method in service.methods]
WHOLE = [call for call in CALLS if (a := ACCESS[f"{call[0].name}/{call[1].name}"]).operation and a.on is not On.ROWS]


def acl(kind, operation, name=None, principal="User:ann", **changes):
    pattern = name or (CLUSTER_NAME if kind is ResourceType.CLUSTER else "t")
    made = Acl(kind, pattern, PatternType.LITERAL, principal, "*", operation, Permission.ALLOW)
    return checked(made._replace(**changes))


def authorizer(*acls, **settings):
    table = AclTable()
    for number, each in enumerate(acls):
        table.put(str(number), each)
    config = ServerConfig.parse({"authorizer.class.name": STANDARD} | settings, "test")
    return Authorizer(config, table, AuditLog(SystemClock()))


class Handlers:
    """Answer what was asked."""

    def __getattr__(self, name):
        async def answer(request):
            return request

        return answer


def call(service, method, asks, judge):
    """The request comes back, or an error is raised."""
    request = GetMessageClass(method.input_type)()
    if "topic" in method.input_type.fields_by_name:
        request.topic = "t"
    (handler,) = (
        getattr(guarded(service, Handlers(), judge), name)
        for name, known in methods_of(service).items()
        if known.path.endswith(f"/{method.name}")
    )

    def run():
        handling(asks)
        return asyncio.run(handler(request))

    return copy_context().run(run)


def ids(value):
    return getattr(value, "full_name", "")


def test_only_health_tells_everybody():
    open_to_all = {row for row, access in ACCESS.items() if access.operation is None}
    assert {row.split("/")[0] for row in open_to_all} == {"Health"}


def test_what_is_asked_can_be_allowed():
    for row, access in ACCESS.items():
        if access.operation is not None:
            kinds = [ResourceType.CLUSTER] if access.on in (On.CLUSTER, On.SOME_TOPIC) else [ResourceType.TOPIC]
            kinds += [ResourceType.CLUSTER] if access.on is On.TOPIC_OR_CLUSTER else []
            for kind in kinds:
                assert access.operation in OPERATIONS[kind], row


@pytest.mark.parametrize(("service", "method"), WHOLE, ids=ids)
def test_a_method_is_refused_without_an_acl_and_served_with_the_one_of_the_table(service, method):
    access = ACCESS[f"{service.name}/{method.name}"]
    asks = Peer("User:ann", Role.ANY, "10.0.0.1")
    kind = ResourceType.TOPIC if access.on in (On.TOPIC, On.TOPIC_OR_CLUSTER) else ResourceType.CLUSTER
    right = acl(kind, access.operation)
    implying = {Operation.DESCRIBE: Operation.ALTER, Operation.DESCRIBE_CONFIGS: Operation.ALTER_CONFIGS}
    enough = {access.operation, Operation.ALL, implying.get(access.operation)}
    wrong = [acl(kind, each) for each in OPERATIONS[kind] - enough if each]
    code = ErrorCode[f"{kind.name}_AUTHORIZATION_FAILED"]
    for judge in (
        authorizer(),
        authorizer(*wrong),
        authorizer(right._replace(principal="User:bob")),
        authorizer(right._replace(host="10.0.0.9")),
        authorizer(right, right._replace(permission=Permission.DENY, principal="User:*")),
    ):
        with pytest.raises(ReplogError) as refused:
            call(service, method, asks, judge)
        assert refused.value.code is code
        assert "User:ann from 10.0.0.1 may not" in refused.value.message
    call(service, method, asks, authorizer(right))
    call(service, method, asks, authorizer(**{"super.users": "User:bob;User:ann"}))
    call(service, method, asks, authorizer(**{"allow.everyone.if.no.acl.found": "true"}))


@pytest.mark.parametrize(("service", "method"), WHOLE, ids=ids)
def test_a_certificate_is_enough_for_its_role_and_for_nothing_else(service, method):
    access = ACCESS[f"{service.name}/{method.name}"]
    for asks in (Peer("Broker:1", Role.BROKER, "h"), Peer("Controller:c", Role.CONTROLLER, "h")):
        passes_on = access.forwarded and asks.role is Role.BROKER
        if asks.role is access.role or passes_on:
            call(service, method, asks, authorizer())
        else:
            with pytest.raises(ReplogError):
                call(service, method, asks, authorizer())


def test_a_broker_passes_on_only_what_clients_of_kafkas_protocol_ask_of_a_controller():
    forwarded = {row for row, access in ACCESS.items() if access.forwarded}
    assert len(forwarded) == 12
    assert all(row.startswith("Controller/") and ACCESS[row].role is Role.ANY for row in forwarded)
    assert not forwarded & {
        f"Controller/{name}" for name in ("UnregisterBroker", "ReportAudit", "DescribeLogEnds", "DescribeClientQuotas")
    }


def test_a_topic_is_created_by_who_may_create_it_or_any():
    create = next(c for c in CALLS if c[1].name == "CreateTopic")
    call(*create, ANN, authorizer(acl(ResourceType.CLUSTER, Operation.CREATE)))
    call(*create, ANN, authorizer(acl(ResourceType.TOPIC, Operation.CREATE, "t", pattern_type=PatternType.PREFIXED)))
    with pytest.raises(ReplogError):
        call(*create, ANN, authorizer(acl(ResourceType.TOPIC, Operation.CREATE, "u")))


def test_a_producer_id_is_given_to_who_may_write_to_any_topic():
    init = next(c for c in CALLS if c[1].name == "InitProducerId")
    write = acl(ResourceType.TOPIC, Operation.WRITE, "some")
    call(*init, ANN, authorizer(write))
    call(*init, ANN, authorizer(**{"super.users": "User:ann"}))
    for judge in (
        authorizer(write._replace(operation=Operation.READ)),
        authorizer(write, write._replace(permission=Permission.DENY)),
    ):
        with pytest.raises(ReplogError, match="CLUSTER_AUTHORIZATION_FAILED: "):
            call(*init, ANN, judge)


def permits_of(judge):
    def run():
        handling(ANN)
        return judge.permits(methods.Log["fetch"])

    return copy_context().run(run)


def test_what_was_allowed_is_remembered_until_an_acl_changes():
    table = AclTable()
    table.put("1", acl(ResourceType.TOPIC, Operation.READ))
    config = ServerConfig.parse({"authorizer.class.name": STANDARD}, "test")
    judge = Authorizer(config, table, AuditLog(SystemClock()))
    asked = []
    verdict = table.verdict
    table.verdict = lambda *question: asked.append(question) or verdict(*question)
    permits = permits_of(judge)
    assert [permits("t") for _ in range(100)] == [True] * 100
    assert len(asked) == 1
    assert not permits("u")
    table.put("2", acl(ResourceType.TOPIC, Operation.READ, permission=Permission.DENY))
    assert not permits("t")
    table.put("2", None)
    assert permits("t")
    table.put("1", None)
    assert not permits("t")


def test_what_is_remembered_has_a_bound(monkeypatch):
    monkeypatch.setattr(module, "MAX_REMEMBERED", 3)
    judge = authorizer(acl(ResourceType.TOPIC, Operation.READ, "*"))
    permits = permits_of(judge)
    assert all(permits(str(number)) for number in range(100))
    assert len(inspect.getclosurevars(permits).nonlocals["allowed"]) <= 4


def test_without_an_authorizer_nobody_asks_who_asks():
    judge = Authorizer(ServerConfig(), AclTable(), AuditLog(SystemClock()))
    handlers = Handlers()
    assert guarded(methods.LOG, handlers, judge) is handlers
    assert judge.permits(methods.Log["fetch"])("t")


def test_what_guards_a_call_keeps_its_shape():
    """Of what answers once the transport knows that nothing comes after it."""

    class Watched(Handlers):
        def watch_metadata(self, request):
            return iter(())

    judged = guarded(methods.CONTROLLER, Watched(), authorizer())
    assert inspect.iscoroutinefunction(judged.create_topic)
    assert not inspect.iscoroutinefunction(judged.watch_metadata)


BOB = Peer("User:bob", Role.CLIENT, "10.0.0.2")


def deny(audit, *peers):
    with capture_logs() as lines:
        for asks in peers:
            audit.denied(asks, "READ", "TOPIC:t", "/replog.v1.Log/Fetch", "no ACL allows it")
    return lines


def test_a_line_says_who_from_where_what_and_why():
    (line,) = deny(AuditLog(ScenarioClock()), ANN)
    assert line == {
        "event": "denied",
        "log_level": "info",
        "logger": "replog.authorizer",
        "principal": "User:ann",
        "host": "10.0.0.1",
        "operation": "READ",
        "resource": "TOPIC:t",
        "request": "/replog.v1.Log/Fetch",
        "rule": "no ACL allows it",
        "left_out": 0,
    }


def test_one_principal_has_a_burst_and_then_a_line_a_second_that_says_how_many_were_left_out():
    clock = ScenarioClock()
    audit = AuditLog(clock)
    assert len(deny(audit, *[ANN] * 1000)) == BURST
    assert len(deny(audit, BOB)) == 1, "another one has lines of its own"
    for _ in range(3):
        clock.now_ms += LINE_MS
        (line,) = deny(audit, *[ANN] * 500)
        assert line["left_out"] in (990, 499)
    clock.now_ms += 3600 * LINE_MS
    assert len(deny(audit, *[ANN] * 1000)) == BURST, "silence saves up no more than a burst"


def test_a_line_has_a_bound_whatever_a_request_names():
    with capture_logs() as lines:
        AuditLog(ScenarioClock()).denied(
            ANN, "READ", "TOPIC:" + "t" * 4_000_000, "/replog.v1.Log/Fetch", "no ACL allows it"
        )
    assert len(lines[0]["resource"]) == MAX_SHOWN


def test_principals_beyond_those_that_are_remembered_share_their_lines(monkeypatch):
    monkeypatch.setattr(module, "MAX_PRINCIPALS", 2)
    audit = AuditLog(ScenarioClock())
    strangers = [Peer(f"User:{number}", Role.CLIENT, "h") for number in range(100)]
    assert len(deny(audit, *strangers)) == 2 + BURST
    assert len(audit._lines) == 3


def test_time_that_does_not_pass_gives_nothing():
    clock = ScenarioClock()
    clock.now_ms = 10_000
    audit = AuditLog(clock)
    deny(audit, *[ANN] * BURST)
    assert deny(audit, ANN) == []
