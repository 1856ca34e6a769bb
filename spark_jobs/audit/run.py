"""One audit from start to end: session, comparison, report files."""

import contextlib
import json
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path

from spark_jobs.audit.audit import Audit, Where, audit, write_findings
from spark_jobs.audit.report import html_report, summary
from spark_jobs.audit.since import Saved, write_json
from spark_jobs.session import spark_session


def run(
    where: Where,
    topics: Sequence[str],
    level: str,
    master: str | None,
    report_dir: Path | None,
    stage: Callable[[str], None],
    since: Saved | None = None,
    saves: Sequence[Path] = (),
) -> Audit:
    """Audit the replicas at `where` with a Spark of its own; write the reports if `report_dir` is given, and what
    was verified to each of `saves`."""
    stage("starting Spark")
    spark = spark_session("replog audit", master)
    try:
        result = audit(spark, where, topics, level, stage, since, save=bool(saves))
        if report_dir is not None:
            stage("writing the report")
            write_findings(spark, result, report_dir / "findings.parquet")
            (report_dir / "summary.json").write_text(json.dumps(summary(result), indent=2) + "\n")
            (report_dir / "report.html").write_text(html_report(result, report_dir, datetime.now(UTC)))
        for path in saves:
            if result.saved is not None:
                write_json(path, result.saved.as_json())
    finally:
        stage("stopping Spark")
        with contextlib.suppress(Exception):  # the verdict stands, however Spark goes down
            spark.stop()
    return result
