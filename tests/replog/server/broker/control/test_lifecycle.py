"""A broker's life as the controller sees it: a registration that somebody else took (D40), what it says of its replicas
(CT-29, CT-30), and health checks: ready means that another one may be restarted."""

import asyncio
import shutil
from contextlib import asynccontextmanager
from typing import Any

import pytest
from structlog.testing import capture_logs

from replog.client.descriptions import ReplicaLogEnd
from replog.controller import registration
from replog.errors import ErrorCode, ReplogError
from replog.local_cluster.ports import free_port
from replog.local_cluster.probe import is_serving
from replog.metadata.log_ends import LogEnd
from replog.metadata.values import MISSING
from replog.rpc import methods
from replog.rpc.serving import READY
from replog.rpc.transports import H2Transport
from replog.rpc.v1 import controller_pb2 as pb
from replog.rpc.v1 import log_pb2
from replog.server.broker.control import lifecycle
from replog.server.broker.control.lifecycle import BrokerLifecycle, BrokerStanding, BrokerState
from replog.server.broker.identity import Identity, PresenceService
from replog.server.broker.process import serve
from replog.server.controller.active_controller import ActiveController
from replog.server.controller.metrics import controller_metrics
from replog.topic import TopicPartition
from tests.replog.metadata.test_records import later
from tests.replog.server.broker.conftest import TP, InProcessCluster, batch, eventually
from tests.replog.server.broker.test_metrics import values


async def test_ct_2_a_broker_registers_recovers_runs_and_stops_in_that_order(cluster, monkeypatch):
    """CT-2, CT-13: it is registered before it recovers, unfenced once it runs, and stops after leave was given."""
    seen: list[tuple[BrokerState, bool, bool]] = []
    become = BrokerLifecycle.become

    def noted(self: BrokerLifecycle, state: BrokerState) -> None:
        broker = cluster.controller.state.image.brokers[1]
        seen.append((state, broker.fenced, broker.in_controlled_shutdown))
        become(self, state)

    monkeypatch.setattr(BrokerLifecycle, "become", noted)
    broker = await cluster.begin(1)
    assert broker._lifecycle.standing.state is BrokerState.RUNNING
    await cluster.stop_broker(1)
    assert seen == [
        (BrokerState.RECOVERY, True, False),
        (BrokerState.RUNNING, True, False),
        (BrokerState.PENDING_CONTROLLED_SHUTDOWN, False, False),
        (BrokerState.SHUTTING_DOWN, True, False),
    ]


async def test_isr_18_a_broker_that_was_stopped_proves_it_and_one_that_was_killed_does_not(cluster, monkeypatch):
    proved: list[bool] = []
    stopped_cleanly = registration._stopped_cleanly

    def noted(*arguments: Any) -> bool:
        proved.append(stopped_cleanly(*arguments))
        return proved[-1]

    monkeypatch.setattr(registration, "_stopped_cleanly", noted)
    await cluster.start_broker(1)
    await cluster.stop_broker(1)
    await cluster.start_broker(1)
    await cluster.crash_broker(1)
    await eventually(lambda: cluster.controller.state.image.brokers[1].fenced)
    await cluster.start_broker(1)
    assert proved == [True, False]


async def test_who_asks_a_broker_that_stops_is_refused_at_once_however_long_it_takes(cluster):
    let_go = asyncio.Event()

    async def busy() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await let_go.wait()

    broker = await cluster.start_broker(1)
    broker._spawn(busy())
    await asyncio.sleep(0)
    stopping = asyncio.create_task(cluster.stop_broker(1))
    channel = cluster.channel(broker.address)
    with pytest.raises(ReplogError) as refused:
        async with asyncio.timeout(60):
            while True:
                await channel.call(methods.Log["get_metadata"], log_pb2.GetMetadataRequest(), 30)
    assert refused.value.retriable
    assert refused.value.code is not ErrorCode.REQUEST_TIMED_OUT
    assert not stopping.done()
    let_go.set()
    await stopping


