"""Damage to the segments of a partition, row by row: where the log ends then, what is set aside, what is said.

Whatever was cut is then fetched again, and every file must be what it was before (`assert_as_if_never_damaged`).
"""

import re
from pathlib import Path
from typing import NamedTuple

import pytest

from replog.log.errors import CorruptRecord, LogStorageError
from replog.log.offsets import Isolation, OffsetMetadata
from tests.damage.samples import BATCH, CLEAN, END, EPOCHS, FULL, assert_as_if_never_damaged, put_back, reopen
from tests.damage.vocabulary import (
    Damage,
    cut,
    flipped,
    longer,
    missing,
    overwritten,
    renamed,
    segment_file,
    sparse,
    swapped,
    written,
)
from tests.replog.log.batches import layout, leader_batch

BASES = [base for base, _ in FULL]
LOG0, LOG10, LOG20, LOG30 = (segment_file(base, "log") for base in BASES)
NOT_CLEAN = "the broker did not stop cleanly"


class Row(NamedTuple):
    """One kind of damage, how the broker had stopped, and what is left then."""

    damage: Damage
    stop: int | None  # CLEAN, or the recovery point of a crash
    end: int  # the log's end
    bases: list[int]  # of its segments
    said: list[str]  # patterns that lines match in this order; nothing is said if there are none
    lost: bool = True  # whether records are gone that were there, or something that may have been records


def check(directory: Path, files: dict[str, bytes], row: Row) -> None:
    put_back(directory, files)
    row.damage(directory)
    said: list[str] = []
    log = reopen(directory, row.stop, said)
    assert (log.log_end_offset, [base for base, _ in layout(log)]) == (row.end, row.bases), said
    assert log.epochs.entries == tuple((epoch, start) for epoch, start in EPOCHS if start < row.end), said
    assert log.recovery_point == (row.end if row.stop is CLEAN else min(row.stop, row.end))
    assert log.lost_data is row.lost, said
    lines = iter(said)
    assert all(any(re.search(pattern, line) for line in lines) for pattern in row.said), "\n".join(said)
    assert row.said or not said, said
    for base in set(BASES) - set(row.bases):
        if row.damage.__name__ != "missing":
            assert (directory / f"{segment_file(base, 'log')}.deleted").exists(), base
    assert_as_if_never_damaged(log, files, row.end)


def cut_off(count: int, end: int) -> str:
    return f": {count} bytes after offset {end - 1} were unsound and are cut off"


def aside(end: int, count: int) -> str:
    return f"ends at offset {end}: setting aside {count} later segments"


STOPS = {"clean": CLEAN, "crash": 30}


@pytest.mark.parametrize("stop", STOPS)
@pytest.mark.parametrize("byte", [b"Z", b"\0", b"\xff"])
@pytest.mark.parametrize("count", [1, 11, 12, 17, 18, 40, 60, 61, 200, 5000])
def test_what_is_behind_the_last_batch_is_cut_off(memory, files, count, byte, stop):
    """S-W-D7, RB-7, SG-8: too few bytes for a length, for a magic, for a header; and more than that."""
    check(memory, files, Row(longer(LOG30, byte * count), STOPS[stop], END, BASES, [LOG30, cut_off(count, END)]))


@pytest.mark.parametrize("stop", STOPS)
@pytest.mark.parametrize("count", [1, 16, 17, 18, 60, 61, 66, 67, 77])
def test_a_torn_last_batch_is_cut_off(memory, files, count, stop):
    """RB-7, SG-15: torn in its records or in its header."""
    row = Row(cut(LOG30, count), STOPS[stop], 32, BASES, [LOG30, cut_off(BATCH - count, 32)])
    check(memory, files, row)


@pytest.mark.parametrize("count", [2, 17, 61, 78])
def test_a_tail_of_zeros_in_place_of_records_is_cut_off(memory, files, count):
    """What a file system may leave that lengthened the file before it wrote the bytes."""
    row = Row(overwritten(LOG30, -count, bytes(count)), 30, 32, BASES, [NOT_CLEAN, cut_off(BATCH, 32)])
    check(memory, files, row)


def test_a_lost_last_batch_is_missed_only_if_it_was_durable(memory, files):
    """LD-9: cut exactly between two batches, which nothing in the log itself tells."""
    check(memory, files, Row(cut(LOG30, BATCH), 32, 32, BASES, [NOT_CLEAN], lost=False))
    check(memory, files, Row(cut(LOG30, BATCH), END, 32, BASES, [NOT_CLEAN]))
    check(memory, files, Row(cut(LOG30, BATCH), CLEAN, 32, BASES, [f"{segment_file(30, 'index')}: no batch"]))


