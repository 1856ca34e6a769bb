"""Which role each method asks for, and that a broker speaks for itself alone."""

import pytest

from replog.common.acl import Operation
from replog.errors import ErrorCode, ReplogError
from replog.rpc import methods
from replog.rpc.codec import carries_records
from replog.rpc.limits import ACCESS
from replog.rpc.methods import Method
from replog.rpc.peer import Peer, Role
from replog.rpc.v1 import controller_pb2, replica_pb2

SERVED = (methods.LOG, methods.REPLICA, methods.INSPECTION, methods.LOG_DIRS, methods.PRESENCE, methods.CONTROLLER)
ONE = Peer("Broker:1", Role.BROKER, "10.0.0.1")
CLIENT = Peer("User:ann", Role.CLIENT, "10.0.0.2")
CONTROLLER = Peer("Controller:c", Role.CONTROLLER, "10.0.0.3")
ANYBODY = Peer("User:ANONYMOUS", Role.ANY, "10.0.0.4")


def test_the_table_names_every_method_that_is_served_and_no_other():
    served = {f"{service.name}/{method.name}" for service in SERVED for method in service.methods}
    assert set(ACCESS) == served | {"Health/Check"}


def test_what_replicas_and_brokers_say_asks_for_a_brokers_certificate_and_names_the_broker():
    """A field that says who asks is looked at: a new method cannot leave it out."""
    for service in SERVED:
        for method in service.methods:
            access = ACCESS[f"{service.name}/{method.name}"]
            if service is methods.REPLICA:
                assert access.role is Role.BROKER, method.full_name
            if access.role is Role.BROKER:
                assert access.claim in method.input_type.fields_by_name, method.full_name
            else:
                assert not access.claim, method.full_name
    assert {row for row, access in ACCESS.items() if access.role is Role.BROKER and row.startswith("Controller/")} == {
        f"Controller/{name}"
        for name in ("RegisterBroker", "Heartbeat", "AlterPartition", "AllocateProducerIds", "WatchMetadata")
    }
    assert not carries_records(replica_pb2.ReplicaFetchRequest), "the claim would be a field of its head"


def test_whoever_sends_records_may_write_and_whoever_gets_bytes_of_logs_may_read_or_is_a_broker():
    """Other tests take each operation from the table: they would not notice one that is too weak."""
    asked = {
        (method.name, access.operation)
        for service in SERVED
        for method in service.methods
        if (access := ACCESS[f"{service.name}/{method.name}"]).role is not Role.BROKER
        and "records" in {*method.input_type.fields_by_name, *method.output_type.fields_by_name}
    }
    writing, reading = ("Produce", "ProduceOnce"), ("Fetch", "FetchOnce", "ReadFile", "ReadBatchHeaders")
    assert asked == {(name, Operation.WRITE) for name in writing} | {(name, Operation.READ) for name in reading}


@pytest.mark.parametrize(
    ("method", "others"),
    [
        (methods.Replica["fetch"], (CLIENT, CONTROLLER)),
        (methods.Controller["register_broker"], (CLIENT, CONTROLLER)),
        (methods.Presence["are_you"], (CLIENT, ONE)),
        (methods.Log["fetch"], ()),
    ],
    ids=lambda value: value.path if isinstance(value, Method) else "",
)
def test_another_role_is_refused_by_name_and_who_proved_nothing_where_nothing_is_asked_is_not(method, others):
    for asks in (ONE, CLIENT, CONTROLLER, ANYBODY):
        if asks not in others:
            method.access.check_role(method.path, asks)
            continue
        with pytest.raises(ReplogError) as refused:
            method.access.check_role(method.path, asks)
        assert refused.value.code is ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        for word in (method.path, asks.principal, asks.host, asks.role):
            assert word in refused.value.message


def test_a_broker_that_names_another_one_is_refused():
    method = methods.Controller["heartbeat"]
    method.access.check_claim(method.path, ONE, controller_pb2.HeartbeatRequest(broker_id=1))
    method.access.check_claim(method.path, ANYBODY, controller_pb2.HeartbeatRequest(broker_id=2))
    with pytest.raises(ReplogError, match="broker_id=2 is not the broker of the certificate, Broker:1"):
        method.access.check_claim(method.path, ONE, controller_pb2.HeartbeatRequest(broker_id=2))