@pytest.mark.parametrize("lost", ["say_goodbye", "_on_lost"], ids=["it cannot say so", "nobody sees its connection"])
async def test_ct_21_a_broker_that_fails_is_fenced_at_once_and_may_register_again(cluster, monkeypatch, lost):
    """CT-21: by what it says before it goes, and by the connections that it loses; no session ends meanwhile."""
    broker = await cluster.start_broker(1)
    state = cluster.controller.state
    epoch = state.image.brokers[1].broker_epoch
    broker._fail(ReplogError(ErrorCode.KAFKA_STORAGE_ERROR, "the disk is gone"))
    with monkeypatch.context() as meanwhile:
        meanwhile.setattr(state.sessions, "left_ms", lambda *_: 6000)
        if lost == "_on_lost":
            meanwhile.setattr(ActiveController, lost, lambda *_: None)
        else:
            meanwhile.setattr(BrokerLifecycle, lost, lambda *_: asyncio.sleep(0))
        await cluster.stop_broker(1)
        await eventually(lambda: state.image.brokers[1].fenced)
    assert broker.failed
    again = await asyncio.wait_for(cluster.start_broker(1), 60)
    assert state.image.brokers[1].broker_epoch == again._identity.broker_epoch > epoch


async def test_a_broker_that_cannot_read_the_metadata_ends_at_once_also_while_it_starts(cluster):
    """It waits for a controller, as nobody listens there; a record of a later release comes meanwhile."""
    broker = cluster.new_broker(1, controller_listener=f"127.0.0.1:{free_port(set())}")
    serving = asyncio.create_task(serve(broker, lambda: None, asyncio.Event()))
    await eventually(lambda: broker.address)
    await broker._on_metadata([later("broker/7", 9)], False)
    with pytest.raises(ReplogError, match="'broker/7', of a later release"):
        await asyncio.wait_for(serving, 20)


LARGE = batch(b"x" * 100_000)


async def says(cluster: InProcessCluster, broker_id: int, service: str) -> bool:
    return await asyncio.to_thread(is_serving, cluster.brokers[broker_id].address, None, service)


async def test_a_broker_is_ready_when_its_replicas_are_in_sync_and_serves_before(cluster: InProcessCluster):
    slow = {"follower_replication_throttled_rate": 1, "replica_fetch_backoff_ms": 50}
    await cluster.begin(2, brokers=slow, min_insync_replicas="1", follower_replication_throttled_replicas="*")
    await eventually(lambda: cluster.isr(TP) == {1, 2})
    assert [await says(cluster, number, READY) for number in (1, 2)] == [True, True]
    await cluster.stop_broker(2)
    assert await says(cluster, 1, READY), "what others lack is theirs to say"
    for _ in range(20):
        assert (await cluster.produce(TP, LARGE))[0] is ErrorCode.NONE
    await cluster.start_broker(2, **slow)
    await eventually(lambda: TP in cluster.brokers[2].manager.replicas.hosted)
    assert (await says(cluster, 2, ""), await says(cluster, 2, READY)) == (True, False)
    async with cluster.admin() as admin:
        await admin.alter_topic_configs("t", {}, delete=["follower.replication.throttled.replicas"])
    await eventually(lambda: cluster.isr(TP) == {1, 2})
    await eventually(lambda: says(cluster, 2, READY))


async def test_a_broker_whose_partitions_have_no_leader_is_ready(cluster: InProcessCluster):
    """Nothing can be caught up with; to wait for it might wait for a broker that is only started after this one."""
    await cluster.begin(2, min_insync_replicas="1")
    await cluster.stop_broker(2)
    await cluster.crash_broker(1)
    await cluster.start_broker(2)
    await eventually(lambda: cluster.controller.state.image.partitions[TP].leader == -1)
    assert await says(cluster, 2, READY)


STARTING, RECOVERY, RUNNING, PENDING, STOPPING = BrokerState


def standing(state: BrokerState) -> BrokerStanding:
    broker = BrokerStanding(2000)
    broker.state = state
    return broker


def test_ct_2_a_broker_wants_to_be_fenced_until_it_runs_and_to_stop_once_it_is_told_to() -> None:
    """CT-2, CT-13."""
    wants = [(standing(state).want_fence, standing(state).want_shutdown) for state in BrokerState]
    assert wants == [(True, False), (True, False), (False, False), (False, True), (False, False)]


