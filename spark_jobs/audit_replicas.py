"""`python -m spark_jobs.audit_replicas`: do the replicas agree? If not: where first, who is wrong, what to do."""

import argparse
import importlib.util
import itertools
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from replog.errors import ReplogError
from replog.topic import parse_directory_name, validate_topic_name
from spark_jobs.audit.findings import LEVELS
from spark_jobs.audit.since import BadSaved, Saved, read_saved

BAD_USE = 2
SAVED = "verified.json"  # in a report directory
UNKNOWN = 3  # as INCONCLUSIVE

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
  digest   Reads the digest indexes, and of those no more than the last entry of each segment unless replicas disagree;
           headers only where replicas share no entry, and where they disagree, to name the first offset and the class.
           Sees losses, and other batches or leader epochs, as the brokers indexed them when they wrote them. Does not
           see what changed behind the indexes. Needs digest indexes: Apache Kafka has none (INCONCLUSIVE).
  index    Reads all indexes, and the headers of the batches that their entries point at. Compares bytes and digest
           between any two offsets that two replicas have indexed; where they differ, or anything is wrong, it reads
           every header there, as level batches does.
           Sees what digest sees, by size without digest indexes too, and indexes and epoch checkpoints that say what is
           not so of what is indexed.
  batches  Reads the header of every batch and all indexes, and payload only of a batch that does not fit.
           Sees what index sees, and headers that changed behind the indexes.
  deep     Reads every byte and recomputes every CRC-32C. Sees everything: bit rot in payload too.

verdicts and exit codes
  CONSISTENT    0  all committed offsets that replicas share are equal, and every file that was read tells the truth
  DIVERGED      1  at least one finding: COMMITTED_LOSS, VALUE_MISMATCH, EPOCH_MISMATCH, BIT_ROT, INDEX_LIE,
                   EPOCH_CACHE_LIE or GAP; each says where, which replica is most likely wrong and why, and the remedy
  INCONCLUSIVE  3  nothing wrong was seen, but something could not be read or changed each time that it was read, there
                   was nothing to compare, or the audit itself failed
  bad use       2  (also: no Java 17 or later for Spark)

not faults
  Lag and uncommitted tails (above the high watermarks that the replicas have saved), different log starts
  (retention), different segment boundaries. Compacted topics hold holes by design and are not supported yet. What
  Kafka's quorum keeps in __cluster_metadata is left out: no high watermark of it is on any disk.

examples
  python -m spark_jobs.audit_replicas --replica 1=/data/1 --replica 2=/data/2 --replica 3=/data/3
  python -m spark_jobs.audit_replicas --replica 1=/mnt/a --replica 2=/mnt/b --topic orders --level deep \\
      --report-dir /tmp/audit --format json
  python -m spark_jobs.audit_replicas --bootstrap-server localhost:9092 --level digest
