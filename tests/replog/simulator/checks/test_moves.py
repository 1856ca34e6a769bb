"""7.7: a replica's log that is swapped for its copy, and for what is nearly its copy."""

from pathlib import Path

import pytest

from replog.log.log import Log
from tests.leader.replicas import append_record, log_of
from tests.replog.simulator.checks.tiny import alone, violates


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
