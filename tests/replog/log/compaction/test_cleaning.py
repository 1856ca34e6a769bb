"""Compaction of one log, on real files: the worked cases S-W-C1, S-W-C2, S-W-C3, S-W-C4 and the rules of what goes."""

import os
from pathlib import Path

import pytest

from replog.log.compaction.cleaning import CleanTask, find_cleanable
from replog.log.compaction.rewriting import SLOT_BYTES, OffsetMap
from replog.log.errors import CorruptRecord, LogUncleanable
from replog.log.formats.batch import DELETE_HORIZON, HEADER_SIZE
from replog.log.log import Log
from replog.log.offsets import Isolation
from replog.log.retention import delete_old_segments
from tests.damage.vocabulary import flip
from tests.replog.log.batches import append, client_batch, files_of, layout, leader_batch
from tests.replog.log.compaction.compacting import (
    T,
    batches_of,
    clean,
    compacted,
    keyed,
    latest_of,
    names_in,
    offsets_of,
    ranges_of,
    records_of,
    rewritten,
    sealed,
)


@pytest.fixture
def fixture_c(tmp_path: Path) -> Log:
    """[0-2: a,b,a] [3: c] [4: b=null] | [5-6: a,d] | [7: c]; epochs 3,3,3 / 4 / 4."""
    log = compacted(tmp_path, delete_retention_ms=500)
    sealed(log, keyed("a", "b", "a"), keyed("c"), keyed("b", value=None), epoch=3)
    sealed(log, keyed("a", "d"), epoch=4)
    append(log, keyed("c"), epoch=4)
    log.update_high_watermark(8)
    return log


def test_a_first_cleaning_starts_the_tombstones_clock(fixture_c):
    """S-W-C1; PS-8, too: the snapshot of a base that is gone goes with it."""
    assert f"{5:020d}.snapshot" in names_in(fixture_c.directory)
    assert clean(fixture_c, T) == 7
    headers = [header for header, _ in batches_of(fixture_c)]
    assert [(h.base_offset, h.last_offset, h.leader_epoch) for h in headers] == [
        (3, 3, 3),
        (4, 4, 3),
        (5, 6, 4),
        (7, 7, 4),
    ]
    tombstone = headers[1]
    assert (tombstone.size, tombstone.base_timestamp) == (70, T + 500)
    assert tombstone.attributes == DELETE_HORIZON
    assert [record.timestamp for record in records_of(fixture_c)] == [T] * 5, "timestamps stay"
    assert [base for base, _ in layout(fixture_c)] == [0, 7]
    assert f"{5:020d}.snapshot" not in names_in(fixture_c.directory)
    assert fixture_c.log_end_offset == 8


def test_just_before_the_horizon_nothing_changes(fixture_c):
    """S-W-C2."""
    clean(fixture_c, T)
    before = files_of(fixture_c.directory)
    assert clean(fixture_c, T + 499, checkpoint=7) == 7
    assert files_of(fixture_c.directory) == before


def test_at_the_horizon_the_tombstone_goes(fixture_c):
    """S-W-C3."""
    clean(fixture_c, T)
    clean(fixture_c, T + 500, checkpoint=7)
    assert ranges_of(fixture_c) == [(3, 3), (5, 6), (7, 7)]
    for offset, first in [(0, 3), (1, 3), (2, 3), (3, 3), (4, 5), (5, 5), (6, 5), (7, 7)]:
        data = fixture_c.read(offset, 1, Isolation.LOG_END, min_one_message=True)
        assert int.from_bytes(data.records[:8], "big") == first, offset
    assert fixture_c.read(8, 1, Isolation.LOG_END, min_one_message=True).records == b""
    assert fixture_c.log_end_offset == 8
    assert fixture_c.epochs.entries == ((3, 0), (4, 5))
    fixture_c.close()
    again = compacted(fixture_c.directory, high_watermark=8)
    assert (again.log_end_offset, again.epochs.entries, again.lost_data) == (8, ((3, 0), (4, 5)), False)


