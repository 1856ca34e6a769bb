"""The benchmark of whole logs runs, small, and its replicas are what it says."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.logs import AUDITED_BATCH, HASHES, KIB, LEVELS, replicas
from replog.log.formats.checkpoint import HIGH_WATERMARK_CHECKPOINT, OffsetCheckpoint
from replog.topic import TopicPartition
from spark_jobs.replicas.describe import describe
from spark_jobs.replicas.directories import DirectoryStore


def run(directory: Path, what: str, *options: object) -> dict[str, dict[str, float]]:
    """Run the benchmark in a process of its own, once; return its figures."""
    figures = directory / "figures.json"
    command = [sys.executable, "-m", "benchmarks.logs", what, "--rounds", "1", "--directory", str(directory)]
    done = subprocess.run(
        [*command, "--json", str(figures), *map(str, options)], capture_output=True, text=True, timeout=900, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return {name: its for name, its in json.loads(figures.read_text()).items() if name != "environment"}


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
def test_the_storage_engine_is_measured_beside_reads_of_the_same_bytes(tmp_path):
    figures = run(tmp_path, "storage", "--mib", 8)
    assert len(figures) == 8
    for name, its in figures.items():
        assert its["seconds"] > 0, name
        assert its["bytes_read"] == figures[name.removesuffix(", read alone")]["bytes_read"] > 7_000_000, name
    assert {path.name for path in tmp_path.iterdir()} == {"figures.json"}


@pytest.mark.spark
def test_every_level_of_an_audit_is_measured_beside_other_programs(tmp_path):
    read = {name: its["bytes_read"] for name, its in run(tmp_path, "audit", "--mib", 64, "--cold").items()}
    assert {*LEVELS, "sha256sum"} <= read.keys() <= {*LEVELS, *HASHES}, read
    assert read["digest"] < read["index"] < 0.01 * read["sha256sum"] < 192 << 20 < read["deep"], read
