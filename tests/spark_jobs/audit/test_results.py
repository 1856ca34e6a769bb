"""The files that an audit leaves behind."""

import json
import resource
import signal
from collections.abc import Iterator

import pyarrow.parquet as pq
import pytest

from spark_jobs.audit.report import write_report
from spark_jobs.audit.results import FINDINGS_SCHEMA, finding_record, write_findings
from tests.spark_jobs.audit import samples


@pytest.fixture
def little_room() -> Iterator[None]:
    """Files may not be larger than 50 kB, as on a disk that is about full."""
    before, handler = resource.getrlimit(resource.RLIMIT_FSIZE), signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, before)
    signal.signal(signal.SIGXFSZ, handler)


def test_findings_are_stored_under_the_names_of_the_summary(tmp_path):
    findings = samples.sample().findings
    write_findings(findings, tmp_path / "findings.parquet")
    stored = pq.read_table(tmp_path / "findings.parquet")
    assert stored.schema == FINDINGS_SCHEMA
    assert stored.to_pylist() == [finding_record(finding) for finding in findings]


def test_no_findings_are_an_empty_table(tmp_path):
    write_findings([], tmp_path / "findings.parquet")
    stored = pq.read_table(tmp_path / "findings.parquet")
    assert (stored.num_rows, stored.schema) == (0, FINDINGS_SCHEMA)


def test_what_does_not_fit_on_the_disk_replaces_nothing(tmp_path, request):
    write_report(samples.consistent(), tmp_path)
    before = {name: (tmp_path / name).read_text() for name in ("summary.json", "report.html")}
    request.getfixturevalue("little_room")
    with pytest.raises(OSError, match="File too large") as refused:
        write_report(samples.large(2000, 200), tmp_path)
    assert refused.value.errno is not None
    assert {name: (tmp_path / name).read_text() for name in before} == before
    assert json.loads(before["summary.json"])["verdict"] == "CONSISTENT"
    pq.read_table(tmp_path / "findings.parquet" / "findings.parquet")
