"""Which partitions `replog topic describe` shows."""

import pytest

from replog.cli.topic import CONDITIONS, partition_rows
from replog.client import PartitionDescription, TopicDescription


def partition(number: int, leader: int, isr: tuple[int, ...], adding: tuple[int, ...] = ()) -> PartitionDescription:
    return PartitionDescription(
        partition=number,
        leader=leader,
        leader_epoch=0,
        replicas=(1, 2, 3, *adding),
        isr=isr,
        elr=(),
        partition_epoch=0,
        adding_replicas=adding,
        removing_replicas=(),
    )


TOPICS = [
    TopicDescription(
        "t",
        bytes(16),
        (
            partition(0, 1, (1, 2, 3)),
            partition(1, 1, (1, 2)),
            partition(2, 1, (1,)),
            partition(3, -1, ()),
            partition(4, 1, (1, 2, 3), adding=(4,)),
        ),
        {"min.insync.replicas": "2"},
    ),
    TopicDescription("wants-more-than-it-has", bytes(16), (partition(0, 1, (1, 2, 3)),), {"min.insync.replicas": "5"}),
]
UNDER_REPLICATED, UNAVAILABLE, UNDER_MIN_ISR, AT_MIN_ISR = CONDITIONS


@pytest.mark.parametrize(
    ("conditions", "expected"),
    [
        ((), [0, 1, 2, 3, 4, 0]),
        ((UNDER_REPLICATED,), [1, 2, 3]),
        ((UNAVAILABLE,), [3]),
        ((UNDER_MIN_ISR,), [2, 3]),
        ((AT_MIN_ISR,), [1, 0]),
        ((UNAVAILABLE, AT_MIN_ISR), [1, 3, 0]),
    ],
)
def test_only_partitions_in_the_named_condition_are_shown(conditions, expected):
    assert [row["partition"] for row in partition_rows(TOPICS, conditions)] == expected
