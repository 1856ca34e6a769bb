import pytest

from replog.metadata.values import PartitionState, Topic
from replog.server.broker.control.replica_plan import Present, ReplicaPlan, plan_replica

TOPIC, OTHER = Topic("t", b"1" * 16), Topic("t", b"2" * 16)
LED, FOLLOWED = (PartitionState((1, 2, 3), (1, 2, 3), leader, 5, 9) for leader in (1, 2))
NOTHING = Present(None, False)
HERE = Present(TOPIC.topic_id, True)
DELETE, CREATE, REPLACE, LEAD, KEEP = ReplicaPlan


@pytest.mark.parametrize(
    ("state", "topic", "present", "expected"),
    [
        (FOLLOWED, TOPIC, NOTHING, CREATE),
        (LED, TOPIC, NOTHING, CREATE),
        (FOLLOWED, TOPIC, HERE, KEEP),
        (FOLLOWED, TOPIC, HERE._replace(led_epoch=4), KEEP),
        (LED, TOPIC, HERE, LEAD),
        (LED, TOPIC, HERE._replace(led_epoch=4), LEAD),
        (LED, TOPIC, HERE._replace(led_epoch=5), KEEP),
        (FOLLOWED, OTHER, HERE, REPLACE),
        (LED, OTHER, HERE._replace(is_hosted=False), REPLACE),
        (None, TOPIC, HERE, DELETE),
        (FOLLOWED, None, HERE, DELETE),
        (None, None, Present(TOPIC.topic_id, is_hosted=False), DELETE),
        (None, None, Present(None, is_hosted=True), DELETE),
        (None, None, NOTHING, KEEP),
        (FOLLOWED, None, NOTHING, KEEP),
        (FOLLOWED, TOPIC, Present(None, is_hosted=True), KEEP),
    ],
)
def test_what_becomes_of_a_replica(
    state: PartitionState | None, topic: Topic | None, present: Present, expected: ReplicaPlan
) -> None:
    """CT-17, CT-18, CT-19, EP-3."""
    assert plan_replica(1, state, topic, present) is expected


def test_a_replica_that_is_placed_elsewhere_goes_and_none_comes() -> None:
    """CT-17."""
    assert plan_replica(4, LED, TOPIC, HERE) is DELETE
    assert plan_replica(4, LED, TOPIC, NOTHING) is KEEP
    assert plan_replica(4, LED, OTHER, HERE) is DELETE