def test_a_producers_last_batch_survives_as_a_bare_header(tmp_path):
    """S-W-C4."""
    log = compacted(tmp_path)
    first = {"producer_id": 1, "producer_epoch": 0}
    second = {"producer_id": 2, "producer_epoch": 0, "base_sequence": 0}
    batches = [keyed("a", base_sequence=0, **first), keyed("a", **second)]
    batches += [keyed("b", base_sequence=1, **first), keyed("c", base_sequence=2, **first)]
    sealed(log, *batches, keyed("a"), keyed("b"), keyed("c"))
    clean(log, T)
    bare = [header for header, _ in batches_of(log) if not header.records_count]
    assert [(h.producer_id, h.base_sequence, h.base_offset, h.size) for h in bare] == [
        (2, 0, 1, HEADER_SIZE),
        (1, 2, 3, HEADER_SIZE),
    ]
    assert {(h.base_timestamp, h.max_timestamp) for h in bare} == {(-1, T)}
    assert offsets_of(log) == [4, 5, 6]
    log.close()
    again = compacted(tmp_path)
    with_ids = keyed("c", base_sequence=2, **first)
    assert again.append_as_leader(with_ids, leader_epoch=0, now_ms=T).first_offset == 3, "still known as a duplicate"


# -- CL-1, CL-2: what is cleanable


def test_cl_1_the_active_segment_and_what_is_above_the_high_watermark_stay(tmp_path):
    log = sealed(compacted(tmp_path), keyed("a"), keyed("a"))
    append(log, keyed("a"), keyed("a"))
    log.roll()
    log.update_high_watermark(3)
    cleanable = find_cleanable(log, None, T)
    assert (cleanable.first_dirty, cleanable.first_uncleanable) == (0, 2)
    assert clean(log) == 2
    assert offsets_of(log) == [1, 2, 3]


@pytest.mark.parametrize("checkpoint", [None, -1, 99])
def test_cl_1_a_checkpoint_outside_of_the_log_counts_as_its_start(tmp_path, checkpoint):
    log = sealed(compacted(tmp_path), keyed("a"), keyed("a"))
    assert find_cleanable(log, checkpoint, T)[:2] == (0, 2)


def test_cl_1_young_segments_wait_for_their_lag(tmp_path):
    log = compacted(tmp_path, min_compaction_lag_ms=100)
    for time in (T, T + 50, T + 60):
        sealed(log, keyed("a", time=time))
    assert [find_cleanable(log, None, now).first_uncleanable for now in (T + 99, T + 100, T + 150, T + 160)] == [
        0,
        1,
        2,
        3,
    ]


def test_cl_1_segments_from_the_future_wait_since_they_were_written(tmp_path):
    """LG-20."""
    log = compacted(tmp_path, min_compaction_lag_ms=100, max_compaction_lag_ms=1000, min_cleanable_dirty_ratio=1.0)
    append(log, keyed("a", time=10**15), now_ms=10**15).roll()
    log.update_high_watermark(1)
    os.utime(log.segments[0].path, ns=(0, T * 1_000_000))
    assert [find_cleanable(log, None, now).first_uncleanable for now in (T + 99, T + 100)] == [0, 1]
    assert [find_cleanable(log, None, now).is_worth_it(log.config) for now in (T + 1000, T + 1001)] == [False, True]


def test_without_a_time_no_lag_is_over(tmp_path):
    """CT-28; without lags the cleaner goes on."""
    log = compacted(tmp_path, min_compaction_lag_ms=1, max_compaction_lag_ms=1, min_cleanable_dirty_ratio=1.0)
    sealed(log, keyed("a"), keyed("a"))
    assert find_cleanable(log, None, None).first_uncleanable == 0
    log.config = log.config.model_copy(update={"min_compaction_lag_ms": 0})
    assert find_cleanable(log, None, None).first_uncleanable == 2
    assert not find_cleanable(log, None, None).is_worth_it(log.config)


