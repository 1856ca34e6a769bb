"""Producer state through stops, crashes, truncation and retention: snapshots and what lies behind them."""

from pathlib import Path

import pytest

from replog.log.indexes.transaction_index import AbortedTxn
from replog.log.log import Log
from replog.log.producers import recovery as producer_recovery
from replog.log.producers.snapshot import ProducerSnapshotEntry, parse_snapshot, snapshot_offsets
from replog.log.retention import delete_old_segments
from tests.damage.vocabulary import flip, overwrite
from tests.replog.log.batches import client_batch, files_of, layout, open_log
from tests.replog.log.producers.writes import batch, end, produce, send, transact

SIZE = 69  # of a batch of one record; a marker has 78 bytes
SETTINGS = {"segment_bytes": 3 * SIZE, "index_interval_bytes": 100}


def reopen(directory: Path, **overrides: object) -> Log:
    options: dict[str, object] = {"clean": True, **SETTINGS, **overrides}
    return open_log(directory, **options)  # type: ignore[arg-type]


def states(log: Log) -> list[ProducerSnapshotEntry]:
    return sorted(log.producers.snapshot_entries())


def snapshot(directory: Path, offset: int) -> Path:
    return directory / f"{offset:020d}.snapshot"


def content(directory: Path, offset: int) -> list[ProducerSnapshotEntry]:
    return parse_snapshot(snapshot(directory, offset).read_bytes())


def aborts(log: Log) -> dict[int, list[AbortedTxn]]:
    """By segment."""
    return {
        segment.base_offset: list(segment.transaction_index.entries())
        for segment in log._segments
        if segment.transaction_index.path.exists()
    }


