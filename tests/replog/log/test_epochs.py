"""The leader epoch cache: table 10.9, rows 1 to 35 (EP-1 to EP-9)."""

from pathlib import Path

import pytest

from replog.log.epochs import EpochEntry, LeaderEpochCache
from replog.log.errors import LogStorageError
from replog.log.formats.checkpoint import DamagedCheckpoint
from tests.replog.log.directories.test_changes import fsyncs

C = ((2, 10), (4, 15), (7, 40))
Entries = tuple[EpochEntry, ...]


def cache_of(path: Path, entries: Entries) -> LeaderEpochCache:
    cache = LeaderEpochCache.load(path / "leader-epoch-checkpoint")
    cache.assign_all(entries)
    return cache


def assert_is(cache: LeaderEpochCache, tmp_path: Path, expected: Entries) -> None:
    assert cache.entries == expected
    cache.save()
    assert LeaderEpochCache.load(tmp_path / "leader-epoch-checkpoint").entries == expected, "not durable"


@pytest.mark.parametrize(
    ("row", "before", "assigned", "after"),
    [
        (1, (), ((0, 0), (1, 10)), ((0, 0), (1, 10))),
        (2, ((1, 10),), ((1, 12),), ((1, 10),)),
        (3, ((1, 10),), ((1, 8),), ((1, 8),)),
        (4, ((1, 10),), ((2, 10),), ((2, 10),)),
        (5, ((1, 10),), ((2, 5),), ((2, 5),)),
        (6, ((1, 10), (2, 20), (3, 30)), ((2, 25),), ((1, 10), (2, 25))),
        (7, ((1, 10), (2, 20), (3, 30)), ((4, 15),), ((1, 10), (4, 15))),
        (8, ((1, 10), (2, 20), (3, 30)), ((1, 10),), ((1, 10),)),
        (9, ((1, 10), (2, 20), (3, 30)), ((1, 50),), ((1, 50),)),
        (10, ((1, 10), (2, 20), (3, 30)), ((0, 0),), ((0, 0),)),
        (11, ((1, 10), (2, 20), (3, 30)), ((3, 20),), ((1, 10), (3, 20))),
    ],
)
def test_assign(tmp_path, row, before, assigned, after):
    """EP-1, EP-2."""
    cache = cache_of(tmp_path, before)
    for epoch, start in assigned:
        cache.assign(epoch, start)
    assert_is(cache, tmp_path, after)


@pytest.mark.parametrize(("epoch", "start"), [(-1, 0), (1, -1)])
def test_row_12_negative_epochs_and_offsets_are_refused(tmp_path, epoch, start):
    """EP-1."""
    cache = cache_of(tmp_path, C)
    with pytest.raises(ValueError, match="negative"):
        cache.assign(epoch, start)
    assert_is(cache, tmp_path, C)


def test_row_35_the_file_is_a_checkpoint(tmp_path):
    """EP-9, 1.3."""
    cache = cache_of(tmp_path, C)
    path = tmp_path / "leader-epoch-checkpoint"
    cache.save()
    assert path.read_bytes() == b"0\n3\n2 10\n4 15\n7 40\n"
    cache.clear()
    cache.save()
    assert path.read_bytes() == b"0\n0\n"


@pytest.mark.parametrize(
    "content", ["0\n2\n1 5\n1 9\n", "0\n2\n1 5\n2 5\n", "0\n1\n-1 5\n", "0\n1\n3 -2\n", "0\n1\n2147483648 0\n"]
)
def test_a_file_whose_columns_do_not_grow_or_exceed_their_range_is_damaged(tmp_path, content):
    """EP-1: an epoch of more than 31 bits would not fit the messages that carry it."""
    (tmp_path / "leader-epoch-checkpoint").write_text(content)
    with pytest.raises(DamagedCheckpoint, match=r"does not follow|is not a 64-bit number"):
        cache_of(tmp_path, ())


def test_what_the_disk_did_not_take_is_saved_the_next_time(tmp_path):
    """EP-3: else a leader would go on in an epoch that nobody finds after a crash."""
    cache = LeaderEpochCache(tmp_path / "leader-epoch-checkpoint")
    cache.assign(1, 10)
    cache.save()
    (tmp_path / "leader-epoch-checkpoint.tmp").mkdir()
    cache.assign(2, 20)
    with pytest.raises(LogStorageError):
        cache.save()
    assert LeaderEpochCache.load(cache.path).entries == ((1, 10),)
    (tmp_path / "leader-epoch-checkpoint.tmp").rmdir()
    cache.save()
    assert LeaderEpochCache.load(cache.path).entries == ((1, 10), (2, 20))


def test_what_another_wrote_after_the_wait_for_the_file_system_is_waited_for(tmp_path):
    """The names of its epochs must not come before their content is durable."""
    cache = LeaderEpochCache(tmp_path / "leader-epoch-checkpoint")
    cache.assign(1, 0)
    durable = cache.begin_save()
    cache.assign(2, 5)
    cache.begin_save()
    with fsyncs() as synced:
        cache.put_in_place(durable)
        cache.finish_save(durable)
    assert synced == [f"{cache.path}.tmp", str(tmp_path)]
    assert LeaderEpochCache.load(cache.path).entries == ((1, 0), (2, 5))
