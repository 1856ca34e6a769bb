"""A further draw, of one who draws, leaves the draws of all others as they were."""

from dataclasses import replace
from types import SimpleNamespace

import pytest

from replog.simulator.cluster.kernel import Kernel
from replog.simulator.disk.disk_times import DiskTimes
from replog.simulator.faults.nemesis import FAULTS, Nemesis
from replog.simulator.plan import draw
from replog.simulator.profiles import PROFILES, FaultKind
from replog.simulator.runtime.loop import SimulatedLoop
from replog.simulator.runtime.process import SimulatedProcess
from replog.simulator.runtime.rng import Rng, Streams

KILL, PAUSE, SPLIT = FaultKind.KILL, FaultKind.PAUSE, FaultKind.SPLIT


def test_who_draws_for_the_same_purpose_has_a_stream_of_its_own():
    one, other = Streams(Rng(7), "threads"), Streams(Rng(7), "threads")
    first = [one["broker-1"].random() for _ in range(3)]
    assert other["broker-2"].random() not in first
    assert [other["broker-1"].random() for _ in range(3)] == first
    assert Streams(Rng(7), "disks")["broker-1"].random() not in first


def test_an_operation_of_one_disk_makes_no_other_slower():
    def took_s(before: int) -> float:
        times = DiskTimes(loop := SimulatedLoop(Rng(1)), Rng(1))
        for _ in range(before):
            times.take(SimulatedProcess("broker-2"), "fsync")
        spent_s = loop._spent_s
        times.take(SimulatedProcess("broker-1"), "fsync")
        return loop._spent_s - spent_s

    assert took_s(0) == pytest.approx(took_s(1)) == pytest.approx(took_s(5))


def test_a_new_kind_of_fault_leaves_the_rest_of_the_plan_as_it_was():
    storm = PROFILES["storm"]
    fewer = replace(storm, faults={kind: rate for kind, rate in storm.faults.items() if kind is not SPLIT})
    for seed in range(20):
        plan, before = draw(Rng(seed), storm), draw(Rng(seed), fewer)
        assert replace(plan, faults=before.faults, profile=fewer) == before
        swarm, before = (draw(Rng(seed), replace(profile, swarm=True)) for profile in (storm, fewer))
        assert len(swarm.faults.keys() ^ before.faults.keys()) <= 2, "one comes, and one goes for it"


def test_a_new_topic_leaves_the_others_as_they_were():
    profile = PROFILES["swarm"]
    for seed in range(20):
        two, three = (draw(Rng(seed), replace(profile, topics=(many, many))) for many in (2, 3))
        assert three.topics[:2] == two.topics
        assert replace(three, topics=two.topics, profile=two.profile) == two


def test_a_new_kind_or_a_further_draw_in_a_fault_moves_no_other_fault(tmp_path, monkeypatch):
    def faults(kinds: tuple[FaultKind, ...], draws: int) -> list[tuple[FaultKind, float, float]]:
        """Those of other kinds than SPLIT, with when they begin and what they draw; SPLIT draws so often."""
        kernel, done = Kernel(3, tmp_path), []

        async def note(one: Nemesis, kind: FaultKind) -> None:
            drawn = [one.rng.random() for _ in range(draws if kind is SPLIT else 1)]
            if kind is not SPLIT:
                done.append((kind, kernel.loop.time(), drawn[0]))

        for kind in kinds:
            monkeypatch.setitem(FAULTS, kind, note)
        nemesis = Nemesis(kernel, SimpleNamespace(plan=SimpleNamespace(faults=dict.fromkeys(kinds, 20.0))), None)
        kernel.loop.run_until_complete(kernel.loop.spawn(SimulatedProcess("world"), nemesis.run(60.0)))
        kernel.loop.dispose()
        return done

    alone = faults((KILL, PAUSE), 0)
    assert len(alone) > 20
    assert faults((KILL, SPLIT, PAUSE), 1) == alone
    assert faults((KILL, SPLIT, PAUSE), 5) == alone
