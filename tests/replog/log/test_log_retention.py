"""When segments roll (S-W-L1, S-W-L2) and when they go (S-W-L5 to S-W-L7)."""

import os
from pathlib import Path

import pytest

from replog.log.files.deletion import remove
from replog.log.retention import AT_ONCE, Deletion, delete_old_segments
from tests.replog.log.batches import append, client_batch, fixture_t, layout, open_log

PAIR = client_batch(b"a", b"b")  # 77 bytes


def single(timestamp: int) -> bytes:
    return client_batch(b"x", timestamps=[timestamp])  # 69 bytes


@pytest.mark.parametrize(
    ("segment_bytes", "expected"),
    [
        (300, [(0, 231), (6, 231), (12, 77)]),
        (231, [(0, 231), (6, 231), (12, 77)]),
        (230, [(0, 154), (4, 154), (8, 154), (12, 77)]),
        (308, [(0, 308), (8, 231)]),
        (77, [(2 * slot, 77) for slot in range(7)]),
    ],
)
def test_segments_hold_whole_batches_up_to_their_size(tmp_path, segment_bytes, expected):
    """S-W-L1, LG-4."""
    assert layout(append(open_log(tmp_path, segment_bytes=segment_bytes), *[PAIR] * 7)) == expected


@pytest.mark.parametrize(
    ("times", "bases"),
    [((0, 1000, 1001), [0, 2]), ((5000, 3000, 6000, 6001), [0, 3]), ((-1, -1, -1), [0]), ((-1, 5000), [0])],
)
def test_time_rolls_go_by_batch_timestamps(tmp_path, times, bases):
    """S-W-L2, changed: without timestamps nothing rolls by time, whatever the clock says."""
    log = open_log(tmp_path, segment_ms=1000)
    for number, time in enumerate(times):
        append(log, single(time), now_ms=number * 10**6)
    assert [base for base, _ in layout(log)] == bases


@pytest.mark.parametrize(
    ("retention_bytes", "high_watermark", "deleted"),
    [
        (693, 18, 0),
        (616, 18, 0),
        (540, 18, 0),
        (539, 18, 1),
        (385, 18, 2),
        (0, 18, 5),
        (0, 7, 1),
        (0, 10, 2),
        (0, 17, 4),
    ],
)
def test_retention_by_size(tmp_path, retention_bytes, high_watermark, deleted):
    """S-W-L5, LG-13 (b), LG-14: HW holds back."""
    log = append(open_log(tmp_path, segment_bytes=154, retention_bytes=retention_bytes, retention_ms=-1), *[PAIR] * 9)
    before = layout(log)
    assert before == [(0, 154), (4, 154), (8, 154), (12, 154), (16, 77)]
    log.update_high_watermark(high_watermark)
    assert delete_old_segments(log, 0) == deleted
    assert layout(log) == (before[deleted:] or [(18, 0)])
    assert log.log_start_offset == layout(log)[0][0]
    assert log.epochs.entries == ((0, log.log_start_offset),)


@pytest.mark.parametrize(
    ("times", "now", "deleted"),
    [((100, 200, 300), 1200, 1), ((100, 200, 300), 1201, 2), ((100, 200, 300), 1301, 3), ((500, 100, 100), 1400, 0)],
)
def test_retention_by_time(tmp_path, times, now, deleted):
    """S-W-L6, LG-13 (c), LG-14: the oldest blocks."""
    log = append(open_log(tmp_path, segment_bytes=69, retention_ms=1000), *map(single, times))
    log.update_high_watermark(3)
    assert delete_old_segments(log, now) == deleted
    assert layout(log) == ([(0, 69), (1, 69), (2, 69)][deleted:] or [(3, 0)])


def test_deleted_files_stay_for_their_delay(tmp_path):
    """S-W-L7, LG-15."""
    log = open_log(tmp_path, segment_bytes=154, retention_bytes=539, file_delete_delay_ms=1000, retention_ms=-1)
    append(log, *[PAIR] * 9).update_high_watermark(18)
    assert delete_old_segments(log, 5000) == 1
    names = {f"00000000000000000000{suffix}.deleted" for suffix in (".log", ".index", ".timeindex", ".digest")}
    assert {path.name for path in tmp_path.glob("*.deleted")} == names
    for now_ms in (10, 1009):  # monotonic, and from the first look on
        assert remove(log.deleted.take_expired(now_ms, 1000)) == 0
    assert {path.name for path in tmp_path.glob("*.deleted")} == names
    assert remove(log.deleted.take_expired(1010, 1000)) == 4
    assert not list(tmp_path.glob("*.deleted"))


