"""Replicas of compacted topics: holes that a cleaning explains, and what is left of the records (CL-5 to CL-10)."""

from dataclasses import replace
from pathlib import Path

import pytest

from replog.log.formats.batch import iterate_batches
from replog.log.formats.checkpoint import CLEANER_CHECKPOINT, HIGH_WATERMARK_CHECKPOINT, OffsetCheckpoint
from replog.log.formats.control_batch import EndTransactionMarker, build_end_transaction_marker
from replog.log.offsets import AppendOrigin
from replog.topic import TopicPartition
from spark_jobs.replicas.blocks import Cells, check_blocks
from spark_jobs.replicas.cleaned import ABORTED, BEYOND, TOMBSTONE, CleanedRecord, cleaned_records
from spark_jobs.replicas.describe import describe
from spark_jobs.replicas.digests import digest_points
from spark_jobs.replicas.directories import DirectoryStore
from spark_jobs.replicas.faults import FileFault
from spark_jobs.replicas.files import PartitionFiles
from spark_jobs.replicas.index_check import index_blocks, index_points
from spark_jobs.replicas.segment_check import check_segment
from tests.audit.replica_files import cut_out
from tests.damage.vocabulary import index_entries, set_index_entry
from tests.replog.log.compaction.compacting import T, clean, compacted, keyed

TP = TopicPartition("t", 0)
MIDDLE, END = 90, 120


