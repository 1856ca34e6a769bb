"""Opening logs: fixture T closed cleanly, damaged, opened again (S-W-D1 to S-W-D21)."""

from pathlib import Path

import pytest

from replog.log.log import Log
from replog.log.offsets import Isolation
from tests.replog.log.batches import append, client_batch, files_of, fixture_t, layout, leader_batch, open_log
from tests.replog.log.test_changes import fsyncs

FULL = [(0, 234), (6, 234), (12, 234), (18, 78)]
ALL = ((0, 0), (1, 8), (2, 16))


@pytest.fixture
def files(tmp_path: Path) -> dict[str, bytes]:
    """Fixture T, closed; its files as they were."""
    fixture_t(tmp_path, index_interval_bytes=100).close()
    return files_of(tmp_path)


def name(base: int, suffix: str) -> str:
    return f"{base:020d}.{suffix}"


def flip(path: Path, position: int, bits: int = 1) -> None:
    data = bytearray(path.read_bytes())
    data[position] ^= bits
    path.write_bytes(data)


def reopen(directory: Path, *, clean: bool, recovery_point: int = 0, **overrides: object) -> Log:
    return open_log(
        directory, clean=clean, recovery_point=recovery_point, segment_bytes=300, index_interval_bytes=100, **overrides
    )


@pytest.mark.parametrize(
    ("clean", "checkpoint", "recovery_point"),
    [(True, 20, 20), (False, 0, 0), (False, 12, 12), (False, 999, 20)],
    ids=["S-W-D1", "S-W-D2 0", "S-W-D2 12", "S-W-D15"],
)
def test_an_undamaged_log(
    tmp_path: Path, files: dict[str, bytes], clean: bool, checkpoint: int, recovery_point: int
) -> None:
    """S-W-D1, S-W-D2, S-W-D15, LD-9."""
    log = reopen(tmp_path, clean=clean, recovery_point=checkpoint)
    assert (layout(log), log.log_end_offset, log.epochs.entries) == (FULL, 20, ALL)
    assert (log.recovery_point, log.lost_data) == (recovery_point, checkpoint > 20)
    assert files_of(tmp_path) == files


def test_a_recovery_that_cuts_nothing_waits_for_the_disk_only_where_a_segment_was_sealed(
    tmp_path: Path, files: dict[str, bytes]
) -> None:
    """After a SIGKILL thousands of logs are recovered: six fsyncs for each were most of the time. What is not durable
    is still behind the recovery point, and a cut is not among it (LG-10)."""
    with fsyncs() as synced:
        reopen(tmp_path, clean=False, recovery_point=18).abandon()
    assert not synced
    with fsyncs() as synced:
        reopen(tmp_path, clean=False, recovery_point=12).abandon()
    assert {Path(path).name.partition(".")[0] for path in synced} == {name(12, "").rstrip(".")}
    flip(tmp_path / name(18, "log"), 70)
    with fsyncs() as synced:
        reopen(tmp_path, clean=False, recovery_point=18).abandon()
    assert str(tmp_path / name(18, "log")) in synced


def test_a_torn_epoch_file_of_an_empty_log_is_gone_once_it_was_loaded(tmp_path: Path) -> None:
    """LD-10: a leader's first epoch, and a crash while it was written; what is said of the empty log is nothing."""
    reopen(tmp_path, clean=True).close()
    (tmp_path / "leader-epoch-checkpoint").write_bytes(b"0\n1\n0 ")
    assert reopen(tmp_path, clean=False).epochs.entries == ()
    assert not (tmp_path / "leader-epoch-checkpoint").exists()


def test_a_recovery_leaves_indexes_alone_that_are_as_they_should_be(tmp_path: Path, files: dict[str, bytes]) -> None:
    """Making the three indexes of thousands of logs anew was most of what it cost."""
    before = {path: path.stat().st_mtime_ns for path in tmp_path.glob(f"{name(18, '')}*")}
    reopen(tmp_path, clean=False, recovery_point=18).abandon()
    assert len(before) == 5  # `.log`, three indexes, `.snapshot`
    assert {path: path.stat().st_mtime_ns for path in before} == before
    index = tmp_path / name(18, "digest")
    index.write_bytes(index.read_bytes() + bytes(16))
    reopen(tmp_path, clean=False, recovery_point=18).abandon()
    assert files_of(tmp_path) == files


