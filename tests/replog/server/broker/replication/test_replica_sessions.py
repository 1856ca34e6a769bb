"""A follower's fetch session, on the leader's side: what is checked in which order, and what is told only once. The
fetchers of a broker, and the one between its partitions: one that is delayed, that waits, fails, or is gone."""

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from follower.partition_follower import PartitionFollower
from leader.consumer_session import ConsumerSession
from replog.config.processes import BrokerConfig
from replog.errors import ErrorCode, ReplogError
from replog.local_cluster.ports import free_port
from replog.log.fetch import ANY_TOPIC, CONSUMER, FetchPartition, SessionRequest
from replog.log.log import Log
from replog.metadata.image import MetadataImage
from replog.metadata.values import NO_BROKER_EPOCH, BrokerRegistration, PartitionState
from replog.purgatory.purgatory import DelayedOperation
from replog.rpc.codec import WithRecords
from replog.rpc.limits import MAX_PARTITIONS_OF_BROKERS
from replog.rpc.v1 import replica_pb2 as pb
from replog.server.broker.context import BrokerContext
from replog.server.broker.replicas.hosted_replicas import HostedPartition, HostedReplicas
from replog.server.broker.replicas.replica_manager import ReplicaManager
from replog.server.broker.replication.replica_service import ReplicaStream
from replog.server.clock import SystemClock
from replog.topic import TopicPartition
from tests.leader.replicas import ONE_MIB, leader_of, log_of, record
from tests.replog.processes.proxy import proxy_to
from tests.replog.server.broker.conftest import TP, batch, eventually
from tests.replog.server.broker.control.test_role_changes import AGAIN, made_again

LED, FOLLOWED, BROKEN = (TopicPartition("t", partition) for partition in range(3))
ELSEWHERE, UNKNOWN = TopicPartition("t", 8), TopicPartition("t", 9)
TOPIC_ID = b"topic id is here"
EPOCH = 4
STATE = PartitionState((1, 2), (1, 2), 1, EPOCH, 0)
WAITS = pb.ReplicaFetchRequest(replica_id=2, broker_epoch=100, max_wait_ms=500, min_bytes=1, max_bytes=ONE_MIB)


class Answers:
    """Where the session puts what is to be sent."""

    def __init__(self) -> None:
        self.sent: list[WithRecords[pb.ReplicaFetchResponse]] = []

    def put(self, answer: WithRecords[pb.ReplicaFetchResponse]) -> None:
        self.sent.append(answer)

    def last(self) -> dict[TopicPartition, ErrorCode]:
        """Which partitions the last answer names, in its order, and their errors."""
        return {
            TopicPartition(result.topic, result.partition): ErrorCode(result.error_code)
            for result in self.sent[-1].head.partitions
        }


class Leader:
    """Broker 1: it leads LED in epoch 4 and follows FOLLOWED; 2 fetches from it."""

    def __init__(self, directory: Path) -> None:
        image = MetadataImage()
        for broker_id in (1, 2):
            image.brokers[broker_id] = BrokerRegistration(
                broker_id, 100, b"", f"127.0.0.1:{broker_id}", "", False, False
            )
        image.partitions = dict.fromkeys((LED, FOLLOWED, BROKEN, ELSEWHERE), STATE)
        config = BrokerConfig(node_id=1, log_dirs=directory)
        context = BrokerContext(config, image, SystemClock(), lambda _: None)
        self.manager = ReplicaManager(context, HostedReplicas(context), lambda *_: True)
        for tp in (LED, FOLLOWED, BROKEN):
            log = log_of(directory / tp.directory_name, "4:0-4", high_watermark=5)
            hosted = self.manager.replicas.hosted[tp] = HostedPartition(tp, TOPIC_ID, log)
            if tp == FOLLOWED:
                hosted.follower = PartitionFollower(tp, log, backoff_ms=1000)
                hosted.follower.become_follower(replace(STATE, leader=2), 0)
            else:
                hosted.leader = leader_of(log, STATE, image)
        self.answers = Answers()
        self.session = ReplicaStream(self.manager, self.answers.put, lambda _: None)

    def log(self, tp: TopicPartition) -> Log:
        return self.manager.replicas.hosted[tp].log

    def ask(
        self, *partitions: pb.ReplicaFetchPartition, replica_id: int = 2, broker_epoch: int = 100
    ) -> dict[TopicPartition, ErrorCode]:
        """One request that does not wait, and what its answer names."""
        self.session.on_request(
            pb.ReplicaFetchRequest(
                replica_id=replica_id,
                broker_epoch=broker_epoch,
                max_wait_ms=0,
                min_bytes=1,
                max_bytes=ONE_MIB,
                partitions=partitions,
            )
        )
        return self.answers.last()


