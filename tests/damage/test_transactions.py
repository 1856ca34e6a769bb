"""Damage to transaction indexes: what READ_COMMITTED consumers are told afterwards (LD-3, IX-19)."""

from pathlib import Path

import pytest

from replog.log.log import Log
from replog.log.offsets import Isolation
from tests.damage.samples import CLEAN, put_back, reopen
from tests.damage.vocabulary import Damage, changed, flipped, missing, segment_file
from tests.replog.log.batches import client_batch, files_of, layout
from tests.replog.log.producers.writes import end, produce, transact

ENTRY = 34
ABORTED = {0: [(1, 0), (2, 1)], 10: [(1, 10), (2, 11)], 20: [(1, 20), (2, 21)]}
END = 30


def start(directory: Path, stop: int | None) -> Log:
    return reopen(directory, stop, segment_bytes=720, recovery_point=END if stop is CLEAN else stop)


def write_transactions(directory: Path) -> dict[str, bytes]:
    """Three segments of ten offsets: of two producers a batch, plain ones, then the abort marker of each."""
    log = start(directory, 0)
    for base in (0, 10, 20):
        transact(log, 1, base // 10)
        transact(log, 2, base // 10)
        produce(log, *[client_batch(b"x")] * 6)
        end(log, 1, commit=False)
        end(log, 2, commit=False)
    assert [base for base, _ in layout(log)] == [0, 10, 20]
    log.close()
    return {path.name: path.read_bytes() for path in directory.iterdir()}


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    return write_transactions(tmp_path_factory.mktemp("whole") / "t-0")


def told(log: Log) -> dict[int, list[tuple[int, int]]]:
    """The aborted transactions of each segment's records, as (producer id, first offset)."""
    log.update_high_watermark(END)
    assert (log.log_end_offset, log.last_stable_offset) == (END, END)
    return {
        base: [
            tuple(aborted) for aborted in log.read(base, 1 << 20, Isolation.TXN_COMMITTED, min_one_message=True).aborted
        ]
        for base, _ in layout(log)
    }


NOTICED = {
    "a byte short": lambda data: data[:-1],
    "three bytes more": lambda data: data + b"abc",
    "an entry of zeros more": lambda data: data + bytes(ENTRY),
    "the last entry twice": lambda data: data + data[-ENTRY:],
    "zeros": lambda data: bytes(len(data)),
    "swapped": lambda data: data[ENTRY:] + data[:ENTRY],
    "another version": lambda data: b"\0\1" + data[2:],
    "a negative producer": lambda data: data[:2] + b"\xff" * 8 + data[10:],
    "a marker past the segment": lambda data: data[:-16] + b"\0\0\1\0\0\0\0\0" + data[-8:],
    "a marker before the segment": lambda data: data[:18] + b"\xff" * 8 + data[26:],
    "a first offset behind the marker": lambda data: data[:10] + b"\0\0\0\0\0\0\1\0" + data[18:],
    "a negative first offset": lambda data: data[:10] + b"\xff" * 8 + data[18:],
    "a negative stable offset": lambda data: data[:-8] + b"\xff" * 8,
}
NOT_NOTICED = {
    "missing": missing,
    "empty": lambda name: changed(name, lambda data: b""),
    "an entry short": lambda name: changed(name, lambda data: data[:-ENTRY]),
    "another producer": lambda name: changed(name, lambda data: data[:9] + b"\7" + data[10:]),
}


@pytest.mark.parametrize("stop", [CLEAN, 0, 10, 20])
@pytest.mark.parametrize("base", [0, 10, 20])
@pytest.mark.parametrize("damage", NOTICED)
def test_a_transaction_index_that_cannot_be_right_is_written_again_from_the_markers(memory, files, damage, base, stop):
    """IX-19, LD-3, SG-8: after any stop, below the recovery point too."""
    name = segment_file(base, "txnindex")
    put_back(memory, files)
    changed(name, NOTICED[damage])(memory)
    log = start(memory, stop)
    assert told(log) == ABORTED
    assert not log.lost_data
    assert (memory / name).read_bytes() == files[name]
    assert files_of(memory) == {each: data for each, data in files.items() if not each.endswith((".snapshot", "point"))}


@pytest.mark.parametrize("base", [0, 10, 20])
@pytest.mark.parametrize("damage", NOT_NOTICED)
@pytest.mark.parametrize(("gone", "stop"), [([], 0), (["index"], CLEAN)], ids=["a crash", "no offset index"])
def test_what_a_clean_start_cannot_see_of_a_transaction_index_a_recovery_repairs(
    memory, files, damage, base, gone, stop
):
    """LD-7: it would have to read every batch, as `replog log verify` does, whose remedy is to take `.index` away."""
    name = segment_file(base, "txnindex")
    put_back(memory, files)
    make: Damage = NOT_NOTICED[damage](name)
    make(memory)
    log = start(memory, CLEAN)
    assert told(log)[base] != ABORTED[base]
    log.abandon()
    for suffix in gone:
        (memory / segment_file(base, suffix)).unlink()
    log = start(memory, stop)
    assert told(log) == ABORTED
    assert (memory / name).read_bytes() == files[name]


@pytest.mark.parametrize("stop", [CLEAN, 0, 20])
def test_no_flipped_bit_of_a_snapshot_changes_what_is_known_of_producers(memory, files, stop):
    """PS-7, PS-10: its CRC tells; the state comes from an older one and the batches behind it."""
    for name in (name for name in files if name.endswith(".snapshot")):
        for at in range(len(files[name])):
            put_back(memory, files)
            flipped(name, at, 1 << at % 8)(memory)
            log = start(memory, stop)
            assert (log.log_end_offset, log.lost_data) == (END, False)
            known = log.producers.snapshot_entries()
            entries = sorted((entry.producer_id, entry.last_sequence, entry.last_offset) for entry in known)
            assert entries == [(1, 2, 20), (2, 2, 21)], (name, at)
            assert (memory / segment_file(END, "snapshot")).read_bytes() == files[segment_file(END, "snapshot")]
            log.abandon()
