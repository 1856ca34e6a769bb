"""Truncation: fixture T, S-W-U1 to S-W-U7; whole batches only, and nothing left behind in the files."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from replog.log.log import Log
from tests.replog.log.batches import append, client_batch, fixture_t, layout, open_log
from tests.replog.log.eviction import forget_tails

FULL = [(0, 234), (6, 234), (12, 234), (18, 78)]
ALL = ((0, 0), (1, 8), (2, 16))


@pytest.fixture
def log(tmp_path: Path) -> Log:
    return fixture_t(tmp_path)


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