def named(
    tp: TopicPartition, offset: int = 5, *, epoch: int = EPOCH, topic_id: bytes = TOPIC_ID, max_bytes: int = ONE_MIB
) -> pb.ReplicaFetchPartition:
    return pb.ReplicaFetchPartition(
        topic=tp.topic,
        partition=tp.partition,
        topic_id=topic_id,
        current_leader_epoch=epoch,
        fetch_offset=offset,
        last_fetched_epoch=EPOCH if offset else -1,
        partition_max_bytes=max_bytes,
    )


@pytest.fixture
def leader(tmp_path: Path) -> Leader:
    return Leader(tmp_path)


@pytest.mark.parametrize(
    ("tp", "wrong", "error"),
    [
        (UNKNOWN, {"topic_id": b"other", "epoch": 3}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (ELSEWHERE, {"topic_id": b"other", "epoch": 3}, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        (FOLLOWED, {"topic_id": b"other", "epoch": 3}, ErrorCode.INCONSISTENT_TOPIC_ID),
        (LED, {"topic_id": b"other", "epoch": 3}, ErrorCode.INCONSISTENT_TOPIC_ID),
        (FOLLOWED, {"epoch": 3}, ErrorCode.FENCED_LEADER_EPOCH),
        (FOLLOWED, {"epoch": 5}, ErrorCode.UNKNOWN_LEADER_EPOCH),
        (FOLLOWED, {}, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        (LED, {"epoch": 3, "replica_id": 99}, ErrorCode.FENCED_LEADER_EPOCH),
        (LED, {"offset": 99, "replica_id": 99}, ErrorCode.UNKNOWN_LEADER_EPOCH),
        (LED, {"offset": 5}, ErrorCode.NONE),
    ],
    ids=str,
)
async def test_the_first_fault_is_told_fe_1(leader, tp, wrong, error):
    """Hosted, the same topic, the epoch, leadership, a known follower: each case has all later faults as well."""
    replica_id = wrong.pop("replica_id", 2)
    assert leader.ask(named(tp, **wrong), replica_id=replica_id) == {tp: error}


class Waits(DelayedOperation[TopicPartition]):
    def __init__(self, fault: Exception | None) -> None:
        super().__init__(timeout_ms=1000)
        self.ready = False
        self.fault = fault

    def try_complete(self, moved: object) -> bool:
        return self.ready and self.force_complete()

    def on_complete(self) -> None:
        if self.fault is not None:
            raise self.fault


class Watch(SystemClock):
    now_ms = 10_120

    def monotonic_ms(self) -> int:
        return self.now_ms


@pytest.mark.parametrize("broker_epoch", [-1, 0])
async def test_who_fetches_without_a_broker_epoch_is_no_follower_st_7(leader, broker_epoch):
    """Divergence 40: what it says to have would let acks=all acknowledge what nobody has."""
    request = pb.ReplicaFetchRequest(
        replica_id=2, broker_epoch=broker_epoch, max_bytes=ONE_MIB, partitions=[named(LED)]
    )
    with pytest.raises(ReplogError, match=f"INVALID_REQUEST: broker 2 .* epoch {broker_epoch}; register"):
        leader.session.on_request(request)


@pytest.mark.parametrize(("replica_id", "broker_epoch"), [(2, 1 << 40), (2, 99), (3, 100)])
async def test_who_is_not_registered_so_commits_nothing_and_is_not_heard_st_7(leader, replica_id, broker_epoch):
    """Divergence 40: a number that is large enough let acks=all acknowledge what nobody has."""
    leader.manager.replicas.hosted[LED].log.append_as_leader(record(EPOCH, 5), leader_epoch=EPOCH, now_ms=0)
    assert ErrorCode.NONE not in leader.ask(named(LED, 6), replica_id=replica_id, broker_epoch=broker_epoch).values()
    assert leader.log(LED).high_watermark == 5
    assert leader.manager.replicas.failure_detector._brokers == {}
    leader.session = ReplicaStream(leader.manager, leader.answers.put, lambda _: None)
    assert leader.ask(named(LED, 6)) == {LED: ErrorCode.NONE}
    assert leader.log(LED).high_watermark == 6
    assert list(leader.manager.replicas.failure_detector._brokers) == [2]


async def test_a_follower_names_so_many_partitions_in_one_request_and_no_more(leader):
    many = [named(TopicPartition("many", number)) for number in range(MAX_PARTITIONS_OF_BROKERS + 1)]
    with pytest.raises(ReplogError, match=f"{len(many)} partitions .+ at most {MAX_PARTITIONS_OF_BROKERS}") as refused:
        leader.ask(*many)
    assert refused.value.code is ErrorCode.INVALID_REQUEST
    assert not leader.session.session.named
    leader.ask(*many[1:])
    assert len(leader.session.session.named) == MAX_PARTITIONS_OF_BROKERS


async def test_followers_that_wait_for_nothing_are_answered_together(leader):
    """Divergence 35: at the latest after the time that they named."""
    leader.manager.context.clock = clock = Watch()
    wakes = []
    for clock.now_ms in (10_120, 10_499, 10_500):
        leader.session = ReplicaStream(leader.manager, leader.answers.put, lambda _: None)
        leader.ask(named(LED))  # it is told the bounds, and asks on
        leader.session.on_request(WAITS)
        wakes.append(leader.session.session.next_wake_ms)
        leader.session.session.close()
    assert wakes == [10_500, 10_500, 11_000]


@pytest.mark.parametrize("other", [TOPIC_ID, ANY_TOPIC], ids=["same", "other"])
async def test_followers_that_ask_for_the_same_share_the_read_and_the_message(leader, other):
    """Who asks for another gets its own message; each is counted by itself."""
    waiting: list[Answers] = []
    for topic_id in (TOPIC_ID, other):
        leader.answers = Answers()
        leader.session = ReplicaStream(leader.manager, leader.answers.put, lambda _: None)
        leader.ask(named(LED, topic_id=topic_id))
        leader.session.on_request(WAITS)
        waiting.append(leader.answers)
    leader.manager.replicas.hosted[LED].leader.append_records_to_leader(record(EPOCH, 5), acks=1, wall_ms=0, now_ms=0)
    leader.manager.touched(LED, high_watermark_advanced=False)
    await asyncio.sleep(0)
    first, second = (answers.sent[-1] for answers in waiting)
    assert [message.head.partitions[0].topic_id for message in (first, second)] == [TOPIC_ID, other]
    assert first.records[0] is second.records[0]
    assert (first is second) == (other == TOPIC_ID)
    assert leader.manager.context.traffic.topics["t"].copied_out == 2 * len(first.records[0])


async def test_an_exception_among_waiting_requests_stops_no_others_st_10(leader):
    """KAFKA-17234, KAFKA-17240: produces, fetches and deletions are looked at each by itself."""
    manager, fault = leader.manager, ValueError("the answer cannot be written")
    waiting = {manager.produces: Waits(fault), manager.record_deletions: Waits(None)}
    for kind, operation in waiting.items():
        kind.complete_or_watch(operation, [LED])
        operation.ready = True
    manager.touched(LED, high_watermark_advanced=True)
    assert not any(operation.completed for operation in waiting.values()), "not in the middle of what happened (ST-5)"
    await asyncio.sleep(0)
    assert all(operation.completed for operation in waiting.values())


async def test_consumers_beyond_their_bound_are_refused_and_followers_are_not(leader, monkeypatch):
    """What one of them lets go of another may have."""
    monkeypatch.setattr("replog.server.broker.replicas.fetch_sessions.MAX_CONSUMED", 2)

    def consume(*partitions: TopicPartition) -> ConsumerSession:
        session = ConsumerSession(
            leader.manager.sessions, leader.manager.replicas, lambda: None, max_bytes=ONE_MIB, max_wait_ms=1000
        )
        wanted = {tp: FetchPartition(5, ONE_MIB) for tp in partitions}
        try:
            session.on_request(SessionRequest(CONSUMER, NO_BROKER_EPOCH, 500, 1, ONE_MIB, wanted))
        except ReplogError:
            session.close()
            raise
        return session

    first = consume(LED, BROKEN)
    for partitions in ((LED,), (ELSEWHERE, UNKNOWN)):
        with pytest.raises(ReplogError, match="consumers of 2 partitions together") as refused:
            consume(*partitions)
        assert refused.value.code is ErrorCode.THROTTLING_QUOTA_EXCEEDED
    assert leader.ask(named(LED)) == {LED: ErrorCode.NONE}
    first.close()
    consume(LED).close()
    with pytest.raises(ReplogError):
        consume(LED, BROKEN, FOLLOWED)
    consume(LED, BROKEN)


async def test_committed_records_that_are_cut_off_are_told_as_an_error_ft_15(cluster):
    """HW-13, with the high watermark as it was before the cut; here the leader has lost a record that was committed."""
    await cluster.begin(2)
    await cluster.produce(TP, batch(b"kept"))
    follower = cluster.brokers[3 - cluster.leader(TP)]
    hosted = follower.manager.replicas.hosted[TP]
    hosted.log.append_as_leader(batch(b"lost"), leader_epoch=0, now_ms=0)
    hosted.log.update_high_watermark(2)
    with capture_logs() as logs:
        next(iter(follower._fetchers._fetchers.values())).session.add(hosted)
        await eventually(lambda: hosted.log.log_end_offset == 1)
    errors = [entry for entry in logs if entry["log_level"] == "error"]
    assert len(errors) == 1, logs
    assert "truncated to 1, 1 records below the high watermark 2" in errors[0]["note"]


def test_an_answer_about_a_topic_of_the_same_name_is_dropped_ft_8(pair):
    """The follower hears of the new topic while records of the old one are on their way; offsets and epochs fit."""
    pair.create_topic()
    follower = pair.brokers[2]
    pair.wait(0.3)
    assert follower._roles is not None
    pair.network.slow("broker-1", "broker-2", (500, 500))
    pair.produce(100, 100, acks=1)
    pair.run(follower._roles.apply(made_again(follower._image)), pair.processes[2])
    pair.wait(5)
    assert pair.hosted(2).topic_id == AGAIN
    assert (pair.log(1).log_end_offset, pair.log(2).log_end_offset) == (2, 0)


async def test_all_partitions_of_a_leader_share_one_fetcher(cluster):
    """FT-1."""
    await cluster.begin(2, partitions=6)
    leaders = {cluster.leader(TopicPartition("t", partition)) for partition in range(6)}
    assert leaders == {1, 2}
    for follower_id, leader_id in ((1, 2), (2, 1)):
        fetchers = cluster.brokers[follower_id]._fetchers
        (fetcher,) = fetchers._fetchers.values()
        led = {tp for tp in (TopicPartition("t", p) for p in range(6)) if cluster.leader(tp) == leader_id}
        assert set(fetcher.session.partitions) == led
    await cluster.delete_topic("t")
    for broker in cluster.brokers.values():
        await eventually(lambda broker=broker: not broker._fetchers._fetchers)


BYTES_PER_S = 100_000
BATCH_BYTES = 10_000
BATCHES = 40


async def test_a_follower_to_whom_a_whole_answer_takes_longer_than_the_timeout_advances(cluster):
    """All that it missed takes four seconds on this line, and an answer may take one and a half."""
    listener = f"127.0.0.1:{free_port([])}"
    async with proxy_to(listener, BYTES_PER_S) as line:
        await cluster.start_broker(1, listeners=listener, advertised_listeners=line.address)
        await cluster.start_broker(2)
        await cluster.create_topic("t", replication_factor=2, min_insync_replicas="1")
        await cluster.crash_broker(2)
        await cluster.led(TP)  # broker 2 may have been its leader
        for _ in range(BATCHES):
            await cluster.produce(TP, batch(b"x" * BATCH_BYTES), acks=1)
        await cluster.start_broker(2, replica_socket_timeout_ms=1500)
        await eventually(lambda: cluster.isr(TP) == {1, 2}, 120.0, lambda: cluster.log(2, TP).log_end_offset)
        await cluster.crash_broker(1)


async def test_idle_followers_hear_of_the_high_watermark_long_before_their_fetch_times_out(cluster):
    """Divergence 6, where HW-10 would leave them up to `replica.fetch.wait.max.ms` behind."""
    await cluster.begin(3, brokers={"replica_fetch_wait_max_ms": 60_000, "replica_lag_time_max_ms": 120_000})
    await cluster.produce(TP, batch(b"one"))
    logs = [cluster.log(broker_id, TP) for broker_id in (1, 2, 3)]
    await eventually(
        lambda: all(log.high_watermark == 1 for log in logs), 30, lambda: [log.high_watermark for log in logs]
    )
