"""The index of an image against a look at every partition, after random histories."""

import random

import pytest

from cluster.controller import broker_events
from cluster.controller.broker_events import Rules, fence, unfence
from cluster.controller.records import broker_record, partition_record, tombstone, topic_record
from cluster.metadata_image import MetadataImage, partition_key
from replog.metadata import NO_LEADER, Broker, PartitionState, Topic
from replog.topic import TopicPartition

BROKERS = range(6)


def _apply(image, record):
    record.version = image.version + 1
    image.apply(record)


def _some_state(chance):
    replicas = tuple(chance.sample(BROKERS, chance.randint(1, 3)))
    return PartitionState(
        replicas=replicas,
        isr=replicas,
        leader=chance.choice((*replicas, replicas[0], NO_LEADER)),
        leader_epoch=0,
        partition_epoch=0,
        adding=replicas[:1] if chance.random() < 0.3 else (),
    )


@pytest.mark.parametrize("seed", range(20))
def test_the_index_knows_what_a_look_at_every_partition_finds(seed):
    chance = random.Random(seed)
    image = MetadataImage()
    for _ in range(300):
        tp = TopicPartition(chance.choice("abc"), chance.randrange(6))
        if chance.random() < 0.3:
            _apply(image, tombstone(partition_key(tp)))
        else:
            _apply(image, partition_record(tp, b"t" * 16, _some_state(chance)))
        everything = image.partitions.items()
        for topic in "abcd":
            found = {at.partition: state for at, state in everything if at.topic == topic}
            assert image.partitions_of(topic) == found
            assert list(image.partitions_of(topic)) == sorted(found)
        for broker_id in (*BROKERS, NO_LEADER):
            assert set(image.index.on_broker(broker_id)) == {at for at, s in everything if broker_id in s.replicas}
            assert set(image.index.led_by(broker_id)) == {at for at, s in everything if s.leader == broker_id}
        assert set(image.index.reassigning) == {at for at, s in everything if s.reassigning}
        assert set(image.index.displaced) == {at for at, s in everything if s.leader != s.replicas[0]}


def test_what_happens_to_a_broker_costs_a_look_at_its_own_partitions_alone(monkeypatch):
    image = MetadataImage()
    for broker_id in BROKERS:
        address = f"h{broker_id}:1"
        _apply(image, broker_record(Broker(broker_id, broker_id + 1, b"i" * 16, address, "", False, False)))
    _apply(image, topic_record(Topic("t", b"t" * 16)))
    for number in range(1000):
        replicas = (0, 1) if number == 500 else (2, 3)
        state = PartitionState(replicas=replicas, isr=replicas, leader=replicas[0], leader_epoch=0, partition_epoch=0)
        _apply(image, partition_record(TopicPartition("t", number), b"t" * 16, state))
    looked_at = []
    changes = broker_events._changes

    def counted(image, rules, active, candidates, change):
        def noted(state, now):
            looked_at.append(state)
            return change(state, now)

        return changes(image, rules, active, candidates, noted)

    monkeypatch.setattr(broker_events, "_changes", counted)
    fenced = fence(image, Rules(1), image.brokers[0])
    assert [record.key for record in fenced] == ["broker/0", "partition/t/500"]
    assert len(looked_at) == 1
    unfence(image, Rules(1), image.brokers[4])
    assert len(looked_at) == 1