def test_a_last_batch_whose_crc_is_wrong_is_cut_off_after_a_clean_stop(memory, files):
    """LD-7: it is what says where the log ends."""
    said = ["its last batch cannot end at offset 33", cut_off(BATCH, 32)]
    check(memory, files, Row(flipped(LOG30, BATCH + 70), CLEAN, 32, BASES, said))


# -- one bit of a batch. Batch 8 begins at offset 16, with leader epoch 1 before it and behind it.


@pytest.mark.parametrize("recovery_point", [0, 10, 16])
def test_one_bit_of_a_batch_ends_the_log_there_after_a_crash(memory, files, recovery_point):
    """S-W-D3, S-W-D4, LD-5, LD-6. Other fields: `rows`; other bytes: test_any_byte."""
    said = [NOT_CLEAN, cut_off(2 * BATCH, 16), aside(16, 2)]
    check(memory, files, Row(flipped(LOG10, 3 * BATCH + 70), recovery_point, 16, [0, 10], said))


def test_one_bit_of_the_first_batch_of_the_active_segment(memory, files):
    """LD-5: an empty active segment is left."""
    check(memory, files, Row(flipped(LOG30, 70), 30, 30, BASES, [NOT_CLEAN, cut_off(2 * BATCH, 30)]))


EPOCH = 12  # position of the leader epoch in a batch, lowest byte last


@pytest.mark.parametrize(
    ("damage", "end", "said"),
    [
        (flipped(LOG10, 1 * BATCH + EPOCH + 1), 12, [NOT_CLEAN, cut_off(4 * BATCH, 12)]),
        # lowered: it or the one before it is damaged, so both go
        (flipped(LOG10, 2 * BATCH + EPOCH + 3), 12, [NOT_CLEAN, cut_off(4 * BATCH, 12)]),
        (flipped(LOG0, 4 * BATCH + EPOCH), 8, [f"{LOG0}: its last batch has leader epoch 16777216, and 0 follows"]),
        (flipped(LOG10, 4 * BATCH + EPOCH + 2), 18, [f"{LOG10}: its last batch has leader epoch 257, and 1 follows"]),
        (flipped(LOG20, 0 * BATCH + EPOCH, 0x80), 20, [NOT_CLEAN, cut_off(5 * BATCH, 20)]),
    ],
)
def test_a_leader_epoch_that_breaks_the_order_ends_the_log(memory, files, damage, end, said):
    """S-W-D19: the order tells which of two batches stands out, across segments too."""
    bases = [base for base in BASES if base <= end]
    check(memory, files, Row(damage, 0, end, bases, [*said, aside(end, 4 - len(bases))]))


@pytest.mark.parametrize(
    ("damage", "epochs"),
    [
        (flipped(LOG10, 0 * BATCH + EPOCH + 3), ((0, 0), (1, 10), (3, 24))),
        (flipped(LOG10, 1 * BATCH + EPOCH + 3), ((0, 0), (1, 14), (3, 24))),
        (flipped(LOG30, 1 * BATCH + EPOCH + 3, 4), ((0, 0), (1, 12), (3, 24), (7, 32))),
    ],
)
@pytest.mark.parametrize("stop", [CLEAN, 0])
def test_a_leader_epoch_that_keeps_the_order_is_left_to_audits(memory, files, damage, epochs, stop):
    """S-W-D19: no rule that a replica can check alone is broken; its digests and epochs differ from its peers'."""
    put_back(memory, files)
    damage(memory)
    log = reopen(memory, stop)
    assert (log.log_end_offset, log.epochs.entries) == (END, epochs)


# -- whole files of segments


@pytest.mark.parametrize("stop", [CLEAN, 0, 30])
@pytest.mark.parametrize(
    ("damage", "end", "bases"),
    [
        (missing(LOG10), 10, [0]),
        (missing(LOG30), 30, [0, 10, 20]),
        (written(LOG10), 10, [0, 10]),
        (written(LOG30), 30, BASES),
        (cut(LOG10, BATCH), 18, [0, 10]),
        (cut(LOG10, 1), 18, [0, 10]),
        (renamed(10, 9), 10, [0]),
        (longer(LOG10, b"Z" * 100), 20, [0, 10]),
        (longer(LOG10, bytes(100)), 20, [0, 10]),
        (written(LOG20, bytes(390)), 20, [0, 10, 20]),
        (swapped(LOG10, LOG20), 10, [0, 10]),
        (sparse(LOG10, 1 << 30), 20, [0, 10]),
        (sparse(LOG30, 1 << 30), END, BASES),
    ],
)
def test_a_segment_in_the_wrong_shape_ends_the_log_after_any_stop(memory, files, damage, end, bases, stop):
    """LD-6: no hole is ever served; a segment that lost bytes, even garbage, is the last one."""
    put_back(memory, files)
    damage(memory)
    said: list[str] = []
    log = reopen(memory, stop, said)
    assert (log.log_end_offset, [base for base, _ in layout(log)]) == (end, bases), said
    assert log.lost_data is not (end == 30 and stop is not CLEAN), "what a crash took from behind the recovery point"
    assert_as_if_never_damaged(log, files, end)


