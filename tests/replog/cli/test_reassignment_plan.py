"""Plans of moves: away from brokers, evenly over all, and as JSON."""

from collections import Counter

import pytest

from replog.cli.reassignment_plan import Assignment, Planner, from_json, to_json
from replog.client.descriptions import BrokerDescription
from replog.errors import ReplogError
from replog.topic import TopicPartition


def brokers(racks: dict[int, str], fenced: int = -1, cordoned: int = -1) -> list[BrokerDescription]:
    return [
        BrokerDescription(
            broker_id=number,
            address=f"h{number}:1",
            rack=rack,
            fenced=number == fenced,
            configs={"cordoned.log.dirs": "*"} if number == cordoned else {},
            broker_epoch=number,
            in_controlled_shutdown=False,
        )
        for number, rack in racks.items()
    ]


def assignment(*replicas: tuple[int, ...]) -> Assignment:
    return {TopicPartition("t", number): each for number, each in enumerate(replicas)}


def load(plan: Assignment) -> Counter[int]:
    return Counter(broker for replicas in plan.values() for broker in replicas)


def test_what_leaves_a_broker_goes_to_those_with_the_least_and_keeps_its_place():
    there = assignment((1, 2), (2, 3), (3, 1), (1, 3), (4, 2))
    plan = Planner(there, brokers(dict.fromkeys((1, 2, 3, 4), ""))).leave([1])
    assert set(plan) == {TopicPartition("t", number) for number in (0, 2, 3)}, "others stay where they are"
    assert all(1 not in replicas and len(set(replicas)) == 2 for replicas in plan.values())
    assert plan[TopicPartition("t", 0)][1] == 2
    assert plan[TopicPartition("t", 2)] == (3, 4)
    assert max(load(there | plan).values()) - min(load(there | plan).values()) <= 1


def test_a_successor_is_in_a_rack_of_its_own_if_there_is_one_alive():
    racks = {1: "a", 2: "b", 3: "c", 4: "a", 5: "b"}
    there = assignment((1, 2, 3), (1, 5, 3))
    for plan in (
        Planner(there, brokers(racks)).leave([1]),
        Planner(there, brokers(racks | {6: "d"}, fenced=6)).leave([1]),
        Planner(there, brokers(racks | {6: "d"}, cordoned=6)).leave([1]),
    ):
        assert [replicas[0] for replicas in plan.values()] == [4, 4]


def test_where_nobody_is_left_to_take_a_replica_the_partition_and_the_remedy_are_named():
    with pytest.raises(
        ReplogError, match=r"t-0 is on brokers 1,2.* no other active broker .* replica of broker 1; start"
    ):
        Planner(assignment((1, 2)), brokers({1: "", 2: "", 3: ""}, fenced=3)).leave([1])


def test_a_new_broker_gets_its_share_with_the_fewest_moves_and_racks_stay_apart():
    racks = {1: "a", 2: "b", 3: "c", 4: "a"}
    there = assignment(*[(1, 2, 3), (2, 3, 1), (3, 1, 2)] * 4)
    plan = Planner(there, brokers(racks)).spread()
    after = there | plan
    assert load(after) == {1: 6, 2: 12, 3: 12, 4: 6}, "only rack a has a broker to share with"
    assert len(plan) == 6
    assert all(len({racks[broker] for broker in replicas}) == 3 for replicas in after.values())
    assert Planner(after, brokers(racks)).spread() == {}


def test_a_plan_is_read_as_it_was_written_and_as_kafkas_tools_write_it():
    plan = assignment((1, 2), (3,))
    assert from_json(to_json(plan), "it") == plan
    kafkas = '{"version":1,"partitions":[{"topic":"t","partition":0,"replicas":[1,2],"log_dirs":["any","any"]}]}'
    assert from_json(kafkas, "it") == assignment((1, 2))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[]", "has no attribute"),
        ("{", "no plan"),
        ('{"version": 2, "partitions": []}', "version 2 is not 1"),
        ('{"version": 1}', "partitions"),
        ('{"version": 1, "partitions": [{"topic": "t", "partition": "0", "replicas": [1]}]}', "no partition with its"),
        ('{"version": 1, "partitions": [{"topic": "t", "partition": 0, "replicas": [true]}]}', "no partition with its"),
        ('{"version": 1, "partitions": [{"topic": "t", "partition": 4294967296, "replicas": [1]}]}', "no partition"),
        ("[" * 100_000, "no plan"),
        (to_json(assignment((1,)))[:-2] + ', {"topic": "t", "partition": 0, "replicas": [1]}]}', "named twice"),
        ('{"version": 1, "partitions": [{"topic": "t", "partition": 0, "replicas": [1], "log_dirs": ["/a"]}]}', "move"),
    ],
)
def test_what_is_no_plan_is_refused(text: str, words: str):
    with pytest.raises(ReplogError, match=words):
        from_json(text, "plan.json")
