"""The shared part of the audit's commands: help, the replicas to read, and how they end.

A command ends with the status that it promises. An expected failure is one line on stderr that names the thing, the
value and the remedy, never a traceback."""

import itertools
import os
import signal
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Lock, Thread
from typing import TYPE_CHECKING, Annotated

import typer

from replog.command.ending import BadUse, Failed, run
from replog.command.output import note
from replog.config.properties import MAX_INT, number_in
from replog.errors import ReplogError
from replog.log.directories.identity import META_PROPERTIES, load_identity
from replog.topic import parse_directory_name, validate_topic_name
from spark_jobs.audit.findings import Level

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

UNKNOWN = 3  # the status of INCONCLUSIVE
LOOK_S = 0.2
HUSH_S = 20.0  # the longest wait for Java to fall silent: on a busy machine it takes seconds to listen
BOOTSTRAP = "REPLOG_BOOTSTRAP_SERVER"  # an environment variable

Where = dict[int, tuple[Path, ...]] | str
"""Replica id → its log directories; or the bootstrap servers of a running cluster."""


Replicas = Annotated[
    list[str] | None,
    typer.Option(
        "--replica",
        metavar="ID=DIR[,DIR…]",
        help="A replica: the broker's id and its log directories; give two or more.",
    ),
]
Server = Annotated[
    str | None,
    typer.Option(
        metavar="HOST:PORT,…",
        help="Instead: brokers of a running cluster; default: the environment's, else the local cluster's.",
    ),
]
Topics = Annotated[
    list[str] | None, typer.Option("--topic", metavar="NAME", help="Audit this topic only; may be repeated.")
]
AuditLevel = Annotated[Level, typer.Option(metavar="LEVEL", help="digest, index, batches or deep.")]
Master = Annotated[
    str | None,
    typer.Option(
        metavar="URL",
        help="Spark master to run on; default: that of spark-submit, else local[*], all cores of this machine.",
    ),
]


def called(app: typer.Typer, name: str, argv: Sequence[str] | None) -> int:
    """Run the only command of `app` under this name, and return its exit status."""
    try:
        return run(lambda: app(argv, prog_name=name), failure=UNKNOWN)
    except SystemExit as end:
        return int(end.code or 0)


# -- which replicas


def where_of(replicas: Sequence[str] | None, server: str | None, topics: Sequence[str] | None) -> Where:
    """Return the replicas' directories, or the bootstrap servers. Raises BadUse; ReplogError for a bad topic name."""
    for topic in topics or ():
        validate_topic_name(topic)
    if replicas and server is not None:
        raise BadUse("--replica and --bootstrap-server are two ways to say it; give one of them")
    if replicas:
        directories = parse_replicas(replicas)
        check_topics(directories, topics or ())
        for replica, path in ((n, path) for n, paths in directories.items() for path in paths):
            properties: Mapping[str, str] = {}
            with suppress(ReplogError):
                properties = load_identity(path)
            owner = properties.get("node.id", properties.get("broker.id"))  # the latter is of Kafka's older ones
            if owner not in (None, str(replica)):
                says = f"{path} says in {META_PROPERTIES} that it is broker {owner}'s; findings will say {replica}"
                note(f"note: --replica {replica}: {says}")
        return directories
    if server is None and not (server := os.environ.get(BOOTSTRAP)):
        raise BadUse("say which replicas: --replica ID=DIR for each of them, or --bootstrap-server HOST:PORT")
    return servers_of("--bootstrap-server", server)


def servers_of(option: str, servers: str) -> str:
    """Return `servers`. Raises BadUse if they are not addresses."""
    from replog.client.metadata import parse_bootstrap

    try:
        parse_bootstrap(servers)
    except ReplogError as error:
        raise BadUse(f"{option}: {error.message}") from None
    return servers


