"""What a container allows, and what a broker makes of it; a broker that is told to stop before it serves, or that has
heard no controller yet; one with listeners of its own for clients, replication and audits (D47)."""

import asyncio
import os
import threading

import pytest
from structlog.testing import capture_logs

from replog.client import Admin, Producer
from replog.config.processes import BrokerConfig
from replog.errors import ErrorCode, ReplogError
from replog.log.directories.log_directory import LogDirectory
from replog.log.errors import LogStorageError
from replog.log.files.names import SNAPSHOT_SUFFIX, segment_file_name
from replog.log.files.open_files import OPEN_FILES, OpenFiles
from replog.log.formats.checkpoint import RECOVERY_POINT_CHECKPOINT
from replog.rpc import limits, methods
from replog.rpc.v1 import inspection_pb2, log_pb2, presence_pb2
from replog.server.broker.broker import CONTROLLED_SHUTDOWN_TIMEOUT_S
from replog.server.broker.process import BASE_BYTES, fitted, memory_limits
from replog.topic import TopicPartition
from tests.replog.server.broker.conftest import TP, InProcessCluster, batch, eventually

MIB = 1 << 20


@pytest.fixture(autouse=True)
def process(monkeypatch):
    monkeypatch.setattr(limits, "MAX_UNREAD_BYTES", limits.MAX_UNREAD_BYTES)
    before = OPEN_FILES.set(OpenFiles())
    yield
    OPEN_FILES.reset(before)


@pytest.fixture
def config(tmp_path):
    return BrokerConfig(node_id=1, log_dirs=tmp_path)


@pytest.mark.parametrize(
    ("own", "files", "expected"),
    [
        ("0::/a/b\n", {"a/b/memory.max": "max\n", "a/memory.max": f"{256 * MIB}\n"}, 256 * MIB),
        ("0::/a/b\n", {"a/b/memory.max": f"{128 * MIB}\n", "a/memory.max": f"{256 * MIB}\n"}, 128 * MIB),
        ("0::/\n", {"memory.max": "max\n"}, None),
        ("0::/../elsewhere\n", {}, None),
        ("4:cpu:/x\n9:memory:/x\n0::/\n", {"memory/x/memory.limit_in_bytes": "1000\n"}, 1000),
        ("nonsense", {}, None),
    ],
)
def test_the_least_of_all_control_groups_counts(tmp_path, own, files, expected):
    (tmp_path / "own").write_text(own)
    for name, content in files.items():
        (tmp_path / "groups" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "groups" / name).write_text(content)
    assert min(memory_limits(tmp_path / "groups", tmp_path / "own"), default=None) == expected
    assert not [*memory_limits(tmp_path, tmp_path / "not there")]


def test_budgets_that_fit_stay_as_they_are(config):
    with capture_logs() as told:
        assert fitted(config, None) is config
        assert fitted(config, 2 << 30) is config
    assert told == []


@pytest.mark.parametrize("mib", [100, 128, 256, 512])
def test_budgets_that_do_not_fit_are_made_smaller_with_one_warning(config, mib):
    with capture_logs() as told:
        smaller = fitted(config, mib * MIB)
    (warning,) = told
    assert warning["limit"] == mib * MIB
    assert warning["queued.max.request.bytes"] == smaller.queued_max_request_bytes < config.queued_max_request_bytes
    together = smaller.queued_max_request_bytes + smaller.queued_max_response_bytes
    together += smaller.log_cleaner_dedupe_buffer_size + OPEN_FILES.get().tails.limit + limits.MAX_UNREAD_BYTES
    least = 4 * MIB + 2 * limits.MAX_REQUEST_BYTES
    assert together <= max(mib * MIB - BASE_BYTES, least) + 2 * limits.MAX_REQUEST_BYTES
    assert limits.MAX_UNREAD_BYTES >= 2 * limits.MAX_REQUEST_BYTES, "one message must be able to come"


async def test_a_start_that_is_called_off_holds_its_directory_until_the_recovery_in_the_thread_is_through(
    cluster, monkeypatch
):
    begun, may_end = threading.Event(), threading.Event()

    def slow_load(*_: object) -> None:
        begun.set()
        may_end.wait(60)

    monkeypatch.setattr(LogDirectory, "load", slow_load)
    broker = cluster.new_broker(1)
    (directory,) = broker.config.log_dirs
    starting = asyncio.create_task(broker.start())
    await eventually(begun.is_set)
    starting.cancel()
    await asyncio.sleep(0.2)
    try:
        with pytest.raises(LogStorageError, match="in use"):
            LogDirectory(directory, cluster_id="", node_id=1, randbytes=os.urandom)
    finally:
        may_end.set()
    with pytest.raises(asyncio.CancelledError):
        await starting
    cluster_id = cluster.controller.state.image.cluster_id
    LogDirectory(directory, cluster_id=cluster_id, node_id=1, randbytes=os.urandom).abandon()


async def test_a_broker_whose_id_was_taken_over_does_not_wait_for_leave_to_stop(cluster):
    """STALE_BROKER_EPOCH during the controlled shutdown: no heartbeat will ever bring the answer."""
    broker = await cluster.start_broker(1)
    broker._identity.broker_epoch -= 1
    async with asyncio.timeout(CONTROLLED_SHUTDOWN_TIMEOUT_S - 5):
        await cluster.stop_broker(1)
    assert broker.failed
    assert not (broker.config.log_dirs[0] / ".kafka_cleanshutdown").exists()


