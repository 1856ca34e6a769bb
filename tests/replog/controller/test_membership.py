"""Registrations that nobody uses: they get no replicas, stand in nobody's way, and go (D43)."""

import pytest

from replog.controller.configs import ConfigChange
from replog.controller.registration import MAX_BROKERS
from replog.errors import ErrorCode
from replog.metadata.records import change_of, record_of
from replog.metadata.values import BrokerRegistration

FAKE = range(100, 103)


@pytest.fixture
def flooded(cluster):
    """Three brokers in one rack, and three registrations that never send a heartbeat, each in a rack of its own."""
    cluster.start(1, 2, 3)
    for broker_id in FAKE:
        cluster.register(broker_id, rack=f"rack of {broker_id}")
    return cluster


def test_ct_20_a_broker_that_never_joined_gets_no_replicas(flooded):
    """CT-20: their racks alone would give them two replicas of each partition."""
    flooded.create("t", partitions=50, replication_factor=3)
    assert {tuple(sorted(state.replicas)) for state in flooded.image.partitions.values()} == {(1, 2, 3)}


@pytest.mark.parametrize("starts_again", [False, True])
def test_ct_20_a_broker_that_is_stopped_may_get_replicas_once_it_has_joined(cluster, starts_again):
    """CT-20: also in its next registration, while it starts."""
    cluster.start(1, 2, 3)
    cluster.heartbeat(3, fence=True)
    if starts_again:
        cluster.now_ms += 60_000
        cluster.register(3)
        cluster.now_ms += 60_000
        assert cluster.do(cluster.state.forget_unused(cluster.now_ms)) == [], "its session is over, and it may come"
    cluster.create("t", partitions=3, replication_factor=3)
    assert {len(state.replicas) for state in cluster.image.partitions.values()} == {3}


def test_nobody_places_replicas_by_hand_on_a_broker_that_never_joined(flooded, refused):
    with refused(ErrorCode.INVALID_REPLICA_ASSIGNMENT, "broker 100 has never been active"):
        flooded.assigned("t", [1, 2, 100])


def test_a_registration_that_is_not_used_goes_with_its_session(flooded):
    flooded.now_ms += 8999
    for broker_id in (1, 2, 3):
        flooded.heartbeat(broker_id)
    assert flooded.do(flooded.state.forget_unused(flooded.now_ms)) == []
    flooded.heartbeat(101, fence=True)  # it starts slowly, and is alive
    flooded.now_ms += 1
    assert flooded.do(flooded.state.forget_unused(flooded.now_ms)) == [100, 102]
    assert sorted(flooded.image.brokers) == [1, 2, 3, 101]


def test_the_next_controller_gives_those_that_register_just_now_one_more_session(flooded, make_cluster):
    candidate = make_cluster()
    candidate.state.load([change_of(record_of(change)) for change in flooded.history], candidate.now_ms)
    assert candidate.do(candidate.state.forget_unused(candidate.now_ms + 8999)) == []
    assert candidate.do(candidate.state.forget_unused(candidate.now_ms + 9000)) == list(FAKE)


def test_a_stopped_broker_of_an_earlier_release_has_joined_if_it_has_replicas(three):
    """Its record does not say so."""
    three.expire(13)
    known = three.image.brokers[13]
    three.image.brokers[13] = BrokerRegistration(13, known.broker_epoch, b"i" * 16, "host13:9092", "", True, False)
    three.create("u", replication_factor=3)
    three.now_ms += 10**9
    assert three.do(three.state.forget_unused(three.now_ms)) == []


def test_a_flood_of_registrations_keeps_no_new_broker_out(cluster):
    """And no broker that is there."""
    cluster.start(1, 2)
    for fake in range(10_000, 10_000 + 2 * MAX_BROKERS):
        cluster.register(fake)
    assert len(cluster.image.brokers) == MAX_BROKERS
    cluster.start(3)
    cluster.create("t", replication_factor=3)
    assert sorted(cluster.partition().replicas) == [1, 2, 3]


def test_who_was_in_the_way_of_others_and_lives_registers_again(cluster, refused):
    for broker_id in range(MAX_BROKERS):
        cluster.register(broker_id)
    cluster.register(MAX_BROKERS)
    with refused(ErrorCode.STALE_BROKER_EPOCH, "broker 0 is not registered", "it must register"):
        cluster.heartbeat(0)
    cluster.register(0)
    assert not cluster.heartbeat(0).is_fenced


@pytest.mark.parametrize(
    ("broker_id", "code", "words"),
    [
        (99, ErrorCode.BROKER_ID_NOT_REGISTERED, "broker 99 is not registered"),
        (14, ErrorCode.INVALID_REQUEST, "it is unfenced; stop it first"),
        (12, ErrorCode.INVALID_REPLICA_ASSIGNMENT, "it has replicas, such as that of t-0; move them"),
        (13, ErrorCode.INVALID_REPLICA_ASSIGNMENT, "it has replicas, such as that of t-0; move them"),
    ],
)
def test_a_broker_that_serves_or_has_replicas_is_not_forgotten(three, refused, broker_id, code, words):
    three.start(14)
    three.expire(13)
    before = three.image.version
    with refused(code, f"broker {broker_id}", words):
        three.state.unregister_broker(broker_id)
    assert three.image.version == before


def test_a_broker_that_is_forgotten_is_not_there_and_may_come_back(cluster, refused):
    cluster.start(1, 2)
    epoch = cluster.image.brokers[2].broker_epoch
    cluster.expire(2)
    assert cluster.do(cluster.state.unregister_broker(2)) == cluster.image.version
    assert sorted(cluster.image.brokers) == [1]
    with refused(ErrorCode.INVALID_REPLICATION_FACTOR, "1 of 1"):
        cluster.create("t", replication_factor=2)
    with refused(ErrorCode.STALE_BROKER_EPOCH, "broker 2 is not registered"):
        cluster.heartbeat(2, epoch=epoch)
    assert cluster.register(2) > epoch


def test_ct_20_a_cordoned_broker_gets_replicas_only_by_hand(three, refused):
    """CT-20."""
    cordon = ConfigChange({"cordoned.log.dirs": "*"})
    three.do(three.state.alter_broker_configs(12, cordon))
    three.create("new", partitions=9, replication_factor=2)
    assert {r for state in three.image.partitions_of("new").values() for r in state.replicas} == {11, 13}
    with refused(ErrorCode.INVALID_REPLICATION_FACTOR, "2 of 3 that are registered have been"):
        three.create("too-many", partitions=1, replication_factor=3)
    three.assigned("by-hand", [12])
    three.do(three.state.alter_broker_configs(12, ConfigChange(delete=["cordoned.log.dirs"])))
    three.create("again", partitions=1, replication_factor=3)


def test_settings_of_a_broker_that_is_forgotten_are_not_those_of_the_next_one(cluster):
    cluster.start(1, 2)
    cluster.do(cluster.state.alter_broker_configs(2, ConfigChange({"cordoned.log.dirs": "*"})))
    cluster.heartbeat(2, shutdown=True)
    assert cluster.do(cluster.state.unregister_broker(2)) == cluster.image.version
    assert not cluster.image.broker_configs.get(2)