@pytest.fixture
def scans(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """(segment, offset) where scanning began."""
    begun: list[tuple[int, int]] = []
    replay = producer_recovery.replay

    def noting(segment: producer_recovery.Segment, producers: object, start: int, *args: int, **kw: bool) -> None:
        begun.append((segment.base_offset, max(start, segment.base_offset)))
        replay(segment, producers, start, *args, **kw)  # type: ignore[arg-type]

    monkeypatch.setattr(producer_recovery, "replay", noting)
    return begun


@pytest.fixture
def log(tmp_path: Path) -> Log:
    """Ten batches in [0:207 3:207 6:207 9:69] by producers 1 (0 to 4) and 2 (5 to 9)."""
    log = reopen(tmp_path)
    produce(log, *(batch(0, n, pid=1) for n in range(5)), *(batch(7, n, pid=2) for n in range(5)))
    assert layout(log) == [(0, 207), (3, 207), (6, 207), (9, 69)]
    return log


LAST = [(1, 0, 4, 4, 0, 1000, -1, -1), (2, 7, 4, 9, 0, 1000, -1, -1)]


def test_ps_8_snapshots_are_taken_on_roll_and_on_close(log, tmp_path):
    """PS-7, PS-8, LG-5: each holds what was so before its offset, by producer id."""
    assert snapshot_offsets(tmp_path) == [3, 6, 9]
    log.close()
    assert snapshot_offsets(tmp_path) == [3, 6, 9, 10]
    assert [[(e.producer_id, e.last_sequence) for e in content(tmp_path, at)] for at in (3, 6, 9, 10)] == [
        [(1, 2)],
        [(1, 4), (2, 0)],
        [(1, 4), (2, 3)],
        [(1, 4), (2, 4)],
    ]
    assert content(tmp_path, 10) == LAST


def test_the_snapshot_of_a_roll_is_synced_by_the_next_flush(log, tmp_path):
    """PS-8, LG-5: not by the roll, which an append waits for."""

    def synced(up_to: int | None) -> list[str]:
        task = log.flush_task(up_to)
        assert task is not None
        log.flushed(task)
        return [path.name[18:] for path in task.paths if path.suffix == ".snapshot" and path.exists()]

    assert synced(6) == ["03.snapshot", "06.snapshot"]
    assert synced(9) == ["06.snapshot", "09.snapshot"], "06 may have been taken since: its segment begins there"
    assert synced(None) == ["09.snapshot"]


def test_a_roll_where_everything_was_flushed_leaves_its_snapshot_to_the_next_flush(tmp_path):
    """As every roll with flush.messages=1 (found by a simulated storm, seed 3022)."""
    log = reopen(tmp_path, segment_bytes=2 * SIZE)
    send(log, 0, 0)
    log.flush()
    log.roll()
    send(log, 0, 1)
    task = log.flush_task()
    assert task is not None
    assert snapshot(tmp_path, 1) in task.paths


def test_after_a_clean_stop_only_the_snapshot_is_read(log, tmp_path, scans):
    """PS-7, PS-10, LD-11: it knows each producer's last batch, and no earlier one."""
    log.close()
    again = reopen(tmp_path)
    assert scans == []
    assert states(again) == LAST
    assert send(again, 7, 4, pid=2) == (9, 9), "a duplicate of the last batch is known"
    with pytest.raises(Exception, match="OUT_OF_ORDER"):
        send(again, 7, 3, pid=2)
    assert send(again, 7, 5, pid=2) == (10, 10)


@pytest.mark.parametrize(("damaged", "begin"), [((10,), [(9, 9)]), ((10, 9), [(6, 6), (9, 9)])])
@pytest.mark.parametrize("damage", [lambda path: flip(path, -1), Path.unlink, lambda path: path.write_bytes(b"")])
def test_ps_7_ps_10_an_older_snapshot_and_the_batches_behind_it(log, tmp_path, scans, damaged, begin, damage):
    """PS-7, PS-10: the newest usable one is taken; what cannot be used is removed, and written again."""
    log.close()
    for offset in damaged:
        damage(snapshot(tmp_path, offset))
    again = reopen(tmp_path)
    assert (states(again), scans) == (LAST, begin)
    assert snapshot_offsets(tmp_path) == [3, 6, 9, 10]
    assert content(tmp_path, 10) == LAST


def test_ps_10_without_any_snapshot_a_clean_stop_means_no_producers(log, tmp_path, scans):
    """PS-10: the directory may come from a log that has none; nothing is scanned, and empty ones are written."""
    log.close()
    for offset in snapshot_offsets(tmp_path):
        snapshot(tmp_path, offset).unlink()
    again = reopen(tmp_path)
    assert (states(again), scans) == ([], [])
    assert [(at, content(tmp_path, at)) for at in snapshot_offsets(tmp_path)] == [(6, []), (9, []), (10, [])]


def test_ps_10_if_all_snapshots_are_damaged_the_log_is_scanned(log, tmp_path):
    """PS-10."""
    log.close()
    for offset in snapshot_offsets(tmp_path):
        flip(snapshot(tmp_path, offset), -1)
    lines: list[str] = []
    assert states(reopen(tmp_path, on_progress=lines.append)) == LAST
    assert snapshot_offsets(tmp_path) == [6, 9, 10]
    assert sum("CRC of the producer snapshot" in line for line in lines) == 4, lines


@pytest.mark.parametrize("recovery_point", [0, 3, 5, 8, 9, 10])
@pytest.mark.parametrize("lost", [(), (9,), (3, 6, 9)])
def test_ps_10_after_a_crash_the_state_is_what_the_batches_say(log, tmp_path, recovery_point, lost):
    """PS-8, PS-10, LD-5: from the newest snapshot that the crash cannot have torn; one follows each recovery."""
    log.abandon()
    for offset in lost:
        snapshot(tmp_path, offset).unlink()
    again = reopen(tmp_path, clean=False, recovery_point=recovery_point)
    assert states(again) == LAST
    recovered = [base for base in (3, 6, 9) if base > recovery_point]
    assert set(snapshot_offsets(tmp_path)) >= {*recovered, 10}
    assert content(tmp_path, 10) == LAST
    assert send(again, 7, 4, pid=2) == (9, 9)


def test_a_snapshot_newer_than_what_is_recovered_is_not_trusted(log, tmp_path):
    """LD-5: it may describe batches that the crash took, and others took their place."""
    log.abandon()
    other = open_log(tmp_path / "other", **SETTINGS)  # type: ignore[arg-type]
    produce(other, *(batch(3, n, pid=8) for n in range(10)))
    snapshot(tmp_path, 9).write_bytes(snapshot(tmp_path / "other", 9).read_bytes())
    assert states(reopen(tmp_path, clean=False, recovery_point=8)) == LAST


def test_ps_9_stray_snapshots_are_removed(log, tmp_path):
    """PS-9: those of no segment's base, except the one of the close."""
    log.close()
    kept = snapshot(tmp_path, 10).read_bytes()
    for offset in (1, 4, 8):
        snapshot(tmp_path, offset).write_bytes(kept)
    reopen(tmp_path).close()
    assert snapshot_offsets(tmp_path) == [3, 6, 9, 10]
    snapshot(tmp_path, 10).rename(snapshot(tmp_path, 7))
    again = reopen(tmp_path)
    assert snapshot_offsets(tmp_path) == [3, 6, 9, 10]
    assert states(again) == LAST


def test_ps_8_a_snapshot_beyond_the_log_end_is_removed(log, tmp_path):
    """PS-8: the log lost its end, and with it what the snapshot says."""
    log.abandon()
    snapshot(tmp_path, 12).write_bytes(snapshot(tmp_path, 3).read_bytes())
    (tmp_path / "00000000000000000009.log").write_bytes(b"")
    again = reopen(tmp_path, clean=False, recovery_point=9)
    assert again.log_end_offset == 9
    assert snapshot_offsets(tmp_path) == [3, 6, 9]
    assert [(e.producer_id, e.last_sequence) for e in states(again)] == [(1, 4), (2, 3)]


def test_ps_8_a_checkpointed_log_start_beyond_the_end_drops_everything(log, tmp_path):
    """LD-8, PS-8."""
    log.close()
    again = reopen(tmp_path, log_start_offset=50)
    assert (states(again), snapshot_offsets(tmp_path)) == ([], [50])


def test_truncation_of_a_log_without_producers_reads_nothing(tmp_path, scans):
    """PS-10."""
    log = open_log(tmp_path)
    produce(log, *[client_batch(b"x")] * 9)
    log.truncate_to(5)
    assert scans == []
    assert snapshot_offsets(tmp_path) == [5]


def test_ps_8_snapshots_go_with_their_segments(tmp_path):
    """PS-8, LG-15, S-W-L7; what is known of the producers stays, through a restart, too (PS-11)."""
    log = reopen(tmp_path, retention_bytes=100)
    produce(log, *(batch(0, n, pid=1) for n in range(5)), *(batch(7, n, pid=2) for n in range(5)))
    log.update_high_watermark(10)
    assert delete_old_segments(log, 0) == 2
    assert snapshot_offsets(tmp_path) == [6, 9]
    assert snapshot(tmp_path, 3).with_name(snapshot(tmp_path, 3).name + ".deleted").exists()
    assert states(log) == LAST
    log.close()
    assert states(reopen(tmp_path)) == LAST


# -- transactions


@pytest.fixture
def transactions(tmp_path: Path) -> Log:
    """Open ones of producers 1 (from 0), 2 (from 1), 3 (from 3); 2 is aborted at 4, 4 from 5 at 6, 1 at 8."""
    log = reopen(tmp_path)
    for pid in (1, 2):
        transact(log, pid, 0)
    produce(log, client_batch(b"x"))
    transact(log, 3, 0)
    assert end(log, 2, commit=False) == 4
    transact(log, 4, 0)
    assert end(log, 4, commit=False) == 6
    produce(log, client_batch(b"x"))
    assert end(log, 1, commit=False) == 8
    produce(log, client_batch(b"x"))
    assert layout(log) == [(0, 207), (3, 147), (5, 147), (7, 147), (9, 69)]
    assert aborts(log) == ABORTS
    return log


ABORTS = {3: [AbortedTxn(2, 1, 4, 0)], 5: [AbortedTxn(4, 5, 6, 0)], 7: [AbortedTxn(1, 0, 8, 3)]}


@pytest.mark.parametrize("recovery_point", [0, 3, 5, 7, 9, 10])
@pytest.mark.parametrize("lost", [".txnindex", ".snapshot", ".*index"])
def test_a_crash_costs_no_transaction_index(transactions, tmp_path, recovery_point, lost):
    """SG-8, PS-6: those of recovered segments are written again, as they were."""
    transactions.abandon()
    before = files_of(tmp_path)
    for path in tmp_path.glob(f"*{lost}"):
        if int(path.name[:20]) >= recovery_point:
            path.unlink()
    again = reopen(tmp_path, clean=False, recovery_point=recovery_point)
    assert aborts(again) == ABORTS
    assert files_of(tmp_path) == before
    assert again.producers.first_unstable_offset in (0, 3)
    again.update_high_watermark(10)
    assert again.last_stable_offset == 3


def test_truncation_keeps_what_ended_unreplicated(tmp_path):
    """PS-5: a snapshot does not hold it."""
    log = open_log(tmp_path)
    transact(log, 1, 0)
    end(log, 1, commit=True)
    log.roll()
    produce(log, client_batch(b"x"))
    log.update_high_watermark(1)
    log.truncate_to(2)
    assert log.last_stable_offset == 0
    log.update_high_watermark(2)
    assert log.last_stable_offset == 2


def test_a_truncation_that_is_not_settled_leaves_nothing_stable_behind_the_log_start(tmp_path):
    """PS-5: it may have taken the end of a transaction that a snapshot does not hold (found by the simulator)."""
    log = open_log(tmp_path)
    transact(log, 1, 0)
    end(log, 1, commit=True)
    log.update_high_watermark(1)
    log.close()
    log = open_log(tmp_path, high_watermark=1)
    log.on_flush_due = lambda: None
    log.truncate_to(1)
    assert log.last_stable_offset == 0
    log.flush()
    end(log, 1, commit=True)
    log.update_high_watermark(2)
    assert log.last_stable_offset == 2


def test_truncation_keeps_an_open_transaction_unstable_that_began_before_one_that_ended_unreplicated(tmp_path):
    """PS-5: the open one is found again as the batches are read, after the other is known (found by the simulator)."""
    log = open_log(tmp_path)
    transact(log, 1, 0)
    transact(log, 2, 0)
    end(log, 2, commit=True)
    produce(log, client_batch(b"x"))
    log.truncate_to(3)
    assert log.last_stable_offset == 0
    log.update_high_watermark(2)
    assert log.last_stable_offset == 0


def test_damage_that_loading_does_not_look_at_ends_the_walk_and_not_the_start(tmp_path):
    """PS-10: the log opens, as it would without producers; the state is that of the batches before."""
    log = reopen(tmp_path, segment_bytes=1000, index_interval_bytes=1)
    produce(log, *(batch(0, n) for n in range(10)))
    log.roll()
    produce(log, batch(0, 0, pid=2))
    log.close()
    for offset in snapshot_offsets(tmp_path):
        flip(snapshot(tmp_path, offset), -1)
    overwrite(tmp_path / "00000000000000000000.log", 4 * SIZE + 16, b"\x09")  # magic
    again = reopen(tmp_path, segment_bytes=1000, index_interval_bytes=1)
    assert (again.log_end_offset, again.lost_data) == (11, False)
    assert [(e.producer_id, e.last_sequence) for e in states(again)] == [(1, 3), (2, 0)]
