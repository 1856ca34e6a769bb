"""The benchmark runs, small, and what it reports adds up."""

import filecmp

import pytest

from benchmarks.raw_pipeline import raw_pipeline

pytestmark = pytest.mark.processes


def test_the_raw_pipeline_replicates_every_byte(tmp_path):
    with raw_pipeline(tmp_path) as pipeline:
        run = pipeline.throughput(message_bytes=100_000, total_bytes=5_000_000, in_flight=7)
        latency = pipeline.latency(message_bytes=1000, per_second=500, seconds=0.2)
    assert run.record_bytes == 5_000_000
    assert latency.records == 100
    assert 0 < latency.p50_ms <= latency.p99_ms <= latency.max_ms
    size = 50 * (8 + 100_000) + 100 * (8 + 1000)
    for name in ("leader", "follower-1", "follower-2"):
        assert (tmp_path / f"{name}.log").stat().st_size == size
        assert filecmp.cmp(tmp_path / "leader.log", tmp_path / f"{name}.log", shallow=False)


def test_the_benchmark_reports_both_pipelines(run_benchmark):
    report, _ = run_benchmark("produce", "--runs", 1, "--mebibytes", 8, "--rate", 200, "--seconds", 0.5)
    for side in ("raw", "replog"):
        assert report[side]["mb_per_second"] > 0
        assert report[side]["latency"]["records"] == pytest.approx(100, abs=5), "half a second of them"
    assert report["ratio"] == pytest.approx(report["replog"]["mb_per_second"] / report["raw"]["mb_per_second"])
    assert {"client", "controller", "broker-1"} <= set(report["replog"]["cpu_seconds_per_gb"])
