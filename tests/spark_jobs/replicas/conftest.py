"""What most of these tests look at: one replica of one topic."""

from pathlib import Path

import pytest

from tests.spark_jobs.log_directories import Cluster


@pytest.fixture
def cluster(tmp_path: Path) -> Cluster:
    cluster = Cluster(tmp_path)
    cluster.build(1, "t")
    return cluster
