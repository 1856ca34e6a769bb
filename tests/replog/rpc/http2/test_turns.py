"""Hosts take turns, however many of each wait."""

from replog.rpc.http2.turns import Turns


def waiting() -> Turns[str]:
    turns = Turns[str]()
    for one in ("a1", "b1", "b2", "b3", "a2"):
        turns.add(one[0], one)
    return turns


def test_each_host_has_its_turn_the_oldest_of_it_first():
    turns = waiting()
    assert [turns.oldest() for _ in range(len(turns))] == ["a1", "b1", "a2", "b2", "b3"]
    assert not turns


def test_or_the_newest_of_it_first():
    turns = waiting()
    assert [turns.newest() for _ in range(len(turns))] == ["a2", "b3", "a1", "b2", "b1"]
    assert not turns


def test_who_comes_while_his_host_has_nobody_is_behind_the_others():
    turns = waiting()
    turns.add("c", "c1")
    assert [turns.oldest(), turns.oldest(), turns.oldest()] == ["a1", "b1", "c1"]


def test_the_surplus_is_the_oldest_of_the_host_that_has_most():
    turns = waiting()
    assert [turns.surplus() for _ in range(3)] == ["b1", "a1", "b2"]
    while turns:
        turns.surplus()
    assert len(turns) == 0
