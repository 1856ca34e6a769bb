"""Peers take turns, however many things of each wait."""

import random

import pytest

from replog.rpc.fair_queue import FairQueue


def waiting() -> FairQueue[str, str]:
    queue = FairQueue[str, str]()
    for one in ("a1", "b1", "b2", "b3", "a2"):
        queue.add(one[0], one)
    return queue


def test_the_surplus_is_the_oldest_of_the_peer_that_has_most():
    queue = waiting()
    assert [queue.take_surplus() for _ in range(3)] == ["b1", "a1", "b2"]


def test_a_crowd_gives_way_to_a_newcomer_that_has_at_least_two_less_and_to_nobody_else():
    queue = waiting()
    assert queue.crowd("c") == queue.crowd("d") == ["b1", "b2", "b3"]
    assert queue.crowd("a") == queue.crowd("b") == []
    queue.remove("b", "b1")
    assert queue.crowd("c") == ["a1", "a2"]
    queue.remove("a", "a1")
    assert queue.crowd("c") == ["b2", "b3"]
    queue.remove("b", "b2")
    assert queue.crowd("c") == [], "a and b have one each, and c would have as many"
    assert FairQueue[str, str]().crowd("c") == []


@pytest.mark.parametrize("seed", range(5))
def test_what_the_table_says_holds_after_every_step(seed):
    rng, queue, there = random.Random(seed), FairQueue[str, int](), dict[str, list[int]]()
    for number in range(2000):
        peer = rng.choice("abc")
        match rng.randrange(5):
            case 0 | 1:
                added = rng.choice([number, *there.get(peer, ())])
                queue.add(peer, added)
                if added not in there.setdefault(peer, []):
                    there[peer].append(added)
            case 2:
                removed = rng.randrange(number + 1)
                queue.remove(peer, removed)
                if removed in there.get(peer, ()):
                    there[peer].remove(removed)
            case step if there:
                turn = next(iter(there))
                taken = queue.take(newest=step == 4)
                things = there.pop(turn)
                assert taken == things.pop(0 if step == 3 else -1)
                there[turn] = things
        there = {peer: things for peer, things in there.items() if things}
        assert list(queue) == [thing for things in there.values() for thing in things]
        assert len(queue) == sum(map(len, there.values()))
        assert list(queue.of(peer)) == there.get(peer, [])
