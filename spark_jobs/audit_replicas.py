"""`replog audit run`: do the replicas agree? If not: where first, who is wrong, what to do.

It also runs as `python -m spark_jobs.audit_replicas`, and is the program for `spark-submit`."""

import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from threading import Lock
from types import SimpleNamespace
from typing import TYPE_CHECKING, Annotated

import typer

from replog.command.app import App
from replog.command.ending import SPARK, BadUse, require, tell
from replog.command.output import Format
from spark_jobs.audit.since import BadSaved, Saved, read_saved
from spark_jobs.command_line import (
    UNKNOWN,
    AuditLevel,
    Master,
    Replicas,
    Server,
    Topics,
    Where,
    audit_failed,
    called,
    check_cluster,
    ending,
    own_spark,
    where_of,
    with_spark,
)

if TYPE_CHECKING:
    from spark_jobs.audit.console import Console

NAME = "replog audit run"
SAVED = "verified.json"  # the saved audit within a report directory

app = App(add_completion=False)


@app.command()
def audit(
    replica: Replicas = None,
    bootstrap_server: Server = None,
    topic: Topics = None,
    level: AuditLevel = "index",
    master: Master = None,
    report_dir: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help=f"Write findings.parquet, summary.json, report.html and {SAVED} there; it is created if missing.",
        ),
    ] = None,
    since: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help=f"A saved audit (of --save, or {SAVED} of a report): compare only what is new since then, and the "
            "whole of a partition whose replicas are not those that were verified.",
        ),
    ] = None,
    save: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Save up to where replicas were verified, for --since.")
    ] = None,
    output: Annotated[
        Format,
        typer.Option("--format", help="A table on stderr and the verdict on stdout, or the summary as JSON on stdout."),
    ] = Format.TABLE,
) -> None:
    """Compare the replicas of a replicated log and say whether they agree.

    Either each `--replica` is a broker's log.dirs, of replog or of Apache Kafka (record format v2): the directory, or
    directories, that hold topic-partition directories, replication-offset-checkpoint and meta.properties. Or
    `--bootstrap-server` names a running replog cluster, whose brokers are asked. Nothing is ever written to a replica,
    and no broker need stop: replicas are compared up to the smallest high watermark that was known before anything was
    read, and a partition that retention, truncation or an election changes meanwhile is read again. With a Spark master
    other than local, every Spark worker must see the directories under the same paths, or reach the brokers.

    Levels, each with what it reads and what it sees:

    * `digest` reads the digest indexes, and of those no more than the last entry of each segment unless replicas
      disagree; headers only where replicas share no entry, and where they disagree, to name the first offset and the
      class. It sees losses, and other batches or leader epochs, as the brokers indexed them when they wrote them. It
      does not see what changed behind the indexes. Apache Kafka has no digest indexes (INCONCLUSIVE).
    * `index` reads all indexes, and the headers of the batches that their entries point at. It compares bytes and
      digest between any two offsets that two replicas have indexed; where they differ, or anything is wrong, it reads
      every header there, as `batches` does. It sees what `digest` sees, by size without digest indexes too, and indexes
      and epoch checkpoints that say what is not so of what is indexed.
    * `batches` reads the header of every batch and all indexes, and payload only of a batch that does not fit. It sees
      what `index` sees, and headers that changed behind the indexes.
    * `deep` reads every byte and recomputes every CRC-32C. It sees what `batches` sees, and bit rot in payload. Only it
      compares what compaction has left, record by record, and looks at the transaction indexes and producer snapshots
      in log directories: both are made again from the batches. Running brokers do not show them.

    Verdicts and exit statuses:

    * `CONSISTENT`, 0: all committed offsets that replicas share are equal, and every file that was read tells the
      truth.
    * `DIVERGED`, 1: at least one finding: COMMITTED_LOSS, VALUE_MISMATCH, EPOCH_MISMATCH, BIT_ROT, INDEX_LIE,
      EPOCH_CACHE_LIE, GAP or OTHER_TOPIC. Each says where, which replica is most likely wrong and why, and the remedy.
    * `INCONCLUSIVE`, 3: nothing wrong was seen, but something could not be read or changed each time that it was read,
      there was nothing to compare, or the audit itself failed; also CONSISTENT, if a report that was asked for could
      not be written.
    * Bad use, 2: also no Java 17 or later for Spark. Interrupted: 130.

    Not faults: lag and uncommitted tails (above the high watermarks that the replicas have saved), different log starts
    (retention), different segment boundaries. What compaction took out, below the greatest offset that a replica of the
    partition was cleaned to (cleaner-offset-checkpoint); above it everything is compared as always. What Kafka's quorum
    keeps in __cluster_metadata is left out: no high watermark of it is on any disk.

    Examples:

    * `replog audit run --replica 1=/data/1 --replica 2=/data/2 --replica 3=/data/3`
    * `replog audit run --replica 1=/mnt/a --replica 2=/mnt/b --topic orders --level deep --report-dir /tmp/audit`
    * `replog audit run --bootstrap-server localhost:9092 --level digest --format json`"""
    arguments = SimpleNamespace(**locals())
    raise typer.Exit(ending(lambda: _run(arguments)))


