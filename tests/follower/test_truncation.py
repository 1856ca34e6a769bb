"""W-T: real logs of a leader and a follower, fetching until they agree (7.4, 7.5)."""

from pathlib import Path

import pytest

from follower.truncation import truncation_target
from replog.log.offsets import EpochEndOffset
from tests.leader.replicas import bytes_of, log_of, pair_of, records_of

OUT_OF_RANGE = "OFFSET_OUT_OF_RANGE"

# id, leader, its epoch, follower, its HW, what is said until the first accepted fetch, log end then
CASES = [
    ("W-T1", ["0:0-4"], 1, ["0:0-4"], 4, [(5, 0, "ok")], 5),
    ("W-T2", ["0:0-3", "1:4-4"], 1, ["0:0-4"], 3, [(5, 0, "diverging 0,4"), (4, 0, "ok")], 4),
    (
        "W-T3",
        ["0:0-9", "3:10-14"],
        3,
        ["0:0-9", "1:10-12", "2:13-15"],
        8,
        [(16, 2, "diverging 0,10"), (10, 0, "ok")],
        10,
    ),
    (
        "W-T4",
        ["1:0-9", "3:10-19", "5:20-29"],
        5,
        ["1:0-11", "2:12-17", "4:18-25"],
        9,
        [(26, 4, "diverging 3,20"), (18, 2, "diverging 1,10"), (10, 1, "ok")],
        10,
    ),
    (
        "W-T5",
        ["0:0-1", "2:2-3", "4:4-5", "6:6-7"],
        6,
        ["0:0-1", "1:2-2", "3:3-4", "5:5-8"],
        2,
        [(9, 5, "diverging 4,6"), (5, 3, "diverging 2,4"), (3, 1, "diverging 0,2"), (2, 0, "ok")],
        2,
    ),
    (
        "W-T6",
        ["1:0-2", "2:3-5", "6:6-9"],
        6,
        ["1:0-2", "3:3-4", "5:5-7"],
        3,
        [(8, 5, "diverging 2,6"), (3, 1, "ok")],
        3,
    ),
    ("W-T7", ["2:0-7"], 3, ["2:0-9"], 8, [(10, 2, "diverging 2,8"), (8, 2, "ok")], 8),
    (
        "W-T8",
        ["1:0-5", "4:6-11"],
        8,
        ["1:0-5", "4:6-13", "7:14-20"],
        11,
        [(21, 7, "diverging 4,12"), (12, 4, "ok")],
        12,
    ),
    ("W-T9", ["0:0-5", "2:6-9", "4:10-12"], 4, ["0:0-5", "2:6-7"], 6, [(8, 2, "ok")], 8),
    (
        "W-T10",
        ["0:0-5", "2:6-9", "4:10-12"],
        4,
        ["0:0-5", "2:6-11"],
        6,
        [(12, 2, "diverging 2,10"), (10, 2, "ok")],
        10,
    ),
    ("W-T11", ["4:50-79"], 6, ["3:0-29"], 29, [(30, 3, OUT_OF_RANGE), (50, None, "ok")], 50),
    (
        "W-T12",
        ["3:40-59", "5:60-69"],
        5,
        ["2:0-44"],
        38,
        [(45, 2, "diverging 2,40"), (40, 2, "ok")],
        40,
    ),
    ("W-T13", ["3:40-59", "5:60-69"], 5, ["2:0-37"], 37, [(38, 2, OUT_OF_RANGE), (40, None, "ok")], 40),
    ("W-T14", ["5:0-9"], 5, ["5:0-9", "6:10-12"], 9, [(13, 6, OUT_OF_RANGE), (10, 5, "ok")], 10),
    ("W-T16", ["2:0-0"], 2, ["0:0-0"], 0, [(1, 0, "diverging 0,0"), (0, None, "ok")], 0),
    ("W-T17", ["0:0-4", "1:5-6"], 1, [], 0, [(0, None, "ok")], 0),
    ("W-T19", ["0:0-2"], 2, ["0:0-6"], 6, [(7, 0, "diverging 0,3"), (3, 0, "ok")], 3),
]


@pytest.mark.parametrize(
    ("leader_runs", "epoch", "follower_runs", "high_watermark", "said", "log_end"),
    [case[1:] for case in CASES],
    ids=[case[0] for case in CASES],
)
def test_a_follower_cuts_what_its_leader_does_not_have_and_copies_the_rest(
    tmp_path: Path,
    leader_runs: list[str],
    epoch: int,
    follower_runs: list[str],
    high_watermark: int,
    said: list[tuple[int, int | None, str]],
    log_end: int,
) -> None:
    leader_log = log_of(tmp_path / "leader", *leader_runs)
    follower_log = log_of(tmp_path / "follower", *follower_runs, high_watermark=high_watermark)
    pair = pair_of(leader_log, follower_log, epoch)
    for _ in said[:-1]:
        pair.round()
    assert follower_log.log_end_offset == log_end, pair.rounds
    assert follower_log.high_watermark <= log_end
    pair.catch_up()
    assert pair.rounds[: len(said)] == said
    start = max(leader_log.log_start_offset, follower_log.log_start_offset)
    assert bytes_of(follower_log, start) == bytes_of(leader_log, start), records_of(follower_log)
    assert follower_log.high_watermark == leader_log.high_watermark == leader_log.log_end_offset


