"""What is said of moves that do not come nearer to their end, on a cluster in virtual time."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from replog.cli.nearing import LOOK_EVERY_S, Nearing
from replog.cli.throttles import by_hand
from tests.replog.server.broker.virtual_pair import TP, VirtualPair

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
            for _ in range(int(LOOK_EVERY_S) + 1):
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


def test_nothing_is_throttled_by_hand(pair):
    pair.create_topic()

    async def described() -> str:
        async with pair.admin() as admin:
            return by_hand(await admin.describe_topics(), (await admin.describe_cluster()).brokers)

    assert pair.run(described()) == ""
