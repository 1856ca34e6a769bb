"""The benchmark of the audit runs, small, and its replicas are what it says."""

from pathlib import Path

import pytest

from benchmarks.audit import BATCH_BYTES, HASHES, KIB, LEVELS, MIN_GIB, REPLICAS, Replicas
from replog.log.formats.checkpoint import HIGH_WATERMARK_CHECKPOINT, OffsetCheckpoint
from replog.topic import TopicPartition
from spark_jobs.replicas.describe import describe
from spark_jobs.replicas.directories import DirectoryStore


def contents(directory: Path) -> dict[str, bytes]:
    return {str(path.relative_to(directory)): path.read_bytes() for path in directory.rglob("*") if path.is_file()}


def test_replicas_are_whole_and_the_same(tmp_path):
    replicas = Replicas(tmp_path, 200 * KIB)
    assert 0 <= replicas.log_bytes - len(REPLICAS) * 200 * KIB <= len(REPLICAS) * BATCH_BYTES
    one, *others = (contents(directory) for directory in replicas.directories.values())
    assert all(other == one for other in others)
    (files,) = DirectoryStore(1, replicas.directories[1]).partitions(frozenset())
    described = describe(files)
    assert described.fault is None, described
    assert described.high_watermark == described.log_end > 0
    marks = OffsetCheckpoint(tmp_path / "3" / HIGH_WATERMARK_CHECKPOINT).read()
    assert marks == {TopicPartition("benchmark", 0): described.log_end}


@pytest.mark.spark
def test_every_figure_comes_out_of_a_small_run(run_benchmark, tmp_path):
    report, _ = run_benchmark("audit", "--rounds", 1, "--gib", MIN_GIB, "--directory", tmp_path, timeout_s=900)
    figures = report["figures"]
    assert {*LEVELS, "sha256sum"} <= figures.keys() <= {*LEVELS, *HASHES}, report
    shares = {name: figure["bytes_read"] / report["log_bytes"] for name, figure in figures.items()}
    assert shares["digest"] < shares["index"] < 0.01 < 1 < shares["deep"], shares