async def test_a_log_that_cannot_be_closed_does_not_keep_the_others_from_it(cluster):
    """FN-3. Logs are closed in a thread: a disk error is handled on the loop."""
    broker = await cluster.start_broker(1)
    for topic in ("t", "u"):
        await cluster.create_topic(topic, replication_factor=1)
        await cluster.produce(TopicPartition(topic, 0), batch(b"x"))
    log = cluster.log(1, TopicPartition("t", 0))
    (log.directory / segment_file_name(log.log_end_offset, SNAPSHOT_SUFFIX)).mkdir()
    with pytest.raises(LogStorageError, match=SNAPSHOT_SUFFIX):
        await cluster.stop_broker(1)
    assert broker.failed
    assert "u 0 1" in (cluster.directory / "broker-1" / RECOVERY_POINT_CHECKPOINT).read_text()


async def test_a_broker_that_has_heard_no_controller_yet_sends_clients_to_others(cluster):
    """It would deny every topic, and clients that asked it would ask nobody else until it knew better."""
    serving = await cluster.begin(1)
    early = cluster.new_broker(2, controller_listener="127.0.0.1:1")
    starting = asyncio.create_task(early.start())
    try:
        await eventually(lambda: bool(early.address))
        with pytest.raises(ReplogError, match="broker 2 is starting") as caught:
            await cluster.channel(early.address).call(
                methods.Log["get_metadata"], log_pb2.GetMetadataRequest(topics=["t"]), 5
            )
        assert caught.value.code is ErrorCode.BROKER_NOT_AVAILABLE
        async with Producer([early.address, serving.address], max_block_ms=5000) as producer:
            assert (await (await producer.send("t", b"x"))).offset == 0
    finally:
        starting.cancel()
        await asyncio.gather(starting, return_exceptions=True)


SEVERAL = {
    "listeners": "CLIENT://127.0.0.1:0,REPLICATION://127.0.0.1:0,AUDIT://127.0.0.1:0",
    "inter_broker_listener_name": "REPLICATION",
    "inspection_listener_name": "AUDIT",
}


async def brokers_at(cluster: InProcessCluster, address: str) -> dict[int, str]:
    """Where the broker that is asked there says that brokers are."""
    request = log_pb2.GetMetadataRequest(without_topics=True)
    answer = await cluster.channel(address).call(methods.Log["get_metadata"], request, 10)
    return {broker.broker_id: broker.address for broker in answer.brokers}


def at(cluster: InProcessCluster, broker_id: int, listener: str) -> str:
    return cluster.brokers[broker_id]._listening.bound[listener]


async def test_clients_are_told_the_addresses_of_the_listener_that_they_use(cluster):
    await cluster.start_brokers(1, 2, **SEVERAL)
    for listener in ("CLIENT", "REPLICATION", "AUDIT"):
        known = {number: at(cluster, number, listener) for number in (1, 2)}
        assert await brokers_at(cluster, known[1]) == known
        assert len(set(known.values())) == 2
    async with Admin(at(cluster, 1, "CLIENT")) as admin:
        await admin.create_topic("t", assignment=[(1, 2)])
    async with Producer(at(cluster, 2, "CLIENT")) as producer:
        assert (await (await producer.send("t", b"x"))).offset == 0
    await eventually(lambda: cluster.log(2, TP).log_end_offset == 1)
    assert list(cluster.brokers[2]._fetchers._fetchers) == [at(cluster, 1, "REPLICATION")]


@pytest.mark.parametrize("listener", ["CLIENT", "AUDIT"])
async def test_replication_is_served_between_brokers_alone(cluster, listener):
    await cluster.start_broker(1, **SEVERAL)
    for method, request in ((methods.Presence["are_you"], presence_pb2.AreYouRequest()),):
        with pytest.raises(ReplogError, match="UNIMPLEMENTED"):
            await cluster.channel(at(cluster, 1, listener)).call(method, request, 10)
    stream = cluster.channel(at(cluster, 1, listener)).open(methods.Replica["fetch"])
    with pytest.raises(ReplogError, match="UNIMPLEMENTED"):
        await stream.receive(10)


async def test_audits_are_served_on_the_listener_that_is_named_for_them(cluster):
    await cluster.start_broker(1, **SEVERAL)
    request, method = inspection_pb2.DescribeReplicasRequest(), methods.Inspection["describe_replicas"]
    await cluster.channel(at(cluster, 1, "AUDIT")).call(method, request, 10)
    for listener in ("CLIENT", "REPLICATION"):
        with pytest.raises(ReplogError, match="UNIMPLEMENTED"):
            await cluster.channel(at(cluster, 1, listener)).call(method, request, 10)


async def test_a_broker_with_one_listener_has_it_for_all_and_one_without_it_is_left_out(cluster):
    """So brokers can be given more listeners one by one."""
    await cluster.start_broker(1, **SEVERAL)
    await cluster.start_broker(2)
    await cluster.start_broker(3, listeners="PLAINTEXT://127.0.0.1:0,OTHER://127.0.0.1:0")
    assert await brokers_at(cluster, at(cluster, 1, "CLIENT")) == {
        1: at(cluster, 1, "CLIENT"),
        2: cluster.brokers[2].address,
    }
    between = {1: at(cluster, 1, "REPLICATION"), 2: cluster.brokers[2].address, 3: at(cluster, 3, "PLAINTEXT")}
    assert await brokers_at(cluster, cluster.brokers[2].address) == between