def test_of_many_segments_few_go_at_a_time(tmp_path):
    """Their files are renamed on the event loop."""
    log = append(open_log(tmp_path, segment_bytes=77, retention_bytes=0), *[PAIR] * 50)
    log.update_high_watermark(log.log_end_offset)
    deleted = []
    while not deleted or deleted[-1]:
        before = len(log.deleted)
        deleted.append(delete_old_segments(log, 0))
        assert len(log.deleted) - before <= 6 * AT_ONCE < 100
    assert sum(deleted) == 50
    assert log.log_start_offset == log.log_end_offset


@pytest.mark.parametrize(("policy", "deleted"), [("delete", 5), ("compact", 2), ("compact,delete", 5)])
def test_a_topic_that_is_only_compacted_keeps_all_above_its_log_start(tmp_path, policy, deleted):
    """LG-13: without `delete` in the policy only (a) applies, whatever the sizes and ages."""
    log = open_log(tmp_path, segment_bytes=154, retention_bytes=0, retention_ms=0, cleanup_policy=policy)
    append(log, *[client_batch((b"k", b""), (b"k", b""))] * 9).update_high_watermark(18)
    log.maybe_increment_log_start_offset(log.segments[2].base_offset)
    assert delete_old_segments(log, 10**15) == deleted


def test_without_timestamps_a_segment_ages_by_its_file(tmp_path):
    """SG-7: its largest timestamp is then the time of its last write."""
    log = append(open_log(tmp_path, segment_bytes=69, retention_ms=1000), single(-1), single(-1))
    log.update_high_watermark(2)
    written = log.segments[0].path.stat().st_mtime_ns // 1_000_000
    assert delete_old_segments(log, written + 900) == 0
    assert delete_old_segments(log, written + 60_000) == 2


FUTURE = 10**15


def test_segments_from_the_future_go_by_when_they_were_written(tmp_path):
    """LG-20: they do not hold up those after them. What was written in the future, too, goes `retention.ms` after it
    was seen."""
    log = open_log(tmp_path, segment_bytes=69, retention_ms=1000)
    append(log, *map(single, (FUTURE, 200, FUTURE)), now_ms=FUTURE).update_high_watermark(3)
    for segment, time in zip(log.segments, (100, 9000, 9000), strict=True):
        os.utime(segment.path, ns=(0, time * 1_000_000))
    assert [delete_old_segments(log, now) for now in (1100, 1101, 1200, 1201, 2201, 2202)] == [0, 1, 0, 1, 0, 1]


def test_retention_says_what_it_took_and_why(tmp_path):
    """LG-13: a line for each reason."""
    log = open_log(tmp_path, segment_bytes=69, retention_bytes=3 * 69, retention_ms=1000)
    append(log, *map(single, (100, 100, 50, 80, 5000, -1))).update_high_watermark(6)
    for segment in log.segments:
        os.utime(segment.path, ns=(0, (1000 + segment.base_offset) * 1_000_000))
    log.maybe_increment_log_start_offset(1)
    told: list[Deletion] = []
    assert delete_old_segments(log, 5000, told.append) == 4
    assert told == [
        Deletion("below the log start", 1, 0, 100, 1000),
        Deletion("retention.bytes=207", 2, 2, 100, 1002),
        Deletion("retention.ms=1000", 1, 3, 80, 1003),
    ]


def test_without_a_time_only_age_is_no_reason(tmp_path):
    """CT-28: size and log start do not need one."""
    log = open_log(tmp_path, segment_bytes=69, retention_bytes=3 * 69, retention_ms=0)
    append(log, *map(single, (1, 1, 1, 1, 1))).update_high_watermark(5)
    log.maybe_increment_log_start_offset(1)
    assert delete_old_segments(log, None) == 2
    assert delete_old_segments(log, None) == 0


def test_what_delete_records_hides_is_flushed_before_the_recovery_point_moves(tmp_path):
    """LG-16, S-W-R7 (divergence 4): a hidden segment that a crash tears would end the log there, durable or not."""
    log = fixture_t(tmp_path)
    log.update_high_watermark(20)
    assert log.maybe_increment_log_start_offset(13)
    assert log.recovery_point == 0
    task = log.flush_task()
    assert task is not None
    assert {Path(file.path).name for file in task.files} >= {path.name for path in tmp_path.glob("*.log")}
