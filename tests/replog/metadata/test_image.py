"""What a change of the metadata does to what a process knows."""

import pytest

from replog.metadata.changes import Change
from replog.metadata.image import MetadataImage
from replog.metadata.values import PartitionState, Topic
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


def test_a_topic_that_is_deleted_takes_its_partitions_along():
    """CT-19."""
    other = Change("topic", "t2", Topic("t2", NEW)), partition(0, NEW, "t2")
    image = image_of(topic(OLD), partition(0, OLD), partition(1, OLD), *other, topic(None))
    assert image.topics.keys() == {"t2"}
    assert image.partitions.keys() == {TopicPartition("t2", 0)}
    assert image.partitions_of("t") == {}


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
