"""A broker leaves the cluster, and a plan is carried out, on brokers in this process."""

import asyncio
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from replog.cli import moves
from replog.cli.moves import (
    NEARING_EVERY_S,
    Nearing,
    carry_out,
    decommission,
    forget_when_stopped,
    order,
    stay,
    targets_without,
    wait_until_known,
)
from replog.cli.partition import generated, progress_of
from replog.errors import ErrorCode, ReplogError
from replog.topic import TopicPartition
from tests.replog.client.conftest import cluster
from tests.replog.server.broker.conftest import InProcessCluster, batch, eventually
from tests.replog.server.broker.virtual_pair import TP, VirtualPair

__all__ = ["cluster"]

TIMEOUT_S = 60.0


async def test_a_broker_leaves_with_everything_copied_and_can_be_interrupted(cluster: InProcessCluster):
    await cluster.begin(2, partitions=3)
    for number in range(3):
        await cluster.produce(TopicPartition("t", number), batch(b"kept"))
    await cluster.start_broker(3)
    said: list[str] = []
    stopped = asyncio.Event()

    def interrupted(message: str) -> None:
        if message.startswith("moving"):
            raise KeyboardInterrupt

    async with cluster.admin() as admin:
        with pytest.raises(KeyboardInterrupt):
            await decommission(admin, 1, TIMEOUT_S, interrupted)
        targets = await targets_without(admin, 1)
        assert {tuple(sorted(replicas)) for replicas in targets.values()} == {(2, 3)}
        await order(admin, dict([targets.popitem()]))

        def say(message: str) -> None:
            said.append(message)
            if "stop its process" in message:
                stopped.set()

        async def stop_when_told() -> None:
            await stopped.wait()
            await cluster.stop_broker(1)

        await asyncio.gather(decommission(admin, 1, TIMEOUT_S, say), stop_when_told())
    assert sorted(cluster.controller.state.image.brokers) == [2, 3]
    assert [words.split()[0] for words in said[:2]] == ["broker", "moving"]
    assert said[-1] == "broker 1 has no replicas any more; stop its process now, and for good"
    for number in range(3):
        tp = TopicPartition("t", number)
        assert set(cluster.controller.state.image.partitions[tp].isr) == {2, 3}
        assert cluster.log(3, tp).log_end_offset == 1


async def test_a_broker_that_nobody_can_stand_in_for_stays(cluster: InProcessCluster):
    await cluster.begin(2)
    async with cluster.admin() as admin:
        with pytest.raises(ReplogError, match="no other active broker") as refused:
            await decommission(admin, 1, TIMEOUT_S, lambda _: None)
        (broker,) = [each for each in (await admin.describe_cluster()).brokers if each.broker_id == 1]
    assert refused.value.code is ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert broker.state == "active", "it gets new replicas as before"
    assert 1 in cluster.controller.state.image.brokers


async def test_nobody_is_asked_to_stop_a_broker_that_has_replicas_of_topics_unknown_to_the_user(
    cluster: InProcessCluster,
):
    await cluster.begin(1)
    said: list[str] = []
    async with cluster.admin() as admin:
        with pytest.raises(ReplogError, match="it has replicas, such as that of t-0") as refused:
            await forget_when_stopped(admin, 1, TIMEOUT_S, said.append)
    assert refused.value.code is ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert said == []


async def test_a_plan_that_is_refused_in_part_says_how_much_of_it_moves(cluster: InProcessCluster):
    await cluster.start_brokers(1, 2)
    await cluster.create_topic("t", partitions=2, replication_factor=1)
    plan = {TopicPartition("t", 0): (1, 2), TopicPartition("t", 1): (9,)}
    async with cluster.admin() as admin:
        with pytest.raises(ReplogError, match=r"broker 9 .* \(refused: 1 of 2 partitions; the others move\)"):
            await order(admin, plan)


async def test_a_move_that_somebody_cancelled_is_not_taken_for_done(cluster: InProcessCluster, monkeypatch):
    await cluster.start_brokers(1, 2)
    await cluster.create_topic("t", partitions=1, replication_factor=1)
    monkeypatch.setattr(moves, "SEEN_WITHIN_S", 0.1)
    async with cluster.admin() as admin:
        with pytest.raises(ReplogError, match="1 of 1 partitions, such as t-0, are not on the brokers of the plan"):
            await wait_until_known(admin, {TopicPartition("t", 0): (1, 2)})
        await carry_out(admin, {TopicPartition("t", 0): (1, 2)}, TIMEOUT_S)
        monkeypatch.setattr(moves, "SEEN_WITHIN_S", TIMEOUT_S)
        await wait_until_known(admin, {TopicPartition("t", 0): (1, 2)})