def main(argv: Sequence[str] | None = None) -> int:
    return called(app, NAME, argv)


def _run(arguments: SimpleNamespace) -> int:
    where = where_of(arguments.replica, arguments.bootstrap_server, arguments.topic)
    since = None if arguments.since is None else _read_saved(arguments.since)
    _check_written(arguments.report_dir, arguments.save, where)
    require(*SPARK)
    if isinstance(where, str):
        try:
            check_cluster(where, arguments.topic or ())
        except OSError as error:
            raise audit_failed(str(error.strerror)) from None
    from spark_jobs.audit.console import Console

    console = Console()
    try:
        return with_spark(lambda writing: _audit(arguments, where, since, console, writing))
    finally:
        console.stop()


def _read_saved(path: Path) -> Saved:
    try:
        return read_saved(path)
    except FileNotFoundError:
        raise BadUse(f"--since {path}: no such file; the first audit has --save {path} alone") from None
    except OSError as error:
        raise BadUse(f"--since {path}: {error.strerror}; give the file that --save wrote, or {SAVED}") from None
    except BadSaved as error:
        raise BadUse(f"--since: {error}") from None


def _check_written(report_dir: Path | None, save: Path | None, where: Where) -> None:
    """Raise BadUse for a path that cannot be written, or must not be, before the audit takes its time."""
    for option, path in (("--report-dir", report_dir), ("--save", save)):
        replicas = {} if isinstance(where, str) else where
        above = () if path is None else (path.resolve(), *path.resolve().parents)
        for directory in (directory for directories in replicas.values() for directory in directories):
            if directory.resolve() in above:
                raise BadUse(f"{option} {path}: is in {directory}, and nothing is written to a replica")
    if save is not None:
        if save.is_dir():
            raise BadUse(f"--save {save}: is a directory; name a file")
        if not os.access(save.absolute().parent, os.W_OK):
            raise BadUse(f"--save {save}: {save.absolute().parent} is missing or cannot be written")
    if report_dir is not None:
        try:
            report_dir.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise BadUse(f"--report-dir {report_dir}: cannot be created: {error.strerror}") from None
        if not os.access(report_dir, os.W_OK):
            raise BadUse(f"--report-dir {report_dir}: cannot be written")


def _audit(arguments: SimpleNamespace, where: Where, since: Saved | None, console: "Console", writing: Lock) -> int:
    console.stage("starting Spark")
    from spark_jobs.audit.audit import audit as compare
    from spark_jobs.audit.findings import CONSISTENT, EXIT_CODES
    from spark_jobs.audit.report import summary, write_report
    from spark_jobs.audit.since import write_json

    with own_spark("replog audit", arguments.master) as spark:
        console.watch(spark.sparkContext.statusTracker())
        save = bool(arguments.save or arguments.report_dir)
        result = compare(spark, where, arguments.topic or [], arguments.level, console.stage, since, save=save)
        console.stage("stopping Spark")
    console.stop()
    with writing:
        status, unwritten = EXIT_CODES[result.verdict], None
        try:
            if arguments.report_dir is not None:
                write_report(result, arguments.report_dir)
            for path in (arguments.save, None if arguments.report_dir is None else arguments.report_dir / SAVED):
                if path is not None and result.saved is not None:
                    write_json(path, result.saved.as_json())
        except OSError as error:  # the verdict stands
            wanted = " and ".join(str(path) for path in (arguments.report_dir, arguments.save) if path is not None)
            unwritten = f"not all of {wanted} could be written: {error.strerror}"
            status = UNKNOWN if result.verdict == CONSISTENT else status
        if arguments.output is Format.JSON:
            print(json.dumps(summary(result), indent=2))
        else:
            console.table(result, arguments.report_dir if unwritten is None else None)
            print(result.verdict)
        return status if unwritten is None else tell("error", unwritten, status)


if __name__ == "__main__":
    sys.exit(main())