def test_without_a_time_a_tombstones_time_neither_begins_nor_ends(fixture_c):
    """CT-28, CL-6: what a wrong clock noted, or took, would stay wrong."""
    clean(fixture_c, None)
    assert not any(header.attributes & DELETE_HORIZON for header, _ in batches_of(fixture_c))
    clean(fixture_c, T, checkpoint=7)
    kept = offsets_of(fixture_c)
    assert any(header.attributes & DELETE_HORIZON for header, _ in batches_of(fixture_c))
    clean(fixture_c, None, checkpoint=7)
    assert offsets_of(fixture_c) == kept
    clean(fixture_c, T + 500, checkpoint=7)
    assert len(offsets_of(fixture_c)) < len(kept)


def test_cl_2_the_dirty_ratio_must_exceed_its_minimum(tmp_path):
    log = compacted(tmp_path, min_cleanable_dirty_ratio=0.5)
    sealed(log, keyed("a"))
    sealed(log, keyed("b"))
    half = find_cleanable(log, 1, T)
    assert (half.clean_bytes, half.cleanable_bytes, half.dirty_ratio) == (69 + 1, 69 + 1, 0.5)
    assert not half.is_worth_it(log.config)
    assert find_cleanable(log, 0, T).is_worth_it(log.config)


def test_cl_2_what_is_overdue_is_cleaned_at_any_ratio(tmp_path):
    log = compacted(tmp_path, min_cleanable_dirty_ratio=1.0, max_compaction_lag_ms=1000)
    sealed(log, keyed("a"))
    assert not find_cleanable(log, None, T + 1000).is_worth_it(log.config)
    assert find_cleanable(log, None, T + 1001).is_worth_it(log.config)
    assert not find_cleanable(log, 1, T + 1001).is_worth_it(log.config), "nothing is dirty"


def test_cl_2_a_truncation_voids_a_running_cleaning(tmp_path):
    """At each of its stages; no file of it is left."""
    for stage in ("rewritten", "begun"):
        log = sealed(compacted(tmp_path / stage), keyed("a"), keyed("a"), keyed("b"))
        append(log, keyed("a"))
        task, swap = rewritten(log)
        if stage == "begun":
            assert log.begin_swap(task.generation, swap)
        log.truncate_to(3)
        if stage == "rewritten":
            assert not log.begin_swap(task.generation, swap)
        assert not log.finish_swap(swap)
        assert offsets_of(log) == [0, 1, 2]
        assert not [name for name in names_in(log.directory) if name.endswith((".cleaned", ".swap"))]


def test_cl_2_sources_that_retention_took_are_not_brought_back(tmp_path):
    log = compacted(tmp_path, segment_bytes=139)
    sealed(log, keyed("a"))
    sealed(log, keyed("a"))
    task, swap = rewritten(log)
    log.maybe_increment_log_start_offset(1)
    assert delete_old_segments(log, T) == 1
    assert not log.begin_swap(task.generation, swap)
    assert layout(log) == [(1, 70), (2, 0)]
    assert not [name for name in names_in(tmp_path) if name.endswith((".cleaned", ".swap"))]


# -- CL-3: the offset map


def test_cl_3_the_map_knows_the_latest_offset_of_as_many_keys_as_fit():
    keys = OffsetMap(100 * SLOT_BYTES)
    for offset in range(90):
        assert keys.put(b"%d" % offset, offset) == -1
    assert keys.put(b"one more", 90) is None
    assert keys.put(b"7", 1000) == 7
    assert (keys.get(b"7"), keys.get(b"8"), keys.get(b"one more"), len(keys)) == (1000, 8, -1, 90)


def test_cl_3_a_map_of_one_slot():
    keys = OffsetMap(SLOT_BYTES)
    assert keys.get(b"a") == -1
    assert keys.put(b"a", 0) == -1
    assert keys.put(b"b", 1) is None
    assert (keys.get(b"a"), keys.get(b"b")) == (0, -1)


