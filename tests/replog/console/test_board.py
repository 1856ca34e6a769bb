"""What viewers are told, and when."""

import json
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from replog.client.descriptions import (
    PartitionChange,
    PartitionChanges,
    PartitionDescription,
    ReplicaDescription,
    TopicDescription,
)
from replog.console import board as boards
from replog.console.board import Board
from replog.metadata.values import PartitionState
from replog.topic import TopicPartition

SOUND = PartitionDescription(0, 1, 3, (1, 2, 3), (1, 2, 3), (), 0, (), ())
STATE = PartitionState(replicas=(1, 2, 3), isr=(1, 2, 3), leader=1, leader_epoch=3, partition_epoch=0)


def topic(*partitions: PartitionDescription, name: str = "t", **configs: str) -> TopicDescription:
    numbered = tuple(each._replace(partition=number) for number, each in enumerate(partitions))
    return TopicDescription(name, b"", numbered, configs)


def replica(end: int, leader: bool = False) -> ReplicaDescription:
    return ReplicaDescription(leader, 3, 0, min(end, 7), end, 100, ((0, 0), (3, 5)))


def heard(board: Board, tick: int = 0) -> dict[str, Any]:
    board.publish()
    told: dict[str, Any] = json.loads(board.since(tick))
    return told


def states(told: dict[str, Any]) -> dict[str, str]:
    return {row["key"]: row["state"] for row in told["rows"]}


def change(version: int, after: PartitionState, before: PartitionState = STATE, number: int = 0) -> PartitionChange:
    return PartitionChange(version, 1000 * version, TopicPartition("t", number), "asked for", before, after)


@pytest.mark.parametrize(
    ("fields", "configs", "state"),
    [
        ({}, {}, "in sync"),
        ({"leader": 2}, {}, "not preferred"),
        ({"replicas": (1, 2, 3, 4), "adding_replicas": (4,)}, {}, "moving"),
        ({"isr": (1, 2)}, {"min.insync.replicas": "2"}, "out of sync"),
        ({"isr": (1,)}, {"min.insync.replicas": "2"}, "below min"),
        ({"isr": (), "leader": -1}, {"min.insync.replicas": "2"}, "offline"),
    ],
)
def test_a_partition_has_the_worst_of_its_states(fields, configs, state):
    board = Board()
    board.put_topics([topic(SOUND._replace(**fields), **configs)])
    assert states(heard(board)) == {"t-0": state}


def test_viewers_hear_only_what_is_new_since_they_heard_last():
    board = Board()
    board.put_topics([topic(SOUND, SOUND)])
    first = heard(board)
    assert (first["all"], sorted(states(first))) == (True, ["t-0", "t-1"])
    assert not board.publish(), "nothing came"
    board.put_topics([topic(SOUND, SOUND)])
    board.put_replicas(1, {TopicPartition("t", 0): replica(9, leader=True)})
    second = heard(board, first["tick"])
    assert (second["all"], [row["key"] for row in second["rows"]]) == (False, ["t-0"])
    assert second["rows"][0]["offsets"] == {"1": [0, 7, 9]}
    board.put_replicas(1, {TopicPartition("t", 0): replica(9, leader=True)})
    assert not board.publish()
    board.put_topics([topic(SOUND, SOUND._replace(isr=(1, 2)))])
    assert states(heard(board, second["tick"])) == {"t-1": "out of sync"}
    assert sorted(states(heard(board, first["tick"]))) == ["t-0", "t-1"], "who was slow hears the newest of both"


def test_of_a_broker_that_does_not_answer_no_offsets_are_known():
    board = Board()
    board.put_topics([topic(SOUND)])
    board.put_replicas(1, {TopicPartition("t", 0): replica(9)})
    board.put_replicas(2, {TopicPartition("t", 0): replica(8)})
    tick = heard(board)["tick"]
    board.put_replicas(2, {})
    told = heard(board, tick)
    assert told["rows"][0]["offsets"] == {"1": [0, 7, 9]}
    board.keep_brokers([2])
    assert heard(board, told["tick"])["rows"][0]["offsets"] == {}


def test_after_a_partition_is_gone_viewers_begin_from_the_start():
    board = Board()
    board.put_topics([topic(SOUND), topic(SOUND, name="u")])
    tick = heard(board)["tick"]
    board.put_topics([topic(SOUND)])
    told = heard(board, tick)
    assert (told["all"], list(states(told))) == (True, ["t-0"])
    assert heard(board, told["tick"])["all"] is False
    assert board.detail(TopicPartition("u", 0)) is None


def test_a_change_is_told_with_its_reason_and_what_it_did(monkeypatch):
    monkeypatch.setattr(boards, "CHANGES_OF_EACH", 2)
    board = Board()
    board.put_topics([topic(SOUND)])
    tick = heard(board)["tick"]
    died = replace(STATE, isr=(2, 3), leader=2, leader_epoch=4, elr=(1,))
    lost = replace(died, isr=(), leader=-1, leader_epoch=5, elr=(1, 2, 3))
    unclean = replace(lost, isr=(3,), leader=3, leader_epoch=6, elr=(), recovering=True)
    moving = replace(unclean, replicas=(1, 2, 3, 4), adding=(4,), removing=(1,), recovering=False)
    moved = replace(moving, replicas=(2, 3, 4), adding=(), removing=())
    steps = [STATE, died, lost, unclean, moving, moved]
    pairs = pairwise(steps)
    board.put_changes(PartitionChanges(1, tuple(change(n, after, before) for n, (before, after) in enumerate(pairs))))
    told = heard(board, tick)
    assert [[words for _, words in each["did"]] for each in told["changes"]] == [
        ["leader 2, before it 1", "in sync −1", "eligible to lead +1"],
        ["no leader, before it 2", "in sync −2 −3", "eligible to lead +2 +3"],
        ["leader 3", "an unclean election: committed records may be lost", "in sync +3", "eligible to lead −1 −2 −3"],
        ["moving +4 −1"],
        ["moved: replicas 2,3,4"],
    ]
    assert {each["why"] for each in told["changes"]} == {"asked for"}
    assert told["rows"][0]["last"] == told["changes"][-1]
    detail = board.detail(TopicPartition("t", 0))
    assert detail is not None
    assert [each["version"] for each in detail["changes"]] == [3, 4], "of each the last ones"


def test_parts_are_sent_when_they_change():
    board = Board()
    board.put_part("cluster", {"id": "a"})
    first = heard(board)
    assert first["parts"] == {"cluster": {"id": "a"}}
    board.put_part("cluster", {"id": "a"})
    assert not board.publish()
    board.put_part("trouble", "none answers")
    assert heard(board, first["tick"])["parts"] == {"trouble": "none answers"}


def test_lineage_is_shown_side_by_side():
    board = Board()
    board.put_topics([topic(SOUND)])
    for broker in (2, 1):
        board.put_replicas(broker, {TopicPartition("t", 0): replica(9)})
    assert board.detail(TopicPartition("t", 0)) == {
        "changes": [],
        "lineage": {1: ((0, 0), (3, 5)), 2: ((0, 0), (3, 5))},
    }