def test_the_high_watermark_of_a_restarted_follower_rises_one_round_later_w_t1(tmp_path: Path) -> None:
    pair = pair_of(
        log_of(tmp_path / "leader", "0:0-4", high_watermark=4), log_of(tmp_path / "f", "0:0-4", high_watermark=4), 1
    )
    pair.round()
    assert (pair.leader.high_watermark, pair.follower.log.high_watermark) == (5, 4)
    assert pair.round().high_watermark_changed
    assert pair.follower.log.high_watermark == 5


def test_epochs_that_were_cut_off_are_forgotten_w_t3_t8(tmp_path: Path) -> None:
    three = pair_of(
        log_of(tmp_path / "l3", "0:0-9", "3:10-14"), log_of(tmp_path / "f3", "0:0-9", "1:10-12", "2:13-15"), 3
    )
    three.round()
    assert three.follower.log.epochs.entries == ((0, 0),)
    eight = pair_of(
        log_of(tmp_path / "l8", "1:0-5", "4:6-11"), log_of(tmp_path / "f8", "1:0-5", "4:6-13", "7:14-20"), 8
    )
    eight.round()
    assert eight.follower.log.epochs.entries == ((1, 0), (4, 6))


def test_the_log_restarts_where_the_leader_begins_w_t11(tmp_path: Path) -> None:
    pair = pair_of(log_of(tmp_path / "l", "4:50-79"), log_of(tmp_path / "f", "3:0-29", high_watermark=29), 6)
    progress = pair.round()
    log = pair.follower.log
    assert (log.log_start_offset, log.high_watermark, log.log_end_offset) == (50, 50, 50)  # FT-22
    assert log.epochs.entries == ()
    assert progress.truncated_to == 50


def test_a_cut_above_the_high_watermark_leaves_it_alone_w_t12(tmp_path: Path) -> None:
    pair = pair_of(log_of(tmp_path / "l", "3:40-59", "5:60-69"), log_of(tmp_path / "f", "2:0-44", high_watermark=38), 5)
    assert pair.round().note is None
    assert pair.follower.log.high_watermark == 38


def test_a_leader_without_its_epoch_cache_raises_an_alarm_w_t15(tmp_path: Path) -> None:
    pair = pair_of(log_of(tmp_path / "l", "5:0-9"), log_of(tmp_path / "f", "5:0-7", high_watermark=6), 5)
    pair.leader.log.epochs.clear_and_flush()
    notes = [pair.round().note for _ in range(6)]
    assert notes[0] is notes[1] is notes[3] is notes[4] is None
    assert notes[2] is not None
    assert "epoch cache" in notes[2]
    assert notes[5] is not None
    assert {said for *_, said in pair.rounds} == {OUT_OF_RANGE}
    assert pair.follower.log.log_end_offset == 8, "nothing is lost meanwhile"


def test_a_log_without_epochs_is_first_cut_to_its_high_watermark_w_t18(tmp_path: Path) -> None:
    follower_log = log_of(tmp_path / "f", "0:0-29", high_watermark=12)
    follower_log.epochs.clear_and_flush()
    pair = pair_of(log_of(tmp_path / "l", "0:0-19", "3:20-24"), follower_log, 3)
    pair.round()
    assert pair.rounds == [(12, None, "ok")]
    pair.catch_up()
    assert bytes_of(follower_log) == bytes_of(pair.leader.log)


def test_a_cut_below_the_high_watermark_is_told_w_t19(tmp_path: Path) -> None:
    pair = pair_of(log_of(tmp_path / "l", "0:0-2"), log_of(tmp_path / "f", "0:0-6", high_watermark=6), 2)
    progress = pair.round()
    assert progress.truncated_to == 3
    assert progress.high_watermark_changed
    assert progress.note is not None
    assert "below the high watermark 6" in progress.note  # as it was before the cut (HW-13)
    assert pair.follower.log.high_watermark == 3


@pytest.mark.parametrize(
    ("row", "leader", "local", "log_end", "target"),
    [
        ("3, no cache", (2, 100), (-1, -1), 80, 80),
        ("3, no cache, shorter leader", (2, 60), (-1, -1), 80, 60),
        ("4, epoch unknown here", (3, 20), (2, 18), 26, 18),
        ("5, W-T20", (2, 100), (2, 80), 80, 80),
        ("5, leader ends earlier", (1, 10), (1, 12), 18, 10),
        ("5, ends here earlier", (1, 12), (1, 10), 18, 10),
    ],
)
def test_the_rows_of_the_truncation_table(
    row: str, leader: tuple[int, int], local: tuple[int, int], log_end: int, target: int
) -> None:
    assert truncation_target(EpochEndOffset(*leader), EpochEndOffset(*local), log_end) == target, row


def test_an_empty_trailing_epoch_goes_although_no_record_does_w_t20(tmp_path: Path) -> None:
    follower_log = log_of(tmp_path / "f", "1:0-9", "(2@10)")
    pair = pair_of(log_of(tmp_path / "l", "1:0-9"), follower_log, 3)
    progress = pair.round()
    assert pair.rounds == [(10, 2, "diverging 1,10")]
    assert follower_log.epochs.entries == ((1, 0),)
    assert (progress.truncated_to, follower_log.log_end_offset) == (10, 10)
    pair.catch_up()
    assert pair.rounds[1][2] == "ok"
