"""The throttle of moves, on a cluster in virtual time."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from replog.cli.partition_moves import carry_out
from replog.cli.partition_throttle import throttled
from replog.config import MAX_REPLICA_LIST_LENGTH
from replog.errors import ErrorCode, ReplogError
from replog.topic import TopicPartition
from tests.replog.server.broker.virtual_pair import TP, VirtualPair

LEADERS, FOLLOWERS = (f"{side}.replication.throttled.replicas" for side in ("leader", "follower"))
RATES = {f"{side}.replication.throttled.rate": "1000" for side in ("leader", "follower")}


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[VirtualPair]:
    pair = VirtualPair(tmp_path)
    yield pair
    pair.dispose()


def topic_configs(pair: VirtualPair) -> dict[str, str]:
    configs = dict(pair.controller.state.image.topics["t"].configs)
    del configs["min.insync.replicas"]
    return configs


def test_a_throttle_is_there_for_the_move_and_gone_after_it(pair):
    """KIP-73: leaders by every present replica, followers by those that are added; what else there was stays."""
    pair.create_topic(assignment=[(1,), (2,)], leader_replication_throttled_replicas="1:2")
    configs = pair.controller.state.image.broker_configs

    async def move() -> None:
        async with pair.admin() as admin:
            await admin.alter_broker_configs(2, {"leader.replication.throttled.rate": "7"})
            async with throttled(admin, {TP: [2, 1]}, 1000):
                assert topic_configs(pair) == {LEADERS: "1:2,0:1", FOLLOWERS: "0:2"}
                assert configs == {1: RATES, 2: RATES}

    pair.run(move())
    assert topic_configs(pair) == {LEADERS: "1:2"}
    assert configs == {1: {}, 2: {"leader.replication.throttled.rate": "7"}}


@pytest.mark.parametrize(("code", "stays"), [("REQUEST_TIMED_OUT", True), ("INVALID_REPLICA_ASSIGNMENT", False)])
def test_a_throttle_stays_only_while_the_move_goes_on(pair, code, stays, capsys):
    pair.create_topic(assignment=[(1,)], follower_replication_throttled_replicas="*")

    async def move() -> None:
        async with pair.admin() as admin, throttled(admin, {TP: [2]}, 1000):
            raise ReplogError(ErrorCode[code], "for the test")

    with pytest.raises(ReplogError, match="for the test"):
        pair.run(move())
    assert topic_configs(pair) == ({LEADERS: "0:1", FOLLOWERS: "*"} if stays else {FOLLOWERS: "*"})
    assert ("the throttle of t-0 stays" in capsys.readouterr().err) is stays


def test_a_throttle_of_a_move_that_goes_on_is_taken_away_whole(pair):
    """What was added by then counts as added still."""
    pair.create_topic(assignment=[(1,)])

    async def move() -> None:
        async with pair.admin() as admin:
            with pytest.raises(ReplogError, match="for the test"):
                async with throttled(admin, {TP: [2]}, 1000):
                    assert (await admin.alter_partition_reassignments({TP: [2]}))[TP] is None
                    raise ReplogError(ErrorCode.REQUEST_TIMED_OUT, "for the test")
            async with throttled(admin, {TP: [2]}, 1000):
                assert topic_configs(pair) == {LEADERS: "0:1", FOLLOWERS: "0:2"}

    pair.run(move())
    assert topic_configs(pair) == {}


def test_how_to_take_a_throttle_away_is_told_in_commands(pair, capsys):
    pair.create_topic(assignment=[(1,)])

    async def move() -> None:
        async with pair.admin() as admin, throttled(admin, {TP: [2]}, 1000):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        pair.run(move())
    rates = " ".join(f"--delete-config {name}" for name in RATES)
    assert [line.strip() for line in capsys.readouterr().err.splitlines()[1:]] == [
        f"replog topic alter --topic t --delete-config {LEADERS} --delete-config {FOLLOWERS}",
        f"replog broker-config --broker 1 {rates}",
        f"replog broker-config --broker 2 {rates}",
    ]


def test_a_partition_that_is_not_there_is_not_throttled(pair):
    pair.create_topic(assignment=[(1,)])

    async def move() -> None:
        async with pair.admin() as admin, throttled(admin, {TopicPartition("t", 1): [2]}, 1000):
            pass

    with pytest.raises(ReplogError, match="UNKNOWN_TOPIC_OR_PARTITION: there is no partition t-1"):
        pair.run(move())


def test_all_moves_of_a_plan_have_one_throttle(pair):
    pair.create_topic(assignment=[(1,), (2,)])
    other = TopicPartition("t", 1)

    async def move() -> None:
        async with pair.admin() as admin:
            async with throttled(admin, {TP: [2], other: [1]}, 1000):
                assert topic_configs(pair) == {LEADERS: "0:1,1:2", FOLLOWERS: "0:2,1:1"}
            assert topic_configs(pair) == {}
            await carry_out(admin, {TP: [2], other: [1]}, 60, 1_000_000)

    pair.run(move())
    assert topic_configs(pair) == {}
    partitions = pair.controller.state.image.partitions
    assert (partitions[TP].replicas, partitions[other].replicas) == ((2,), (1,))
    assert pair.controller.state.image.broker_configs == {1: {}, 2: {}}


def test_a_throttle_that_is_refused_leaves_nothing_behind(pair):
    """The list of throttled replicas has no room for another one."""
    full = ",".join(f"1:{number}" for number in range(10_000, 10_000 + (MAX_REPLICA_LIST_LENGTH + 1) // 8))
    assert len(full) + len(",0:1") > MAX_REPLICA_LIST_LENGTH
    pair.create_topic(assignment=[(1,), (2,)], leader_replication_throttled_replicas=full)

    async def move() -> None:
        async with pair.admin() as admin, throttled(admin, {TP: [2]}, 1000):
            pytest.fail("it is not throttled")

    with pytest.raises(ReplogError, match="INVALID_CONFIG"):
        pair.run(move())
    assert topic_configs(pair) == {LEADERS: full}
    assert pair.controller.state.image.broker_configs == {1: {}, 2: {}}
