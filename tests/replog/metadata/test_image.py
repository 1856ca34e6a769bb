"""What a change of the metadata does to what a process knows; its index against a look at every partition."""

import copy
import random

import pytest

from replog.controller import broker_events
from replog.controller.broker_events import Rules, fence, unfence
from replog.log.directories.identity import Position
from replog.metadata.changes import Change, Tombstones
from replog.metadata.image import MAX_HISTORIES, Batch, History, MetadataImage, begin, continues
from replog.metadata.partition_index import PartitionIndex
from replog.metadata.values import NO_LEADER, BrokerRegistration, PartitionState, Topic
from replog.topic import TopicPartition

OLD, NEW = b"o" * 16, b"n" * 16
STATE = PartitionState(replicas=(1,), isr=(1,), leader=1, leader_epoch=0, partition_epoch=0)


def topic(topic_id):
    return Change("topic", "t", Topic("t", topic_id) if topic_id else None)


def partition(number, topic_id, name="t"):
    return Change("partition", TopicPartition(name, number), STATE if topic_id else None, topic_id)


def image_of(*changes):
    image = MetadataImage()
    for version, change in enumerate(changes, 1):
        image.put(change._replace(version=version))
    return image


@pytest.mark.parametrize(
    "news",
    [
        [topic(NEW), partition(0, NEW), partition(1, NEW)],
        [partition(0, NEW), partition(1, NEW), topic(NEW)],
        [partition(3, OLD), partition(0, NEW), topic(NEW), partition(1, NEW)],
    ],
    ids=["created", "created and altered since", "a partition of the old one changed before"],
)
def test_partitions_of_another_topic_id_show_that_the_topic_was_deleted_meanwhile(news):
    """CT-19: one that missed the deletion hears only of the new topic, whose record may come after its partitions'."""
    image = image_of(topic(OLD), *(partition(number, OLD) for number in range(4)), *news)
    assert image.topics["t"].topic_id == NEW
    assert list(image.partitions_of("t")) == [0, 1]
    assert image.partitions.keys() == {TopicPartition("t", 0), TopicPartition("t", 1)}


def test_deletions_of_partitions_as_earlier_releases_wrote_them_besides_the_topics_say_nothing_more():
    created = topic(OLD), partition(0, OLD), partition(1, OLD)
    gone = partition(0, b""), partition(1, b"")
    assert image_of(*created, *gone, topic(None)).partitions == {}
    again = image_of(*created, gone[1], topic(NEW), partition(0, NEW))
    assert again.partitions.keys() == {TopicPartition("t", 0)}


BROKERS = range(4)


def some_change(rng):
    name, topic_id = rng.choice("abc"), bytes([rng.random() < 0.2]) * 16
    match rng.randrange(8):
        case 0:
            return Change("topic", name, None)
        case 1:
            return Change("topic", name, Topic(name, topic_id))
        case 2:
            broker_id = rng.choice(BROKERS)
            return Change("broker", broker_id, BrokerRegistration(broker_id, 1, b"i" * 16, "h:1", "", False, False))
        case 3:
            return Change("producer_ids", None, rng.randrange(1000))
    replicas = tuple(rng.sample(BROKERS, 2))
    adding = replicas[:1] if rng.random() < 0.3 else ()
    state = PartitionState(replicas, replicas, rng.choice(replicas), 0, 0, adding=adding)
    return Change("partition", TopicPartition(name, rng.randrange(4)), state, topic_id)


def shown(image):
    index = image.index
    return copy.deepcopy(
        (
            image.version,
            image.next_producer_id,
            image.brokers,
            image.topics,
            image.partitions,
            {topic: (index.topic_id(topic), image.partitions_of(topic)) for topic in "abc"},
            [(set(index.on_broker(broker)), set(index.led_by(broker))) for broker in BROKERS],
            (set(index.reassigning), set(index.displaced)),
        )
    )


@pytest.mark.parametrize("seed", range(20))
def test_a_batch_does_what_its_changes_do_one_by_one(seed):
    rng = random.Random(seed)
    one_by_one, together, history = MetadataImage(), MetadataImage(), []
    for _ in range(40):
        repeated, before = history[-rng.randrange(3) :], shown(together)
        new = [some_change(rng)._replace(version=len(history) + number) for number in range(1, rng.randrange(2, 12))]
        for change in new:
            one_by_one.put(change)
        batch = Batch(together, [*repeated, *new])
        assert batch.changes == new
        assert shown(together) == before, "nothing is there before the whole of it"
        batch.put()
        assert shown(together) == shown(one_by_one)
        history += new


