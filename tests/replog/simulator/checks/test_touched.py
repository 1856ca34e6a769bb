"""The checks look at what a step touched; a change that would escape them is found."""

import dataclasses

from replog.config.topic import TopicConfig
from replog.log.log import Log
from replog.simulator.checks import broker_check
from replog.simulator.checks.touched import DIRECTORIES, Touched
from replog.simulator.profiles import PROFILES
from replog.simulator.simulation import simulate


def test_the_directories_of_logs_that_change_are_noted_and_nothing_else(tmp_path):
    one, other = (Log.open(tmp_path / name, TopicConfig(), clean=True) for name in ("one-0", "other-0"))
    with Touched() as touched:
        one.update_high_watermark(0)
        one.config = TopicConfig()
        assert list(touched.directories) == []
        one.assign_epoch_start(3)
        other.maybe_increment_log_start_offset(0)
        assert list(touched.directories) == [tmp_path / "one-0"]
        touched.clear()
        other.truncate_fully_and_start_at(7)
        assert list(touched.directories) == [tmp_path / "other-0"]
    one.assign_epoch_start(4)
    assert list(touched.directories) == [tmp_path / "other-0"]
    one.close()
    other.close()


def test_what_is_not_watched_fails_the_seed(tmp_path, monkeypatch):
    monkeypatch.delitem(DIRECTORIES, Log)
    monkeypatch.setattr(broker_check, "UNTOUCHED_STEPS", 1)
    outcome = simulate(1, dataclasses.replace(PROFILES["calm"], trouble_s=(3.0, 3.0)), tmp_path / "one")
    assert outcome.invariant == "defect"
    assert "checks/touched.py did not notice" in outcome.text