def test_cl_3_a_full_map_ends_the_cleaning_at_the_last_batch_that_it_holds(tmp_path):
    log = sealed(compacted(tmp_path), *[keyed(f"{n % 6}") for n in range(18)])
    end, ends = 0, []
    while end < 18:
        end = clean(log, checkpoint=end, map_bytes=5 * SLOT_BYTES)  # three keys, and a byte for each offset
        ends.append(end)
    assert ends == [3, 6, 9, 12, 15, 18]
    assert latest_of(log) == {b"%d" % n: b"v" for n in range(6)}
    assert offsets_of(log) == list(range(12, 18))


def test_cl_3_one_batch_with_more_keys_than_the_map_holds_is_refused(tmp_path):
    log = sealed(compacted(tmp_path), keyed(*"abcdef"))
    with pytest.raises(LogUncleanable, match=r"batch 0 .* raise it"):
        clean(log, map_bytes=5 * SLOT_BYTES)
    assert offsets_of(log) == list(range(6))


def test_cl_3_what_the_log_start_hides_of_a_batch_takes_no_room(tmp_path):
    """The map is no larger than what is dirty needs; here DeleteRecords has left five of a hundred records."""
    log = sealed(compacted(tmp_path), keyed(*[f"{n}" for n in range(100)]), keyed("96"))
    log.maybe_increment_log_start_offset(95)
    assert clean(log) == 101
    assert [offset for offset in offsets_of(log) if offset >= 95] == [95, 97, 98, 99, 100]


def test_cl_3_what_lies_behind_the_map_is_copied_as_it_is(tmp_path):
    """A tombstone there must not start its clock: older values of its key are not looked for yet."""
    log = compacted(tmp_path, delete_retention_ms=0)
    sealed(log, keyed("a", "b", "c"), keyed("a", "b", "c"), keyed("x"), keyed("a", value=None))
    for now in (T, T + 1):
        assert clean(log, now, map_bytes=5 * SLOT_BYTES) == 6
    assert offsets_of(log) == [3, 4, 5, 6, 7]
    assert {header.attributes for header, _ in batches_of(log)} == {0}


# -- CL-4: groups


def test_cl_4_neighbours_are_merged_as_far_as_one_segment_reaches(tmp_path):
    log = compacted(tmp_path, segment_bytes=210)
    for number in range(7):
        sealed(log, keyed(f"{number}"))
    assert layout(log) == [*((number, 70) for number in range(7)), (7, 0)]
    clean(log)
    assert layout(log) == [(0, 210), (3, 210), (6, 70), (7, 0)]


def test_cl_4_a_group_is_bounded_by_its_indexes_and_by_its_offsets(tmp_path):
    log = compacted(tmp_path / "indexes", segment_bytes=10_000, index_interval_bytes=1)
    for number in range(4):
        sealed(log, keyed(f"{number}"), keyed(f"{number}x"))
    task = CleanTask.of(log, find_cleanable(log, None, T), T, 1 << 16)
    assert {(source.index_size, source.time_index_size) for source in task.sources} == {(8, 12)}
    log.close()
    log = compacted(tmp_path / "indexes", segment_index_bytes=24, index_interval_bytes=1)
    log.update_high_watermark(8)
    clean(log)
    assert [base for base, _ in layout(log)] == [0, 4, 8], "two time indexes of 12 bytes fit 24"

    far = compacted(tmp_path / "offsets")
    for offset in (0, 2**31 - 1, 2**31):
        far.append_as_follower(leader_batch(offset, 0, (b"%d" % offset, b"v")))
    far.roll()
    far.update_high_watermark(far.log_end_offset)
    clean(far)
    assert [base for base, _ in layout(far)] == [0, 2**31, 2**31 + 1]


# -- CL-5, CL-6, CL-7: records and batches


@pytest.mark.parametrize("codec", range(5))
def test_cl_7_offsets_epochs_codec_and_timestamps_are_preserved(tmp_path, codec):
    log = compacted(tmp_path)
    batch = client_batch((b"a", b"1"), (b"b", b"2" * 300), (b"a", b"3"), timestamps=[T, T + 7, T - 9], codec=codec)
    sealed(log, batch, keyed("z"), epoch=6)
    before = {record.offset: record for record in records_of(log)}
    clean(log)
    header = next(header for header, _ in batches_of(log))
    assert (header.base_offset, header.last_offset, header.records_count) == (0, 2, 2)
    assert (header.leader_epoch, header.attributes, header.max_timestamp) == (6, codec, T + 7)
    assert {record.offset: record for record in records_of(log)} == {o: before[o] for o in (1, 2, 3)}


