"""Writes the report of an audit: the findings, the summary, and the page for people, which is made here."""

import base64
import hashlib
import json
import shlex
from collections import Counter, defaultdict
from datetime import UTC, datetime
from importlib.resources import files
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from replog.command.output import bytes_text
from replog.log.files.opening import write_atomically
from replog.topic import TopicPartition
from spark_jobs.audit import overview
from spark_jobs.audit.audit import Audit
from spark_jobs.audit.findings import CONSISTENT, DIVERGED, INCONCLUSIVE, MEANINGS, notes_of_cleaned
from spark_jobs.audit.overview import is_fault, states
from spark_jobs.audit.pictures import Lane, Mark, Plot, plots
from spark_jobs.audit.results import LISTED, counts, summary, write_findings
from spark_jobs.audit.text import many, name_of, number, printable
from spark_jobs.replicas.faults import UNREADABLE

DRAWN = 24  # diverged partitions with a plot
BOUNDS_LISTED = 1000  # replicas whose offsets the page lists; the summary has all
EVIDENCE_LISTED = 20  # pieces of evidence of one finding
NOTES_LISTED = 100  # lines about partitions that were cleaned, or taken over from a saved audit

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
    style, script = (_source(environment, name) for name in ("report.css", "report.js"))
    style = Markup((files("replog.command") / "page.css").read_text()) + style
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
        diverged=[_divergence(result, key) for key in diverged[:DRAWN]],
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
        style=style,
        script=script,
        policy=f"default-src 'none'; style-src {_digest(style)}; script-src {_digest(script)}; "
        "base-uri 'none'; form-action 'none'",
    )


def initials(kind: str) -> str:
    """Return the initials of a class, as in `COMMITTED_LOSS` → `CL`."""
    return "".join(word[:1] for word in kind.split("_"))


def family(kind: str) -> str:
    """Return the colour group of a class: data, lie (of an index or checkpoint), or unread."""
    return "unread" if kind == UNREADABLE else "lie" if kind.endswith("_LIE") else "data"


def _source(environment: Environment, name: str) -> Markup:
    assert environment.loader is not None
    return Markup(environment.loader.get_source(environment, name)[0])


def _digest(source: str) -> str:
    """Return the name that a Content-Security-Policy has for an inline style or script."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(source.encode()).digest()).decode()}'"


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


# -- plots


def _divergence(result: Audit, key: TopicPartition) -> list[Plot]:
    findings = [(n, f) for n, f in enumerate(result.findings, 1) if f.key == key]
    logs = {r.replica: r for r in result.replicas if r.key == key and r.readable}
    lanes = []
    for replica in sorted({*logs, *(n for _, finding in findings for n in finding.replicas)}):
        marks = tuple(
            Mark(n, f.kind, f.first, f.last, f.wrong in (None, replica))
            for n, f in findings
            if f.first is not None and f.last is not None and replica in f.replicas
        )
        lanes.append(Lane(replica, logs.get(replica), result.epochs.get((*key, replica), ()), marks))
    return plots(name_of(*key), lanes)
