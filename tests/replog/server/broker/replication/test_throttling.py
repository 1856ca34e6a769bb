"""Replication throttles (KIP-73) between brokers, in virtual time: a copy keeps to its rate and asks seldom, and who
is in sync is left alone."""

from collections.abc import Callable
from typing import Any

import pytest

from replog.rpc.peer import anonymous
from replog.rpc.v1 import replica_pb2
from replog.server.broker.replication.replica_fetcher import ReplicaFetcher
from replog.server.broker.replication.replica_service import ReplicaStream
from tests.replog.server.broker.virtual_pair import TP, VirtualPair

BATCH_BYTES = 50_000
RATE = 100_000  # bytes per second

Start = Callable[..., VirtualPair]


@pytest.fixture
def start(make_pair: Start) -> Start:
    def made(topic: dict[str, str], **settings: Any) -> VirtualPair:
        pair = make_pair(**settings)
        pair.create_topic(**topic)
        return pair

    return made


@pytest.fixture
def fetches(monkeypatch: pytest.MonkeyPatch) -> list[replica_pb2.ReplicaFetchRequest]:
    """Every fetch that a leader has got from a follower."""
    seen: list[replica_pb2.ReplicaFetchRequest] = []
    on_request = ReplicaStream.on_request

    def counted(session: ReplicaStream, request: replica_pb2.ReplicaFetchRequest) -> None:
        seen.append(request)
        on_request(session, request)

    monkeypatch.setattr(ReplicaStream, "on_request", counted)
    return seen


def lag_behind(pair: VirtualPair, batches: int) -> None:
    """The follower is away while so many batches come in; then it starts again, and has got the first of them."""
    pair.kill(2)
    pair.produce(*[BATCH_BYTES] * batches)
    pair.start(2)
    pair.until(lambda: TP in pair.brokers[2].manager.replicas.hosted, 5)
    pair.until(lambda: pair.log(2).log_end_offset > 0, 5)


@pytest.mark.parametrize(
    ("side", "replicas"), [("leader", "*"), ("follower", "*"), ("leader", "0:1"), ("follower", "0:2")]
)
def test_a_replica_that_lacks_much_is_copied_at_the_rate(start, fetches, side, replicas):
    """FE-23, FT-6: 3 MB at 100 kB/s, neither faster nor much slower, and not by asking again and again."""
    listed = {f"{side}_replication_throttled_replicas": replicas, "min_insync_replicas": "1"}
    settings = {f"{side}_replication_throttled_rate": RATE, "replica_fetch_response_max_bytes": BATCH_BYTES}
    pair = start(listed, **settings)
    lag_behind(pair, 60)
    fetches.clear()
    begun, checked = pair.loop.time(), 0
    while pair.log(2).log_end_offset < 60:
        pair.wait(1)
        checked += 1
        copied = pair.log(2).size
        assert copied <= RATE * (pair.loop.time() - begun + 1) + 2 * BATCH_BYTES, f"{copied} bytes in {checked} s"
        assert checked < 60, f"{copied} bytes in a minute"
    took_s = pair.loop.time() - begun
    assert took_s == pytest.approx(60 * BATCH_BYTES / RATE, rel=0.1)
    assert len(fetches) < 60 + 3 * took_s, f"{len(fetches)} fetches in {took_s:.1f} s"
    pair.until(lambda: pair.isr == {1, 2}, 2)


@pytest.mark.parametrize("replicas", ["", "0:2", "1:1"])
def test_whoever_is_not_listed_is_copied_at_once(start, replicas):
    """A list for leaders names the leader's replica, which is that of broker 1 here (FE-23)."""
    listed = {"leader_replication_throttled_replicas": replicas, "min_insync_replicas": "1"}
    pair = start(listed, leader_replication_throttled_rate=1)
    lag_behind(pair, 60)
    pair.until(lambda: pair.isr == {1, 2}, 2)


def test_a_member_of_the_isr_is_not_throttled_after_an_election_either(start):
    """Its lag is not known then; left out of the fetch it would fall out of the ISR for its own quota."""
    listed = {"follower_replication_throttled_replicas": "*", "min_insync_replicas": "2"}
    pair = start(listed, follower_replication_throttled_rate=1, replica_fetch_backoff_ms=100)
    pair.produce(*[BATCH_BYTES] * 5)
    follower = pair.brokers[2].manager.replicas.hosted[TP].follower
    assert follower is not None
    follower.lag = None
    pair.network.break_connections("broker-1", "broker-2")  # or the answer to the parked fetch would tell it
    pair.wait(1.5)
    assert follower.lag == 0
    assert max(pair.produce(*[BATCH_BYTES] * 5)) < 0.1


def test_a_copy_that_stands_still_asks_seldom_and_goes_on_when_it_may(start, fetches, monkeypatch):
    """FT-6: with nothing to fetch the fetcher waits, though a delay of the partition is over meanwhile (FT-11)."""
    listed = {"follower_replication_throttled_replicas": "*", "min_insync_replicas": "1"}
    pair = start(listed, follower_replication_throttled_rate=1, replica_fetch_response_max_bytes=BATCH_BYTES)
    lag_behind(pair, 5)
    rounds, ask = 0, ReplicaFetcher._ask

    def counted_ask(*arguments: Any) -> None:
        nonlocal rounds
        rounds += 1
        ask(*arguments)

    monkeypatch.setattr(ReplicaFetcher, "_ask", counted_ask)
    follower = pair.brokers[2].manager.replicas.hosted[TP].follower
    assert follower is not None
    follower._delay(pair.brokers[2]._clock.monotonic_ms() - 1000)
    pair.brokers[2].manager.replicas.hosted[TP].fetched_by.mark(TP)
    pair.wait(1)
    fetches.clear()
    rounds = 0
    pair.wait(8)
    assert (fetches, rounds <= 8) == ([], True), f"{rounds} rounds in 8 s"
    assert pair.log(2).log_end_offset == 1

    faster = {"follower.replication.throttled.rate": str(1 << 30)}
    pair.administer(lambda admin: admin.alter_broker_configs(2, faster))
    pair.until(lambda: pair.isr == {1, 2}, 2)