def replica(root: Path, *, cleaned: int | None = MIDDLE) -> PartitionFiles:
    """One that was cleaned up to there, or never."""
    log = compacted(root / "t-0", segment_bytes=600, index_interval_bytes=100, delete_retention_ms=1000)
    for number in range(END // 3):
        if number * 3 == cleaned:
            log.update_high_watermark(log.log_end_offset)
            log.roll()
            assert clean(log, T) == cleaned == log.swapped_to
        keys = [f"key-{(number * step) % 11}" for step in (1, 2)]
        value = None if number % 7 == 0 else b"v%d" % number
        batch = keyed(
            *keys,
            f"key-{number % 5 if number % 2 else number}",
            value=value,
            time=T + number,
            codec=(0, 1, 2, 3, 4)[number % 5],
        )
        log.append_as_leader(batch, leader_epoch=number // 10, now_ms=0)
    log.update_high_watermark(END)
    log.close()
    OffsetCheckpoint(root / HIGH_WATERMARK_CHECKPOINT).write({TP: END})
    OffsetCheckpoint(root / CLEANER_CHECKPOINT).write({} if cleaned is None else {TP: cleaned})
    return listed(root)


def listed(root: Path) -> PartitionFiles:
    (files,) = DirectoryStore(1, root).partitions(frozenset())
    return files


def cells(files: PartitionFiles) -> Cells:
    return Cells(8, (0, MIDDLE, END), END, cleaned_to=files.cleaned_to)


def faults(files: PartitionFiles) -> list[FileFault]:
    """What every kind of check says."""
    items: list[object] = []
    for segment in files.segments:
        items += check_segment(segment, 0, crc=True)
        items += check_blocks(segment, 0, cells(files), crc=True)
        items += check_blocks(segment, 0, cells(files), crc=False)
        items += index_points(segment, 0, [MIDDLE])
        items += index_blocks(segment, 0, cells(files))
        items += digest_points(segment, [MIDDLE], entries=True)
    return [item for item in items if isinstance(item, FileFault)]


def records(files: PartitionFiles) -> dict[int, CleanedRecord]:
    by_offset: dict[int, CleanedRecord] = {}
    for segment in files.segments:
        for item in cleaned_records(segment, 0):
            assert isinstance(item, CleanedRecord), item
            by_offset[item.base_offset] = item
    return by_offset


def test_what_compaction_took_out_is_no_fault(tmp_path):
    """CL-8, CL-10: whole batches are gone, within segments and at their borders."""
    files = replica(tmp_path)
    assert describe(files).cleaned_to == MIDDLE
    assert 20 < len(records(files)) < 70
    assert faults(files) == []


def test_without_the_checkpoint_the_same_holes_are_faults(tmp_path):
    replica(tmp_path)
    OffsetCheckpoint(tmp_path / CLEANER_CHECKPOINT).write({})
    files = listed(tmp_path)
    assert describe(files).cleaned_to == 0
    assert {fault.fault for fault in faults(files)} == {"GAP"}


@pytest.mark.parametrize(("offset", "first"), [(MIDDLE + 3, MIDDLE + 3), (MIDDLE, MIDDLE)])
def test_a_hole_above_what_was_cleaned_is_one(tmp_path, offset, first):
    replica(tmp_path)
    cut_out(tmp_path / "t-0", offset)
    gaps = {(fault.first, fault.last) for fault in faults(listed(tmp_path)) if fault.fault == "GAP"}
    assert gaps == {(first, offset + 2)}


def test_a_hole_that_begins_below_is_told_from_where_compaction_ends(tmp_path):
    replica(tmp_path)
    log = max(path for path in (tmp_path / "t-0").glob("*.log") if int(path.stem) < MIDDLE).read_bytes()
    cut_out(tmp_path / "t-0", max(header.base_offset for _, header in iterate_batches(log)))
    cut_out(tmp_path / "t-0", MIDDLE)
    gaps = {(fault.first, fault.last) for fault in faults(listed(tmp_path)) if fault.fault == "GAP"}
    assert gaps == {(MIDDLE, MIDDLE + 2)}


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
def test_an_index_may_name_the_last_record_that_was_kept(tmp_path, suffix):
    """Kafka's cleaner does, of the last batch of each of its writes (section 11); above, it is a lie."""
    judged = []
    for segment in replica(tmp_path).segments[:-1]:
        path = tmp_path / "t-0" / f"{segment.base:020}{suffix}"
        if not path.stat().st_size:
            continue
        if suffix == ".index":
            path.with_suffix(".digest").unlink()  # beside each entry of ours is a digest
        one, other = index_entries(path)[0]
        set_index_entry(path, 0, (one - 1, other) if suffix == ".index" else (one, other - 1))
        judged.append(segment.base < MIDDLE)
        classes = {fault.fault for fault in faults(listed(tmp_path))} - {"NO_DIGESTS"}
        assert classes == (set() if judged[-1] else {"INDEX_LIE"})
        if not judged[-1]:
            break
    assert set(judged) == {True, False}


def test_records_are_the_same_before_and_after_a_cleaning(tmp_path):
    """CL-6, CL-7: whatever became of their batches, delete horizons too."""
    one = records(replica(tmp_path / "1"))
    files = replica(tmp_path / "2", cleaned=None)
    other = records(replace(files, segments=tuple(replace(s, cleaned_to=MIDDLE) for s in files.segments)))
    assert one.keys() < other.keys()
    assert max(one) == max(other) == MIDDLE + 2
    assert {offset: record.position for offset, record in one.items()} != {o: other[o].position for o in one}
    for offset, record in one.items():
        assert record == other[offset]._replace(position=record.position)
        assert bool(record.flags & BEYOND) == (offset >= MIDDLE)
        assert bool(record.flags & TOMBSTONE) == (offset // 3 % 7 == 0)


def test_records_of_transactions_name_their_producer_and_its_end(tmp_path):
    log = compacted(tmp_path / "t-0")
    fields = {"transactional": 1, "producer_id": 9, "producer_epoch": 0, "base_sequence": 0}
    log.append_as_leader(keyed("a", "b", **fields), leader_epoch=0, now_ms=0)
    marker = EndTransactionMarker(committed=False, coordinator_epoch=0)
    end = build_end_transaction_marker(marker, producer_id=9, producer_epoch=0, timestamp=T)
    log.append_as_leader(end, leader_epoch=0, now_ms=0, origin=AppendOrigin.COORDINATOR)
    log.close()
    files = listed(tmp_path)
    by_offset = records(replace(files, segments=tuple(replace(s, cleaned_to=3) for s in files.segments)))
    assert [(r.producer, r.flags, r.key is None) for r in by_offset.values()] == [
        (9, 0, False),
        (9, 0, False),
        (9, ABORTED, True),
    ]
