"""Every byte of every file of a log, flipped one at a time: nothing wrong is served."""

from pathlib import Path

import pytest

from replog.log.errors import CorruptRecord
from replog.log.formats.batch import iterate_batches
from replog.log.log import Log
from replog.log.offsets import Isolation
from tests.damage.samples import BATCH, CLEAN, END, EPOCHS, log_bytes, put_back, reopen

LEADER_EPOCH = range(12, 16)  # of a batch


def flips(files: dict[str, bytes], only: str) -> list[tuple[str, int]]:
    return [(name, at) for name in sorted(files) if name.endswith(only) for at in range(len(files[name]))]


def flip(directory: Path, files: dict[str, bytes], name: str, at: int) -> None:
    data = bytearray(files[name])
    data[at] ^= 1 << (5 * at) % 8
    put_back(directory, files)
    (directory / name).write_bytes(data)


def all_served(log: Log) -> bytes:
    data = b""
    while log.log_start_offset + len(data) // BATCH * 2 < log.log_end_offset:
        offset = len(data) // BATCH * 2
        piece = log.read(offset, 1 << 20, Isolation.LOG_END, min_one_message=True).records
        assert piece, f"nothing at {len(data) // BATCH * 2} of {log.log_end_offset}"
        data += piece
    return data


def epochs_of(data: bytes) -> tuple[tuple[int, int], ...]:
    starts: dict[int, int] = {}
    for _, header in iterate_batches(data):
        assert header.leader_epoch >= max(starts, default=0), "a leader epoch goes back"
        starts.setdefault(header.leader_epoch, header.base_offset)
    return tuple(starts.items())


def test_after_a_crash_no_flipped_bit_of_a_log_is_ever_served(memory, files):
    """LD-5, SG-8: a prefix of what was there, up to the batch of the flip; or a leader epoch in order (S-W-D19)."""
    whole = log_bytes(files)
    for name, at in flips(files, ".log"):
        flip(memory, files, name, at)
        flipped_at = int(name[:20]) // 2 * BATCH + at
        batch, position = divmod(flipped_at, BATCH)
        log = reopen(memory, 0)
        data, end = all_served(log), log.log_end_offset
        assert len(data) == end // 2 * BATCH
        if end > 2 * batch:
            assert position in LEADER_EPOCH, f"the flip at {at} of {name} went unnoticed"
            data = data[:flipped_at] + whole[flipped_at : flipped_at + 1] + data[flipped_at + 1 :]
        assert data == whole[: len(data)], (name, at)
        assert end >= 2 * batch - 2, f"the flip at {at} of {name} cost more than its batch and the one before"
        assert log.epochs.entries == epochs_of(all_served(log))
        log.abandon()


def test_after_a_clean_stop_a_read_is_refused_or_has_what_was_there_but_for_the_flip(memory, files):
    """LD-7: what a clean start does not read stays; what checksums tell of each field, `rows.py` says."""
    whole = log_bytes(files)
    for name, at in flips(files, ".log"):
        flip(memory, files, name, at)
        base, flipped_at = int(name[:20]), int(name[:20]) // 2 * BATCH + at
        log = reopen(memory, CLEAN)
        assert log.log_end_offset <= END
        for offset in sorted({*range(base, min(base + 10, log.log_end_offset), 2), *range(0, log.log_end_offset, 10)}):
            try:
                data = log.read(offset, 1 << 20, Isolation.LOG_END, min_one_message=True)
            except CorruptRecord:
                assert offset // 10 * 10 == base, f"the flip at {at} of {name} hides offset {offset}"
                continue
            begin = data.metadata.segment_base // 2 * BATCH + data.metadata.position
            assert begin <= offset // 2 * BATCH, f"the flip at {at} of {name} lets a read skip offset {offset}"
            differing = [n for n, byte in enumerate(data.records, begin) if byte != whole[n]]
            assert differing in ([], [flipped_at]), (name, at, offset)
        log.abandon()


@pytest.mark.parametrize("stop", [CLEAN, 0, 20])
def test_no_flipped_bit_of_any_other_file_costs_or_changes_a_record(memory, files, stop):
    """LD-3, LD-13, PS-7: indexes, epochs and snapshots follow from the batches."""
    for name, at in (flipped for flipped in flips(files, "") if not flipped[0].endswith(".log")):
        flip(memory, files, name, at)
        log = reopen(memory, stop)
        assert (log.log_end_offset, log.lost_data, log.epochs.entries) == (END, False, EPOCHS), (name, at)
        assert all_served(log) == log_bytes(files), (name, at)
        log.abandon()