@pytest.mark.parametrize("recovery_point", [0, 6, 11])
def test_a_flipped_payload_bit_cuts_the_log_at_that_batch(
    tmp_path: Path, files: dict[str, bytes], recovery_point: int
) -> None:
    """S-W-D3, S-W-D4, LD-5, LD-6."""
    flip(tmp_path / name(6, "log"), 78 + 70)
    log = reopen(tmp_path, clean=False, recovery_point=recovery_point)
    assert layout(log) == [(0, 234), (6, 78)]
    assert (log.log_end_offset, log.epochs.entries, log.lost_data) == (8, ((0, 0),), True)
    assert log.recovery_point == min(recovery_point, 8)
    assert (tmp_path / (name(12, "log") + ".deleted")).exists()
    log.append_as_follower(files[name(6, "log")][78:] + files[name(12, "log")] + files[name(18, "log")])
    assert files_of(tmp_path) == files, "fetched again, the files are those that were lost"


@pytest.mark.parametrize(("clean", "recovery_point"), [(False, 12), (True, 0)])
def test_payload_below_the_recovery_point_is_not_read(
    tmp_path: Path, files: dict[str, bytes], clean: bool, recovery_point: int
) -> None:
    """S-W-D5, LD-5, LD-7."""
    flip(tmp_path / name(6, "log"), 78 + 70)
    assert reopen(tmp_path, clean=clean, recovery_point=recovery_point).log_end_offset == 20


@pytest.mark.parametrize(
    ("rule", "position", "bits"),
    [
        ("S-W-D19 leader epoch, raised", 15, 4),
        ("S-W-D19 leader epoch, negative", 12, 0x80),
        ("S-W-D20 base offset", 7, 1),
        ("S-W-D20 base offset, far", 2, 1),
        ("S-W-D21 magic 2 to 3", 16, 1),
        ("S-W-D6 batch length, longer", 11, 0x20),
        ("S-W-D6 batch length, shorter", 11, 2),
        ("last offset delta", 26, 2),
        ("CRC", 20, 1),
    ],
)
def test_a_flipped_header_bit_cuts_the_log_at_that_batch(
    tmp_path: Path, files: dict[str, bytes], rule: str, position: int, bits: int
) -> None:
    """S-W-D6; S-W-D19, S-W-D20, S-W-D21, RB-2, SG-9, changed: Kafka does not notice those."""
    flip(tmp_path / name(6, "log"), 78 + position, bits)
    log = reopen(tmp_path, clean=False)
    assert (log.log_end_offset, layout(log), log.epochs.entries) == (8, [(0, 234), (6, 78)], ((0, 0),))


def test_an_epoch_that_keeps_the_order_is_left_to_audits(tmp_path: Path, files: dict[str, bytes]) -> None:
    """S-W-D19: epoch 1 turned to 0 at batch 8; no local rule is broken, so the cache follows the batches."""
    flip(tmp_path / name(6, "log"), 78 + 15, 1)
    log = reopen(tmp_path, clean=False)
    assert (log.log_end_offset, log.epochs.entries) == (20, ((0, 0), (1, 10), (2, 16)))


@pytest.mark.parametrize("clean", [False, True])
@pytest.mark.parametrize(
    "garbage", [*(b"Z" * n for n in (11, 17, 18, 40)), *(bytes(n) for n in (17, 18, 100))], ids=repr
)
def test_garbage_at_the_end_is_removed(tmp_path: Path, files: dict[str, bytes], clean: bool, garbage: bytes) -> None:
    """S-W-D7; LD-7, changed for a clean stop, after which Kafka appends behind the garbage."""
    with (tmp_path / name(18, "log")).open("ab") as file:
        file.write(garbage)
    log = reopen(tmp_path, clean=clean, recovery_point=18)
    assert (log.log_end_offset, layout(log)[-1]) == (20, (18, 78))
    assert files_of(tmp_path) == files


def test_a_torn_last_batch_is_removed(tmp_path: Path, files: dict[str, bytes]) -> None:
    """RB-7, SG-8."""
    (tmp_path / name(18, "log")).write_bytes(files[name(18, "log")][:77])
    log = reopen(tmp_path, clean=False, recovery_point=18)
    assert (log.log_end_offset, log.epochs.entries, layout(log)[-1]) == (18, ALL, (18, 0))


