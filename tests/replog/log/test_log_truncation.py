"""Truncation: fixture T, S-W-U1 to S-W-U7; whole batches only, and nothing left behind in the files."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from replog.log.log import Log
from replog.log.offsets import Isolation
from tests.replog.log.batches import append, client_batch, fixture_t, layout, open_log
from tests.replog.log.eviction import forget_tails

FULL = [(0, 234), (6, 234), (12, 234), (18, 78)]
ALL = ((0, 0), (1, 8), (2, 16))


@pytest.fixture
def log(tmp_path: Path) -> Log:
    return fixture_t(tmp_path)


def test_fixture_t(log):
    assert (layout(log), log.log_end_offset, log.high_watermark, log.epochs.entries) == (FULL, 20, 14, ALL)


@pytest.mark.parametrize("offset", [25, 20])
def test_nothing_to_cut(log, offset):
    """S-W-U1, LG-10."""
    assert not log.truncate_to(offset)
    assert (layout(log), log.log_end_offset) == (FULL, 20)


def test_an_epoch_at_the_end_is_forgotten_all_the_same(log):
    """S-W-U1, LG-10, EP-4."""
    log.assign_epoch_start(5)
    assert not log.truncate_to(20)
    assert log.epochs.entries == ALL


@pytest.mark.parametrize(
    ("rule", "offset", "segments", "end", "high_watermark", "epochs"),
    [
        ("S-W-U2", 18, [*FULL[:3], (18, 0)], 18, 14, ALL),
        ("S-W-U3 changed: LEO 18, not 19", 19, [*FULL[:3], (18, 0)], 18, 14, ALL),
        ("S-W-U4 changed: LEO 12, not 13", 13, [*FULL[:2], (12, 0)], 12, 12, ALL[:2]),
        ("S-W-U4", 12, [*FULL[:2], (12, 0)], 12, 12, ALL[:2]),
        ("S-W-U5 changed: LEO 6, not 7", 7, [FULL[0], (6, 0)], 6, 6, ALL[:1]),
        ("S-W-U5", 6, [FULL[0], (6, 0)], 6, 6, ALL[:1]),
        ("S-W-U6 changed: LEO 0, not 1", 1, [(0, 0)], 0, 0, ()),
        ("S-W-U6", 0, [(0, 0)], 0, 0, ()),
    ],
)
def test_truncation(log, rule, offset, segments, end, high_watermark, epochs):
    """S-W-U2, S-W-U3, S-W-U4, S-W-U5, S-W-U6; LG-10, and LG-11: the log ends where the batch of the offset began."""
    log.flush()
    lowered = []
    log.on_recovery_point_lowered = lambda: lowered.append(log.recovery_point)
    assert log.truncate_to(offset)
    assert (layout(log), log.log_end_offset, log.high_watermark) == (segments, end, high_watermark)
    assert log.epochs.entries == epochs
    assert lowered == [end], "the lower recovery point must become durable before new data"
    assert append(log, client_batch(b"new"), epoch=9).log_end_offset == end + 1
    assert int.from_bytes(log.read(end, 100, Isolation.LOG_END, min_one_message=True).records[:8], "big") == end


@pytest.mark.parametrize("start", [5, 50])
def test_full_truncation(log, start):
    """S-W-U7, LG-12."""
    log.truncate_fully_and_start_at(start)
    assert layout(log) == [(start, 0)]
    assert (log.log_start_offset, log.log_end_offset, log.high_watermark) == (start, start, start)
    assert log.epochs.entries == ()


def test_truncation_below_the_first_segment_is_a_full_one(log):
    """LG-10, LG-12."""
    log.truncate_fully_and_start_at(50)
    assert log.truncate_to(40)
    assert (layout(log), log.log_start_offset, log.log_end_offset) == ([(40, 0)], 40, 40)
    with pytest.raises(ValueError, match="negative"):
        log.truncate_to(-1)


@pytest.mark.parametrize("batches", [500, 5000])
@pytest.mark.parametrize("part", [0.01, 0.5, 0.99])
def test_to_cut_a_log_reads_little_of_it_however_long_it_is(tmp_path, monkeypatch, batches, part):
    """It is done on the event loop: only what is left to the flush may take long."""
    log = open_log(tmp_path / "t-0", segment_bytes=2 << 20)
    append(log, *[client_batch(bytes(900))] * batches)
    log.flush()
    forget_tails()
    reads: list[int] = []
    monkeypatch.setattr(log, "on_flush_due", lambda: None)
    for name in ("pread", "preadv"):
        monkeypatch.setattr(os, name, _noted(getattr(os, name), reads))
    assert log.truncate_to(int(part * batches))
    assert 0 < sum(reads) < 128 << 10, reads
    assert len(reads) < 50


def _noted(read: Callable[..., Any], reads: list[int]) -> Callable[..., Any]:
    def noted(*arguments: Any) -> Any:
        came = read(*arguments)
        reads.append(came if isinstance(came, int) else len(came))
        return came

    return noted