def test_a_new_topics_partitions_cost_nothing_one_by_one_when_they_come_into_the_image(monkeypatch):
    """Thousands of them would block an event loop for tens of milliseconds."""
    state = PartitionState((1, 2), (1, 2), 1, 0, 0)
    new = [
        Change("topic", "t", Topic("t", b"t" * 16)),
        *(Change("partition", TopicPartition("t", number), state, b"t" * 16) for number in range(100)),
    ]
    image = MetadataImage()
    batch = Batch(image, [change._replace(version=version) for version, change in enumerate(new, 1)])
    with monkeypatch.context() as patch:
        patch.delattr(MetadataImage, "put")
        patch.delattr(PartitionIndex, "put")
        batch.put()
    assert len(image.partitions) == len(set(image.index.on_broker(2))) == 100
    assert image.version == 101


LINEAGE = (History(b"a", 2), History(b"b", 11), History(b"c", 21))


def knows(history_id: bytes, version: int, lineage: tuple[History, ...] = LINEAGE, newest: int = 30) -> bool:
    return continues(lineage, newest, Position("cluster", history_id, version))


@pytest.mark.parametrize(("history_id", "end"), [(b"a", 10), (b"b", 20), (b"c", 30)])
def test_ct_24_who_knows_a_history_up_to_its_end_here_is_followed_and_nobody_who_knows_more(history_id, end):
    assert knows(history_id, end)
    assert not knows(history_id, end + 1), "it went on elsewhere"


def test_ct_24_an_unknown_history_is_another_one_however_small_its_version():
    """CT-24: two controllers went on from one copy, and this one came further."""
    assert not knows(b"x", 25)
    assert not knows(b"x", 2)


def test_what_is_older_than_all_that_is_remembered_is_taken_on_trust():
    assert knows(b"", 1), "a store of an earlier release had no histories"
    assert knows(b"forgotten", 1)


def test_a_store_without_histories_knows_its_versions_only():
    assert knows(b"", 30, ())
    assert not knows(b"", 31, ())
    assert not knows(b"a", 31, ())


def test_a_new_history_begins_after_the_newest_version_and_old_ones_are_forgotten():
    lineage: tuple[History, ...] = ()
    for number in range(MAX_HISTORIES + 10):
        lineage = begin(lineage, b"%d" % number, number)
    assert len(lineage) == MAX_HISTORIES
    assert lineage[-1] == History(b"%d" % (MAX_HISTORIES + 9), MAX_HISTORIES + 10)


def tombstones(*changes):
    made = Tombstones()
    for version, change in enumerate(changes, 1):
        made.put(change._replace(version=version))
    return made


def test_the_oldest_deletions_up_to_a_version_until_they_are_collected():
    deletions = [Change("topic", name, None) for name in "abc"]
    before = tombstones(Change("cluster", None, "c"), *deletions)
    assert before.up_to(3) == {"topic/a": 2, "topic/b": 3}
    assert before.up_to(3, limit=1) == {"topic/a": 2}
    assert tombstones(Change("cluster", None, "c"), *deletions, Change("collected", None, 3)).up_to(9) == {"topic/c": 4}


def test_what_was_made_again_is_not_deleted():
    assert tombstones(Change("topic", "a", None), Change("topic", "a", "anything")).up_to(9) == {}


IDS = range(6)


def _put(image, *change):
    image.put(Change(*change)._replace(version=image.version + 1))


def _some_state(rng):
    replicas = tuple(rng.sample(IDS, rng.randint(1, 3)))
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
            topic_id = f"{tp.topic}{int(rng.random() < 0.1)}".encode() * 8
            _put(image, "partition", tp, _some_state(rng), topic_id)
        everything = image.partitions.items()
        for topic in "abcd":
            states = {at.partition: state for at, state in everything if at.topic == topic}
            assert image.partitions_of(topic) == states
            assert list(image.partitions_of(topic)) == sorted(states)
            for topic_id in (f"{topic}{number}".encode() * 8 for number in range(2)):
                assert image.index.name_of(topic_id) == (topic if image.index.topic_id(topic) == topic_id else None)
        for broker_id in (*IDS, NO_LEADER):
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
    for broker_id in IDS:
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
