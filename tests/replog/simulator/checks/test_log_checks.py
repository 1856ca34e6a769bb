"""One log by itself and against all others: INV-1, INV-13, INV-14, INV-15 and INV-16, broken by hand, and nearly."""

from pathlib import Path

import pytest

from replog.log.formats.batch import parse_header
from replog.log.log import Log
from replog.simulator.checks.chain import Chain, KnownBatch, all_headers, headers_from
from tests.leader.replicas import append_record, log_of, state
from tests.replog.log.batches import leader_batch
from tests.replog.simulator.checks.tiny import TinyWorld, alone, violates


def _in_epoch(directory: Path, epoch: int, *runs: str) -> TinyWorld:
    """Broker 1 follows in `epoch` with these `runs`; 2 leads."""
    world = TinyWorld(directory)
    recorded = state(leader=2, epoch=epoch, isr=(2,))
    world.record(recorded)
    world.start(1, *runs)
    world.follow(1, recorded)
    return world


def test_inv_1_a_log_start_beyond_the_high_watermark(world):
    log = world.hosted(1).log
    world.partition.highest_start = 6  # it is no matter of who asked for it
    log.maybe_increment_log_start_offset(5)
    world.step(1)  # nearly
    log.log_start_offset = 6
    with violates("INV-1", "log start 6"):
        world.step(1)


def test_inv_1_an_epoch_that_the_controller_has_not_given(tmp_path):
    world = _in_epoch(tmp_path, 1, "0:0-4")
    world.follower(1).leader_epoch = 2
    with violates("INV-1", "epoch 2", "the controller has given 1"):
        world.step(1)


def test_inv_1_a_batch_of_an_epoch_that_its_broker_does_not_know(tmp_path):
    world = _in_epoch(tmp_path, 2, "0:0-4")
    append_record(world.hosted(1).log, 2)
    world.step(1)  # nearly
    append_record(world.hosted(1).log, 3)
    with violates("INV-1", "is in epoch 2", "3:6-6"):
        world.step(1)


def test_inv_13_two_batches_at_one_offset_of_one_epoch(world):
    world.append(1)
    world.hosted(2).log.append_as_follower(leader_batch(5, 0, b"another"))
    with violates("INV-13", "offset 5 of epoch 0", "broker 2"):
        world.step(2)


def test_inv_13_the_same_batch_behind_another_one(tmp_path):
    """Broker 3 has batch 5 of epoch 1, and before it what only epoch 0 had there."""
    world = _in_epoch(tmp_path, 1, "0:0-3", "1:4-5")
    world.start(3, "0:0-4", "1:5-5")
    with violates("INV-13", "broker 3", "1:5-5", "behind 0:4-4", "lies behind 1:4-4"):
        world.follow(3, world.partition.state)


def test_inv_13_a_log_that_begins_later_shows_what_lies_before_when_another_comes(tmp_path):
    world = TinyWorld(tmp_path)
    recorded = state(leader=2, epoch=1, isr=(2,))
    world.record(recorded)
    world.partition.highest = world.partition.highest_start = 5  # so much a leader had
    world.start(1, "0:4-4", "1:5-5")
    world.start(3, "1:5-6")
    for broker_id in (3, 1):  # the one that begins at 5 first
        world.follow(broker_id, recorded)
    assert world.partition.batches[1, 5].previous is world.partition.batches[0, 4]


def _write(log: Log, batch: bytes) -> None:
    """The log itself refuses such batches."""
    header, active = parse_header(batch), log._segments.active
    active.add(header, log.config.index_interval_bytes)
    active.write([batch])
    active.write_indexes()
    log.log_end_offset = header.next_offset


BROKEN = {
    "a high watermark beyond the log end": (
        lambda log: setattr(log, "high_watermark", 6),
        ("INV-1", "high watermark 6 <= log end 5"),
    ),
    "an epoch in the cache that its broker does not know": (
        lambda log: log.assign_epoch_start(3),
        ("INV-1", "its cache has (3, 5)"),
    ),
    "an epoch that goes back": (
        lambda log: _write(log, leader_batch(5, 1, b"old")),
        ("INV-14", "offset 5 with epoch 1", "2:4-4"),
    ),
    "a hole between batches": (
        lambda log: _write(log, leader_batch(6, 2, b"late")),
        ("INV-16", "offset 6 after 2:4-4"),
    ),
    "an end that is not that of the last batch": (
        lambda log: setattr(log, "log_end_offset", 6),
        ("INV-16", "ends at 6", "2:4-4"),
    ),
}


@pytest.mark.parametrize(("broken", "violated"), BROKEN.values(), ids=BROKEN)
def test_inv_1_inv_14_inv_16_a_log_that_is_broken_by_itself(broken, violated, tmp_path):
    world = _in_epoch(tmp_path, 2, "2:0-4")
    broken(world.hosted(1).log)
    with violates(*violated):
        world.step(1)


