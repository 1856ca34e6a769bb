"""A client in Go, with its own gRPC library, against a broker's process.

It is one program that tries everything in turn (`clients/go`), and prints what came of it."""

import json
import subprocess
from typing import Any

import grpc
import pytest

from replog.client.sync import SyncAdmin
from replog.local_cluster.local_cluster import LocalCluster
from replog.rpc.limits import DEFAULT_ANSWER_BYTES, MAX_REQUEST_BYTES, MIB
from tests.interop.foreign import NoToolchain, go_client

pytestmark = pytest.mark.processes

VALUES = 12  # that it writes, of 1 byte to 14 MiB
OK = grpc.StatusCode.OK
Said = dict[str, Any]


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> Said:
    """What became of each check. The broker's answers may be as large as a batch."""
    try:
        client = go_client()
    except NoToolchain as reason:
        pytest.skip(f"no foreign client: {reason}")
    size = str(14 * MIB)
    settings = {"fetch.max.bytes": size}
    with LocalCluster(tmp_path_factory.mktemp("broker"), brokers=1, broker_settings=settings) as cluster:
        broker = cluster.state.broker(1).address
        with SyncAdmin(broker) as admin:
            admin.create_topic("go", 1, 1, {"max.message.bytes": size})
        done = subprocess.run([*client, broker, "go"], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    checks: Said = json.loads(done.stdout)
    assert {name: check["failed"] for name, check in checks.items() if "failed" in check} == {}
    return checks


def code(ended: Said) -> grpc.StatusCode:
    return next(status for status in grpc.StatusCode if status.value[0] == ended["code"])


def test_values_of_every_size_are_written_on_a_stream_and_read_on_a_stream(said):
    assert said["metadata"].items() >= {"brokers": 1, "partitions": 1, "leader": 1}.items()
    assert said["produced"]["offsets"] == [*range(VALUES)]
    assert said["fetched"]["values"] == VALUES
    assert said["fetched"]["largest"] > 13 * MIB


def test_a_client_that_does_not_say_how_much_gets_no_more_than_it_takes(said):
    fetched = said["default_fetch"]
    assert MIB < fetched["bytes"] < DEFAULT_ANSWER_BYTES
    assert code(fetched["larger"]) is grpc.StatusCode.INVALID_ARGUMENT
    assert "say so in max_bytes" in fetched["larger"]["message"]


def test_a_message_may_have_16_mib_and_no_more(said):
    assert MAX_REQUEST_BYTES - 1000 < said["largest_message"]["bytes"] < MAX_REQUEST_BYTES
    assert said["largest_message"]["offsets"] == [VALUES, VALUES + 1]
    assert code(said["too_large"]["ended"]) is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert code(said["too_large"]["then"]) is OK, "the connection goes on"


def test_a_deadline_and_a_cancellation_end_what_waits_and_nothing_else(said):
    assert code(said["deadline"]["ended"]) is grpc.StatusCode.DEADLINE_EXCEEDED
    assert said["deadline"]["seconds"] < 20, "the fetch would have waited for 30"
    assert code(said["cancelled"]["ended"]) is grpc.StatusCode.CANCELLED
    assert code(said["cancelled"]["then"]) is OK


def test_an_error_of_a_call_comes_with_its_name(said):
    assert code(said["error"]["ended"]) is grpc.StatusCode.INVALID_ARGUMENT
    assert said["error"]["ended"].items() >= {"domain": "replog", "reason": "INVALID_REQUEST"}.items()
    assert said["error"]["ended"]["message"] == "partition_max_bytes -1 may not be negative"


def test_an_error_of_a_partition_comes_in_the_answer(said):
    assert said["partition_error"].items() >= {"code": "UNKNOWN_TOPIC_OR_PARTITION", "offset": -1}.items()


def test_health_is_served(said):
    assert said["health"]["checked"] == "SERVING"
    assert code(said["health"]["unknown"]) is grpc.StatusCode.NOT_FOUND


def test_what_a_server_does_not_know_is_unimplemented(said):
    assert code(said["unknown_method"]["ended"]) is grpc.StatusCode.UNIMPLEMENTED
    assert code(said["compressed"]["ended"]) in (OK, grpc.StatusCode.UNIMPLEMENTED)
