"""How far a follower cuts (7.4, 7.5). The table W-T is in tests/scenarios/truncation.txt."""

from pathlib import Path

import pytest

from follower.truncation import truncation_target
from replog.log.offsets import EpochEndOffset
from tests.leader.replicas import log_of, pair_of

OUT_OF_RANGE = "OFFSET_OUT_OF_RANGE"


def test_a_leader_without_its_epoch_cache_raises_an_alarm_w_t15(tmp_path: Path) -> None:
    pair = pair_of(log_of(tmp_path / "l", "5:0-9"), log_of(tmp_path / "f", "5:0-7", high_watermark=6), 5)
    pair.leader.log.epochs.clear_and_flush()
    rounds = [pair.round() for _ in range(6)]
    notes = [progress.note for progress in rounds]
    assert [progress.alarm for progress in rounds] == [False, False, True] * 2
    assert notes[0] is notes[1] is notes[3] is notes[4] is None
    assert notes[2] is not None
    assert "epoch cache" in notes[2]
    assert notes[5] is not None
    assert {said for *_, said in pair.rounds} == {OUT_OF_RANGE}
    assert pair.follower.log.log_end_offset == 8, "nothing is lost meanwhile"


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
