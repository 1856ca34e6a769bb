"""Brokers and partitions by the names that a line gives them."""

import re

from leader.partition_leader import PartitionLeader
from replog.topic import TopicPartition
from tests.scenarios.broker import Broker
from tests.scenarios.language import ScenarioError
from tests.scenarios.notation import partition_of
from tests.scenarios.world import World


def replica_of(world: World, name: str) -> tuple[Broker, TopicPartition]:
    broker_id, letter = re.fullmatch(r"(\d+)([a-z]?)", name).groups()
    broker, tp = world.broker(int(broker_id)), partition_of(letter)
    if tp not in broker.hosted:
        raise ScenarioError(f"{name} has no log; write `{name}: 1:0-9` above, or `{name}: ∅`")
    return broker, tp


def leader_of(world: World, name: str) -> tuple[Broker, TopicPartition, PartitionLeader]:
    broker, tp = replica_of(world, name)
    leader = broker.hosted[tp].leader
    if leader is None:
        raise ScenarioError(f"{name} does not lead")
    return broker, tp, leader


def checked_fate(of_an_answer: str) -> str:
    if of_an_answer not in ("", "lost", "late"):
        raise ScenarioError(f"an answer is lost or late, not {of_an_answer}")
    return of_an_answer