def parse_replicas(arguments: Sequence[str]) -> dict[int, tuple[Path, ...]]:
    """Parse `ID=DIR,DIR` pairs. Raises BadUse if a path is no directory, or a directory is given twice."""
    directories: dict[int, tuple[Path, ...]] = {}
    seen: dict[tuple[int, int], Path] = {}
    for argument in arguments:
        name, equals, listed = argument.partition("=")
        number = number_in(name, MAX_INT)
        if not equals or number is None or "" in listed.split(","):
            raise BadUse(f"--replica {argument[:200]}: not ID=DIR, such as 1=/data/1; an id is at most {MAX_INT}")
        if any("\udc80" <= character <= "\udcff" for character in listed):
            raise BadUse(
                f"--replica {argument!a}: not UTF-8, which Spark needs; give the directory a link of another name"
            )
        if number in directories:
            raise BadUse(
                f"--replica {argument}: replica {number} is given twice; give each broker's directories once, "
                "separated by commas"
            )
        paths = tuple(Path(directory).expanduser().absolute() for directory in listed.split(","))
        for path in paths:
            try:
                stat = path.stat()
            except OSError as error:
                raise BadUse(
                    f"--replica {argument}: {path}: {error.strerror}; give the broker's log directory"
                ) from None
            if not path.is_dir():
                raise BadUse(f"--replica {argument}: {path} is not a directory; give the broker's log directory")
            before = seen.setdefault((stat.st_dev, stat.st_ino), path)
            if before is not path:
                raise BadUse(
                    f"--replica {argument}: this directory is given twice, as {before} too; a replica always agrees "
                    "with itself"
                )
        directories[number] = paths
    if len(directories) < 2:
        raise BadUse("one --replica has nothing to be compared with; give two or more")
    return directories


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
            shown = ", ".join(sorted(held)[:10]) + ", …" * (len(held) > 10) or "none"
            raise BadUse(f"--topic {topic}: no replica has a partition of it (they have: {shown})")
    if not held:
        raise BadUse("no --replica holds a <topic>-<partition> directory; give the brokers' log directories")


def check_cluster(servers: str, topics: Sequence[str]) -> None:
    """Raise BadUse for a topic that the cluster does not know, OSError if no broker answers, before Spark starts."""
    from spark_jobs.replicas.brokers import broker_stores

    try:
        stores = broker_stores(servers, frozenset(topics))
    except FileNotFoundError as error:
        raise BadUse(f"--topic: {error.strerror}") from None
    for store in stores:
        store.close()


# -- how a command ends


def audit_failed(why: str) -> Failed:
    """Return the error of an audit that ended without a verdict."""
    return Failed(f"the audit failed, so nothing is known: {why}")


def ending(command: Callable[[], int]) -> int:
    """Run `command`, and return its exit status: `UNKNOWN` if it failed, since 1 would mean DIVERGED. SIGTERM and
    SIGHUP end it as Ctrl-C does, unless `nohup` ignores SIGHUP."""

    def work() -> int:
        for number in (signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(number) is signal.SIG_DFL:
                signal.signal(number, signal.default_int_handler)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})  # `replog audit` blocks it until we are ready
        return command()

    return run(work, failure=UNKNOWN)


@contextmanager
def own_spark(name: str, master: str | None) -> "Iterator[SparkSession]":
    """Start Spark, and stop it. Raises BadUse without Java, and Failed for what Spark or an audit raises."""
    # Importing Spark takes seconds; otherwise a wrong argument would be reported only after them.
    from py4j.protocol import Py4JError  # type: ignore[import-untyped]
    from pyspark.errors import PySparkException

    from spark_jobs.audit.since import BadSaved
    from spark_jobs.java import NoJava
    from spark_jobs.session import reason, spark_session

    try:
        spark = spark_session(name, master)
        try:
            yield spark
        finally:
            with suppress(Exception):  # the findings stand, even if Java has failed
                spark.stop()
    except NoJava as error:
        raise BadUse(str(error)) from None
    except BrokenPipeError:
        raise
    except (PySparkException, Py4JError, BadSaved, OSError) as error:
        raise audit_failed(reason(error)) from None


def with_spark(work: Callable[[Lock], int]) -> int:
    """Run `work`, which starts its own Spark, in a thread, and return its exit status. Raises what it raises. Java ends
    with this process, however that ends: it waits at a pipe of ours.

    `work` holds its lock while it writes and prints results. KeyboardInterrupt waits for the lock, keeps it for good,
    and abandons the thread.

    In the main thread Spark would handle Ctrl-C, and a call to Java that is cut off spoils later ones. Python handles
    signals only in the main thread, which therefore wakes up every `LOOK_S`."""
    outcome: Future[int] = Future()
    writing = Lock()

    def body() -> None:
        try:
            outcome.set_result(work(writing))
        except BaseException as error:  # noqa: BLE001 - `outcome.result()` raises it
            outcome.set_exception(error)

    thread = Thread(target=body, daemon=True)
    try:
        thread.start()
        while thread.is_alive():
            thread.join(LOOK_S)
        return outcome.result()
    except KeyboardInterrupt:
        writing.acquire()
        if (session := sys.modules.get("spark_jobs.session")) is not None:  # None: Java has not started yet
            hushing = Thread(target=session.hush, daemon=True)
            hushing.start()
            hushing.join(HUSH_S)
        raise
