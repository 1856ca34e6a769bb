"""Registrations; those that nobody uses get no replicas, stand in nobody's way, and go (D43)."""

import pytest

from replog.controller.configs import ConfigChange
from replog.controller.registration import MAX_BROKERS
from replog.errors import ErrorCode
from replog.metadata.records import change_of, record_of
from replog.metadata.values import BrokerRegistration


def test_ct_1_a_new_broker_starts_fenced_with_the_version_of_its_record_as_epoch(cluster):
    assert cluster.register(1, rack="r1") == cluster.image.version == cluster.history[-1].version
    broker = cluster.image.brokers[1]
    assert (broker.address, broker.rack, broker.fenced, broker.in_controlled_shutdown) == (
        "host1:9092",
        "r1",
        True,
        False,
    )


def test_ct_1_broker_epochs_strictly_increase_over_all_brokers(cluster):
    epochs = [cluster.register(b) for b in (5, 3, 4)]
    cluster.now_ms += 9000
    epochs += [cluster.register(b) for b in (5, 3, 4)]
    assert epochs == sorted(set(epochs))


def test_ct_1_the_same_incarnation_again_keeps_epoch_and_fenced_state(cluster):
    first = cluster.register(1, incarnation=b"a" * 16)
    cluster.heartbeat(1)
    version = cluster.image.version
    again = cluster.register(1, incarnation=b"a" * 16)
    assert again == first
    assert cluster.image.version == version, "an idempotent retry writes nothing"
    assert not cluster.image.brokers[1].fenced


@pytest.mark.parametrize("changed", [{"address": "elsewhere:9092"}, {"rack": "r2"}], ids=str)
@pytest.mark.parametrize("waited_ms", [0, 60_000])
def test_ct_1_a_process_keeps_its_address_and_its_rack(cluster, refused, changed, waited_ms):
    """CT-1: in its session and after it (D40)."""
    cluster.register(1, incarnation=b"a" * 16, rack="r1")
    cluster.now_ms += waited_ms
    before = cluster.image.brokers[1]
    with refused(ErrorCode.INVALID_REQUEST, "cannot register broker 1", "host1:9092", "'r1'", "restart it"):
        cluster.register(1, incarnation=b"a" * 16, **({"rack": "r1"} | changed))
    assert cluster.image.brokers[1] == before


@pytest.mark.parametrize("unfenced", [True, False])
def test_ct_1_a_live_session_under_another_incarnation_is_a_duplicate(cluster, refused, unfenced):
    cluster.register(1)
    if unfenced:
        cluster.heartbeat(1)
    cluster.now_ms += 4000
    with refused(ErrorCode.DUPLICATE_BROKER_REGISTRATION, "broker 1", "host1:9092", "another 5000 ms"):
        cluster.register(1)
    cluster.now_ms += 5000
    assert cluster.register(1) == cluster.image.version


def test_a_refused_duplicate_does_not_prolong_the_session_in_its_way(cluster, refused):
    cluster.register(1)
    for _ in range(9):
        with refused(ErrorCode.DUPLICATE_BROKER_REGISTRATION):
            cluster.register(1)
        cluster.now_ms += 1000
    cluster.register(1)


def test_a_broker_that_was_told_to_stop_may_be_started_again_at_once(cluster):
    cluster.register(1)
    assert cluster.heartbeat(1, shutdown=True).should_shutdown
    cluster.register(1)


def test_inconsistent_cluster_id(cluster, refused):
    with refused(ErrorCode.INCONSISTENT_CLUSTER_ID, "'other'", "'cluster-of-the-test'"):
        cluster.register(1, cluster_id="other")
    cluster.register(1, cluster_id="cluster-of-the-test")


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"broker_id": -1}, "0 to"),
        ({"incarnation": b"short"}, "5 bytes"),
        ({"address": "nohost"}, "not host:port"),
        ({"address": "h:70000"}, "65535"),
        ({"address": "h:0"}, "port 0"),
        ({"address": "a..b:9"}, "no host that can be"),
        ({"address": "h\x00:1"}, "no host that can be"),
        ({"address": "h" * 300 + ":1"}, "302 characters"),
        ({"rack": "r" * 256}, "255 printable"),
        ({"rack": "a\nb"}, "printable"),
        ({"previous": -2}, "-2"),
    ],
)
def test_a_registration_is_checked_before_it_is_believed(cluster, refused, fields, words):
    given = {"broker_id": 1, "incarnation": b"a" * 16, "previous": -1} | fields
    with refused(ErrorCode.INVALID_REQUEST, words):
        cluster.register(given.pop("broker_id"), **given)
    assert not cluster.image.brokers


def test_the_number_of_brokers_is_bounded(cluster, refused):
    cluster.start(*range(MAX_BROKERS))
    with refused(ErrorCode.INVALID_REQUEST, f"already has {MAX_BROKERS} brokers"):
        cluster.register(MAX_BROKERS)
    cluster.now_ms += 9000
    cluster.register(0)


@pytest.mark.parametrize("previous", [-1, 1, 10**9])
def test_isr_18_without_proof_of_a_clean_stop_the_broker_leaves_every_isr_and_elr(three, previous):
    three.expire(12)
    three.expire(13)
    assert (three.partition().isr, three.partition().elr) == ((11,), (13,))
    three.register(13, previous=previous)
    assert (three.partition().isr, three.partition().elr) == ((11,), ())


@pytest.mark.parametrize("proof", [b"x" * 16, b""], ids=["another", "none"])
def test_isr_18_who_knows_the_epoch_of_a_clean_stop_but_not_its_incarnation_proves_nothing(three, proof):
    """ISR-18: everybody may read the epoch. Else an empty log could be elected (D40)."""
    three.expire(12)
    three.expire(13)
    three.register(13, proof=proof)
    assert (three.partition().isr, three.partition().elr) == ((11,), ())


def test_ct_4_the_registration_is_the_last_record_so_who_applied_it_knows_what_the_restart_changed(three):
    """CT-4."""
    three.now_ms += 9000
    before = three.image.version
    epoch = three.register(11, previous=-1)
    assert [change.key for change in three.history if change.version > before] == ["partition/t/0", "broker/11"]
    assert epoch == three.image.version
    assert three.heartbeat(11, version=epoch - 1).is_fenced
    assert not three.heartbeat(11, version=epoch).is_fenced


def test_ct_28_replicas_that_are_not_on_its_disks_leave_every_list_in_the_commit_that_registers_it(three):
    """CT-29: even if the broker has a marker that proves a clean stop. Topics that are unknown here are no matter."""
    three.assigned("u", [13, 12], [13, 12])
    topic_id = three.image.topics["u"].topic_id
    for broker in (12, 13):
        three.expire(broker)
    assert three.partition("u", 0).elr == (13, 12)
    before = three.image.version
    three.register(13, missing=[(b"unknown", [0]), (topic_id, [1, 7])])
    assert [change.key for change in three.history if change.version > before] == ["partition/u/1", "broker/13"]
    assert (three.partition("u", 0).elr, three.partition("u", 0).last_known_leader) == ((13, 12), 13)
    assert (three.partition("u", 1).elr, three.partition("u", 1).last_known_leader) == ((12,), -1)
    three.heartbeat(13)
    assert three.partition("u", 0).leader == 13
    assert three.partition("u", 1).leader == -1, "12 has everything"


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
