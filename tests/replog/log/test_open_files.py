"""What a log holds open: its active segment, and the few sealed ones that were read last."""

import contextlib
import os
from pathlib import Path
from typing import Any

import pytest

from replog.log.log import Log
from replog.log.offsets import Isolation
from replog.log.segments import MAX_OPEN
from tests.replog.log.batches import NO_LIMIT, append, client_batch, files_of, open_log

SEGMENTS = 30
SETTINGS: dict[str, Any] = {"segment_bytes": 300, "index_interval_bytes": 50}


def held(directory: Path) -> list[str]:
    """The files below `directory` that this process has open, and those that it has mapped."""
    names = [line.split(maxsplit=5)[5] for line in Path("/proc/self/maps").read_text().splitlines() if "/" in line]
    for fd in os.listdir("/proc/self/fd"):
        with contextlib.suppress(FileNotFoundError):  # that of the listing
            names.append(os.readlink(f"/proc/self/fd/{fd}"))
    return sorted(Path(name).name for name in names if name.startswith(f"{directory}/"))


def base_offsets(files: list[str]) -> set[str]:
    return {name[:20] for name in files}


@pytest.fixture
def log(tmp_path: Path) -> Log:
    log = open_log(tmp_path, **SETTINGS)
    number = 0
    while len(log.segments) < SEGMENTS:
        append(log, client_batch(b"a", b"b", timestamps=[1000 + number, 1001 + number]), epoch=number // 9)
        number += 1
    return log


def test_a_segment_lets_go_of_its_files_when_the_next_one_begins(log: Log) -> None:
    """IX-8, SG-11."""
    assert base_offsets(held(log.directory)) == {f"{log.segments[-1].base_offset:020d}"}


@pytest.mark.parametrize("clean", [True, False])
def test_loading_leaves_no_file_of_a_sealed_segment_open(log: Log, clean: bool) -> None:
    """IX-8: many closed segments cost neither descriptors nor mappings, though each was looked at."""
    log.close() if clean else log.abandon()
    assert held(log.directory) == []
    before = files_of(log.directory)
    log = open_log(log.directory, clean=clean, **SETTINGS)
    assert len(log.segments) == SEGMENTS
    assert len(log.epochs.entries) > SEGMENTS // 5
    assert base_offsets(held(log.directory)) <= {f"{log.segments[-1].base_offset:020d}"}
    assert files_of(log.directory) == before


def test_reading_everything_keeps_few_sealed_segments_open(log: Log) -> None:
    for offset in [*range(log.log_end_offset), 0, log.log_end_offset - 1, 3]:
        assert log.read(offset, NO_LIMIT, Isolation.LOG_END, min_one_message=True).records
        assert len(base_offsets(held(log.directory))) <= MAX_OPEN + 1
    assert len(base_offsets(held(log.directory))) == MAX_OPEN + 1


def test_looking_for_timestamps_keeps_no_sealed_segment_open(log: Log) -> None:
    for timestamp in range(1000, 1100):
        found = log.offset_for_timestamp(timestamp)
        assert found is None or found.timestamp >= timestamp
    assert base_offsets(held(log.directory)) <= {f"{log.segments[-1].base_offset:020d}"}


def test_a_sealed_segment_is_read_without_an_index_that_was_damaged_since(log: Log) -> None:
    expected = [log.read(offset, 1, Isolation.LOG_END, min_one_message=True) for offset in range(log.log_end_offset)]
    log.close()
    log = open_log(log.directory, **SETTINGS)
    for segment in log.segments[:-1]:
        path = segment.path.with_suffix(".index")
        os.truncate(path, path.stat().st_size - 3)
    found = [log.read(offset, 1, Isolation.LOG_END, min_one_message=True) for offset in range(log.log_end_offset)]
    assert found == expected
    log.close()
    repairs: list[str] = []
    open_log(log.directory, on_progress=repairs.append, **SETTINGS)
    assert len(repairs) == SEGMENTS - 1, repairs
