"""Writes the report of an audit: the findings, the summary, and the page for people, which is made here."""

import base64
import hashlib
import json
import shlex
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from operator import attrgetter
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from replog.command.output import bytes_text
from replog.log.files.replacing import write_atomically
from replog.topic import TopicPartition
from spark_jobs.audit import overview, pictures
from spark_jobs.audit.audit import Audit
from spark_jobs.audit.findings import CONSISTENT, DIVERGED, INCONCLUSIVE, MEANINGS, AuditFinding, told_of_cleaned
from spark_jobs.audit.lineage import EpochHistory, Lineage, lineage
from spark_jobs.audit.overview import ABSENT, is_fault, states
from spark_jobs.audit.results import LISTED, counts, summary, write_findings
from spark_jobs.audit.text import many, name_of, number, printable
from spark_jobs.replicas.describe import Replica

DRAWN = 24  # diverged partitions with a plot and a lineage
LAGS_DRAWN = 12  # partitions in the lag plot
BOUNDS_LISTED = 1000  # replicas whose offsets the page lists; the summary has all
EVIDENCE_LISTED = 20  # pieces of evidence of one finding
TAKEN_LISTED = 100  # partitions that were taken over from a saved audit
LINKED = 12  # findings named next to a plot

SEEN_BY = {
    "digest": "Compared the digests that brokers wrote as they indexed.",
    "index": "Compared all indexes, and the headers of the batches that they point at.",
    "batches": "Read the header of every batch, and all indexes.",
    "deep": "Read every byte and recomputed every checksum; compared records where replicas were compacted.",
}
_place = attrgetter("place")
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
    environment.filters.update(n=number, bytes=bytes_text, family=pictures.family, initials=pictures.initials)
    style, script = (_source(environment, name) for name in ("report.css", "report.js"))
    diverged = list(dict.fromkeys(f.key for f in result.findings if is_fault(f) and f.partition >= 0))
    lagging = _lagging(result)
    bounds = _bounds(result)
    taken = [] if result.taken is None else result.taken.told()
    cleaned = told_of_cleaned(result.level, result.replicas)
    return environment.get_template("report.html.j2").render(
        result=result,
        symbol=SYMBOLS[result.verdict],
        told=_told(result),
        steps=_steps(result),
        made=None if made is None else f"{made.astimezone(UTC):%Y-%m-%d %H:%M} UTC",
        map=overview.overview(result, LISTED),
        map_symbols=overview.SYMBOLS,
        map_meanings=overview.MEANING,
        absent=ABSENT,
        lagging=lagging,
        lag_picture=pictures.lag_plot([(name_of(*key), lags) for key, lags in lagging[:LAGS_DRAWN]]),
        diverged=[_divergence(result, key) for key in diverged[:DRAWN]],
        diverged_count=len(diverged),
        drawn=DRAWN,
        lags_drawn=LAGS_DRAWN,
        linked=LINKED,
        counts=counts(result),
        meanings=MEANINGS,
        findings=list(enumerate(result.findings[:LISTED], 1)),
        topics=sorted({finding.topic for finding in result.findings[:LISTED]}),
        evidence_listed=EVIDENCE_LISTED,
        explain=f"replog audit explain --report-dir {shlex.quote(str(report_dir))}",
        name_of=name_of,
        sizes={n: sum(r.size for r in result.replicas if r.replica == n) for n in sorted(result.directories)},
        bounds=bounds[:BOUNDS_LISTED],
        bounds_left=len(bounds) - BOUNDS_LISTED,
        servers=result.where if isinstance(result.where, str) else "",
        cleaned=cleaned[:TAKEN_LISTED],
        cleaned_left=len(cleaned) - TAKEN_LISTED,
        taken=taken[:TAKEN_LISTED],
        taken_left=len(taken) - TAKEN_LISTED,
        seen_by=SEEN_BY,
        style=style,
        script=script,
        policy=f"default-src 'none'; style-src {_digest(style)}; script-src {_digest(script)}; "
        "base-uri 'none'; form-action 'none'",
    )


def _source(environment: Environment, name: str) -> Markup:
    assert environment.loader is not None
    return Markup(environment.loader.get_source(environment, name)[0])


def _digest(source: str) -> str:
    """Return the name that a Content-Security-Policy has for an inline style or script."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(source.encode()).digest()).decode()}'"


# -- the verdict and the next steps


def _told(result: Audit) -> str:
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


def _lagging(result: Audit) -> list[tuple[TopicPartition, list[pictures.Lag]]]:
    """Return partitions in which a log end or a high watermark is behind, the furthest behind first."""
    held: dict[TopicPartition, list[Replica]] = defaultdict(list)
    for replica in sorted(result.replicas, key=_place):
        if replica.readable and replica.partition >= 0:
            held[replica.key].append(replica)
    behind = []
    for key, replicas in held.items():
        end = max(replica.log_end for replica in replicas)
        lags = [
            pictures.Lag(r.replica, end - r.log_end, None if r.high_watermark is None else max(0, end - r.mark))
            for r in replicas
        ]
        if any(lag.behind or lag.mark_behind for lag in lags):
            behind.append((key, lags))
    return sorted(behind, key=lambda item: (-max(lag.behind for lag in item[1]), item[0]))


@dataclass(frozen=True)
class Divergence:
    """A diverged partition: its plots, its epochs, and the numbers of its findings."""

    name: str
    plot: Markup
    close_up: Markup | None
    lineage: Lineage
    findings: list[tuple[int, AuditFinding]]


def _divergence(result: Audit, key: TopicPartition) -> Divergence:
    findings = [(n, f) for n, f in enumerate(result.findings, 1) if f.key == key]
    described = {r.replica: r for r in result.replicas if r.key == key and r.readable}
    lanes = [
        _lane(n, described.get(n), result.epochs.get((*key, n), ()), findings)
        for n in sorted({*described, *(r for _, f in findings for r in f.replicas)})
    ]
    window = pictures.close_up(lanes)
    histories = [
        EpochHistory(r.replica, r.log_start, r.log_end, r.mark, result.epochs.get((*key, r.replica)))
        for r in sorted(described.values(), key=_place)
    ]
    return Divergence(
        name_of(*key),
        pictures.divergence_plot(name_of(*key), lanes),
        None if window is None else pictures.divergence_plot(name_of(*key), lanes, window),
        lineage(histories),
        findings,
    )


def _lane(
    replica_id: int,
    replica: Replica | None,
    epochs: tuple[tuple[int, int], ...],
    findings: Sequence[tuple[int, AuditFinding]],
) -> pictures.Lane:
    marks = tuple(
        pictures.Mark(n, f.kind, f.first, f.last, f.wrong in (None, replica_id), n <= LISTED)
        for n, f in findings
        if f.first is not None and f.last is not None and replica_id in f.replicas
    )
    if replica is None:
        return pictures.Lane(replica_id, 0, 0, None, (), marks, held=False)
    bounds = (replica.log_start, replica.log_end, replica.high_watermark)
    return pictures.Lane(replica_id, *bounds, epochs, marks)


def _bounds(result: Audit) -> list[tuple[Replica, str]]:
    """Return every replica with its state, those first that are not ok."""
    standing = states(result)
    rows = [(replica, standing[replica.place]) for replica in result.replicas]
    return sorted(rows, key=lambda row: (overview.STATES.index(row[1]), row[0].place))
