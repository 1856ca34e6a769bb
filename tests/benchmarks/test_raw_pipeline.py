"""The pipeline that replog is measured beside does the same: what is acknowledged is in three files."""

import filecmp

import pytest

from benchmarks.raw_pipeline import raw_pipeline

pytestmark = pytest.mark.processes


def test_the_raw_pipeline_replicates_every_byte(tmp_path):
    with raw_pipeline(tmp_path) as pipeline:
        seconds = pipeline.produce(message_bytes=100_000, messages=50, in_flight=7)
        waits = pipeline.pace(message_bytes=1000, messages=100, per_second=500)
    assert seconds > 0
    assert len(waits) == 100
    assert min(waits) > 0
    size = 50 * (8 + 100_000) + 100 * (8 + 1000)
    for name in ("leader", "follower-1", "follower-2"):
        assert (tmp_path / f"{name}.log").stat().st_size == size
        assert filecmp.cmp(tmp_path / "leader.log", tmp_path / f"{name}.log", shallow=False)
