"""What the checker looks at and when: acknowledgements, topics that come again, what a step has touched and costs."""

import dataclasses
import time

import pytest

from replog.client.producing.deliveries import RecordMetadata
from replog.config.topic import TopicConfig
from replog.log.log import Log
from replog.metadata.values import Topic
from replog.simulator.checks import broker_check
from replog.simulator.checks.touched import DIRECTORIES, touched
from replog.simulator.history import Poll, ProducerSend, Read
from replog.simulator.invariants import Violation
from replog.simulator.profiles import PROFILES
from replog.simulator.simulation import simulate
from replog.topic import TopicPartition
from tests.leader.replicas import TP, state
from tests.replog.simulator.checks.tiny import TinyWorld, violates


def _acknowledge(world: TinyWorld, offset: int, acks: int = -1) -> None:
    send = ProducerSend("producer-1", TP, b"value", acks, idempotent=acks == -1, invoked_s=0.0)
    world.history.sends.append(send)
    world.history.acknowledged(send, RecordMetadata(TP.topic, TP.partition, offset, 0), 1.0)
    world.checker.after_step(world.client)


def test_inv_12_an_acknowledgement_of_what_no_leader_has_exposed(world):
    world.append(1)
    with violates("INV-12", "producer-1", "offset 5", "above 5"):
        _acknowledge(world, 5)


def test_inv_12_a_record_that_is_committed_is_acknowledged_also_after_an_unclean_election(world):
    """INV-12, nearly: the answer was under way."""
    world.partition.committed_end = 2
    _acknowledge(world, 4)


def test_a_topic_that_is_made_again_begins_anew(world):
    image, first = world.image, world.partition
    image.topics[TP.topic] = Topic(TP.topic, b"another id......")
    world.record(state())
    assert first.deleted
    second = world.checker.partitions[TP, b"another id......"]
    assert (second.state, second.deleted, second.committed_end) == (state(), False, 0)


def test_ct_19_a_broker_that_has_heard_everything_knows_a_partition_that_is_not_there(world):
    image = world.brokers[2].image
    image.partitions = image.partitions | {TopicPartition(TP.topic, 7): state()}
    image.version = world.image.version
    with violates("CT-19", "broker 2", f"{TP.topic}-7"):
        world.step(2)


def test_ct_19_a_broker_knows_what_was_there_when_it_last_heard(world):
    """CT-19, nearly."""
    image = world.brokers[2].image
    there, image.partitions = image.partitions, {}
    image.version = world.image.version - 1
    world.step(2)
    image.partitions, image.version = there, world.image.version
    world.step(2)


def test_a_replica_whose_disk_failed_is_looked_at_no_more(world):
    """Its state may lie halfway between two; what it holds is seen when its broker is started again."""
    log = world.hosted(2).log
    log.abandon()
    log.log_end_offset = 3
    world.step(2)
    replica = world.partition.replicas[2]
    assert (replica.failed, replica.end) == (True, 5)


def test_a_history_that_contradicts_itself_is_a_violation(world):
    for value in (b"one", b"two"):
        world.history.sends.append(ProducerSend("producer-1", TP, value, -1, True, 0.0))
        world.history.reads.append(Poll(f"reader of {value!r}", (Read(TP, 3, value),), 0.0))
    with violates("INV-17", "inconsistent-offsets in t-0", "offset 3 is b'one'"):
        world.checker.check_history()


def test_a_violation_tells_the_partition_the_replicas_and_their_logs(world):
    world.hosted(2).log.truncate_to(4)
    with pytest.raises(Violation) as caught:
        world.step(2)
    lines = str(caught.value).splitlines()
    print("\n".join(lines))
    assert lines[0].startswith("INV-8: t-0: broker 2, in the controller's ISR, lacks a record below")
    assert lines[2].strip() == "committed up to 5: 0:0-4"
    assert lines[3:] == [
        "    broker 1 leads epoch 0, Committed [1, 2, 3]: log 0:0-4, start 0, HW 5, end 5, cache (0@0)",
        "    broker 2 follows in epoch 0: log 0:0-3, start 0, HW 4, end 4, cache (0@0)",
        "    broker 3 follows in epoch 0: log 0:0-4, start 0, HW 5, end 5, cache (0@0)",
    ]


def test_a_step_that_changes_nothing_costs_next_to_nothing(world):
    """About half a microsecond for each hosted partition, and the same again for the rest (10 times that here)."""
    process = world.process_of(1)
    count, begun = 20_000, time.process_time_ns()
    for _ in range(count):
        world.checker.after_step(process)
    ns = (time.process_time_ns() - begun) / count
    print(f"{ns:.0f} ns a step")
    assert ns < 10_000


def test_the_directories_of_logs_that_change_are_noted_and_nothing_else(tmp_path):
    one, other = (Log.open(tmp_path / name, TopicConfig(), clean=True) for name in ("one-0", "other-0"))
    with touched() as directories:
        one.update_high_watermark(0)
        one.config = TopicConfig()
        assert list(directories) == []
        one.assign_epoch_start(3)
        other.maybe_increment_log_start_offset(0)
        assert list(directories) == [tmp_path / "one-0"]
        directories.clear()
        other.truncate_fully_and_start_at(7)
        assert list(directories) == [tmp_path / "other-0"]
    one.assign_epoch_start(4)
    assert list(directories) == [tmp_path / "other-0"]
    one.close()
    other.close()


def test_what_is_not_watched_fails_the_seed(tmp_path, monkeypatch):
    monkeypatch.delitem(DIRECTORIES, Log)
    monkeypatch.setattr(broker_check, "UNTOUCHED_STEPS", 1)
    outcome = simulate(1, dataclasses.replace(PROFILES["calm"], trouble_s=(3.0, 3.0)), tmp_path / "one")
    assert outcome.invariant == "defect"
    assert "checks/touched.py did not notice" in outcome.text
