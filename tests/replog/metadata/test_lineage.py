import pytest

from replog.log.directories.metadata_position import Position
from replog.metadata.lineage import MAX_HISTORIES, History, begin, continues

LINEAGE = (History(b"a", 2), History(b"b", 11), History(b"c", 21))


def knows(history_id: bytes, version: int, lineage: tuple[History, ...] = LINEAGE, newest: int = 30) -> bool:
    return continues(lineage, newest, Position("cluster", history_id, version))


@pytest.mark.parametrize(("history_id", "end"), [(b"a", 10), (b"b", 20), (b"c", 30)])
def test_ct_24_who_knows_a_history_up_to_its_end_here_is_followed_and_nobody_who_knows_more(history_id, end):
    """CT-24."""
    assert knows(history_id, end)
    assert not knows(history_id, end + 1), "it went on elsewhere"


def test_ct_24_an_unknown_history_is_another_one_however_small_its_version():
    """CT-24: two controllers went on from one copy, and this one came further."""
    assert not knows(b"x", 25)
    assert not knows(b"x", 2)


def test_what_is_older_than_all_that_is_remembered_is_taken_on_trust():
    assert knows(b"", 1), "a store of an earlier release had no histories"
    assert knows(b"forgotten", 1)


def test_a_store_without_histories_knows_its_versions_only():
    assert knows(b"", 30, ())
    assert not knows(b"", 31, ())
    assert not knows(b"a", 31, ())


def test_a_new_history_begins_after_the_newest_version_and_old_ones_are_forgotten():
    lineage: tuple[History, ...] = ()
    for number in range(MAX_HISTORIES + 10):
        lineage = begin(lineage, b"%d" % number, number)
    assert len(lineage) == MAX_HISTORIES
    assert lineage[-1] == History(b"%d" % (MAX_HISTORIES + 9), MAX_HISTORIES + 10)