@pytest.mark.parametrize(
    ("state", "is_fenced", "is_caught_up", "due_ms"),
    [
        (RUNNING, False, True, 2000),
        (RUNNING, True, True, 10),
        (RUNNING, True, False, 2000),
        (RECOVERY, True, True, 2000),
        (STARTING, True, True, 2000),
        (PENDING, False, True, 50),
        (PENDING, True, True, 50),
        (STOPPING, True, True, 2000),
    ],
)
def test_ct_3_the_next_heartbeat_is_due_early_where_its_answer_lets_the_broker_go_on(
    state: BrokerState, is_fenced: bool, is_caught_up: bool, due_ms: int
) -> None:
    broker = standing(state)
    assert broker.on_answer(is_fenced=is_fenced, is_caught_up=is_caught_up) == due_ms
    assert broker.fenced is is_fenced


async def test_heartbeats_that_fail_are_told_once_for_each_cause(cluster, monkeypatch):
    await cluster.start_broker(1)
    full, late, none = ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.REQUEST_TIMED_OUT, ErrorCode.NONE
    to_come, heartbeat = [full, full, late, late, late, none, late, late, none], ActiveController.heartbeat

    async def fails(self: ActiveController, request: Any) -> Any:
        cause = to_come.pop(0) if to_come else none
        if cause is not none:
            raise cause.error(f"{len(to_come)} more")
        return await heartbeat(self, request)

    monkeypatch.setattr(ActiveController, "heartbeat", fails)
    with capture_logs() as logs:
        await eventually(lambda: not to_come)
    reasons = [line["reason"].split(":")[0] for line in logs if line["event"] == "heartbeat failed"]
    assert reasons == [full.name, late.name, late.name]


PARTITIONS = [TopicPartition("t", number) for number in range(3)]
T0, T1, T2 = PARTITIONS


async def test_ct_29_replicas_are_asked_for_and_the_one_that_has_the_records_leads(cluster, monkeypatch):
    """CT-29, CT-30: both brokers are killed, and broker 1 comes back without t-0."""
    monkeypatch.setattr(lifecycle, "MAX_OFFLINE_PER_REQUEST", 2)
    await cluster.begin(2, partitions=3)
    for tp in (T0, T1):
        assert (await cluster.produce(tp, batch(b"x")))[0] is ErrorCode.NONE
    for broker in (2, 1):
        await cluster.crash_broker(broker)
        await eventually(lambda gone=broker: cluster.controller.state.image.brokers[gone].fenced)
    shutil.rmtree(cluster.directory / "broker-1" / "t-0")
    with capture_logs() as logs:
        broker = await cluster.start_broker(1)
    (warned,) = [event for event in logs if event["log_level"] == "warning" and "not on the disks" in event["event"]]
    assert (warned["count"], "mount" in warned["remedy"]) == (1, True)
    state = cluster.controller.state

    def said(tp: TopicPartition) -> object:
        return state.log_ends(tp).replicas[state.image.partitions[tp].replicas.index(1)]

    await eventually(lambda: all(said(tp)[2] is not None for tp in PARTITIONS), what=lambda: [*map(said, PARTITIONS)])
    assert T0 not in broker.manager.replicas.hosted, "the next start would find it, empty"
    epoch = broker.manager.replicas.hosted[T1].log.epochs.latest_epoch
    assert [said(tp) for tp in PARTITIONS] == [
        (1, True, LogEnd(MISSING, 0)),
        (1, True, LogEnd(epoch, 1)),
        (1, True, LogEnd(-1, 0)),
    ]
    for most, pages in ((2, [2, 1]), (1, [1, 1, 1])):
        monkeypatch.setattr(lifecycle, "MAX_OFFLINE_PER_REQUEST", most)
        rounds = lifecycle.LogEnds(broker.context.image, broker.replicas)
        told = [rounds.next() for _ in (*pages, "the first again")]
        assert [len(reports) for reports, _ in told] == [*pages, most]
        assert [more for _, more in told] == [*(page < len(pages) for page in range(1, len(pages) + 1)), True]
        assert {report.partition for reports, _ in told[:-1] for report in reports} == {0, 1, 2}
    async with cluster.admin() as admin:
        known = (await admin.describe_log_ends([T0]))[T0]
        assert known.strategy == "BALANCED"
        assert {replica.broker_id: replica for replica in known.replicas} == {
            1: ReplicaLogEnd(1, True, MISSING, 0),
            2: ReplicaLogEnd(2, False, None, None),
        }
        await cluster.start_broker(2)
        await eventually(lambda: all(cluster.leader(tp) != -1 for tp in PARTITIONS))
        assert cluster.leader(T0) == 2
        assert await admin.describe_log_ends() == {}
    await cluster.led(T0)
    await eventually(lambda: cluster.log(1, T0).log_end_offset == 1)


