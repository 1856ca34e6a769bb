"""Cleanings of one log, right and wrong: CL-5, CL-6, CL-8 and INV-13, record by record."""

from pathlib import Path

import pytest

from replog.log.compaction.rewriting import delete_horizon
from replog.log.formats.records import LogRecord
from replog.simulator.plan import FOR_EVER_MS
from tests.replog.log.compaction.compacting import batches_of, clean, keyed, offsets_of
from tests.replog.simulator.checks.tiny import TinyWorld, alone, violates
from tests.replog.simulator.variants import VARIANTS

FIRST, LATER = 10_000, 20_000  # when a log is cleaned, in ms


def _world(directory: Path, *batches: bytes, tombstones_ms: int = 500) -> TinyWorld:
    """Broker 1 leads alone, with these batches in a segment that may be cleaned."""
    world = alone(directory, cleanup_policy="compact", delete_retention_ms=tombstones_ms)
    for batch in batches:
        world.leader(1).append_records_to_leader(batch, acks=1, wall_ms=0, now_ms=world.clock.monotonic_ms())
    world.step(1)
    world.hosted(1).log.roll()
    world.step(1)
    return world


def test_a_cleaning_that_keeps_the_latest_of_each_key(tmp_path):
    world = _world(tmp_path, keyed("a", "b"), keyed("a"), keyed("c"))
    log = world.hosted(1).log
    clean(log, FIRST)
    world.step(1)
    assert offsets_of(log) == [1, 2, 3]


def test_cl_5_the_latest_of_a_key_is_gone(tmp_path):
    world = _world(tmp_path, keyed("a", "b"), keyed("a"))
    with VARIANTS["latest-of-key-goes"].applied():
        clean(world.hosted(1).log, FIRST)
    with violates("CL-5", "the latest of its key"):
        world.step(1)


def test_cl_6_a_tombstone_goes_at_the_cleaning_after_its_time(tmp_path):
    world = _world(tmp_path, keyed("a"), keyed("a", value=None), keyed("b"))
    log = world.hosted(1).log
    clean(log, FIRST)
    world.step(1)
    assert offsets_of(log) == [1, 2]
    clean(log, LATER)
    world.step(1)
    assert offsets_of(log) == [2]


def test_cl_6_a_tombstone_goes_at_once(tmp_path):
    world = _world(tmp_path, keyed("a"), keyed("a", value=None), keyed("b"))
    with VARIANTS["tombstones-go-at-once"].applied():
        clean(world.hosted(1).log, FIRST)
    with violates("CL-6", "before its time"):
        world.step(1)


def test_cl_6_a_tombstone_that_stays_for_ever_goes(tmp_path):
    world = _world(tmp_path, keyed("a", value=None), keyed("b"), tombstones_ms=FOR_EVER_MS)
    log = world.hosted(1).log
    clean(log, FIRST)
    world.step(1)
    horizons = [delete_horizon(header) for header, _ in batches_of(log)]
    assert horizons[0] == FIRST + FOR_EVER_MS
    clean(log, FIRST + FOR_EVER_MS)
    with violates("CL-6", "before its time"):
        world.step(1)


def test_cl_8_a_record_that_nobody_wrote_there(tmp_path):
    world = _world(tmp_path, keyed("a"), keyed("b"), keyed("a"))
    log = world.hosted(1).log
    del world.partition.replicas[1].records[1]
    clean(log, FIRST)
    with violates("CL-8", "made"):
        world.step(1)


@pytest.mark.parametrize("restarted", [False, True])
def test_inv_13_another_record_at_an_offset_of_an_epoch(tmp_path, restarted):
    world = _world(tmp_path, keyed("a"), keyed("b"), keyed("a"))
    log = world.hosted(1).log
    known = world.partition.records[0, 1]
    world.partition.records[0, 1] = LogRecord(1, known.timestamp, b"b", b"other", ())
    if restarted:
        world.start_with(1, log)
    else:
        clean(log, FIRST)
    with violates("INV-13", "elsewhere"):
        world.step(1)


def test_what_a_cleaning_took_as_its_broker_died_is_judged_at_the_next_start(tmp_path):
    world = _world(tmp_path, keyed("a", "b"), keyed("a"))
    log = world.hosted(1).log
    with VARIANTS["latest-of-key-goes"].applied():
        clean(log, FIRST)
    world.start_with(1, log)
    with violates("CL-5", "the latest of its key"):
        world.step(1)
