"""LG-18: what a leader exposes with flush.messages=1 is on the disk of every replica in sync."""

from pathlib import Path

import pytest

from tests.replog.simulator.checks.tiny import TinyWorld, three, violates


def _appended(tmp_path: Path, **settings: int) -> TinyWorld:
    """Two records more, which all have and nobody knows to be committed."""
    world = three(tmp_path, "0:0-4", **settings)
    world.append(1, 2)
    for broker_id in (2, 3):
        world.fetch(1, broker_id)
    return world


@pytest.mark.parametrize("broker_id", [1, 3], ids=["the leader", "a follower"])
def test_lg_18_a_replica_in_sync_has_not_flushed_what_is_exposed(broker_id, tmp_path):
    world = _appended(tmp_path, flush_messages=1)
    path = world.hosted(broker_id).log.segments[-1].path
    size = path.stat().st_size
    world.unflushed[path] = size - 1
    with violates("LG-18", f"broker {broker_id} has not flushed", f"from byte {size - 1} on"):
        world.commit(1, 2, 3)


def test_what_is_not_exposed_yet_need_not_be_flushed(tmp_path):
    world = _appended(tmp_path, flush_messages=1)
    path = world.hosted(1).log.segments[-1].path
    world.unflushed[path] = path.stat().st_size
    world.commit(1, 2, 3)
    assert world.hosted(1).log.high_watermark == 7


def test_without_flush_messages_nothing_is_asked(tmp_path):
    world = _appended(tmp_path)
    world.unflushed[world.hosted(1).log.segments[-1].path] = 0
    world.commit(1, 2, 3)
    assert world.hosted(1).log.high_watermark == 7