def move(pair: VirtualPair, target: list[int] | None, throttle: int = 0) -> None:
    """Partition 0 of the topic is to move there; None: not to move."""

    (errors,) = pair.administer(lambda admin: admin.alter_partition_reassignments({TP: target}, throttle))
    assert errors[TP] is None


def moves(pair: VirtualPair) -> bool:
    return pair.controller.state.image.partitions[TP].reassigning


def seconds_until(pair: VirtualPair, done: Callable[[], bool], at_most: float = 60) -> float:
    begun = pair.loop.time()
    assert pair.loop.run_until(done, begun + at_most)
    return pair.loop.time() - begun


def test_a_move_keeps_to_its_throttle_which_ends_with_it(start):
    """Divergence 55: no list and no rate is left, the command that asked for the move may have died."""
    pair = start({"min_insync_replicas": "1"}, replica_fetch_response_max_bytes=BATCH_BYTES)
    pair.start(3)
    pair.produce(*[BATCH_BYTES] * 60)
    move(pair, [1, 3], RATE)
    assert seconds_until(pair, lambda: not moves(pair)) == pytest.approx(60 * BATCH_BYTES / RATE, rel=0.1)
    pair.until(lambda: pair.hosted(1).move_quota is None, 2)
    assert pair.hosted(3).follower_quota is None
    image = pair.controller.state.image
    assert (image.broker_configs, image.partitions[TP].throttle) == ({}, 0)
    move(pair, [1, 2])
    seconds_until(pair, lambda: not moves(pair), 5)


@pytest.mark.parametrize("how", ["faster", "cancelled", "listed"])
def test_a_throttle_of_a_move_is_what_the_last_request_says_and_goes_before_lists(start, how):
    """A throttle that somebody set by hand stays, and counts where no move has one of its own."""
    listed = {f"{side}_replication_throttled_replicas": "*" for side in ("leader", "follower")}
    slow = {f"{side}_replication_throttled_rate": 1 for side in ("leader", "follower")}
    pair = start({"min_insync_replicas": "1", **listed}, **slow)
    pair.start(3)
    pair.produce(*[BATCH_BYTES] * 60)
    move(pair, [1, 2, 3], 0 if how == "listed" else 1000)
    pair.wait(10)
    assert moves(pair)
    move(pair, None if how == "cancelled" else [1, 2, 3], RATE * 10)
    seconds_until(pair, lambda: not moves(pair), 10)
    assert pair.isr == ({1, 2} if how == "cancelled" else {1, 2, 3})


def test_who_comes_back_during_a_throttled_move_is_not_throttled_by_it(start):
    pair = start({"min_insync_replicas": "1"}, replica_fetch_response_max_bytes=BATCH_BYTES)
    pair.start(3)
    pair.produce(*[BATCH_BYTES] * 20)
    move(pair, [1, 2, 3], 1)
    lag_behind(pair, 60)
    seconds_until(pair, lambda: pair.isr == {1, 2}, 5)
    assert moves(pair)


@pytest.mark.parametrize("replicas", ["", "*"])
def test_a_throttle_above_the_rate_of_writes_lets_a_move_end(start, replicas):
    """Divergence 55: 2 MB/s of writes, which broker 2 copies too, and a throttle of 3 MB/s: the move's, or of lists."""
    listed = {f"{side}_replication_throttled_replicas": replicas for side in ("leader", "follower")}
    rates = {f"{side}_replication_throttled_rate": 3_000_000 for side in ("leader", "follower")}
    pair = start({"min_insync_replicas": "1", **listed}, **rates)
    pair.start(3)
    pair.produce(*[200_000] * 20)
    move(pair, [1, 2, 3], 0 if replicas else 3_000_000)
    written, begun = 20 * 200_000, pair.loop.time()
    while moves(pair):
        pair.produce(200_000)
        written += 200_000
        pair.loop.run_until(begun + (written - 20 * 200_000) / 2_000_000)
        assert written < 40_000_000, f"{pair.log(3).size} of {pair.log(1).size} bytes are copied"
    assert pair.isr == {1, 2, 3}
    assert pair.loop.time() - begun > 2


def test_what_a_throttle_holds_up_is_shown_to_prometheus(start):
    """Of the leader and of the one that copies, of a move and of lists; only while somebody is not in sync."""
    listed = {"leader_replication_throttled_replicas": "*", "min_insync_replicas": "1"}
    pair = start(listed, leader_replication_throttled_rate=7, replica_fetch_response_max_bytes=BATCH_BYTES)

    def throttles(broker_id: int) -> dict[tuple[str, str], float]:
        families = pair.run(pair.brokers[broker_id].metrics(anonymous("127.0.0.1")))
        return {
            (sample.labels["side"], sample.labels["by"]): sample.value
            for family in families
            for sample in family.samples
            if sample.name == "replog_replica_throttle_bytes_per_second"
        }

    pair.start(3)
    assert [throttles(broker_id) for broker_id in (1, 2, 3)] == [{}, {}, {}]
    lag_behind(pair, 20)
    move(pair, [1, 2, 3], 1000)
    pair.wait(1)
    assert [throttles(broker_id) for broker_id in (1, 2, 3)] == [
        {("leader", "list"): 7, ("leader", "move"): 1000},
        {},
        {("follower", "move"): 1000},
    ]
