"""The benchmark of whole logs runs, small, and its replicas are what it says."""

from pathlib import Path

import pytest

from benchmarks.logs import AUDITED_BATCH, HASHES, KIB, LEVELS, replicas
from replog.log.formats.checkpoint import HIGH_WATERMARK_CHECKPOINT, OffsetCheckpoint
from replog.topic import TopicPartition
from spark_jobs.replicas.describe import describe
from spark_jobs.replicas.directories import DirectoryStore


def contents(directory: Path) -> dict[str, bytes]:
    return {str(path.relative_to(directory)): path.read_bytes() for path in directory.rglob("*") if path.is_file()}


def test_replicas_are_whole_and_the_same(tmp_path):
    directories = replicas(tmp_path, 200 * KIB)
    one, *others = map(contents, directories.values())
    assert all(other == one for other in others)
    assert 0 <= sum(len(one[name]) for name in one if name.endswith(".log")) - 200 * KIB <= AUDITED_BATCH
    (files,) = DirectoryStore(1, directories[1]).partitions(frozenset())
    described = describe(files)
    assert described.fault is None, described
    assert described.high_watermark == described.log_end > 0
    marks = OffsetCheckpoint(tmp_path / "3" / HIGH_WATERMARK_CHECKPOINT).read()
    assert marks == {TopicPartition("benchmark", 0): described.log_end}


@pytest.mark.processes
def test_the_storage_engine_is_measured_beside_reads_of_the_same_bytes(run_benchmark, tmp_path):
    report, _ = run_benchmark("logs", "storage", "--rounds", 1, "--mib", 8, "--directory", tmp_path)
    figures = {name: its for name, its in report.items() if name != "environment"}
    assert len(figures) == 8
    for name, its in figures.items():
        assert its["seconds"] > 0, name
        assert its["bytes_read"] == figures[name.removesuffix(", read alone")]["bytes_read"] > 7_000_000, name
    assert {path.name for path in tmp_path.iterdir()} == {"figures.json"}


@pytest.mark.spark
def test_every_level_of_an_audit_is_measured_beside_other_programs(run_benchmark, tmp_path):
    report, _ = run_benchmark(
        "logs", "audit", "--rounds", 1, "--mib", 64, "--cold", "--directory", tmp_path, timeout_s=900
    )
    read = {name: its["bytes_read"] for name, its in report.items() if name != "environment"}
    assert {*LEVELS, "sha256sum"} <= read.keys() <= {*LEVELS, *HASHES}, report
    assert read["digest"] < read["index"] < 0.01 * read["sha256sum"] < 192 << 20 < read["deep"], report