@pytest.mark.parametrize(
    ("entries", "words"),
    [
        ([(0, 0), (1, 4)], "the batches say (0@0)(1@3)"),
        ([(0, 0)], "the batches say (0@0)(1@3)"),
        ([(1, 0)], "the batches say"),
        ([(0, 0), (1, 3), (1, 4)], "does not rise"),
        ([(0, 0), (2, 3)], "the batches say"),
        ([(0, 0), (1, 3), (2, 7)], "behind the log end 6"),
        ([], "the batches say"),
        ([(0, 1), (1, 3)], "the batches say"),
    ],
)
def test_inv_15_a_cache_that_does_not_say_what_the_batches_say(entries, words, tmp_path):
    world = _in_epoch(tmp_path, 2, "0:0-2", "1:3-5")
    log = world.hosted(1).log
    log.epochs.replace(entries)
    log._segments.generation += 1  # otherwise nobody would look at it if the last entry is equal
    with violates("INV-15", words):
        world.step(1)


def test_a_truncation_and_an_append_in_one_step_are_seen(tmp_path):
    """To the same log end, and to a higher one."""
    world = _in_epoch(tmp_path, 2, "0:0-4")
    log = world.hosted(1).log
    log.truncate_to(3)
    append_record(log, 1)
    append_record(log, 1)
    world.step(1)
    assert str(world.partition.replicas[1].chain) == "0:0-2 1:3-4"
    log.truncate_to(4)
    for _ in range(3):
        append_record(log, 2)
    world.step(1)
    assert str(world.partition.replicas[1].chain) == "0:0-2 1:3-3 2:4-6"
    assert world.partition.replicas[1].chain.runs == [(0, 0), (1, 3), (2, 4)]


def test_headers_come_from_memory_and_from_rolled_segments(tmp_path):
    log = log_of(tmp_path / "log", segment_bytes=200)
    for count in (1, 5, 2, 9):
        end = log.log_end_offset
        for _ in range(count):
            append_record(log, 0)
        assert [header.base_offset for header in headers_from(log, end)] == list(range(end, end + count))
    assert len(log.segments) > 3
    assert [header.base_offset for header in all_headers(log)] == list(range(17))


def test_a_chain_finds_batches_by_offset():
    chain = Chain()
    for first, following, epoch in ((10, 12, 0), (12, 13, 0), (13, 20, 2)):
        chain.append(KnownBatch(first, following, epoch, 0, chain.last))
    assert [getattr(chain.at(offset), "base", None) for offset in (9, 10, 11, 12, 13, 19, 20)] == [
        None, 10, 10, 12, 13, 13, None,
    ]  # fmt: skip
    assert [chain.slot_from(offset) for offset in (0, 10, 11, 12, 19, 20)] == [0, 0, 0, 1, 2, 3]
    assert str(chain) == "0:10-12 2:13-19"
    chain.cut(1)
    assert (str(chain), chain.runs, chain.at(12)) == ("0:10-11", [(0, 10)], None)


def _moved(tmp_path: Path, copy: Log, high_watermark: int = 8) -> None:
    """Broker 1 has offsets 0 to 4 of epoch 0 and 5 to 7 of epoch 1, all committed, and then `copy`."""
    world = alone(tmp_path / "world", "0:0-4", "1:5-7", epoch=1, high_watermark=high_watermark)
    hosted = world.hosted(1)
    hosted.log.abandon()
    hosted.replace_log(copy)
    world.step(1)
    append_record(copy, 1)
    world.step(1)  # the new log is the one that is looked at from now on


def test_the_same_log_elsewhere(tmp_path):
    _moved(tmp_path, log_of(tmp_path / "copy", "0:0-4", "1:5-7", high_watermark=8))


def test_a_leaders_copy_is_flushed_and_so_more_may_be_committed(tmp_path):
    """LG-18 (directories, seed 1301020)."""
    _moved(tmp_path, log_of(tmp_path / "copy", "0:0-4", "1:5-7", high_watermark=8), high_watermark=7)


@pytest.mark.parametrize(
    ("runs", "high_watermark", "told"),
    [
        (("0:0-4", "1:5-6"), 7, "end 7"),
        (("0:0-4", "1:5-8"), 8, "end 9"),
        (("0:0-4", "1:5-7"), 5, "HW 5"),
        (("0:0-3", "1:4-7"), 8, "epochs ((0, 0), (1, 4))"),
    ],
)
def test_another_log(tmp_path, runs, high_watermark, told):
    copy = log_of(tmp_path / "copy", *runs, high_watermark=high_watermark)
    with violates("7.7", "broker 1 had", f"after its move has start 0, LSO {high_watermark}", told):
        _moved(tmp_path, copy)


def test_a_log_start_that_is_forgotten(tmp_path):
    copy = log_of(tmp_path / "copy", "0:0-4", "1:5-7", high_watermark=8)
    copy.maybe_increment_log_start_offset(2)
    with violates("7.7", "had start 0", "has start 2"):
        _moved(tmp_path, copy)
