"""A cleaning killed at every step: the log is then as it was before, or after, and no latest value is lost (CL-9)."""

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from replog.log.compaction.cleaning import Cleaning, CleanTask, find_cleanable
from replog.log.compaction.rewriting import SLOT_BYTES
from replog.log.formats.batch import CONTROL, parse_header
from replog.log.formats.records import iterate_records
from replog.log.log import Log
from replog.log.offsets import AppendOrigin, Isolation
from replog.log.swap import finish_swaps
from tests.replog.log.batches import append, client_batch, files_of, fixture_t, layout, open_log
from tests.replog.log.compaction.compacting import clean, names_in, offsets_of, records_of, rewritten
from tests.replog.log.producers.writes import marker, produce

SETTINGS = {"cleanup_policy": "compact", "segment_bytes": 600, "index_interval_bytes": 100}
SMALL_MAP = 14 * SLOT_BYTES
END = 14
_listdir = os.listdir


def name(base: int, suffix: str) -> str:
    return f"{base:020d}.{suffix}"


@pytest.fixture(autouse=True)
def _fsync_costs_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is killed here is a process: its writes are not lost, and hundreds of logs are opened."""
    monkeypatch.setattr(os, "fsync", lambda fd: None)


@contextmanager
def states(directory: Path, copies: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Path]]:
    """A copy of the directory as it was before each change of a name in it, and at the end."""
    copied: list[Path] = []

    def copy() -> None:
        copied.append(copies / str(len(copied)))
        shutil.copytree(directory, copied[-1])

    def copying(change: Callable[..., object]) -> Callable[..., object]:
        def wrapped(*arguments: object, **options: object) -> object:
            copy()
            return change(*arguments, **options)

        return wrapped

    with monkeypatch.context() as patch:
        patch.setattr(Path, "rename", copying(Path.rename))
        patch.setattr(Path, "unlink", copying(Path.unlink))
        patch.setattr(os, "replace", copying(os.replace))
        yield copied
    copy()


def written(directory: Path) -> Log:
    """Segments that are merged in groups, tombstones, a producer, and an aborted transaction behind what a small map
    reaches, whose void data and index entry stay for now."""
    log = open_log(directory, **SETTINGS)
    for number in range(12):
        second = b"2" if number == 6 else b"x%d" % number
        pairs = (b"%d" % (number % 4), None if number % 7 == 3 else b"%d" % number), (second, b"y")
        if number == 8:
            append(log, client_batch(*pairs, transactional=1, producer_id=5, producer_epoch=0, base_sequence=0))
            produce(log, marker(5, commit=False), origin=AppendOrigin.COORDINATOR)
        else:
            append(log, client_batch(*pairs, timestamps=[number, number]))
        if number % 3 == 2:
            log.roll()
    append(log, client_batch((b"last", b"1"), producer_id=7, producer_epoch=0, base_sequence=0))
    log.update_high_watermark(log.log_end_offset)
    return log


def committed(log: Log) -> dict[bytes, bytes]:
    """The latest values to a reader that is told what is void."""
    values: dict[bytes, bytes | None] = {}
    offset = 0
    while offset < log.log_end_offset:
        data = log.read(offset, 1, Isolation.TXN_COMMITTED, min_one_message=True)
        header = parse_header(data.records)
        void = header.producer_id in {txn.producer_id for txn in data.aborted}
        if not void and not header.attributes & CONTROL:
            values |= {record.key or b"": record.value for record in iterate_records(data.records, header)}
        offset = header.next_offset
    return {key: value for key, value in values.items() if value is not None}


def test_cl_9_a_cleaning_killed_between_any_two_steps_loses_nothing(tmp_path, monkeypatch):
    log = written(tmp_path / "log")
    before, latest, end = records_of(log), committed(log), log.log_end_offset
    epochs = log.epochs.entries
    with states(tmp_path / "log", tmp_path / "states", monkeypatch) as copies:
        assert clean(log, 100, map_bytes=SMALL_MAP) == END
    after = records_of(log)
    assert len(copies) > 30, "the swap of several groups"
    assert len(layout(log)) >= 3
    for state in copies:
        (kept := state / name(1, "log.stray")).touch()  # an earlier start set it aside (LD-6)
        again = open_log(state, **SETTINGS, clean=False, high_watermark=end, recovery_point=0)
        seen = records_of(again)
        assert set(after) <= set(seen) <= set(before), state
        assert (committed(again), again.log_end_offset, again.epochs.entries) == (latest, end, epochs), state
        assert not again.lost_data
        assert kept.exists(), f"{state}: no start deletes it"
        assert not [name for name in names_in(state) if name.endswith((".cleaned", ".swap", ".deleted"))], state
        assert clean(again, 100, map_bytes=SMALL_MAP) == END
        assert records_of(again) == after, f"{state}: cleaned again it is what it would have been"
        again.close()


def test_cl_9_a_crash_while_a_crash_is_repaired(tmp_path, monkeypatch):
    """However the directory is listed; at stake is the transaction index, which loading does not miss."""
    log = written(tmp_path / "log")
    latest, end = committed(log), log.log_end_offset
    with states(tmp_path / "log", tmp_path / "states", monkeypatch) as copies:
        clean(log, 100, map_bytes=SMALL_MAP)
    under_way = [
        state for state in copies if {path.suffix for path in state.glob(name(12, "*"))} & {".cleaned", ".swap"}
    ]
    assert len(under_way) > 10
    for state in under_way:
        with states(state, state.with_suffix(".states"), monkeypatch) as twice, monkeypatch.context() as patch:
            patch.setattr(os, "listdir", lambda path: sorted(_listdir(path), reverse=True))
            finish_swaps(state)
        for second in twice:
            again = open_log(second, **SETTINGS, clean=True, high_watermark=end)
            assert (committed(again), again.log_end_offset, again.lost_data) == (latest, end, False), second
            again.close()


def test_cl_9_a_crash_while_a_truncation_calls_a_swap_off(tmp_path, monkeypatch):
    """At worst the log is as if it had not been truncated yet."""
    log = written(tmp_path / "log")
    task, swap = rewritten(log)
    assert log.begin_swap(task.generation, swap)
    before = {record.offset: record for record in records_of(log)}
    with states(tmp_path / "log", tmp_path / "states", monkeypatch) as copies:
        log.truncate_to(21)
    assert len(copies) > 8
    for state in copies:
        again = open_log(state, **SETTINGS, clean=True)
        assert all(before[record.offset] == record for record in records_of(again)), state
        assert again.log_end_offset >= 21
        assert again.read(0, 1 << 20, Isolation.LOG_END, min_one_message=True).records
        again.close()


def test_cl_9_a_swap_that_was_never_finished_is_called_off_by_the_next_one(tmp_path):
    """There was no descriptor to fsync the directory with: a crash much later would bring its records back."""
    log = open_log(tmp_path, cleanup_policy="compact", segment_bytes=200)
    append(log, *[client_batch((b"a", b"x" * 50), (b"a", b"y"))] * 5)
    log.update_high_watermark(log.log_end_offset)
    task = CleanTask.of(log, find_cleanable(log, None, 0), 0, 1 << 16)
    cleaning = Cleaning(task)
    cleaning.map_keys()
    groups = task.groups(cleaning.end_offset)
    for group in (groups[2], groups[0]):
        swap = cleaning.rewrite(group)
        assert swap is not None
        assert log.begin_swap(task.generation, swap)
    assert log.finish_swap(swap)
    log.truncate_to(groups[2][0].base_offset)
    append(log, client_batch((b"a", b"new")), epoch=7)
    log.abandon()
    again = open_log(tmp_path, cleanup_policy="compact", segment_bytes=200, clean=False)
    assert (again.epochs.latest_epoch, records_of(again)[-1].value) == (7, b"new")


# -- LD-1, LD-2


def test_a_complete_set_replaces_its_range_with_everything_that_belongs_to_it(tmp_path):
    """S-W-D12, LD-2: logs, indexes and producer snapshots from the set's base up to its end."""
    log = fixture_t(tmp_path)
    log.close()
    (tmp_path / name(6, "snapshot")).write_bytes(b"old")
    (tmp_path / name(6, "txnindex")).write_bytes(b"old")
    files = files_of(tmp_path)
    (tmp_path / name(0, "log.swap")).write_bytes(files[name(0, "log")] + files[name(6, "log")])
    (tmp_path / name(0, "index.swap")).write_bytes(b"")
    again = open_log(tmp_path, segment_bytes=500)
    assert layout(again) == [(0, 468), (12, 234), (18, 78)]
    assert not list(tmp_path.glob(name(6, "*")))
    assert (again.log_end_offset, again.epochs.entries) == (20, ((0, 0), (1, 8), (2, 16)))
    assert offsets_of(again) == list(range(20))
