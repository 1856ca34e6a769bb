"""Which partitions `replog topic describe` shows, and what an election on request would lose."""

import pytest

from replog.cli.asking import at_stake
from replog.cli.topic import CONDITIONS, partition_rows
from replog.client import PartitionDescription, TopicDescription
from replog.client.descriptions import LogEnds, ReplicaLogEnd


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


@pytest.mark.parametrize(
    ("other", "lost"),
    [
        ((5, 90), "nothing"),
        ((4, 95), "nothing"),
        ((5, 93), "3 records from offset 90 on, which broker 2 has"),
        ((6, 3), "what broker 2 has of later leader epochs"),
        ((None, None), "what only broker 2 has"),
        ((-2, 0), "what may be on a disk of broker 2 that is not there"),
    ],
)
def test_what_an_election_on_request_would_lose_is_said_before_it(other, lost):
    away, live = ReplicaLogEnd(2, False, *other), ReplicaLogEnd(1, True, 5, 90)
    assert at_stake(LogEnds("NONE", (live, away))).endswith(f"broker 1 would be elected; lost would be {lost}")
    assert at_stake(LogEnds("NONE", (away,))).endswith("no live replica has said how far it goes")
