"""Which role each method asks for; `test_tls` shows that others are refused."""

from replog.common.acl import Operation
from replog.rpc import methods
from replog.rpc.codec import carries_records
from replog.rpc.limits import ACCESS
from replog.rpc.peer import Role
from replog.rpc.v1 import replica_pb2

SERVED = (methods.LOG, methods.REPLICA, methods.INSPECTION, methods.LOG_DIRS, methods.PRESENCE, methods.CONTROLLER)


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
