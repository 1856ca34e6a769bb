"""The benchmark of the audit runs, small; its replicas are what it says, and its targets are judged by its figures."""

import json
from pathlib import Path

import pytest

from benchmarks.audit import CORES, DUMP, LEVELS, MIN_GIB, OPENSSL, SHA256SUM, Figure, targets
from benchmarks.audit_logs import REPLICAS, Replicas
from benchmarks.storage import KIB
from replog.log.formats.checkpoint import HIGH_WATERMARK_CHECKPOINT, OffsetCheckpoint
from replog.topic import TopicPartition
from spark_jobs.replicas.describe import describe
from spark_jobs.replicas.directories import DirectoryStore


def contents(directory: Path) -> dict[str, bytes]:
    return {str(path.relative_to(directory)): path.read_bytes() for path in directory.rglob("*") if path.is_file()}


def test_replicas_grow_and_stay_the_same(tmp_path):
    replicas = Replicas(tmp_path, 16 * KIB)
    first_log = b""
    for size in (200 * KIB, 400 * KIB):
        replicas.grow(size)
        assert 0 <= replicas.log_bytes - len(REPLICAS) * size <= len(REPLICAS) * 16 * KIB
        one, *others = (contents(directory) for directory in replicas.directories.values())
        assert all(other == one for other in others)
        assert replicas.first_log().read_bytes().startswith(first_log)
        first_log = replicas.first_log().read_bytes()
        (files,) = DirectoryStore(1, replicas.directories[1]).partitions(frozenset())
        described = describe(files)
        assert described.fault is None, described
        assert described.high_watermark == described.log_end > 0
    marks = OffsetCheckpoint(tmp_path / "3" / HIGH_WATERMARK_CHECKPOINT).read()
    assert marks == {TopicPartition("benchmark", 0): described.log_end}


def figure(name: str, seconds: float, read: int, *, cores: int = CORES[0], gib: float = 1.0) -> Figure:
    share, rate = read / 3000, read / 1e6 / seconds
    shown = {"name": name, "seconds": seconds, "bytes_read": read, "share_of_log": share, "mb_per_second": rate}
    return {**shown, "cores": cores, "gib": gib}


def test_targets_are_met_or_missed_by_the_figures():
    compared = [figure(SHA256SUM, 8, 3000, cores=cores) for cores in CORES]
    compared += [figure("deep", 2 / cores, 3000, cores=cores) for cores in CORES]
    compared += [figure(DUMP, 3, 1000, cores=1), figure("digest", 1, 1), figure("index", 1, 40)]
    grown = [figure("deep", 2, 3000), figure("deep", 4, 6000, gib=2), figure("digest", 1, 1)]
    grown += [figure("digest", 1, 1, gib=2)]
    for level in ("index", "batches"):
        grown += [figure(level, 1, 10), figure(level, 3, 20, gib=2)]
    judged = {target["what"]: target for target in targets(compared, grown)}
    assert len(judged) == len(CORES) + 8
    missed = [what.split()[0] for what, target in judged.items() if not target["met"]]
    assert missed == ["deep", "index:", "deep", "index:", "batches:"], json.dumps(judged, indent=2)
    assert judged[f"deep / {DUMP}, bytes a second of one core"]["found"] == pytest.approx(4.5)
    assert judged["deep / digest, seconds, at 2 GiB"]["found"] == 4
    assert judged["index: bytes read of the log's, %"]["found"] == pytest.approx(40 / 30)
    assert judged["deep: seconds / bytes read, 2 GiB to 1"]["found"] == 1


@pytest.mark.spark
def test_every_figure_comes_out_of_a_small_run(run_benchmark, tmp_path):
    options = ("--rounds", 1, "--gib", MIN_GIB, "--sizes", MIN_GIB, "--directory", tmp_path)
    report, _ = run_benchmark("audit", *options, timeout_s=900)
    names = {(figure["name"], figure["cores"]) for figure in report["compared"]}
    expected = {(name, cores) for name in (*LEVELS, SHA256SUM) for cores in CORES}
    optional = {(name, cores) for name in (OPENSSL, DUMP) for cores in CORES}
    assert expected <= names <= expected | optional, report
    assert (report["no_kafka"] is None) == ((DUMP, 1) in names), report
    assert [(figure["name"], figure["gib"]) for figure in report["grown"]] == [(level, MIN_GIB) for level in LEVELS]
    shares = {figure["name"]: figure["share_of_log"] for figure in report["grown"]}
    assert shares["digest"] < shares["index"] < 0.01 < 1 < shares["deep"], shares
