"""Life with a compacted log: readers, followers, truncation and restarts find holes; what else a policy changes."""

import pytest

from replog.log.errors import InvalidRecord, OffsetsOutOfOrder, UnexpectedAppendOffset
from replog.log.offsets import Isolation
from tests.replog.log.batches import append, client_batch, files_of, layout, leader_batch, open_log
from tests.replog.log.compaction.compacting import T, clean, compacted, keyed, latest_of, rewritten, sealed


def test_cl_8_cleaned_indexes_are_those_of_the_bytes(tmp_path):
    """Rebuilt from the log alone they are the same (divergence 1)."""
    log = compacted(tmp_path, index_interval_bytes=100)
    sealed(log, *[keyed(f"{n % 7}", time=T + n) for n in range(40)], *[keyed(f"x{n}", time=T + n) for n in range(20)])
    clean(log)
    log.close()
    before = files_of(tmp_path)
    assert before[f"{0:020d}.index"]
    for suffix in ("index", "timeindex", "digest"):
        (tmp_path / f"{0:020d}.{suffix}").unlink()
    again = compacted(tmp_path, index_interval_bytes=100)
    assert (files_of(tmp_path), again.lost_data) == (before, False)


def test_cl_8_a_follower_takes_a_log_with_holes(tmp_path):
    leader = compacted(tmp_path / "leader", index_interval_bytes=100, segment_bytes=400)
    for number in range(60):
        append(leader, keyed(f"{number % 3}" if number < 50 else f"k{number}", time=T + number), epoch=number // 20)
    leader.roll()
    leader.update_high_watermark(60)
    follower = compacted(tmp_path / "follower", segment_bytes=400)
    follower.append_as_follower(leader.read(0, 80, Isolation.LOG_END, min_one_message=True).records)
    fetched_before = follower.log_end_offset
    assert 0 < fetched_before < 5
    clean(leader)
    while follower.log_end_offset < leader.log_end_offset:
        data = leader.read(follower.log_end_offset, 150, Isolation.LOG_END, min_one_message=True).records
        follower.append_as_follower(data)
    assert latest_of(follower) == latest_of(leader)
    assert follower.log_end_offset == leader.log_end_offset == 60
    follower.update_high_watermark(60)
    follower.roll()
    clean(follower)
    assert latest_of(follower) == latest_of(leader)
    entries = follower.epochs.entries
    follower.close()
    again = compacted(tmp_path / "follower", segment_bytes=400, clean=False)
    assert (again.log_end_offset, again.epochs.entries, again.lost_data) == (60, entries, False)


def test_cl_8_a_hole_belongs_to_the_epoch_after_it(tmp_path):
    """A replica with records of an older epoch in there is told to give them up, rather than to keep them."""
    log = compacted(tmp_path)
    log.append_as_follower(leader_batch(0, 1, (b"a", b"1")) + leader_batch(7, 2, (b"b", b"1")))
    assert log.epochs.entries == ((1, 0), (2, 1))
    assert log.end_offset_for_epoch(1) == (1, 1)
    (tmp_path / "leader-epoch-checkpoint").unlink(missing_ok=True)  # it may not be saved yet
    log.close()
    assert compacted(tmp_path).epochs.entries == ((1, 0), (2, 1))


def test_uncompacted_logs_take_no_holes(tmp_path):
    """Divergence 4 holds wherever compaction cannot have made them."""
    plain = open_log(tmp_path / "plain")
    with pytest.raises(UnexpectedAppendOffset):
        plain.append_as_follower(leader_batch(1, 0, (b"a", b"1")))
    with pytest.raises(OffsetsOutOfOrder):
        plain.append_as_follower(leader_batch(0, 0, (b"a", b"1")) + leader_batch(2, 0, (b"a", b"1")))
    log = compacted(tmp_path / "compacted")
    log.append_as_follower(leader_batch(0, 0, (b"a", b"1")) + leader_batch(2, 0, (b"a", b"1")))
    with pytest.raises(UnexpectedAppendOffset):
        log.append_as_follower(leader_batch(2, 0, (b"a", b"1")))
    log.close()
    assert compacted(tmp_path / "compacted", clean=False).log_end_offset == 3
    assert open_log(tmp_path / "compacted", clean=False).log_end_offset == 1, "not served as an uncompacted topic"


def test_cl_8_truncation_in_a_hole_takes_whole_batches(tmp_path):
    for target, end in ((9, 6), (7, 6), (6, 6), (5, 1), (3, 1), (2, 1), (1, 1), (0, 0)):
        log = compacted(tmp_path / str(target), index_interval_bytes=1)
        for base, keys in ((0, "a"), (3, "bcd"), (9, "e")):
            log.append_as_follower(leader_batch(base, base, *[(key.encode(), b"v") for key in keys]))
        assert log.truncate_to(target)
        assert log.log_end_offset == end, target
        log.append_as_follower(leader_batch(20, 20, (b"z", b"v")))
        entries = log.epochs.entries
        log.close()
        again = compacted(tmp_path / str(target), index_interval_bytes=1)
        assert (again.log_end_offset, again.epochs.entries) == (21, entries)


def test_cl_8_a_truncation_in_a_hole_between_segments_goes_on_in_the_first_of_them(tmp_path):
    """SG-10: without the final entries that it had while it was sealed."""
    kept = [leader_batch(base, 0, (b"k", b"v")) for base in (0, 1, 2)]
    after = [leader_batch(base, 0, (b"k", b"v")) for base in (5, 6)]
    log = compacted(tmp_path / "cut", segment_bytes=400)
    for batch in (*kept, leader_batch(10, 0, (b"k", bytes(300)))):
        log.append_as_follower(batch)
    assert layout(log)[0] == (0, 210)
    assert log.truncate_to(7)
    other = compacted(tmp_path / "never", segment_bytes=400)
    for batch in kept:
        other.append_as_follower(batch)
    for batch in after:
        log.append_as_follower(batch)
        other.append_as_follower(batch)
    assert layout(log) == [(0, 350)]
    assert files_of(log.directory) == files_of(other.directory)


def test_cl_9_bounds_that_have_fallen_into_a_replaced_segment_are_found_anew(tmp_path):
    """A follower's high watermark may go back (HW-9); its place in the old segment says nothing of the new one."""
    log = sealed(compacted(tmp_path), keyed("a"), keyed("a"), keyed("b"))
    task, swap = rewritten(log)
    log.update_high_watermark(2)
    assert log.bound(Isolation.HIGH_WATERMARK) == (2, 0, 140)
    assert log.begin_swap(task.generation, swap)
    assert log.finish_swap(swap)
    assert log.bound(Isolation.HIGH_WATERMARK) == (2, 0, 70)


# -- LG-13, SG-6, 2.7


def test_sg_6_a_segment_rolls_in_time_for_the_largest_lag(tmp_path):
    for policy, segments in (("compact", 2), ("delete", 1)):
        log = open_log(tmp_path / policy, cleanup_policy=policy, max_compaction_lag_ms=100)
        append(log, keyed("a", time=T), keyed("a", time=T + 100), keyed("a", time=T + 101))
        assert len(log.segments) == segments


@pytest.mark.parametrize("codec", range(5))
def test_a_leader_of_a_compacted_topic_wants_keys(tmp_path, codec):
    """2.7 step 4: the whole batch is refused, by the indexes of the records without a key."""
    log = compacted(tmp_path / "compacted")
    batch = client_batch((b"a", b"1"), (b"", b"2"), b"3", (b"a", b"4"), b"5", codec=codec)
    with pytest.raises(InvalidRecord, match=r"record 2 of 5 has no key.*cleanup.policy=compact") as refused:
        log.append_as_leader(batch, leader_epoch=0, now_ms=T)
    assert refused.value.records == [2, 4]
    assert log.log_end_offset == 0
    append(log, client_batch((b"a", b"1"), (b"", b"2"), codec=codec))
    assert append(open_log(tmp_path / "plain"), batch).log_end_offset == 5


def test_a_leader_looks_through_so_much_and_no_more(tmp_path):
    log = compacted(tmp_path, max_message_bytes=1000)
    with pytest.raises(InvalidRecord, match="at most 16000 bytes"):
        append(log, client_batch((b"a", bytes(20_000)), codec=1))
    append(log, client_batch((b"a", bytes(10_000)), codec=1))


def test_a_leader_looks_at_so_many_keys_and_no_more(tmp_path):
    """A batch of two million records compresses well, and takes seconds in which a broker does nothing else."""
    log = compacted(tmp_path)
    with pytest.raises(InvalidRecord, match=r"has 100001 records, more than the 100000 .* smaller batches"):
        append(log, client_batch(*[(b"k", b"")] * 100_001, codec=1))
    assert log.log_end_offset == 0