async def test_ct_30_nobody_leads_while_no_disk_has_the_partition(cluster, replog):
    """However often its brokers start. One whose disk is mounted again leads, and nothing is lost."""
    await cluster.begin(2)
    assert (await cluster.produce(T0, batch(b"x")))[0] is ErrorCode.NONE
    aside = cluster.directory / "aside"
    for broker in (2, 1):
        await cluster.crash_broker(broker)
        await eventually(lambda gone=broker: cluster.controller.state.image.brokers[gone].fenced)
    (cluster.directory / "broker-2" / "t-0").rename(aside)
    shutil.rmtree(cluster.directory / "broker-1" / "t-0")
    for _ in range(2):
        for broker in (1, 2):
            await cluster.start_broker(broker)
        await eventually(
            lambda: [end for *_, end in cluster.controller.state.log_ends(T0).replicas] == [LogEnd(MISSING, 0)] * 2
        )
        await asyncio.sleep(2)  # twice unclean.leader.election.interval.ms
        assert cluster.leader(T0) == -1
        shown = values(await controller_metrics(cluster.controller))
        assert shown["replog_controller_partitions_without_complete_replica"] == 1
        describe = "topic", "describe", "--topic", "t", "--bootstrap-server", cluster.brokers[1].address
        told = (await asyncio.to_thread(replog, *describe)).stderr
        assert "t-0 waits until it is known how far its replicas go (unclean.recovery.strategy=BALANCED)" in told
        for broker in (1, 2):
            await cluster.stop_broker(broker)
    aside.rename(cluster.directory / "broker-2" / "t-0")
    for broker in (1, 2):
        await cluster.start_broker(broker)
    await cluster.led(T0)
    assert cluster.leader(T0) == 2
    await eventually(lambda: cluster.log(1, T0).log_end_offset == 1)


OTHER = b"o" * 16


def lost(logs: Any) -> list[str]:
    """The reasons that were told."""
    return [event["reason"] for event in logs if event["log_level"] == "error" and "lost" in event["event"]]


async def serves(cluster: InProcessCluster, broker_id: int) -> None:
    """It is unfenced and in sync again, and what is acknowledged by acks=all is on its disk."""
    image = cluster.controller.state.image
    await eventually(
        lambda: image.brokers[broker_id].active and broker_id in cluster.isr(TP), what=lambda: str(image.brokers)
    )
    async with asyncio.timeout(60):
        while (answer := await cluster.produce(TP, batch(b"x")))[0] is not ErrorCode.NONE:
            await asyncio.sleep(0.05)
    end = answer[1] + 1
    await eventually(lambda: cluster.log(broker_id, TP).log_end_offset == end)


async def forged(cluster: InProcessCluster, broker_id: int, **fields: Any) -> pb.HeartbeatResponse:
    """A heartbeat in its name of who knows all of its secrets, except `fields`."""
    known = cluster.controller.state.image.brokers[broker_id]
    claim = {"broker_id": broker_id, "broker_epoch": known.broker_epoch, "incarnation_id": known.incarnation_id}
    return await cluster.control("heartbeat", pb.HeartbeatRequest(**(claim | fields)))


async def taken_over(cluster: InProcessCluster, broker_id: int, address: str) -> int:
    """The broker epoch of another process that registers at a moment at which the broker has no session."""
    request = pb.RegisterBrokerRequest(
        broker_id=broker_id, incarnation_id=OTHER, address=address, previous_broker_epoch=-1
    )
    async with asyncio.timeout(60):
        while True:
            cluster.controller.state.sessions.end(broker_id)
            try:
                return int((await cluster.control("register_broker", request)).broker_epoch)
            except ReplogError as error:  # a heartbeat that came first has begun the session again
                if error.code is not ErrorCode.DUPLICATE_BROKER_REGISTRATION:
                    raise