@pytest.mark.parametrize("kind", ["index", "timeindex", "digest"])
@pytest.mark.parametrize("base", [0, 6, 18])
@pytest.mark.parametrize("damage", ["missing", "emptied", "cut", "appended", "bit", "stale"])
def test_any_damage_to_an_index_is_repaired(
    tmp_path: Path, files: dict[str, bytes], kind: str, base: int, damage: str
) -> None:
    """S-W-D8; S-W-D9, LD-3, changed: Kafka leaves an empty time index; S-W-D10, IX-13, changed: it ignores surplus."""
    path = tmp_path / name(base, kind)
    before = path.read_bytes()
    match damage:
        case "missing":
            path.unlink()
        case "emptied":
            path.write_bytes(b"")
        case "cut":
            path.write_bytes(before[:-1])
        case "appended":
            path.write_bytes(before + b"abc")
        case "bit" if before:
            flip(path, len(before) - 1, 2)
        case "stale":
            path.write_bytes(before + before[-12:] + bytes(8 if kind == "index" else 12))
    log = reopen(tmp_path, clean=True)
    assert (log.log_end_offset, log.lost_data) == (20, False)
    assert files_of(tmp_path) == files


def test_leftovers_are_removed(tmp_path: Path, files: dict[str, bytes]) -> None:
    """S-W-D11, LD-1, LD-3: an index without its log goes."""
    strays = [name(77, "index"), name(3, "log") + ".deleted", name(6, "log") + ".cleaned", name(12, "log") + ".swap"]
    for stray in strays:
        (tmp_path / stray).write_bytes(b"")
    log = reopen(tmp_path, clean=True)
    assert (log.log_end_offset, files_of(tmp_path)) == (20, files)
    assert not [stray for stray in strays if (tmp_path / stray).exists()]


def test_a_finished_replacement_is_completed(tmp_path: Path, files: dict[str, bytes]) -> None:
    """S-W-D12, LD-2."""
    merged = files[name(0, "log")] + files[name(6, "log")]
    (tmp_path / (name(0, "log") + ".swap")).write_bytes(merged)
    log = reopen(tmp_path, clean=True)
    assert layout(log) == [(0, 468), (12, 234), (18, 78)]
    assert not list(tmp_path.glob(name(6, "*")))
    assert (log.log_end_offset, log.epochs.entries) == (20, ALL)


def test_a_log_start_beyond_the_end_starts_anew(tmp_path: Path, files: dict[str, bytes]) -> None:
    """S-W-D13, LD-8."""
    log = reopen(tmp_path, clean=True, log_start_offset=50)
    assert (layout(log), log.log_start_offset, log.high_watermark, log.epochs.entries) == ([(50, 0)], 50, 50, ())


def test_a_checkpointed_log_start(tmp_path: Path, files: dict[str, bytes]) -> None:
    """S-W-D14, LD-10, LD-11: HW 0 is raised to it."""
    log = reopen(tmp_path, clean=True, log_start_offset=7)
    assert (log.log_start_offset, log.high_watermark, log.epochs.entries) == (7, 7, ((0, 7), (1, 8), (2, 16)))


@pytest.mark.parametrize(
    "content",
    [
        "0\n4\n0 0\n1 8\n2 16\n7 25\n",
        "0\n3\n0 0\n1 6\n2 16\n",
        "0\n3\n0 0\n1 9\n2 16\n",
        "0\n2\n0 0\n2 16\n",
        "0\n2\n0 0\n1 8\n",
        "0\n2\n1 8\n2 16\n",
        "0\n1\n9 3\n",
        "0\n3\n0 0\n",
        "garbage",
        "",
        None,
    ],
)
@pytest.mark.parametrize(("clean", "recovery_point"), [(True, 0), (False, 0), (False, 12)])
def test_a_damaged_or_lost_epoch_file_is_rebuilt_from_the_batches(
    tmp_path: Path, files: dict[str, bytes], content: str | None, clean: bool, recovery_point: int
) -> None:
    """S-W-D16, LD-10; S-W-D17, LD-13, changed: Kafka rebuilds only what it recovers."""
    path = tmp_path / "leader-epoch-checkpoint"
    if content is None:
        path.unlink()
    else:
        path.write_text(content)
    log = reopen(tmp_path, clean=clean, recovery_point=recovery_point)
    assert log.epochs.entries == ALL
    assert path.read_text() == "0\n3\n0 0\n1 8\n2 16\n"


@pytest.mark.parametrize("log_start", [0, 42])
def test_an_empty_directory(tmp_path: Path, log_start: int) -> None:
    """S-W-D18, LD-8."""
    log = open_log(tmp_path / "new", log_start_offset=log_start)
    assert (layout(log), log.log_start_offset, log.log_end_offset) == ([(log_start, 0)], log_start, log_start)


