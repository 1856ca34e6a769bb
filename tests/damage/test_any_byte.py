"""Every byte of every file of a log, flipped one at a time: nothing wrong is served, or a checksum tells."""

from pathlib import Path

import pytest

from replog.log.errors import CorruptRecord
from replog.log.formats.batch import iterate_batches, validate_crc
from replog.log.formats.digest import add_digests, batch_digest
from replog.log.log import Log
from replog.log.offsets import Isolation
from tests.damage.samples import BATCH, CLEAN, END, EPOCHS, log_bytes, put_back, reopen
from tests.damage.vocabulary import segment_file

OUTSIDE_OF_THE_CRC = range(17)  # of a batch (RB-2)
LEADER_EPOCH = range(12, 16)


def flips(files: dict[str, bytes], only: str) -> list[tuple[str, int]]:
    return [(name, at) for name in sorted(files) if name.endswith(only) for at in range(len(files[name]))]


def flip(directory: Path, files: dict[str, bytes], name: str, at: int) -> None:
    data = bytearray(files[name])
    data[at] ^= 1 << (5 * at) % 8
    put_back(directory, files)
    (directory / name).write_bytes(data)


def put(data: bytes, at: int, source: bytes) -> bytes:
    """`data` with its byte `at` (if it has one) from `source`."""
    return data[:at] + source[at : at + 1] + data[at + 1 :] if 0 <= at < len(data) else data


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


@pytest.mark.parametrize("stop", [CLEAN, 0, 20])
def test_no_flipped_bit_of_any_other_file_costs_or_changes_a_record(memory, files, stop):
    """LD-3, LD-13, PS-7: indexes, epochs and snapshots follow from the batches."""
    for name, at in (flipped for flipped in flips(files, "") if not flipped[0].endswith(".log")):
        flip(memory, files, name, at)
        log = reopen(memory, stop)
        assert (log.log_end_offset, log.lost_data, log.epochs.entries) == (END, False, EPOCHS), (name, at)
        assert all_served(log) == log_bytes(files), (name, at)
        log.abandon()


def test_after_a_clean_stop_a_checksum_tells_of_every_flipped_bit_that_is_served(memory, files):
    """LD-7: what a clean start does not read stays; the CRC tells, or the digest where the CRC does not reach."""
    whole = log_bytes(files)
    unnoticed = 0
    for name, at in flips(files, ".log"):
        flip(memory, files, name, at)
        flipped_at = int(name[:20]) // 2 * BATCH + at
        batch, position = divmod(flipped_at, BATCH)
        log = reopen(memory, CLEAN)
        assert log.log_end_offset <= END
        segment = range(batch // 5 * 10, min(batch // 5 * 10 + 10, log.log_end_offset), 2)
        for offset in sorted({*segment, *range(0, log.log_end_offset, 10)}):
            try:
                data = log.read(offset, 1 << 20, Isolation.LOG_END, min_one_message=True)
            except CorruptRecord:
                assert offset // 10 == batch // 5, f"the flip at {at} of {name} hides offset {offset}"
                continue
            begin = data.metadata.segment_base // 2 * BATCH + data.metadata.position
            assert begin <= offset // 2 * BATCH, f"the flip at {at} of {name} lets a read skip offset {offset}"
            assert data.metadata.segment_base == offset // 10 * 10
            expected = whole[begin:][: len(data.records)]
            assert data.records in (expected, put(expected, flipped_at - begin, data.records)), (name, at, offset)
            if offset == 2 * batch and data.records != expected:
                unnoticed += 1
                crc_tells = position not in OUTSIDE_OF_THE_CRC and not crc_holds(
                    data.records[flipped_at // BATCH * BATCH - begin :]
                )
                assert crc_tells or position in LEADER_EPOCH or not digest_holds(memory, name), (name, at)
        log.abandon()
    assert unnoticed > 500, "this test looks at little"


def crc_holds(data: bytes) -> bool:
    try:
        _, header = next(iterate_batches(data), (0, None))
    except CorruptRecord:
        return False
    return header is not None and validate_crc(data, 0, header)


def digest_holds(directory: Path, name: str) -> bool:
    """Whether the last entry of the digest index is the digest of the batches, as an audit would ask."""
    index = (directory / segment_file(int(name[:20]), "digest")).read_bytes()
    digest = 0
    try:
        for _, header in iterate_batches((directory / name).read_bytes()):
            digest = add_digests(digest, batch_digest(header))
    except CorruptRecord:
        return False
    return digest == int.from_bytes(index[-8:], "big")