"""


def parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m spark_jobs.audit_replicas",
        description=DESCRIPTION,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
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


def add_where(parser: argparse.ArgumentParser) -> None:
    """The options that say which replicas are compared, how deep, and on which Spark."""
    where = parser.add_mutually_exclusive_group(required=True)
    where.add_argument(
        "--replica",
        action="append",
        metavar="ID=DIR[,DIR…]",
        help="a replica: the broker's id and its log directories; give two or more",
    )
    where.add_argument(
        "--bootstrap-server", metavar="HOST:PORT[,…]", help="a running cluster, by one or more of its brokers"
    )
    parser.add_argument(
        "--topic", action="append", default=[], metavar="TOPIC", help="audit this topic only; may be repeated"
    )
    parser.add_argument("--level", choices=LEVELS, default="index", help="how deep to look (default: index)")
    parser.add_argument(
        "--master",
        metavar="URL",
        help="Spark master to run on (default: what spark-submit was told, else local[*], all cores of this machine)",
    )


class BadUse(Exception):
    """Arguments that make no sense; the message names the argument, its value and the remedy."""


def parse_replicas(arguments: Sequence[str]) -> dict[int, tuple[Path, ...]]:
    """`ID=DIR,DIR` pairs as a mapping, each checked to be a log directory that can be listed."""
    directories: dict[int, tuple[Path, ...]] = {}
    seen: set[Path] = set()
    for argument in arguments:
        name, equals, listed = argument.partition("=")
        if not equals or not (name.isascii() and name.isdigit()) or int(name) > 2**31 - 1 or "" in listed.split(","):
            raise BadUse(f"--replica {argument}: not ID=DIR, such as 1=/var/lib/replog/1")
        if int(name) in directories:
            raise BadUse(
                f"--replica {argument}: replica {int(name)} is given twice; give each broker's directories once, "
                "separated by commas"
            )
        paths = tuple(Path(directory).absolute() for directory in listed.split(","))
        for path in paths:
            if path in seen:
                raise BadUse(
                    f"--replica {argument}: this directory is given twice; a replica always agrees with itself"
                )
            if not path.is_dir():
                raise BadUse(f"--replica {argument}: {path} is not a directory; give the broker's log directory")
            seen.add(path)
        directories[int(name)] = paths
    if len(directories) < 2:
        raise BadUse("one --replica has nothing to be compared with; give two or more")
    return directories


def check_names(topics: Sequence[str]) -> None:
    """Raise BadUse for a topic that cannot be."""
    for topic in topics:
        try:
            validate_topic_name(topic)
        except ReplogError as error:
            raise BadUse(f"--topic: {error.message}") from None


def check_topics(directories: dict[int, tuple[Path, ...]], topics: Sequence[str]) -> None:
    """Raise BadUse for a topic that no replica has, or if there is no partition at all."""
    held: set[str] = set()
    for directory in itertools.chain.from_iterable(directories.values()):
        try:
            names = os.listdir(directory)
        except OSError:
            return  # the audit will report it
        for name in names:
            try:
                held.add(parse_directory_name(name).topic)
            except ValueError:
                continue
    for topic in topics:
        if topic not in held:
            raise BadUse(f"--topic {topic}: no replica has a partition of it (they have: {_shown(held)})")
    if not held:
        raise BadUse("no --replica holds a <topic>-<partition> directory; give the brokers' log directories")


def _shown(names: set[str]) -> str:
    listed = sorted(names)
    return ", ".join(listed[:10]) + (f" and {len(listed) - 10} more" if len(listed) > 10 else "") or "none"


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; returns its exit code."""
    arguments = parser().parse_args(argv)
    try:
        where = where_of(arguments)
        since = None if arguments.since is None else _read_saved(arguments.since)
        if arguments.save is not None and not os.access(arguments.save.absolute().parent, os.W_OK):
            raise BadUse(f"--save {arguments.save}: {arguments.save.absolute().parent} cannot be written")
        if arguments.report_dir is not None:
            arguments.report_dir.mkdir(parents=True, exist_ok=True)
            if not os.access(arguments.report_dir, os.W_OK):
                raise BadUse(f"--report-dir {arguments.report_dir}: cannot be written")
        if missing := missing_packages():
            raise BadUse(missing)
    except (BadUse, OSError) as error:
        return _fail(BAD_USE, str(error))
    return _audit(arguments, where, since)


def missing_packages() -> str | None:
    """What an audit lacks to run, with the remedy."""
    missing = [name for name in ("pyspark", "pyarrow", "jinja2") if importlib.util.find_spec(name) is None]
    return f"{', '.join(missing)} missing: pip install 'replog[spark]'" if missing else None


def _read_saved(path: Path) -> Saved:
    try:
        return read_saved(path)
    except FileNotFoundError:
        raise BadUse(f"--since {path}: no such file; the first audit has --save {path} alone") from None
    except BadSaved as error:
        raise BadUse(f"--since: {error}") from None


def where_of(arguments: argparse.Namespace) -> dict[int, tuple[Path, ...]] | str:
    """The replicas' directories, or the bootstrap servers."""
    check_names(arguments.topic)
    if arguments.replica:
        directories = parse_replicas(arguments.replica)
        check_topics(directories, arguments.topic)
        return directories
    servers: str = arguments.bootstrap_server
    for server in servers.split(","):
        host, _, port = server.rpartition(":")
        if not host or not (port.isascii() and port.isdigit()) or not 0 < int(port) < 2**16:
            raise BadUse(f"--bootstrap-server {servers}: {server!r} is not HOST:PORT, such as localhost:9092")
    return servers


def _audit(arguments: argparse.Namespace, where: dict[int, tuple[Path, ...]] | str, since: Saved | None) -> int:
    # Spark and its friends load slowly: only once the arguments are known to be good.
    from py4j.protocol import Py4JError  # type: ignore[import-untyped]
    from pyspark.errors import PySparkException

    from spark_jobs.audit.console import Console
    from spark_jobs.audit.findings import EXIT_CODES
    from spark_jobs.audit.report import summary
    from spark_jobs.audit.run import run
    from spark_jobs.java import NoJava

    console = Console()
    try:
        saves = [arguments.save] if arguments.save is not None else []
        if arguments.report_dir is not None:
            saves.append(arguments.report_dir / SAVED)
        result = run(
            where,
            arguments.topic,
            arguments.level,
            arguments.master,
            arguments.report_dir,
            console.stage,
            since,
            saves,
        )
    except NoJava as error:
        return _fail(BAD_USE, str(error))
    except (PySparkException, Py4JError, OSError) as error:  # never 1, which would say DIVERGED
        return _fail(UNKNOWN, f"the audit itself failed, so nothing is known: {error}")
    finally:
        console.stop()
    if arguments.format == "json":
        print(json.dumps(summary(result), indent=2))
    else:
        console.table(result)
        print(result.verdict)
    return EXIT_CODES[result.verdict]


def _fail(code: int, message: str) -> int:
    print(f"audit_replicas: {message}", file=sys.stderr)
    return code


if __name__ == "__main__":
    sys.exit(main())
