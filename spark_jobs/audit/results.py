"""The results of an audit for machines: the summary (JSON) and the findings (Parquet)."""

import io
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from replog.log.files.opening import write_atomically
from spark_jobs.audit.audit import Audit
from spark_jobs.audit.findings import EXIT_CODES, AuditFinding, notes_of_cleaned
from spark_jobs.audit.overview import states

_CALLED = {"kind": "class", "first": "first_offset", "last": "last_offset", "wrong": "wrong_replica"}
LISTED = 1000  # findings in summary and page; the Parquet table has all that were collected

_OF_REPLICA = ("replica", "topic", "partition", "log_start", "high_watermark", "log_end", "size", "segments")
_INTS = pa.list_(pa.int32())
_SEEN = {"replica": pa.int32(), "file": pa.string(), "position": pa.int64(), "epoch": pa.int32(), "seen": pa.string()}
FINDINGS_SCHEMA = pa.schema(
    {
        "class": pa.string(),
        "topic": pa.string(),
        "partition": pa.int32(),
        "replicas": _INTS,
        "first_offset": pa.int64(),
        "last_offset": pa.int64(),
        "epochs": _INTS,
        "batches": pa.int64(),
        "wrong_replica": pa.int32(),
        "why": pa.string(),
        "remedy": pa.string(),
        "evidence": pa.list_(pa.struct(_SEEN)),
    }
)


def write_findings(findings: Sequence[AuditFinding], directory: Path) -> None:
    """Write the findings as a Parquet table of one file, which may be empty. Raises OSError."""
    table = pa.Table.from_pylist([finding_record(finding) for finding in findings], FINDINGS_SCHEMA)
    content = io.BytesIO()
    pq.write_table(table, content)
    directory.mkdir(exist_ok=True)
    write_atomically(directory / "findings.parquet", content.getvalue())


def finding_record(finding: AuditFinding) -> dict[str, Any]:
    """Return a finding under the names that reports use."""
    values = asdict(finding) | {"epochs": finding.epochs}
    return {_CALLED.get(name, name): list(of) if isinstance(of, tuple) else of for name, of in values.items()}


def summary(result: Audit) -> dict[str, Any]:
    """Return the result as plain values, with the first 1,000 findings."""
    standing = states(result)
    return {
        "verdict": result.verdict,
        "exit_code": EXIT_CODES[result.verdict],
        "level": result.level,
        "where": _where(result),
        "partitions_compared": result.compared,
        "since": None if result.taken is None else result.taken.notes(),
        "cleaned": notes_of_cleaned(result.level, result.replicas),
        "not_looked_at": result.not_looked_at,
        "complete": result.complete and len(result.findings) <= LISTED,
        "classes": counts(result),
        "replicas": [
            {name: getattr(replica, name) for name in _OF_REPLICA}
            | {"state": standing[replica.place], "cleaned_to": replica.cleaned_to or None}
            for replica in sorted(result.replicas, key=lambda replica: replica.place)
        ],
        "findings": [finding_record(finding) for finding in result.findings[:LISTED]],
        "seconds": result.seconds,
        "bytes_read": result.bytes_read,
    }


def _where(result: Audit) -> dict[str, Any]:
    """Return the place of the replicas, with which they can be read again."""
    if isinstance(result.where, str):
        return {"bootstrap_servers": result.where}
    return {"directories": {str(replica): list(map(str, places)) for replica, places in result.directories.items()}}


def counts(result: Audit) -> dict[str, int]:
    """Count findings by class."""
    return dict(sorted(Counter(finding.kind for finding in result.findings).items()))
