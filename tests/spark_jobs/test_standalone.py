"""The audit by spark-submit, on a Spark cluster whose machines have replog as the wheel of --py-files only."""

import asyncio
import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from replog.client import Admin, Producer
from replog.local_cluster.local_cluster import LocalCluster
from replog.log.formats.batch import HEADER_SIZE, iterate_batches
from spark_jobs.audit.audit import audit
from spark_jobs.audit.results import summary
from tests.spark_jobs.standalone import Standalone, build_wheel, standalone, unpacked

pytestmark = pytest.mark.processes

ENTRY = "spark_jobs/audit_replicas.py"
PARTITIONS = 2
RECORDS = 400  # in each partition
SETTINGS = {"segment.bytes": "20000", "index.interval.bytes": "1000"}


@pytest.fixture(scope="module")
def spark_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Standalone]:
    with standalone(tmp_path_factory.mktemp("standalone")) as running:
        yield running


@pytest.fixture(scope="module")
def replog_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    with LocalCluster(tmp_path_factory.mktemp("replog"), brokers=3) as cluster:
        asyncio.run(_fill(cluster.bootstrap))
        yield cluster


async def _fill(bootstrap: str) -> None:
    async with Admin(bootstrap) as admin:
        for topic in ("sound", "rotten"):
            await admin.create_topic(topic, partitions=PARTITIONS, replication_factor=3, configs=SETTINGS)
    async with Producer(bootstrap, batch_size=2000) as producer:
        for topic in ("sound", "rotten"):
            for number in range(RECORDS):
                for partition in range(PARTITIONS):
                    await producer.send(topic, b"%d of %s, " % (number, topic.encode()) * 10, partition=partition)


def rot(directory: Path) -> tuple[int, int]:
    """Change a byte in the middle of the first segment; base and last offset of its batch."""
    log = min(directory.glob("*.log"))
    batches = list(iterate_batches(log.read_bytes()))
    position, header = batches[len(batches) // 2]
    with log.open("r+b") as file:
        file.seek(position + HEADER_SIZE + 5)
        file.write(b"\xff")
    return header.base_offset, header.last_offset


def without_measurements(told: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in told.items() if key not in ("seconds", "bytes_read")}


def test_the_wheel_is_all_that_a_spark_cluster_needs_of_us(spark_cluster, replog_cluster, spark, tmp_path):
    """A running replog cluster, read over Inspection by two workers: the same verdict and findings as on local[2]."""
    wheel = build_wheel(tmp_path / "dist")
    python = spark_cluster.environment["PYSPARK_PYTHON"]
    bare = subprocess.run(
        [python, "-c", "import pyspark, pyarrow, grpc; import replog"],
        cwd=tmp_path, env=dict(spark_cluster.environment), capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert "No module named 'replog'" in bare.stderr, "the workers' interpreter must not know replog by itself"
    first, last = rot(replog_cluster.directory / "broker-2" / "data" / "rotten-1")

    given = ["--bootstrap-server", replog_cluster.bootstrap, "--level", "deep", "--format", "json"]
    entry = unpacked(wheel, ENTRY, tmp_path / "audit_replicas.py")
    reports = tmp_path / "reports"
    submitted = spark_cluster.submit(entry, *given, "--report-dir", reports, py_files=wheel)
    assert submitted.returncode == 1, submitted.stderr[-5000:]

    told = json.loads(submitted.stdout)
    (finding,) = told["findings"]
    assert (finding["class"], finding["topic"], finding["partition"]) == ("BIT_ROT", "rotten", 1), finding
    assert (finding["wrong_replica"], finding["first_offset"], finding["last_offset"]) == (2, first, last), finding
    local = json.loads(json.dumps(summary(audit(spark, replog_cluster.bootstrap, level="deep"))))
    assert without_measurements(told) == without_measurements(local)
    for directory in spark_cluster.workers:
        assert list(directory.rglob(wheel.name)), f"no executor in {directory} was handed the wheel"
    assert json.loads((reports / "summary.json").read_text()) == told
    assert "rotten" in (reports / "report.html").read_text(), "the page's template is in the wheel"
    assert list(reports.glob("findings.parquet/*.parquet")), "the findings must be here, not where a worker runs"
