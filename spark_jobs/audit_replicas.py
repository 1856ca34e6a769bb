"""`replog audit run`: do the replicas agree? If not: where first, who is wrong, what to do.

Also `python -m spark_jobs.audit_replicas`, and what `spark-submit` is given.
"""

import argparse
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING

from replog.command.ending import BadUse, tell
from replog.command.packages import SPARK, require
from spark_jobs.audit.since import BadSaved, Saved, read_saved
from spark_jobs.command_line import (
    UNKNOWN,
    Where,
    add_where,
    audit_failed,
    check_cluster,
    command_parser,
    ending,
    where_of,
    with_spark,
)

if TYPE_CHECKING:
    from spark_jobs.audit.console import Console

NAME = "replog audit run"
SAVED = "verified.json"  # in a report directory

DESCRIPTION = """\
Compare the replicas of a replicated log and say whether they agree.

Either each --replica is a broker's log.dirs, of replog or of Apache Kafka (record format v2): the directory, or
directories, that hold <topic>-<partition>/, replication-offset-checkpoint and meta.properties. Or --bootstrap-server
names a running replog cluster, whose brokers are asked. Nothing is ever written to a replica, and no broker need stop:
replicas are compared up to the smallest high watermark that was known before anything was read, and a partition that
retention, truncation or an election changes meanwhile is read again. With a Spark master other than local, every Spark
worker must see the directories under the same paths, or reach the brokers."""

EPILOG = """\
levels, each with what it reads and what it sees
  digest   Reads the digest indexes, and of those no more than the last entry
           of each segment unless replicas disagree; headers only where
           replicas share no entry, and where they disagree, to name the first
           offset and the class. Sees losses, and other batches or leader
           epochs, as the brokers indexed them when they wrote them. Does not
           see what changed behind the indexes. Needs digest indexes: Apache
           Kafka has none (INCONCLUSIVE).
  index    Reads all indexes, and the headers of the batches that their
           entries point at. Compares bytes and digest between any two offsets
           that two replicas have indexed; where they differ, or anything is
           wrong, it reads every header there, as level batches does. Sees
           what digest sees, by size without digest indexes too, and indexes
           and epoch checkpoints that say what is not so of what is indexed.
  batches  Reads the header of every batch and all indexes, and payload only
           of a batch that does not fit. Sees what index sees, and headers
           that changed behind the indexes.
  deep     Reads every byte and recomputes every CRC-32C. Sees what batches
           sees, and bit rot in payload. The only level that compares what
           compaction has left, record by record, and that looks at the
           transaction indexes and producer snapshots in log directories:
           both are made again from the batches. Running brokers do not show
           them.

verdicts and exit codes
  CONSISTENT    0  All committed offsets that replicas share are equal, and
                   every file that was read tells the truth.
  DIVERGED      1  At least one finding: COMMITTED_LOSS, VALUE_MISMATCH,
                   EPOCH_MISMATCH, BIT_ROT, INDEX_LIE, EPOCH_CACHE_LIE, GAP
                   or OTHER_TOPIC. Each says where, which replica is most
                   likely wrong and why, and the remedy.
  INCONCLUSIVE  3  Nothing wrong was seen, but something could not be read or
                   changed each time that it was read, there was nothing to
                   compare, or the audit itself failed; also CONSISTENT, if a
                   report that was asked for could not be written.
  bad use       2  also: no Java 17 or later for Spark
  interrupted   130

not faults
  Lag and uncommitted tails (above the high watermarks that the replicas have
  saved), different log starts (retention), different segment boundaries.
  What compaction took out, below the greatest offset that a replica of the
  partition was cleaned to (cleaner-offset-checkpoint); above it everything is
  compared as always. What Kafka's quorum keeps in __cluster_metadata is left
  out: no high watermark of it is on any disk.

examples
  replog audit run --replica 1=/data/1 --replica 2=/data/2 --replica 3=/data/3
  replog audit run --replica 1=/mnt/a --replica 2=/mnt/b --topic orders \\
      --level deep --report-dir /tmp/audit --format json
  replog audit run --bootstrap-server localhost:9092 --level digest
"""


def parser() -> argparse.ArgumentParser:
    parser = command_parser(NAME, DESCRIPTION, EPILOG)
    add_where(parser)
    parser.add_argument(
        "--report-dir",
        type=Path,
        metavar="DIR",
        help=f"write findings.parquet, summary.json, report.html and {SAVED} into this directory, which is created if "
        "missing",
    )
    parser.add_argument(
        "--since",
        type=Path,
        metavar="FILE",
        help=f"a saved audit (of --save, or {SAVED} of a report): compare only what is new since then, and the "
        "whole of a partition whose replicas are not those that were verified",
    )
    parser.add_argument(
        "--save", type=Path, metavar="FILE", help="save up to where replicas were verified, for --since"
    )
    parser.add_argument(
        "--format",
        choices=("table", "json"),
        default="table",
        help="what to print: a table on stderr and the verdict on stdout, or the summary as JSON on stdout",
    )
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; returns its exit code."""
    return ending(NAME, lambda: _run(parser().parse_args(argv)))


def _run(arguments: argparse.Namespace) -> int:
    where = where_of(arguments)
    since = None if arguments.since is None else _read_saved(arguments.since)
    _check_written(arguments, where)
    require(*SPARK)
    if isinstance(where, str):
        try:
            check_cluster(where, arguments.topic)
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


def _check_written(arguments: argparse.Namespace, where: Where) -> None:
    """Raise BadUse for what cannot be written, or must not: before the audit takes its time."""
    report_dir, save = arguments.report_dir, arguments.save
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


def _audit(arguments: argparse.Namespace, where: Where, since: Saved | None, console: "Console", writing: Lock) -> int:
    # Spark and its friends load slowly: only once the arguments are known to be good.
    from py4j.protocol import Py4JError  # type: ignore[import-untyped]
    from pyspark.errors import PySparkException

    from spark_jobs.audit.findings import CONSISTENT, EXIT_CODES
    from spark_jobs.audit.report import write_report
    from spark_jobs.audit.results import summary
    from spark_jobs.audit.run import run
    from spark_jobs.audit.since import write_json
    from spark_jobs.java import NoJava
    from spark_jobs.session import reason

    try:
        save = bool(arguments.save or arguments.report_dir)
        run_on = (where, arguments.topic, arguments.level, arguments.master)
        result = run(*run_on, console.stage, console.watch, since, save=save)
    except NoJava as error:
        raise BadUse(str(error)) from None
    except (PySparkException, Py4JError, OSError) as error:
        raise audit_failed(reason(error)) from None
    finally:
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
        if arguments.format == "json":
            print(json.dumps(summary(result), indent=2))
        else:
            console.table(result, arguments.report_dir if unwritten is None else None)
            print(result.verdict)
        return status if unwritten is None else tell(NAME, unwritten, status)


if __name__ == "__main__":
    sys.exit(main())
