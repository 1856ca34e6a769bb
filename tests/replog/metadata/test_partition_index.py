"""The index of an image against a look at every partition, after random histories."""

import random

import pytest

from replog.controller import broker_events
from replog.controller.broker_events import Rules, fence, unfence
from replog.metadata.changes import Change
from replog.metadata.image import MetadataImage
from replog.metadata.values import NO_LEADER, BrokerRegistration, PartitionState, Topic
from replog.topic import TopicPartition

BROKERS = range(6)


def _put(image, *change):
    image.put(Change(*change)._replace(version=image.version + 1))


def _some_state(rng):
    replicas = tuple(rng.sample(BROKERS, rng.randint(1, 3)))
    return PartitionState(
        replicas=replicas,
        isr=replicas[: rng.randint(1, 3)],
        leader=rng.choice((*replicas, replicas[0], NO_LEADER)),
        leader_epoch=0,
        partition_epoch=0,
        adding=replicas[:1] if rng.random() < 0.3 else (),
    )


@pytest.mark.parametrize("seed", range(20))
def test_the_index_knows_what_a_look_at_every_partition_finds(seed):
    rng = random.Random(seed)
    image = MetadataImage()
    for _ in range(300):
        tp = TopicPartition(rng.choice("abc"), rng.randrange(6))
        if rng.random() < 0.1:
            _put(image, "topic", tp.topic, None)
        else:
            topic_id = bytes([rng.random() < 0.1]) * 16
            _put(image, "partition", tp, _some_state(rng), topic_id)
        everything = image.partitions.items()
        for topic in "abcd":
            states = {at.partition: state for at, state in everything if at.topic == topic}
            assert image.partitions_of(topic) == states
            assert list(image.partitions_of(topic)) == sorted(states)
        for broker_id in (*BROKERS, NO_LEADER):
            assert set(image.index.on_broker(broker_id)) == {at for at, s in everything if broker_id in s.replicas}
            assert set(image.index.led_by(broker_id)) == {at for at, s in everything if s.leader == broker_id}
            assert bool(image.index.led_by(broker_id)) == any(s.leader == broker_id for _, s in everything)
            assert set(image.index.behind_on(broker_id)) == {
                at
                for at, s in everything
                if broker_id in s.replicas and broker_id not in (*s.isr, *s.adding) and s.leader != NO_LEADER
            }
        assert set(image.index.reassigning) == {at for at, s in everything if s.reassigning}
        assert set(image.index.displaced) == {at for at, s in everything if s.leader != s.replicas[0]}


def test_what_happens_to_a_broker_costs_a_look_at_its_own_partitions_alone(monkeypatch):
    image = MetadataImage()
    for broker_id in BROKERS:
        broker = BrokerRegistration(broker_id, broker_id + 1, b"i" * 16, f"h{broker_id}:1", "", False, False)
        _put(image, "broker", broker_id, broker)
    _put(image, "topic", "t", Topic("t", b"t" * 16))
    for number in range(1000):
        replicas = (0, 1) if number == 500 else (2, 3)
        state = PartitionState(replicas=replicas, isr=replicas, leader=replicas[0], leader_epoch=0, partition_epoch=0)
        _put(image, "partition", TopicPartition("t", number), state, b"t" * 16)
    looked_at = []
    changes = broker_events.partition_changes

    def counted(image, rules, active, candidates, change):
        def noted(tp, state, now):
            looked_at.append(state)
            return change(tp, state, now)

        return changes(image, rules, active, candidates, noted)

    monkeypatch.setattr(broker_events, "partition_changes", counted)
    fenced = fence(image, Rules(1), image.brokers[0])
    assert [change.key for change in fenced] == ["broker/0", "partition/t/500"]
    assert len(looked_at) == 1
    unfence(image, Rules(1), image.brokers[4])
    assert len(looked_at) == 1
