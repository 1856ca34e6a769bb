"""Shows an audit on stderr: its stages while it runs, and tables when it is done."""

import shlex
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from pyspark import StatusTracker
from rich.markup import escape
from rich.progress import Progress, ProgressColumn, SpinnerColumn, Task, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from replog.command.output import bytes_text
from replog.command.terminal import TerminalWriter, table_of
from spark_jobs.audit.audit import Audit
from spark_jobs.audit.findings import CONSISTENT, DIVERGED, notes_of_cleaned
from spark_jobs.audit.overview import OK, STATES, states
from spark_jobs.audit.report import finding_record
from spark_jobs.audit.text import many, name_of, print_finding, printable
from spark_jobs.replicas.describe import Replica

_COLOURS = {"ok": "green", "lagging": "yellow", "fault": "bold red", "unreadable": "magenta"}
_COLUMNS = ("partition", "replica", "state", "log start", "high watermark", "log end", "size")
_NUMBERS = ("replica", "log start", "high watermark", "log end", "size", "cleaned to")
_FEWER = ("partition", "replica", "state", "high watermark", "log end")  # the columns on a narrow terminal
MAX_ROWS = 50


class Tasks(ProgressColumn):
    """Shows how many of Spark's present tasks are done. It is empty while Spark does not run."""

    max_refresh = 0.5  # seconds
    tracker: StatusTracker | None = None

    def render(self, task: Task | None = None) -> Text:
        stages = []
        with suppress(Exception):  # Java may be ending, and the audit must not fail for that
            if self.tracker is not None:
                stages = [self.tracker.getStageInfo(number) for number in self.tracker.getActiveStageIds()]
        known = [stage for stage in stages if stage is not None]  # None: it has ended since it was listed
        done, of = sum(stage.numCompletedTasks for stage in known), sum(stage.numTasks for stage in known)
        return Text(f"{done:,} of {many(of, 'task')}" if of else "")


class Console:
    """An audit's output to stderr: stages and tasks only if it is a terminal, tables always."""

    def __init__(self) -> None:
        self._writer = TerminalWriter(stderr=True)
        self._tasks = Tasks()
        text = TextColumn("{task.description}", markup=False)
        columns = (SpinnerColumn(), text, self._tasks, TimeElapsedColumn())
        self._progress = Progress(*columns, console=self._writer.console, transient=True)
        self._stopped = not self._writer.console.is_terminal

    def stage(self, text: str) -> None:
        if self._stopped:
            return
        self._progress.start()
        for before in self._progress.task_ids:
            self._progress.remove_task(before)
        self._progress.add_task(f"{text} …", total=None)

    def watch(self, tracker: StatusTracker) -> None:
        """Show Spark's tasks from now on."""
        self._tasks.tracker = tracker

    def stop(self) -> None:
        """Show no further stage."""
        self._stopped = True
        if self._progress.live.is_started:
            self._progress.stop()

    def table(self, result: Audit, report_dir: Path | None) -> None:
        """Print the findings, a table of replicas that are not ok, a line for the others, and where to find more."""
        line = self._writer.line
        for number, finding in enumerate(result.findings[:MAX_ROWS], 1):
            line("")
            print_finding(self._writer, finding_record(finding), f"{number}. ")
        if len(result.findings) > MAX_ROWS:
            line(f"\nand {len(result.findings) - MAX_ROWS} more findings: see the report")
        self._replicas(result)
        notes = notes_of_cleaned(result.level, result.replicas)
        notes += [] if result.taken is None else result.taken.notes()
        for text in notes[:MAX_ROWS]:
            line(escape(printable(text)))
        if len(notes) > MAX_ROWS:
            line(f"and {len(notes) - MAX_ROWS} more partitions: see the report")
        colour = {CONSISTENT: "green", DIVERGED: "red"}.get(result.verdict, "magenta")
        compared, findings = many(result.compared, "partition"), many(len(result.findings), "finding")
        line(f"[{colour}]{compared} compared at level {result.level}, {findings}[/]")
        if result.not_looked_at:
            self._writer.paragraph("unread", result.not_looked_at)
        if not result.complete:
            line("there is more to tell than an audit collects: audit again once that is repaired, or fewer topics")
        if report_dir is not None:
            line(f"report: {escape(str(report_dir / 'report.html'))}")
            if result.findings:
                line(f"the bytes: replog audit explain --report-dir {escape(shlex.quote(str(report_dir)))} N")
        elif result.findings:
            line("with --report-dir DIR, replog audit explain shows the bytes")

    def _replicas(self, result: Audit) -> None:
        standing = states(result)
        rows = [(r, standing[r.place]) for r in result.replicas if standing[r.place] != OK]
        rows.sort(key=lambda row: (STATES.index(row[1]), row[0].place))
        well = [replica for replica in result.replicas if standing[replica.place] == OK]
        if rows:
            shown = rows[:MAX_ROWS]
            cleaned = any(replica.cleaned_to for replica, _ in shown)
            table = _table([*_COLUMNS, "cleaned to"] if cleaned else _COLUMNS, shown)
            self._writer.line("")
            self._writer.table(table if self._writer.fits(table) else _table(_FEWER, shown))
        if len(rows) > MAX_ROWS:
            self._writer.line(f"and {many(len(rows) - MAX_ROWS, 'more replica')}, none of which is worse")
        if well:
            partitions = len({replica.key for replica in well})
            size = bytes_text(sum(replica.size for replica in well))
            self._writer.line(
                f"{many(len(well), 'replica')} of {many(partitions, 'partition')}: [{_COLOURS[OK]}]ok[/], {size}"
            )


def _table(columns: Sequence[str], rows: Sequence[tuple[Replica, str]]) -> Table:
    table = table_of(*columns, right=_NUMBERS)
    for replica, how in rows:
        cells = {
            "partition": escape(name_of(replica.topic, replica.partition)),
            "replica": str(replica.replica),
            "state": f"[{_COLOURS[how]}]{how}[/]",
            "log start": str(replica.log_start),
            "high watermark": "-" if replica.high_watermark is None else str(replica.high_watermark),
            "log end": str(replica.log_end),
            "size": bytes_text(replica.size),
            "cleaned to": str(replica.cleaned_to or "-"),
        }
        table.add_row(*(cells[column] for column in columns))
    return table
