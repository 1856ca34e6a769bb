"""What a person at a terminal sees of an audit: stages while it runs, a table when it is done. All on stderr."""

from rich.console import Console as RichConsole
from rich.markup import escape
from rich.status import Status
from rich.table import Table

from spark_jobs.audit.audit import Audit
from spark_jobs.audit.findings import CONSISTENT, DIVERGED, Finding
from spark_jobs.audit.overview import STATES, name_of, states
from spark_jobs.audit.text import bytes_text

_COLOURS = {"ok": "green", "lagging": "yellow", "fault": "bold red", "unreadable": "magenta"}
MAX_ROWS = 50


class Console:
    """Stages are shown only on a terminal; the table always."""

    def __init__(self) -> None:
        self._console = RichConsole(stderr=True)
        self._status: Status | None = None

    def stage(self, text: str) -> None:
        """Say what is going on now."""
        if not self._console.is_terminal:
            return
        if self._status is None:
            self._status = self._console.status(text)
            self._status.start()
        self._status.update(f"{text} …")

    def stop(self) -> None:
        if self._status is not None:
            self._status.stop()
            self._status = None

    def table(self, result: Audit) -> None:
        """The replicas, then the findings."""
        replicas = Table(title=f"replicas ({result.level} level)", title_justify="left")
        for column in ("partition", "replica", "state", "log start", "high watermark", "log end", "size"):
            replicas.add_column(column, justify="left" if column in ("partition", "state") else "right")
        standing, left = states(result), 0
        rows = [(r, standing[r.topic, r.partition, r.replica]) for r in result.replicas]
        if len(rows) > MAX_ROWS:
            rows.sort(key=lambda row: STATES.index(row[1]))
            rows, left = rows[:MAX_ROWS], len(rows) - MAX_ROWS
        rows.sort(key=lambda row: (row[0].topic, row[0].partition, row[0].replica))
        for replica, how in rows:
            mark = "-" if replica.high_watermark is None else str(replica.high_watermark)
            replicas.add_row(
                escape(name_of(replica.topic, replica.partition)),
                str(replica.replica),
                f"[{_COLOURS[how]}]{how}[/]",
                str(replica.log_start),
                mark,
                str(replica.log_end),
                bytes_text(replica.size),
            )
        self._console.print(replicas)
        if left:
            self._console.print(f"and {left} more, none of which is worse")
        told = [] if result.taken is None else result.taken.told()
        for line in told[:MAX_ROWS]:
            self._console.print(line, markup=False, highlight=False)
        if len(told) > MAX_ROWS:
            self._console.print(f"and {len(told) - MAX_ROWS} more partitions: see the report")
        for number, finding in enumerate(result.findings[:MAX_ROWS], 1):
            self._finding(number, finding)
        if len(result.findings) > MAX_ROWS:
            self._console.print(f"and {len(result.findings) - MAX_ROWS} more findings: see the report")
        colour = {CONSISTENT: "green", DIVERGED: "red"}.get(result.verdict, "magenta")
        self._console.print(f"{result.compared} partitions compared, {len(result.findings)} findings", style=colour)

    def _finding(self, number: int, finding: Finding) -> None:
        offsets = "" if finding.first is None else f" offsets {finding.first} to {finding.last}"
        print_ = self._console.print
        name = escape(name_of(finding.topic, finding.partition))
        print_(f"{number}. [bold red]{finding.kind}[/] {name}{offsets}", highlight=False)
        wrong = "undetermined" if finding.wrong is None else f"replica {finding.wrong}"
        print_(f"  most likely wrong: {wrong}: {finding.why}", markup=False, highlight=False)
        for evidence in finding.evidence:
            place = "" if evidence.position is None else f" at {evidence.position}"
            print_(f"  {evidence.file}{place}: {evidence.seen}", markup=False, highlight=False)
        print_(f"  remedy: {finding.remedy}", markup=False, highlight=False)