@pytest.mark.parametrize("leads", [True, False])
async def test_a_broker_that_is_told_to_stop_and_did_not_ask_says_so_and_goes_on(cluster, leads):
    """Before, it took leave: it ran, said SERVING, stayed fenced and logged nothing."""
    await cluster.begin(2)
    victim = cluster.leader(TP) if leads else 3 - cluster.leader(TP)
    epoch = cluster.brokers[victim]._identity.broker_epoch
    with capture_logs() as logs:
        await forged(cluster, victim, want_shutdown=True)
        await eventually(lambda: bool(lost(logs)) or cluster.controller.state.image.brokers[victim].active)
        await serves(cluster, victim)
    assert all("which it did not ask for" in reason for reason in lost(logs))
    assert lost(logs) or not leads, "a leader is relieved first, and hears it in answer to its own heartbeat"
    assert cluster.brokers[victim]._identity.broker_epoch == epoch
    assert not cluster.brokers[victim].failed


@pytest.mark.parametrize("wrong", [{"incarnation_id": OTHER}, {"incarnation_id": b""}, {"broker_epoch": 1}], ids=str)
async def test_a_forged_heartbeat_without_the_incarnation_id_changes_nothing(cluster, wrong):
    await cluster.begin(2)
    version = cluster.controller.state.image.version
    with capture_logs() as logs, pytest.raises(ReplogError, match="STALE_BROKER_EPOCH: broker 2 is registered by"):
        await forged(cluster, 2, want_fence=True, want_shutdown=True, **wrong)
    assert cluster.controller.state.image.version == version
    (told,) = [event for event in logs if event["event"] == "denied"]
    assert (told["principal"], told["operation"], told["resource"]) == ("User:ANONYMOUS", "CLUSTER_ACTION", "BROKER:2")
    assert ("the incarnation id" in told["rule"]) is ("broker_epoch" in wrong)
    assert str(cluster.controller.state.image.brokers[2]) in told["rule"]


@pytest.mark.parametrize("victim", [1, 2], ids=["leader", "follower"])
async def test_a_broker_whose_registration_is_gone_registers_again_with_the_same_process(cluster, victim):
    """With a new broker epoch: it fetches under it, joins under it, and leads under it."""
    await cluster.start_brokers(1, 2)
    async with cluster.admin() as admin:
        await admin.create_topic("t", assignment=[(1, 2)])
    await cluster.produce(TP, batch(b"before"))
    controller = cluster.controller
    with capture_logs() as logs:
        epoch = await taken_over(cluster, victim, "127.0.0.1:1")  # where nobody listens
        await serves(cluster, victim)
    assert [reason.split(":")[0] for reason in lost(logs)] == ["STALE_BROKER_EPOCH"]
    known = controller.state.image.brokers[victim]
    assert known.address == cluster.brokers[victim].address
    assert known.broker_epoch == cluster.brokers[victim]._identity.broker_epoch > epoch
    for leader in (1, 2):
        await cluster.control("elect_leaders", pb.ElectLeadersRequest(all_partitions=True))
        await serves(cluster, leader)
    assert cluster.leader(TP) == 1


@asynccontextmanager
async def living(cluster: InProcessCluster, broker_id: int):
    """Another process of this id, which answers who it is."""
    server = H2Transport().listen("127.0.0.1:0")
    server.add(methods.PRESENCE, PresenceService(Identity(broker_id, OTHER)))
    yield await server.start()
    await server.stop(0)


async def test_a_broker_whose_id_another_living_process_has_stops_with_a_clear_error(cluster):
    broker = await cluster.start_broker(1)
    async with living(cluster, 1) as address:
        with capture_logs() as logs, pytest.raises(ReplogError, match=f"DUPLICATE.*at {address}") as failed:
            await taken_over(cluster, 1, address)
            async with asyncio.timeout(60):
                await broker.wait()
        assert "choose another node.id" in str(failed.value)
        assert len(lost(logs)) == 1
        assert cluster.controller.state.image.brokers[1].incarnation_id == OTHER