@pytest.mark.parametrize("codec", range(5))
def test_cl_6_a_batch_with_a_tombstone_keeps_its_records_and_their_times(tmp_path, codec):
    log = compacted(tmp_path, delete_retention_ms=10**9)
    batch = client_batch((b"a", b"1"), (b"b", None), (b"c", b"3"), timestamps=[T, T + 7, T - 9], codec=codec)
    sealed(log, batch)
    before = records_of(log)
    clean(log, T)
    assert records_of(log) == before
    [(header, _)] = batches_of(log)
    assert (header.attributes, header.base_timestamp) == (codec | DELETE_HORIZON, T + 10**9)
    clean(log, T + 10**9 - 1)
    assert records_of(log) == before
    clean(log, T + 10**9)
    assert offsets_of(log) == [0, 2]


def test_cl_6_log_append_time_is_kept(tmp_path):
    log = compacted(tmp_path, message_timestamp_type="LogAppendTime")
    log.append_as_leader(keyed("a", "b", "a"), leader_epoch=0, now_ms=T + 5)
    log.append_as_leader(keyed("c", value=None), leader_epoch=0, now_ms=T + 6)
    sealed(log)
    clean(log, T)
    assert [(record.offset, record.timestamp) for record in records_of(log)] == [(1, T + 5), (2, T + 5), (3, T + 6)]


def test_cl_5_records_without_a_key_go(tmp_path):
    """A leader takes none; they are there from before the topic was compacted."""
    log = compacted(tmp_path)
    log.append_as_follower(leader_batch(0, 0, b"x", (b"a", b"1"), b"y") + leader_batch(3, 0, b"z"))
    sealed(log, keyed("b"))
    clean(log)
    assert offsets_of(log) == [1, 4]


def test_cl_7_the_end_of_what_was_cleaned_stays_even_if_empty(tmp_path):
    """Also CL-8: the log end survives a restart although nothing is left near it."""
    log = compacted(tmp_path)
    log.append_as_follower(leader_batch(0, 0, b"x") + leader_batch(1, 0, b"y"))
    sealed(log)
    clean(log)
    assert (ranges_of(log), offsets_of(log)) == ([(1, 1)], [])
    log.close()
    (tmp_path / f"{2:020d}.log").unlink()
    assert compacted(tmp_path).log_end_offset == 2


def test_a_cleaning_that_changes_nothing_leaves_the_files_alone(tmp_path):
    log = sealed(compacted(tmp_path), keyed("a"), keyed("b"))
    inode = log.segments[0].path.stat().st_ino
    assert clean(log) == 2
    assert log.segments[0].path.stat().st_ino == inode
    assert not [name for name in names_in(tmp_path) if "cleaned" in name or "deleted" in name]


def test_the_new_segment_is_as_old_as_the_last_of_its_sources(tmp_path):
    """CL-9: without timestamps, retention goes by the time of the last write (SG-7)."""
    log = compacted(tmp_path)
    sealed(log, keyed("a", time=-1))
    sealed(log, keyed("a", time=-1))
    written = log.segments[1].path.stat().st_mtime_ns
    clean(log)
    assert log.segments[0].path.stat().st_mtime_ns == written


def test_damage_is_not_cleaned_away(tmp_path):
    """A batch whose CRC is wrong would get a right one; instead the log stays as it is."""
    log = sealed(compacted(tmp_path), keyed("a"), keyed("a"))
    path = log.segments[0].path
    flip(path, -2)
    with pytest.raises(CorruptRecord, match="batch 1 is damaged"):
        clean(log)
    flip(path, 70 + 11)  # the batch's length
    with pytest.raises(CorruptRecord, match="not up to"):
        clean(log)
    assert names_in(tmp_path).isdisjoint({f"{0:020d}.log.cleaned"})
