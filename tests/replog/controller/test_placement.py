import random
from collections import Counter

import pytest

from replog.controller.topics import ReplicaPlacer
from replog.metadata.values import BrokerRegistration


def brokers(racks, fenced=()):
    return [BrokerRegistration(b, b, b"i" * 16, f"h{b}:1", rack, b in fenced, False) for b, rack in racks.items()]


def placed(racks, partitions, factor, *, fenced=(), seed=1):
    placer = ReplicaPlacer(brokers(racks, fenced), random.Random(seed))
    return [placer.place(factor) for _ in range(partitions)]


@pytest.mark.parametrize("factor", [1, 2, 3, 4, 5, 6])
def test_ct_20_a_rack_is_used_twice_only_when_all_were_used_once(factor):
    """CT-20."""
    racks = {1: "a", 2: "a", 3: "b", 4: "b", 5: "c", 6: "c"}
    for replicas in placed(racks, 60, factor):
        assert len(set(replicas)) == factor
        used = Counter(racks[r] for r in replicas)
        assert max(used.values()) - min(used[rack] for rack in "abc") <= 1, replicas


def test_ct_20_uneven_racks_fill_up_from_those_that_have_brokers_left():
    """CT-20."""
    racks = {1: "a", 2: "b", 3: "b", 4: "b"}
    for replicas in placed(racks, 20, 4):
        assert sorted(replicas) == [1, 2, 3, 4]


@pytest.mark.parametrize("racks", [dict.fromkeys(range(5), ""), dict(zip(range(6), "aabbcc", strict=True))])
def test_ct_20_leaders_and_replicas_are_spread_evenly(racks):
    """CT-20."""
    partitions = 20 * len(racks)
    for seed in range(10):
        plan = placed(racks, partitions, 3, seed=seed)
        leaders = Counter(replicas[0] for replicas in plan)
        assert set(leaders.values()) == {20}, leaders
        load = Counter(r for replicas in plan for r in replicas)
        assert max(load.values()) - min(load.values()) <= 12, load


def test_the_followers_of_one_leader_vary_so_that_its_failure_spreads_over_the_others():
    plan = placed(dict.fromkeys(range(5), ""), 200, 2)
    seconds = {replicas[1] for replicas in plan if replicas[0] == 0}
    assert seconds == {1, 2, 3, 4}


@pytest.mark.parametrize("racks", [dict.fromkeys((1, 2, 3), ""), {1: "a", 2: "b", 3: "c"}, {1: "a", 2: "a", 3: "b"}])
def test_ct_20_the_first_replica_is_active_and_active_brokers_come_before_fenced_ones_of_their_rack(racks):
    """CT-20."""
    for replicas in placed(racks, 30, 3, fenced={1, 2}):
        assert replicas[0] == 3
        assert sorted(replicas) == [1, 2, 3]
    for replicas in placed({1: "a", 2: "a", 3: "b"}, 30, 2, fenced={1}):
        assert 1 not in replicas


def test_ct_20_a_rack_whose_brokers_are_all_fenced_is_used_only_when_the_others_are_too_few():
    """CT-20."""
    racks = {1: "a", 2: "b", 3: "c", 4: "d"}
    plan = placed(racks, 30, 3, fenced={2})
    assert all(sorted(replicas) == [1, 3, 4] for replicas in plan)
    assert Counter(replicas[0] for replicas in plan) == {1: 10, 3: 10, 4: 10}
    for replicas in placed(racks, 30, 3, fenced={2, 3}):
        assert set(replicas[:2]) == {1, 4}
        assert replicas[2] in (2, 3)
    for replicas in placed({1: "a", 2: "a", 3: "b"}, 30, 2, fenced={3}):
        assert sorted({1: "a", 2: "a", 3: "b"}[r] for r in replicas) == ["a", "b"], "a copy in a rack of its own, later"


def test_the_same_seed_gives_the_same_plan():
    racks = dict.fromkeys(range(9), "")
    assert placed(racks, 20, 3, seed=4) == placed(racks, 20, 3, seed=4)
    assert placed(racks, 20, 3, seed=4) != placed(racks, 20, 3, seed=5)
