"""The audit over a topic that Kafka's own cleaner compacted, beside a copy that was cleaned further: by us (CL-10)."""

import shutil
from pathlib import Path

import pytest

from replog.log.formats.checkpoint import CLEANER_CHECKPOINT, HIGH_WATERMARK_CHECKPOINT, OffsetCheckpoint
from replog.topic import TopicPartition
from spark_jobs.audit.audit import audit
from spark_jobs.audit.findings import CONSISTENT
from tests.interop.history import History
from tests.replog.log.batches import open_log
from tests.replog.log.compaction.compacting import clean, records_of

pytestmark = pytest.mark.processes

TP = TopicPartition("compacted", 0)
YEARS = 10**12  # ms: long after every tombstone's time


@pytest.fixture(scope="module")
def replicas(history: History, tmp_path_factory: pytest.TempPathFactory) -> dict[int, Path]:
    """1 as Kafka left it, 2 with all of it cleaned."""
    root = tmp_path_factory.mktemp("replicas")
    directories = {1: root / "1", 2: root / "2"}
    cleaned = OffsetCheckpoint(history.clean / CLEANER_CHECKPOINT).read()[TP]
    for replica, directory in directories.items():
        shutil.copytree(history.clean / "compacted-0", directory / "compacted-0")
        log = open_log(directory / "compacted-0", cleanup_policy="compact", segment_bytes=12_000)
        log.update_high_watermark(log.log_end_offset)
        end = cleaned
        if replica == 2:
            log.roll()
            before = len(records_of(log))
            end = clean(log, YEARS, checkpoint=cleaned)
            assert end > cleaned
            assert len(records_of(log)) < before  # how far Kafka's cleaner got, it decides
        marks = {TP: log.log_end_offset}
        log.close()
        OffsetCheckpoint(directory / CLEANER_CHECKPOINT).write({TP: end})
        OffsetCheckpoint(directory / HIGH_WATERMARK_CHECKPOINT).write(marks)
    return directories


@pytest.mark.parametrize("level", ["index", "batches", "deep"])
def test_replicas_that_were_cleaned_differently_are_consistent(spark, replicas, level):
    result = audit(spark, replicas, level=level)
    ends = {replica.replica: replica.cleaned_to for replica in result.replicas}
    assert 0 < ends[1] < ends[2]
    assert result.findings == []
    if level == "deep":  # of the others, nothing is left to compare
        assert result.verdict == CONSISTENT
