"""Damage to a compacted log, whose offsets have holes (CL-8): one out of order must not say where the log ends."""

from pathlib import Path

import pytest

from replog.log.formats.batch import BatchHeader, iterate_batches
from tests.damage.samples import CLEAN, put_back
from tests.damage.vocabulary import flipped, segment_file
from tests.replog.log.batches import append, files_of, layout, open_log
from tests.replog.log.compaction.compacting import batches_of, clean, keyed

SETTINGS = {"cleanup_policy": "compact", "segment_bytes": 400, "index_interval_bytes": 70}
END = 56
OFFSETS = [8, 18, 28, 38, 40, 42, 44, 46, 48, 50, 52, 54]  # of the batches that are left, two records each


def write_compacted(directory: Path) -> dict[str, bytes]:
    """Segments [0:61 10:61 20:61 30:70 40:307 48:316], the last of them not cleaned."""
    log = open_log(directory, **SETTINGS)
    for number in range(24):
        append(log, keyed("abcde"[number % 5], "xyz"[number % 3], time=1000 + 10 * number), epoch=number // 7)
    log.roll()
    log.update_high_watermark(48)
    clean(log)
    append(log, *[keyed("a", "b", time=9000 + number) for number in range(4)], epoch=5)
    assert layout(log) == [(0, 61), (10, 61), (20, 61), (30, 70), (40, 307), (48, 316)]
    assert [header.base_offset for header, _ in batches_of(log)] == OFFSETS
    log.close()
    return {path.name: path.read_bytes() for path in directory.iterdir() if not path.name.endswith(".deleted")}


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    return write_compacted(tmp_path_factory.mktemp("whole") / "t-0")


def headers(files: dict[str, bytes]) -> list[tuple[int, int, BatchHeader]]:
    """Segment base, position and header of each batch."""
    logs = sorted(name for name in files if name.endswith(".log"))
    return [(int(name[:20]), position, header) for name in logs for position, header in iterate_batches(files[name])]


@pytest.mark.parametrize("stop", [CLEAN, 0])
def test_undamaged(memory, files, stop):
    """CL-8, LD-5: holes within and between segments are no damage."""
    put_back(memory, files)
    log = open_log(memory, clean=stop is CLEAN, recovery_point=0, **SETTINGS)
    assert (log.log_end_offset, log.lost_data) == (END, False)
    names = {name for name in files if not name.endswith((".snapshot", "checkpoint"))}
    assert files_of(memory) == {name: files[name] for name in names}


@pytest.mark.parametrize("number", range(len(OFFSETS) - 1))
def test_an_offset_that_stands_out_costs_its_batch_and_not_the_order(memory, files, number):
    """SG-9: raised, lowered, into the hole before it or out of its segment; the next batch, or segment, tells."""
    base, position, header = headers(files)[number]
    for byte in range(8):
        for bit in (0, 1, 3, 7):
            put_back(memory, files)
            flipped(segment_file(base, "log"), position + byte, 1 << bit)(memory)
            log = open_log(memory, clean=False, recovery_point=0, **SETTINGS)
            left = [header.base_offset for header, _ in batches_of(log)]
            moved = header.base_offset ^ (1 << bit) << 8 * (7 - byte)
            before = OFFSETS[number - 1] + 2 if number else 0
            if max(before, base) <= moved <= min(OFFSETS[number + 1], next_base(base)) - 2:
                assert left == [*OFFSETS[:number], moved, *OFFSETS[number + 1 :]], "within a hole nothing tells"
            else:
                assert log.lost_data
                assert left in (OFFSETS[:number], OFFSETS[: max(number - 1, 0)]), (byte, bit)
                assert log.log_end_offset <= header.base_offset
            log.abandon()


def next_base(base: int) -> int:
    return {0: 10, 10: 20, 20: 30, 30: 40, 40: 48}.get(base, END)