async def test_a_plan_is_made_carried_out_and_verified(cluster: InProcessCluster):
    await cluster.start_broker(1)
    await cluster.create_topic("t", partitions=2, replication_factor=1)
    await cluster.start_broker(2)
    async with cluster.admin() as admin:
        plan = await generated(admin, None)
        assert list(plan.values()) == [(2,)], "one of the two moves"
        assert [row["progress"] for row in await progress_of(admin, plan)] == ["elsewhere"]
        await carry_out(admin, plan, TIMEOUT_S)
        async with asyncio.timeout(TIMEOUT_S):
            while [row["progress"] for row in await progress_of(admin, plan)] != ["done"]:
                await asyncio.sleep(0.05)
        assert await generated(admin, None) == {}
        away = await generated(admin, 2)
        assert list(away.values()) == [(1,)]
        with pytest.raises(ReplogError, match="there is no broker 9"):
            await generated(admin, 9)
        with pytest.raises(ReplogError, match="broker 9 is not registered"):
            await carry_out(admin, {TopicPartition("t", 0): (9,)}, TIMEOUT_S)


async def begun(cluster: InProcessCluster, brokers: int) -> None:
    """Broker 1 has three partitions that it could give away to those from 3 on; nothing is copied fast."""
    await cluster.begin(2, partitions=3)
    for number in range(3):
        await cluster.produce(TopicPartition("t", number), batch(b"x" * 100_000))
    for broker_id in range(3, brokers + 1):
        await cluster.start_broker(broker_id)


async def moves_begun(cluster: InProcessCluster) -> None:
    partitions = cluster.controller.state.image.partitions
    await eventually(lambda: all(state.reassigning for state in partitions.values()), TIMEOUT_S)


@pytest.fixture
def nothing_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """A throttle gives the first second's worth at once, which is more than there is: so nobody joins a set."""
    monkeypatch.setattr("leader.partition_leader.PartitionLeader.take_proposal", lambda _: None)


async def test_a_decommission_that_is_cancelled_leaves_nothing_behind(cluster, nothing_ends):
    """Not its cordon, no move, no throttle; what somebody has set by hand stays."""
    await begun(cluster, 3)
    by_hand, said = {"leader.replication.throttled.rate": "7"}, list[str]()
    image = cluster.controller.state.image
    async with cluster.admin() as admin:
        await admin.alter_broker_configs(1, by_hand)
        leaving = asyncio.create_task(decommission(admin, 1, TIMEOUT_S, said.append, 1000))
        await moves_begun(cluster)
        assert {state.throttle for state in image.partitions.values()} == {1000}
        leaving.cancel()
        with pytest.raises(asyncio.CancelledError):
            await leaving
        assert "broker 1 still gets no new replicas, and moves that have begun go on" in said[-1]
        assert "decommission 1 --cancel" in said[-1]
        assert await stay(admin, 1) == 3
        assert await stay(admin, 1) == 0
    assert {(state.reassigning, state.throttle) for state in image.partitions.values()} == {(False, 0)}
    assert image.broker_configs == {1: by_hand}


async def test_a_decommission_that_somebody_else_cancels_ends(cluster, nothing_ends):
    """It began the moves again, and forgot the broker when that stopped the next time."""
    await begun(cluster, 3)
    said = list[str]()
    async with cluster.admin() as admin:
        leaving = asyncio.create_task(decommission(admin, 1, TIMEOUT_S, said.append, 1000))
        await moves_begun(cluster)
        await stay(admin, 1)
        with pytest.raises(ReplogError, match="broker 1 stays: its decommission was cancelled meanwhile"):
            await asyncio.wait_for(leaving, TIMEOUT_S)
        assert [words.split()[0] for words in said] == ["broker", "moving"]
        assert not any(state.reassigning for state in cluster.controller.state.image.partitions.values())
        await cluster.start_broker(9)
        leaving = asyncio.create_task(decommission(admin, 9, TIMEOUT_S, said.append))
        await eventually(lambda: "stop its process now" in said[-1], TIMEOUT_S)
        await stay(admin, 9)
        with pytest.raises(ReplogError, match="broker 9 stays"):
            await asyncio.wait_for(leaving, TIMEOUT_S)


async def test_a_decommission_whose_moves_somebody_redirects_says_how_to_take_it_back(cluster, monkeypatch):
    """The broker still gets no new replicas."""
    await begun(cluster, 3)
    said = list[str]()

    async def redirected(*_: object) -> None:
        raise ErrorCode.INVALID_REQUEST.error("somebody has changed a move")

    monkeypatch.setattr(moves, "carry_out", redirected)
    async with cluster.admin() as admin:
        with pytest.raises(ReplogError, match="somebody has changed a move"):
            await decommission(admin, 1, TIMEOUT_S, said.append)
    assert said[-1].endswith("--cancel takes that back")


