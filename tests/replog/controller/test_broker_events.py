"""What a failed disk of a broker takes from it (CT-27)."""

import pytest

from replog.controller.broker_events import OfflineReplica
from replog.topic import TopicPartition

T = TopicPartition("t", 0)


def offline(cluster, broker_id, is_gone, topic_id=None):
    """The broker says that its replica of t-0 is on a failed disk, where nothing of it may be left (`is_gone`)."""
    topic_id = topic_id or cluster.image.topics["t"].topic_id
    cluster.heartbeat(broker_id, offline=[OfflineReplica(T, topic_id, is_gone)])
    state = cluster.partition()
    return state.leader, state.isr, state.elr


@pytest.mark.parametrize("is_gone", [False, True])
def test_ct_27_a_replica_on_a_failed_disk_leads_no_more_and_is_in_no_list(three, is_gone):
    """CT-27."""
    assert offline(three, 13, is_gone) == (11, (11, 12), ())
    assert offline(three, 11, is_gone) == (12, (12,), ()), "it was the leader, and is not even eligible"
    assert offline(three, 12, is_gone) == (-1, (), ()), "what is left of these records may be damaged"


@pytest.mark.parametrize("is_gone", [False, True])
def test_ct_27_an_eligible_replica_on_a_failed_disk_is_eligible_no_more(three, is_gone):
    """CT-27."""
    three.expire(13)
    three.expire(12)
    assert three.partition().elr == (12,)
    three.come_back(12, clean=True)
    assert offline(three, 12, is_gone) == (11, (11,), ())
    three.expire(11)
    assert (three.partition().leader, three.partition().elr) == (-1, (11,)), "12 does not lead"


@pytest.mark.parametrize("is_gone", [False, True])
def test_ct_27_a_replica_of_an_earlier_topic_of_the_name_takes_nothing_from_this_one(three, is_gone):
    """CT-27."""
    before = three.partition()
    offline(three, 11, is_gone, topic_id=b"another topic id")
    assert three.partition() is before
