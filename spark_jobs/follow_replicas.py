"""`replog audit follow` audits round after round, and reports each divergence in the round that finds it."""

import contextlib
import json
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from threading import Lock
from types import SimpleNamespace
from typing import TYPE_CHECKING, Annotated

import typer

from replog.command.app import App
from replog.command.ending import SPARK, BadUse, require
from replog.command.output import Format, note
from replog.config.properties import MAX_INT
from spark_jobs.audit.findings import EXIT_CODES, not_looked_at
from spark_jobs.audit.since import BadSaved
from spark_jobs.audit.text import blamed, many, name_of, printable
from spark_jobs.command_line import (
    AuditLevel,
    Master,
    Replicas,
    Server,
    Topics,
    called,
    check_cluster,
    ending,
    own_spark,
    servers_of,
    where_of,
    with_spark,
)

if TYPE_CHECKING:
    from spark_jobs.audit.follow import Round

NAME = "replog audit follow"

app = App(add_completion=False)


@app.command()
def follow(
    checkpoint_dir: Annotated[Path, typer.Option(metavar="DIR", help="What was verified; created if missing.")],
    replica: Replicas = None,
    bootstrap_server: Server = None,
    topic: Topics = None,
    level: AuditLevel = "index",
    master: Master = None,
    interval: Annotated[
        float,
        typer.Option(min=0.1, max=86_400, metavar="SECONDS", help="From the start of a round to that of the next."),
    ] = 10.0,
    report_to: Annotated[
        str | None,
        typer.Option(
            metavar="HOST:PORT,…",
            help="With --replica: the cluster that keeps the verdict; with --bootstrap-server it is that one.",
        ),
    ] = None,
    until_diverged: Annotated[
        bool, typer.Option("--until-diverged", help="End at the first round that is DIVERGED.")
    ] = False,
    max_rounds: Annotated[
        int | None, typer.Option(min=1, max=MAX_INT, metavar="N", help="End after so many rounds.")
    ] = None,
    output: Annotated[
        Format, typer.Option("--format", help="A line a round: for people, or as a JSON object.")
    ] = Format.TABLE,
) -> None:
    """Compare the replicas of a replicated log again and again: each round compares what is new since the last.

    The first round compares everything. What was verified is kept in the checkpoint directory, so that the next run
    goes on where this one ended, however it ended: nothing is verified twice, nothing is skipped. A partition is
    compared as a whole again, and that is reported, if its replicas are no longer those that were verified (truncated,
    replaced, created again). One with a finding is compared from there on until it is repaired; a finding is reported
    once.

    The cluster keeps the verdict, the time and up to where the replicas were equal, where operators look: `replog
    cluster describe`, `replog console` and the controller's metrics. That needs the ACL ClusterAction on the cluster.

    In the checkpoint directory, `verified.json` says up to where the replicas are verified, and `findings/` has every
    reported finding, as a Parquet table with the column `round`.

    Ctrl-C or SIGTERM ends it, with a summary; a second one at once. Exit status: 0 if every round was CONSISTENT, 1 if
    one was DIVERGED, 3 if one was INCONCLUSIVE or there was none, and none was DIVERGED; 2 for bad use; 130 if it was
    interrupted before the first round, or twice.

    Examples:

    * `replog audit follow --bootstrap-server localhost:9092 --checkpoint-dir /var/lib/audit`
    * `replog audit follow --replica 1=/mnt/a --replica 2=/mnt/b --level deep --checkpoint-dir /var/lib/audit
      --until-diverged --format json`"""
    arguments = SimpleNamespace(**locals())
    raise typer.Exit(ending(lambda: _run(arguments)))


def main(argv: Sequence[str] | None = None) -> int:
    return called(app, NAME, argv)


def _run(arguments: SimpleNamespace) -> int:
    where = where_of(arguments.replica, arguments.bootstrap_server, arguments.topic)
    servers = where if isinstance(where, str) else None
    if arguments.report_to is not None:
        servers_of("--report-to", arguments.report_to)
    require(*SPARK)
    _look_into(arguments.checkpoint_dir)
    if servers is not None:
        with contextlib.suppress(OSError):  # if no broker answers, each round says so until one does
            check_cluster(servers, arguments.topic or ())
    from spark_jobs.audit.follow import FINDINGS, Follower, Reporter

    as_json, reports_to = arguments.output is Format.JSON, servers or arguments.report_to
    looks = where, arguments.topic or [], arguments.level, arguments.checkpoint_dir
    ends = arguments.until_diverged, arguments.max_rounds
    report = Reporter(reports_to) if reports_to else lambda _: None
    followers: list[Follower] = []  # one, as soon as rounds begin

    def rounds(writing: Lock) -> int:
        with own_spark(NAME, arguments.master) as spark:
            notify = _print_json if as_json else _print_lines
            followers.append(Follower(spark, *looks, notify, *ends, writing=writing, report=report))
            followers[0].run(arguments.interval)
        return 0

    try:
        with_spark(rounds)
    except KeyboardInterrupt:
        if not followers:
            raise
    (done,) = followers
    if not as_json:
        seen = f", see {arguments.checkpoint_dir / FINDINGS}" if done.reported else ""
        unread = not_looked_at(arguments.level, live=servers is not None)
        unread = f"; not looked at: {unread}" if unread else ""
        print(
            f"{done.verdict}: {many(done.rounds.total(), 'round')}, {many(done.reported, 'new finding')}{seen}{unread}"
        )
    return EXIT_CODES[done.verdict]


def _look_into(directory: Path) -> None:
    """Raise BadUse if no earlier run can have left the checkpoint directory like this."""
    from spark_jobs.audit.follow import read_state

    try:
        state = read_state(directory)
    except BadSaved as error:
        raise BadUse(f"--checkpoint-dir: {error}") from None
    except OSError as error:
        raise BadUse(f"--checkpoint-dir {directory}: {error.strerror}") from None
    if state.round >= 0:
        note(f"going on after round {state.round} of {directory}")


def _print_json(done: "Round") -> None:
    print(json.dumps({"time": datetime.now(UTC).isoformat(timespec="seconds"), **done.as_json()}), flush=True)


def _print_lines(done: "Round") -> None:
    """Print a line for the round, and one for each error, new finding and partition that was compared as a whole."""
    now = datetime.now(UTC).astimezone().strftime("%H:%M:%S")
    findings = many(len(done.new), "new finding") + (f", {done.known} known" if done.known else "")
    lines = [
        f"{now}  round {done.number:<5} {done.verdict:<12}  {done.offsets:>12,} offsets in "
        f"{many(done.partitions, 'partition')}  {findings}  {done.seconds:.1f} s"
    ]
    if done.error is not None:
        lines.append(f"  failed, and left to the next round: {done.error.splitlines()[0]}")
    lines += [f"  {partition}: compared as a whole: {why}" for partition, why in sorted(done.whole.items())]
    for finding in done.new:
        name = name_of(finding.topic, finding.partition)
        offsets = "" if finding.first is None else f" offsets {finding.first} to {finding.last}"
        lines.append(f"  {finding.kind} {name}{offsets}: {blamed(finding.kind, finding.wrong, finding.why)}")
    print(*map(printable, lines), sep="\n", flush=True)


if __name__ == "__main__":
    sys.exit(main())
