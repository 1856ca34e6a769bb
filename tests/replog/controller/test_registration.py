from dataclasses import replace

import pytest

from replog.controller.registration import MAX_BROKERS
from replog.errors import ErrorCode


def test_ct_1_a_new_broker_starts_fenced_with_the_version_of_its_record_as_epoch(cluster):
    """CT-1."""
    assert cluster.register(1, rack="r1") == cluster.image.version == cluster.history[-1].version
    broker = cluster.image.brokers[1]
    assert (broker.address, broker.rack, broker.fenced, broker.in_controlled_shutdown) == (
        "host1:9092",
        "r1",
        True,
        False,
    )


def test_ct_1_broker_epochs_strictly_increase_over_all_brokers(cluster):
    """CT-1."""
    epochs = [cluster.register(b) for b in (5, 3, 4)]
    cluster.now_ms += 9000
    epochs += [cluster.register(b) for b in (5, 3, 4)]
    assert epochs == sorted(set(epochs))


def test_ct_1_the_same_incarnation_again_keeps_epoch_and_fenced_state(cluster):
    """CT-1."""
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
    """CT-1."""
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
    """ISR-18."""
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


def test_isr_18_a_clean_stop_of_an_earlier_release_is_believed_by_its_epoch(three):
    """ISR-18: its record does not say that the broker has joined."""
    three.expire(12)
    three.expire(13)
    three.image.brokers[13] = replace(three.image.brokers[13], joined=False)
    three.register(13, proof=b"")
    assert three.partition().elr == (13,)


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
