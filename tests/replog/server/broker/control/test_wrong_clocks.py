"""A wrong clock, of a broker or the controller, and what is deleted by time (CT-28, divergence 56), in virtual time."""

import pytest
from structlog.testing import capture_logs

from replog.server.clock import MOST_APART_MS
from replog.simulator.runtime.process import WALL_START_MS
from tests.replog.log.batches import client_batch
from tests.replog.server.broker.virtual_pair import VirtualPair

DAYS = 30 * 86_400_000
WAIT_S = 5.0
TOLD = "retention has deleted records"


@pytest.fixture
def pair(make_pair):
    return make_pair(log_retention_check_interval_ms=100)


def produce(pair: VirtualPair, timestamp_ms: int = WALL_START_MS) -> None:
    assert pair.produced(records=client_batch(b"x", timestamps=[timestamp_ms])).error_code == 0


def starts(pair: VirtualPair) -> tuple[int, int]:
    pair.wait(WAIT_S)
    return pair.log(1).log_start_offset, pair.log(2).log_start_offset


@pytest.mark.parametrize("by_ms", [DAYS, -DAYS])
def test_a_leader_whose_clock_is_wrong_for_a_while_deletes_nothing_and_says_so_once(pair, by_ms):
    pair.create_topic(retention_ms="86400000", message_timestamp_before_max_ms="86400000")
    produce(pair)
    clock = pair.brokers[1].manager.context.clock
    with capture_logs() as lines:
        clock.jump(by_ms)
        produce(pair)  # and it refuses none that is dated right
        assert starts(pair) == (0, 0)
        clock.jump(-by_ms)
        assert starts(pair) == (0, 0)
    told = [line for line in lines if "ahead_s" in line]
    assert [line["log_level"] for line in told] == ["warning", "info"]
    assert told[0]["ahead_s"] == pytest.approx(by_ms / 1000, abs=1)


def test_when_the_controllers_clock_is_wrong_no_broker_deletes_by_time_until_it_is_right_again(pair):
    pair.create_topic(retention_ms="1000")
    pair.controller._clock.jump(DAYS)
    pair.wait(1)
    produce(pair)
    assert starts(pair) == (0, 0)
    pair.controller._clock.jump(-DAYS)
    assert starts(pair) == (1, 1)


def test_a_clock_within_the_bound_deletes_and_each_deletion_is_told(pair):
    pair.create_topic(retention_ms=str(DAYS // 2))
    pair.brokers[1].manager.context.clock.jump(MOST_APART_MS - 1000)
    produce(pair, WALL_START_MS - DAYS)
    with capture_logs() as lines:
        assert starts(pair) == (1, 1)
    told = [line for line in lines if line["event"] == TOLD]
    assert {(line["partition"], line["records"], line["up_to_offset"], line["why"]) for line in told} == {
        ("t-0", 1, 0, f"retention.ms={DAYS // 2}")
    }
    assert all(line["newest_age_s"] > DAYS / 1000 > 60 * 60 > line["written_age_s"] for line in told), told


def test_records_of_an_append_while_the_leaders_clock_is_behind_are_not_dated_back(pair):
    """They would be deleted a month too early."""
    pair.create_topic(retention_ms="86400000", message_timestamp_type="LogAppendTime")
    pair.brokers[1].manager.context.clock.jump(-DAYS)
    produce(pair)
    pair.brokers[1].manager.context.clock.jump(DAYS)
    assert starts(pair) == (0, 0)
