"""A timer rings by the nearest moment that it was asked for; a wrong clock, of a broker or the controller, and what is
deleted by time (CT-28, divergence 56). In virtual time."""

import asyncio

import pytest
from structlog.testing import capture_logs

from replog.rpc.peer import anonymous
from replog.server.clock import MOST_APART_MS, DeadlineTimer, TrustedTime
from replog.simulator.runtime.loop import SimulatedLoop
from replog.simulator.runtime.process import WALL_START_MS, ProcessClock, SimulatedProcess
from replog.simulator.runtime.rng import Rng
from tests.replog.log.batches import client_batch
from tests.replog.server.broker.test_metrics import values
from tests.replog.server.broker.virtual_pair import VirtualPair


def test_it_rings_once_by_the_nearest_of_the_moments_and_not_when_cancelled():
    loop, rings = SimulatedLoop(Rng(1)), list[int]()

    async def ask() -> None:
        clock = ProcessClock(loop)
        began_ms = clock.monotonic_ms()
        timer = DeadlineTimer(clock, lambda: rings.append(clock.monotonic_ms() - began_ms))
        for in_ms in (9000, 20, None, 40):
            timer.by(None if in_ms is None else began_ms + in_ms)
        await asyncio.sleep(5)
        timer.by(began_ms)
        await asyncio.sleep(5)
        timer.by(clock.monotonic_ms() + 20)
        timer.cancel()
        await asyncio.sleep(5)

    task = loop.spawn(SimulatedProcess("broker"), ask())
    assert loop.run_until(task.done, 600)
    task.result()
    assert [20 <= rings[0] <= 30, 5000 <= rings[1] <= 5100, len(rings)] == [True, True, 2], rings


DAYS = 30 * 86_400_000
NOW = 2 * DAYS
SLOW = 4000  # ms that an answer takes


class Clock:
    def __init__(self) -> None:
        self.monotonic, self.wall = 5000, NOW

    def monotonic_ms(self) -> int:
        return self.monotonic

    def monotonic_s(self) -> float:
        return self.monotonic / 1000

    def wall_ms(self) -> int:
        return self.wall

    def pass_ms(self, by_ms: int) -> None:
        self.monotonic += by_ms
        self.wall += by_ms


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def time(clock):
    return TrustedTime(clock)


def heartbeat(time: TrustedTime, clock: Clock, ahead_ms: int, took_ms: int = 0, said_after_ms: int = 0) -> None:
    """The broker's clock is so far ahead of the controller's, which looks at its own after a while."""
    question_ms, controller_ms = clock.monotonic, clock.wall + said_after_ms - ahead_ms
    clock.pass_ms(took_ms)
    time.heard(question_ms, controller_ms)


@pytest.mark.parametrize(
    ("ahead_ms", "took_ms", "said_after_ms", "trusted"),
    [
        (0, 0, 0, True),
        (MOST_APART_MS, 0, 0, True),
        (MOST_APART_MS + 1, 0, 0, False),
        (-MOST_APART_MS, 0, 0, True),
        (-MOST_APART_MS - 1, 0, 0, False),
        (DAYS, 0, 0, False),
        (-DAYS, 0, 0, False),
        (0, SLOW, 0, True),
        (0, SLOW, SLOW, True),
        # the answer, or the question, may have been under way for all of that time: it does not prove enough
        (MOST_APART_MS - SLOW, SLOW, 0, True),
        (MOST_APART_MS - SLOW + 1, SLOW, 0, False),
        (MOST_APART_MS, SLOW, SLOW, True),
        (SLOW - MOST_APART_MS, SLOW, SLOW, True),
        (SLOW - MOST_APART_MS - 1, SLOW, SLOW, False),
        (-MOST_APART_MS, SLOW, 0, True),
        (0, MOST_APART_MS + 1, 0, False),
    ],
)
def test_a_heartbeat_proves_that_clocks_agree_or_nothing_is_deleted_by_time(
    clock, time, ahead_ms, took_ms, said_after_ms, trusted
):
    heartbeat(time, clock, ahead_ms, took_ms, said_after_ms)
    assert time.may_delete_ms() == (clock.wall if trusted else None), time.ahead_ms


def test_before_a_controller_is_heard_nothing_is_deleted_and_that_is_said_once(clock, time):
    with capture_logs() as lines:
        assert (time.may_delete_ms(), time.may_delete_ms()) == (None, None)
    assert [line["event"] for line in lines] == ["no controller was heard since the start: nothing is deleted by time"]


def test_a_controller_of_release_0_1_0_says_no_time_and_the_own_clock_counts(clock, time):
    time.heard(clock.monotonic, 0)
    clock.wall += DAYS
    assert (time.may_delete_ms(), time.ahead_ms, time.of_append(clock.monotonic)) == (clock.wall, 0, (clock.wall, 0))


@pytest.mark.parametrize("jump_ms", [DAYS, -DAYS])
def test_a_jump_shows_without_another_heartbeat_and_each_episode_is_said_once(clock, time, jump_ms):
    heartbeat(time, clock, 0)
    with capture_logs() as lines:
        for _ in range(2):
            clock.wall += jump_ms
            assert time.may_delete_ms() is None
            clock.pass_ms(10 * MOST_APART_MS)
            assert (time.may_delete_ms(), time.ahead_ms) == (None, jump_ms)
            heartbeat(time, clock, jump_ms)
            clock.wall -= jump_ms
            assert time.may_delete_ms() == clock.wall
    assert [(line["log_level"], line["ahead_s"]) for line in lines] == [("warning", jump_ms / 1000), ("info", 0)] * 2


def test_another_controller_is_compared_with_from_its_first_answer_on(clock, time):
    heartbeat(time, clock, DAYS)
    assert time.may_delete_ms() is None
    heartbeat(time, clock, 0)
    assert time.may_delete_ms() == clock.wall


@pytest.mark.parametrize(
    ("ahead_ms", "appended"), [(0, (NOW, 0)), (-1000, (NOW, 0)), (-DAYS, (NOW + DAYS, DAYS)), (DAYS, (NOW, DAYS))]
)
def test_a_record_is_dated_by_the_later_clock_if_both_differ(clock, time, ahead_ms, appended):
    """So no retention takes it too early, whichever is right."""
    heartbeat(time, clock, ahead_ms)
    assert time.of_append(clock.monotonic) == appended


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
        shown = values(pair.run(pair.brokers[1].metrics(anonymous("127.0.0.1")), pair.processes[1]))
        assert shown["replog_clock_ahead_seconds"] == pytest.approx(by_ms / 1000, abs=1)
        clock.jump(-by_ms)
        assert starts(pair) == (0, 0)
    told = [line for line in lines if "ahead_s" in line]
    assert [line["log_level"] for line in told] == ["warning", "info"]
    assert told[0]["ahead_s"] == pytest.approx(by_ms / 1000, abs=1)


def test_when_the_controllers_clock_is_wrong_no_broker_deletes_by_time_until_it_is_right_again(pair):
    pair.create_topic(retention_ms="1000")
    pair.controller.clock.jump(DAYS)
    pair.wait(1)
    produce(pair)
    assert starts(pair) == (0, 0)
    pair.controller.clock.jump(-DAYS)
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
