"""The audit by spark-submit, on a Spark cluster whose machines have replog as the wheel of --py-files only."""

import json
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest

from replog.log.formats.batch import HEADER_SIZE
from spark_jobs.audit.audit import audit
from spark_jobs.audit.report import summary
from tests.spark_jobs.log_directories import Cluster
from tests.spark_jobs.standalone import Standalone, build_wheel, standalone, unpacked

pytestmark = pytest.mark.processes

ENTRY = "spark_jobs/audit_replicas.py"


@pytest.fixture(scope="module")
def spark_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Standalone]:
    with standalone(tmp_path_factory.mktemp("standalone")) as running:
        yield running


def without_measurements(told: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in told.items() if key not in ("seconds", "bytes_read")}


def test_the_wheel_is_all_that_a_spark_cluster_needs_of_us(spark_cluster, spark, tmp_path):
    """Directories that two workers see: the same verdict and findings as on local[2]."""
    wheel = build_wheel(tmp_path / "dist")
    python = spark_cluster.environment["PYSPARK_PYTHON"]
    bare = subprocess.run(
        [python, "-c", "import pyspark, pyarrow, grpc; import replog"],
        cwd=tmp_path, env=dict(spark_cluster.environment), capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert "No module named 'replog'" in bare.stderr, "the workers' interpreter must not know replog by itself"
    asked = subprocess.run(
        [python, "-c", "from spark_jobs.replicas.brokers import broker_stores; broker_stores('127.0.0.1:1')"],
        cwd=tmp_path, env={**spark_cluster.environment, "PYTHONPATH": str(wheel)}, capture_output=True, text=True,
    )  # fmt: skip
    assert "OSError: [Errno 113] no broker answers" in asked.stderr, "the wheel alone must do to ask brokers"
    brokers = Cluster(tmp_path / "brokers")
    for topic in ("sound", "rotten"):
        brokers.add(topic)
    brokers.patch(2, "rotten", 24, HEADER_SIZE + 5, b"\xff")

    given = [*brokers.options(), "--level", "deep", "--format", "json"]
    entry = unpacked(wheel, ENTRY, tmp_path / "audit_replicas.py")
    reports = tmp_path / "reports"
    submitted = spark_cluster.submit(entry, *given, "--report-dir", reports, py_files=wheel)
    assert submitted.returncode == 1, submitted.stderr[-5000:]

    told = json.loads(submitted.stdout)
    (finding,) = told["findings"]
    assert (finding["class"], finding["topic"], finding["wrong_replica"]) == ("BIT_ROT", "rotten", 2), finding
    assert (finding["first_offset"], finding["last_offset"]) == (24, 25), finding
    local = json.loads(json.dumps(summary(audit(spark, brokers.directories, level="deep"))))
    assert without_measurements(told) == without_measurements(local)
    for directory in spark_cluster.workers:
        assert list(directory.rglob(wheel.name)), f"no executor in {directory} was handed the wheel"
    assert json.loads((reports / "summary.json").read_text()) == told
    assert "rotten" in (reports / "report.html").read_text(), "the page's template is in the wheel"
    assert list(reports.glob("findings.parquet/*.parquet")), "the findings must be here, not where a worker runs"