@pytest.mark.parametrize("stop", [CLEAN, 0, 30])
def test_segments_behind_a_lost_one_are_kept_until_somebody_puts_it_back(memory, files, stop):
    """LD-6: they may have the only copy of committed records."""
    put_back(memory, files)
    (memory / LOG10).unlink()
    said: list[str] = []
    log = reopen(memory, stop, said)
    assert log.log_end_offset == 10
    assert any("as *.stray, which nobody deletes; " in line for line in said), said
    for again in (CLEAN, 0):
        log.close()
        log = reopen(memory, again)
    log.close()
    assert (memory / f"{LOG20}.stray").read_bytes() == files[LOG20]
    (memory / LOG30).write_bytes(files[LOG30])
    with pytest.raises(LogStorageError, match=f"{LOG30}.stray is in the way; move it away"):
        reopen(memory, stop)
    for path in memory.glob("*.stray"):
        path.replace(path.with_suffix(""))
    (memory / LOG10).write_bytes(files[LOG10])
    assert reopen(memory, 0).log_end_offset == END


@pytest.mark.parametrize("stop", [CLEAN, 0, 20, 21])
def test_segments_behind_a_torn_one_are_kept_if_they_were_durable(memory, files, stop):
    """LD-6: else a crash explains it, and it would leave files for ever."""
    put_back(memory, files)
    cut(LOG10, 1)(memory)
    reopen(memory, stop)
    kept = stop in (CLEAN, 21)
    assert [(memory / f"{LOG20}{suffix}").exists() for suffix in (".stray", ".deleted")] == [kept, not kept]


@pytest.mark.parametrize("stop", [CLEAN, 0, 30])
def test_without_its_first_segment_a_log_begins_with_the_next(memory, files, stop):
    """LD-10: as after a deletion by retention, of which nothing else tells."""
    put_back(memory, files)
    (memory / LOG0).unlink()
    log = reopen(memory, stop)
    assert (log.log_start_offset, log.log_end_offset, log.epochs.entries) == (10, END, ((0, 10), *EPOCHS[1:]))
    assert not (memory / segment_file(0, "index")).exists(), "LD-3: it goes with its log"


def test_damage_where_the_high_watermark_lies_is_told_to_readers_and_no_one_else(memory, files):
    """5.6, LG-1: a bound whose place cannot be found has none; waiting fetches go on waiting, and reads are refused."""
    put_back(memory, files)
    flipped(LOG10, 2 * BATCH + 16)(memory)  # the magic of the batch of offsets 14 and 15
    log = reopen(memory, CLEAN)
    log.update_high_watermark(15)
    for isolation in (Isolation.HIGH_WATERMARK, Isolation.TXN_COMMITTED):
        assert log.bound(isolation) == OffsetMetadata(15)
    assert log.bound(Isolation.LOG_END) == (END, 30, 2 * BATCH)
    for offset in (0, 14):
        with pytest.raises(CorruptRecord):
            log.read(offset, 1000, Isolation.HIGH_WATERMARK, min_one_message=True)
    assert log.failure is None
    log.update_high_watermark(20)
    assert log.bound(Isolation.HIGH_WATERMARK) == (20, 20, 0)
    assert log.read(0, 1000, Isolation.HIGH_WATERMARK, min_one_message=True).records == files[LOG0]


def test_a_truncation_to_a_damaged_place_fails_the_log_and_the_next_start_recovers_it(memory, files):
    """LG-10: nothing may be appended behind what was cut, and where to cut is not known."""
    put_back(memory, files)
    flipped(LOG10, 2 * BATCH + 16)(memory)  # the magic of the batch of offsets 14 and 15
    log = reopen(memory, CLEAN)
    checkpointed: list[int] = []
    log.on_recovery_point_lowered = lambda: checkpointed.append(log.recovery_point)
    with pytest.raises(LogStorageError, match=r"batch magic .* restart the broker"):
        log.truncate_to(19)
    assert checkpointed == [10]
    with pytest.raises(LogStorageError):
        log.append_as_follower(leader_batch(END, 3, b"x"))
    log.abandon()
    log = reopen(memory, checkpointed[0])
    assert (log.log_end_offset, log.lost_data) == (14, True)
    log.append_as_follower(leader_batch(14, 3, b"x"))
