"""The report of an audit: for machines the findings (Parquet) and the summary (JSON), for people the page."""

import base64
import hashlib
import io
import json
import shlex
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from importlib.resources import files
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from replog.command.output import bytes_text
from replog.log.files.opening import write_atomically
from replog.topic import TopicPartition
from spark_jobs.audit import overview
from spark_jobs.audit.audit import Audit
from spark_jobs.audit.findings import (
    CONSISTENT,
    DIVERGED,
    EXIT_CODES,
    INCONCLUSIVE,
    MEANINGS,
    AuditFinding,
    notes_of_cleaned,
)
from spark_jobs.audit.overview import divergence, is_fault, states
from spark_jobs.audit.text import many, name_of, number, printable
from spark_jobs.replicas.faults import UNREADABLE

LISTED = 1000  # findings in summary and page; the Parquet table has all that were collected
DRAWN = 24  # diverged partitions with a plot
BOUNDS_LISTED = 1000  # replicas whose offsets the page lists; the summary has all
EVIDENCE_LISTED = 20  # pieces of evidence of one finding
NOTES_LISTED = 100  # lines about partitions that were cleaned, or taken over from a saved audit

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
_CALLED = {"kind": "class", "first": "first_offset", "last": "last_offset", "wrong": "wrong_replica"}
SEEN_BY = {
    "digest": "Compared the digests that brokers wrote as they indexed.",
    "index": "Compared all indexes, and the headers of the batches that they point at.",
    "batches": "Read the header of every batch, and all indexes.",
    "deep": "Read every byte and recomputed every checksum; compared records where replicas were compacted.",
}
SYMBOLS = {CONSISTENT: "✓", DIVERGED: "≠", INCONCLUSIVE: "?"}


def write_report(result: Audit, directory: Path) -> None:
    """Write table, summary and page, each durably and atomically. Raises OSError."""
    page = html_report(result, directory, datetime.now(UTC)).encode()
    write_findings(result.findings, directory / "findings.parquet")
    write_atomically(directory / "summary.json", (json.dumps(summary(result), indent=2) + "\n").encode())
    write_atomically(directory / "report.html", page)


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
    """Return the result as plain values, with the first 1,000 findings. At `where` the replicas can be read again."""
    standing, directories = states(result), {str(n): list(map(str, places)) for n, places in result.directories.items()}
    return {
        "verdict": result.verdict,
        "exit_code": EXIT_CODES[result.verdict],
        "level": result.level,
        "where": {"bootstrap_servers": result.where} if isinstance(result.where, str) else {"directories": directories},
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


def counts(result: Audit) -> dict[str, int]:
    """Count findings by class."""
    return dict(sorted(Counter(finding.kind for finding in result.findings).items()))


# -- the page


def html_report(result: Audit, report_dir: Path = Path("DIR"), made: datetime | None = None) -> str:
    """Return a self-contained page; `report_dir` is shown in its command for `audit explain`.

    Its size is bounded: the page counts what it leaves out, and says where to find it.
    """
    environment = Environment(
        loader=PackageLoader("spark_jobs.audit"),
        autoescape=True,
        finalize=lambda value: printable(value) if type(value) is str else value,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(n=number, bytes=bytes_text, family=family, initials=initials)
    pages = files("replog.command") / "page.css", files("spark_jobs.audit") / "templates" / "report.css"
    style = "".join(page.read_text() for page in pages)
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    diverged = list(dict.fromkeys(f.key for f in result.findings if is_fault(f) and f.partition >= 0))
    standing = states(result)
    bounds = sorted(result.replicas, key=lambda r: (overview.STATES.index(standing[r.place]), r.place))
    ends: dict[TopicPartition, int] = defaultdict(int)
    for replica in result.replicas:
        ends[replica.key] = max(ends[replica.key], replica.log_end)
    return environment.get_template("report.html.j2").render(
        result=result,
        symbol=SYMBOLS[result.verdict],
        means=_means(result),
        steps=_steps(result),
        made=None if made is None else f"{made.astimezone(UTC):%Y-%m-%d %H:%M} UTC",
        map=overview.overview(result, LISTED),
        map_symbols=overview.SYMBOLS,
        map_meanings=overview.MEANING,
        diverged=[divergence(result, key) for key in diverged[:DRAWN]],
        diverged_count=len(diverged),
        counts=counts(result),
        meanings=MEANINGS,
        findings=list(enumerate(result.findings[:LISTED], 1)),
        evidence_listed=EVIDENCE_LISTED,
        explain=f"replog audit explain --report-dir {shlex.quote(str(report_dir))}",
        name_of=name_of,
        sizes={n: sum(r.size for r in result.replicas if r.replica == n) for n in sorted(result.directories)},
        bounds=bounds[:BOUNDS_LISTED],
        states=standing,
        ends=ends,
        notes={
            "Of compacted topics": notes_of_cleaned(result.level, result.replicas),
            "This audit went on from a saved one": [] if result.taken is None else result.taken.notes(),
        },
        notes_listed=NOTES_LISTED,
        seen_by=SEEN_BY,
        style=Markup(style),
        policy=f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'",
    )


def initials(kind: str) -> str:
    """Return the initials of a class, as in `COMMITTED_LOSS` → `CL`."""
    return "".join(word[:1] for word in kind.split("_"))


def family(kind: str) -> str:
    """Return the colour group of a class: data, lie (of an index or checkpoint), or unread."""
    return "unread" if kind == UNREADABLE else "lie" if kind.endswith("_LIE") else "data"


# -- the verdict and the next steps


def _means(result: Audit) -> str:
    if result.verdict == CONSISTENT:
        return "All committed offsets that replicas share are equal, and every file that was read tells the truth."
    if result.verdict == INCONCLUSIVE:
        return "Nothing wrong was seen, but not everything could be read or compared, so nothing is certain."
    faults = [finding for finding in result.findings if is_fault(finding)]
    where = len({finding.key for finding in faults})
    return (
        f"Replicas that must be equal are not, or a file contradicts itself: {many(len(faults), 'fault')} "
        f"in {many(where, 'partition')}."
    )


def _steps(result: Audit) -> list[str]:
    again = f"Audit again at level {result.level}: exit code 0 says that all is well."
    unread = [finding for finding in result.findings if not is_fault(finding)]
    if result.verdict == CONSISTENT:
        if result.level == "deep":
            return ["Nothing: every byte was read."]
        return [f"Nothing now. The {result.level} level does not read every byte: audit at level deep now and then."]
    if result.verdict == INCONCLUSIVE:
        steps = []
        if unread:
            steps.append(f"See the {many(len(unread), 'finding')}: what could not be read or known, and the remedy.")
        if not result.compared:
            steps.append(
                "No partition is held by two of the replicas given, or has something that this level compares: give "
                "those of the other brokers too, or audit at level deep."
            )
        return [*steps, again]
    blamed = Counter(finding.wrong for finding in result.findings if is_fault(finding))
    named = ", ".join(
        f"replica {replica} ({many(count, 'finding')})"
        for replica, count in blamed.most_common()
        if replica is not None
    )
    steps = []
    if named:
        steps.append(f"Most likely wrong: {named}. Do not elect these replicas in the partitions concerned.")
    if undecided := blamed[None]:
        steps.append(f"Of {many(undecided, 'finding')} nothing tells which replica is right: keep every copy.")
    steps.append("Follow the remedies of the findings, one broker at a time; audit explain shows the bytes first.")
    if unread:
        steps.append(f"{many(len(unread), 'finding')} could not be settled for want of something readable.")
    return [*steps, again]