async def test_what_moves_to_a_broker_that_has_died_goes_to_another_one_on_the_next_run(cluster, nothing_ends, capsys):
    await begun(cluster, 4)
    async with cluster.admin() as admin:
        targets = await targets_without(admin, 1)
        awaited = {broker for replicas in targets.values() for broker in replicas} & {3, 4}
        dead = min(awaited)
        await order(admin, targets)
        await cluster.crash_broker(dead)
        async with asyncio.timeout(TIMEOUT_S):
            while {b.broker_id for b in (await admin.describe_cluster()).brokers if b.fenced} != {dead}:
                await asyncio.sleep(0.05)
        with pytest.raises(ReplogError, match=f"broker {dead}, to which .* should move, does not serve: start it"):
            await carry_out(admin, targets, 5.0)
        assert f"broker {dead}, to which" in capsys.readouterr().err
        again = await targets_without(admin, 1)
        assert again.keys() == targets.keys()
        assert {broker for replicas in again.values() for broker in replicas} == {2, 7 - dead}
        assert (await generated(admin, 1)).keys() == {tp for tp in targets if dead in targets[tp]}


async def test_a_topic_that_is_deleted_meanwhile_is_passed_over(cluster, monkeypatch, capsys):
    """Whether its partitions wait for their turn or move already."""
    await begun(cluster, 3)
    await cluster.create_topic("u", partitions=1, replication_factor=2)
    monkeypatch.setattr(moves, "AT_ONCE", 1)
    plan = {TopicPartition("t", 0): (2, 3), TopicPartition("t", 1): (2, 3), TopicPartition("u", 0): (2, 3)}
    async with cluster.admin() as admin:
        moving = asyncio.create_task(carry_out(admin, plan, TIMEOUT_S))
        await asyncio.sleep(0)
        await admin.delete_topic("t")
        assert await moving <= plan.keys() - {TopicPartition("u", 0)}
        await wait_until_known(admin, plan)
        assert cluster.controller.state.image.partitions[TopicPartition("u", 0)].replicas == (2, 3)
        assert await carry_out(admin, {TopicPartition("t", 2): (2, 3)}, TIMEOUT_S) == {TopicPartition("t", 2)}
    assert "1 partitions are not there, such as t-2" in capsys.readouterr().err


WRITTEN = 200_000  # bytes ten times a second: 2 MB/s


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[VirtualPair]:
    pair = VirtualPair(tmp_path, replica_fetch_response_max_bytes=WRITTEN)
    pair.start(3)
    yield pair
    pair.dispose()


def told(pair: VirtualPair, throttle: int, seconds: int, written: int = WRITTEN) -> str:
    """What is found to hold the move of the partition to broker 3, after so long."""
    nearing = []

    async def look(target: list[int] | None = None) -> None:
        async with pair.admin() as admin:
            if target is not None:
                assert (await admin.alter_partition_reassignments({TP: target}, throttle))[TP] is None
                nearing.append(Nearing(admin))
            nearing[0]._admin = admin
            await nearing[0].look([TP])

    pair.run(look([1, 2, 3]))
    for _ in range(seconds):
        if written:
            pair.produce(*[written] * 10)
        pair.loop.run_until(int(pair.loop.time()) + 1)
        pair.run(look())
        if why := nearing[0].why:
            for _ in range(int(NEARING_EVERY_S) + 1):
                pair.produce(*[written] * 10)
                pair.loop.run_until(int(pair.loop.time()) + 1)
            pair.run(look())
            assert nearing[0].why == why, "as long as nothing comes nearer"
            return str(why)
    return ""


def test_a_throttle_below_the_rate_of_writes_is_told_with_one_that_would_do(pair, capsys):
    pair.create_topic(min_insync_replicas="1")
    pair.produce(*[WRITTEN] * 10)
    why = told(pair, 1_000_000, 60)
    assert why.startswith("; broker 3 has come no nearer for ")
    assert "2.0 MB/s are written to t-0, and the throttle is 1 MB/s; the same command with --throttle" in why
    assert re.search(r"--throttle [45]000000 would do$", why), why
    assert capsys.readouterr().err.strip() == why.removeprefix("; ")


def test_nothing_is_told_of_a_move_that_comes_nearer_slowly(pair):
    pair.create_topic(min_insync_replicas="1")
    pair.produce(*[WRITTEN] * 200)
    assert told(pair, 200_000, 90, written=0) == ""


def test_what_was_throttled_by_hand_is_named(pair):
    pair.create_topic(min_insync_replicas="1", leader_replication_throttled_replicas="*")
    pair.produce(*[WRITTEN] * 20)

    async def slow() -> None:
        async with pair.admin() as admin:
            await admin.alter_broker_configs(1, {"leader.replication.throttled.rate": "1"})

    pair.run(slow())
    why = told(pair, 0, 60)
    assert why.endswith("; throttled by hand: replicas of topics t; bytes a second of brokers 1 (leader 1)")