@pytest.mark.parametrize("clean", [True, False])
def test_a_missing_segment_ends_the_log(tmp_path: Path, files: dict[str, bytes], clean: bool) -> None:
    """LD-6. A hole is never served; what lies beyond is set aside and fetched again."""
    (tmp_path / name(12, "log")).unlink()
    log = reopen(tmp_path, clean=clean)
    assert (layout(log), log.log_end_offset, log.lost_data) == (FULL[:2], 12, True)
    log.append_as_follower(files[name(12, "log")] + files[name(18, "log")])
    assert files_of(tmp_path) == files


def test_the_checkpointed_high_watermark_is_clamped(tmp_path: Path, files: dict[str, bytes]) -> None:
    """LD-11."""
    for checkpoint, expected in ((0, 0), (14, 14), (99, 20)):
        log = reopen(tmp_path, clean=True, high_watermark=checkpoint)
        assert log.high_watermark == expected
        log.close()


def test_progress_names_what_was_repaired(tmp_path: Path, files: dict[str, bytes]) -> None:
    flip(tmp_path / name(18, "log"), 70)
    lines: list[str] = []
    reopen(tmp_path, clean=False, recovery_point=18, on_progress=lines.append)
    assert any("recovering" in line and name(18, "log") in line for line in lines), lines
    assert any("78 bytes after offset 17 were unsound" in line for line in lines), lines


def test_a_partial_copy_of_every_length_recovers_to_whole_batches(tmp_path: Path) -> None:
    """RB-7, SG-8, SG-15."""
    data = b"".join(leader_batch(2 * i, i // 3, b"a", b"b") for i in range(6))
    for length in range(0, len(data), 5):
        directory = tmp_path / str(length)
        directory.mkdir()
        (directory / name(0, "log")).write_bytes(data[:length])
        log = open_log(directory, clean=False)
        assert log.log_end_offset == 2 * (length // 77)
        assert append(log, client_batch(b"z"), epoch=5).log_end_offset == 2 * (length // 77) + 1


@pytest.mark.parametrize("clean", [True, False])
def test_a_segment_whose_name_lies_is_not_served(tmp_path: Path, files: dict[str, bytes], clean: bool) -> None:
    """Offsets 12 to 17 under the name of 11: neither the hole before nor the segments after can be served."""
    for kind in ("log", "index", "timeindex", "digest"):
        (tmp_path / name(12, kind)).rename(tmp_path / name(11, kind))
    log = reopen(tmp_path, clean=clean)
    assert (log.log_end_offset, log.lost_data) == (12, True)


def test_an_index_of_another_interval_is_rebuilt(tmp_path: Path, files: dict[str, bytes]) -> None:
    """The indexes are a function of the bytes and of `index.interval.bytes` as it is now."""
    reopen(tmp_path, clean=True).close()
    log = open_log(tmp_path, segment_bytes=300, index_interval_bytes=10)
    fresh = fixture_t(tmp_path / "fresh", index_interval_bytes=10)
    assert files_of(tmp_path) == files_of(tmp_path / "fresh")
    assert log.log_end_offset == fresh.log_end_offset


def test_a_lost_index_costs_no_data(tmp_path: Path, files: dict[str, bytes]) -> None:
    """LD-3, changed: rot in the payload is for audits to find, so rebuilding may not cut there."""
    (tmp_path / name(6, "index")).unlink()
    flip(tmp_path / name(6, "log"), 78 + 70)
    log = reopen(tmp_path, clean=True)
    assert (log.log_end_offset, log.lost_data) == (20, False)
    assert files_of(tmp_path)[name(6, "index")] == files[name(6, "index")]


@pytest.mark.parametrize("bits", [1, 0x80])
@pytest.mark.parametrize("position", [0, 3, 4, 7, 12, 15])
def test_an_index_that_lies_in_its_middle_misleads_no_reader(tmp_path: Path, position: int, bits: int) -> None:
    """Loading looks at the ends of an index only; a read checks what the entry leads to."""
    log = append(open_log(tmp_path, index_interval_bytes=100), *[client_batch(b"a", b"b")] * 40)
    log.close()
    flip(tmp_path / name(0, "index"), 40 + position, bits)
    again = open_log(tmp_path, index_interval_bytes=100)
    for offset in range(80):
        data = again.read(offset, 1, Isolation.LOG_END, min_one_message=True)
        assert int.from_bytes(data.records[:8], "big") == offset // 2 * 2, offset
