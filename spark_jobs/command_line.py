"""What the commands of the audit share: help, the replicas to read, and how they end.

A command ends with the status that it promises; expected failures are reported on stderr in one line that names
the thing, the value and the remedy, never with a traceback.
"""

import argparse
import itertools
import os
import signal
import sys
import textwrap
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from pathlib import Path
from threading import Lock, Thread

from replog.command.ending import BadUse, Failed, run
from replog.errors import ReplogError
from replog.log.directories.meta_properties import META_PROPERTIES, load_identity
from replog.topic import parse_directory_name, validate_topic_name
from spark_jobs.audit.findings import LEVELS

UNKNOWN = 3  # as INCONCLUSIVE
LOOK_S = 0.2
BOOTSTRAP = "REPLOG_BOOTSTRAP_SERVER"  # environment

Where = dict[int, tuple[Path, ...]] | str
"""Replica id → its log directories; or the bootstrap servers of a running cluster."""


class _Help(argparse.RawDescriptionHelpFormatter):
    """Fills the paragraphs of a description; those with indented lines are lists, and stay as they are."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        paragraphs = text.strip().split("\n\n")
        return "\n\n".join(p if "\n  " in p else textwrap.fill(p, width) for p in paragraphs)


def command_parser(name: str, description: str, epilog: str) -> argparse.ArgumentParser:
    """Of `name`, as people call it; options cannot be abbreviated, so that new ones break no script."""
    return argparse.ArgumentParser(
        prog=name, description=description, epilog=epilog, formatter_class=_Help, allow_abbrev=False
    )


# -- which replicas


def add_where(parser: argparse.ArgumentParser) -> None:
    """The options that say which replicas are compared, how deep, and on which Spark."""
    where = parser.add_mutually_exclusive_group()
    where.add_argument(
        "--replica",
        action="append",
        metavar="ID=DIR[,DIR…]",
        help="a replica: the broker's id and its log directories; give two or more",
    )
    where.add_argument(
        "--bootstrap-server",
        metavar="HOST:PORT[,…]",
        help=f"a running cluster, by one or more of its brokers (default, without --replica: ${BOOTSTRAP}, else the "
        "local cluster)",
    )
    parser.add_argument(
        "--topic", action="append", default=[], metavar="TOPIC", help="audit this topic only; may be repeated"
    )
    parser.add_argument("--level", choices=LEVELS, default="index", help="how deep to look (default: index)")
    parser.add_argument(
        "--master",
        metavar="URL",
        help="Spark master to run on (default: that of spark-submit, else local[*], all cores of this machine)",
    )


def where_of(arguments: argparse.Namespace) -> Where:
    """The replicas' directories, or the bootstrap servers. Raises BadUse, ReplogError for a name that is none."""
    for topic in arguments.topic:
        validate_topic_name(topic)
    if arguments.replica:
        directories = parse_replicas(arguments.replica)
        check_topics(directories, arguments.topic)
        for replica, path in ((n, path) for n, paths in directories.items() for path in paths):
            if (owner := _owner(path)) not in (None, str(replica)):
                note = f"{path} says in {META_PROPERTIES} that it is broker {owner}'s; findings will say {replica}"
                print(f"note: --replica {replica}: {note}", file=sys.stderr)
        return directories
    servers: str | None = arguments.bootstrap_server
    if servers is None and not (servers := os.environ.get(BOOTSTRAP)):
        raise BadUse("say which replicas: --replica ID=DIR for each of them, or --bootstrap-server HOST:PORT")
    return servers_of("--bootstrap-server", servers)


def servers_of(option: str, servers: str) -> str:
    """The same, if they are addresses of brokers. Raises BadUse."""
    from replog.client.metadata import parse_bootstrap

    try:
        parse_bootstrap(servers)
    except ReplogError as error:
        raise BadUse(f"{option}: {error.message}") from None
    return servers


def parse_replicas(arguments: Sequence[str]) -> dict[int, tuple[Path, ...]]:
    """`ID=DIR,DIR` pairs as a mapping, each directory checked to be one, and given once under whichever name."""
    directories: dict[int, tuple[Path, ...]] = {}
    seen: dict[tuple[int, int], Path] = {}
    for argument in arguments:
        name, equals, listed = argument.partition("=")
        if not equals or not (name.isascii() and name.isdigit()) or "" in listed.split(","):
            raise BadUse(f"--replica {argument}: not ID=DIR, such as 1=/var/lib/replog/1")
        if len(name) > 10 or int(name) > 2**31 - 1:
            raise BadUse(f"--replica {argument}: a broker's id is at most {2**31 - 1}")
        if any("\udc80" <= character <= "\udcff" for character in listed):
            raise BadUse(
                f"--replica {argument!a}: not UTF-8, which Spark needs; give the directory a link of another name"
            )
        if int(name) in directories:
            raise BadUse(
                f"--replica {argument}: replica {int(name)} is given twice; give each broker's directories once, "
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
        directories[int(name)] = paths
    if len(directories) < 2:
        raise BadUse("one --replica has nothing to be compared with; give two or more")
    return directories


def _owner(directory: Path) -> str | None:
    """The id of the broker that a log directory names as its own, if it does; Kafka's older ones say `broker.id`."""
    try:
        properties = load_identity(directory)
    except ReplogError:
        return None
    return properties.get("node.id", properties.get("broker.id"))


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


def check_cluster(servers: str, topics: Sequence[str]) -> None:
    """Before Spark is started for nothing. Raises BadUse for a topic that the cluster does not know, OSError if no
    broker answers."""
    from spark_jobs.replicas.brokers import broker_stores

    try:
        stores = broker_stores(servers, frozenset(topics))
    except FileNotFoundError as error:
        raise BadUse(f"--topic: {error.strerror}") from None
    for store in stores:
        store.close()


# -- how a command ends


def audit_failed(why: str) -> Failed:
    """Not even whether replicas agree is known then."""
    return Failed(f"the audit failed, so nothing is known: {why}")


def ending(name: str, command: Callable[[], int]) -> int:
    """The exit status of `command`. One that failed says nothing of the replicas, as 1 would: DIVERGED."""

    def work() -> int:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})  # `replog audit` blocks it until we are ready
        return command()

    return run(work, name, UNKNOWN)


def with_spark(work: Callable[[Lock], int]) -> int:
    """The exit status of `work`, which starts a Spark of its own. Raises what it raises. Java ends with this process,
    however that ends: it waits at a pipe of ours.

    At KeyboardInterrupt `work` is left where it is, except while it holds the lock that it is given: it does so while
    it writes and tells what it found. When this raises, it does not get the lock any more.

    In a thread, because Spark takes Ctrl-C over in the main one, and a call to Java that was cut off spoils those after
    it. The system may give a signal to any thread; Python answers it in the main one, which has to wake up for that.
    """
    outcome: Future[int] = Future()
    writing = Lock()

    def body() -> None:
        try:
            outcome.set_result(work(writing))
        except BaseException as error:  # noqa: BLE001 - raised by the waiter
            outcome.set_exception(error)

    thread = Thread(target=body, daemon=True)
    try:
        thread.start()
        while thread.is_alive():
            thread.join(LOOK_S)
        return outcome.result()
    except KeyboardInterrupt:
        writing.acquire()
        raise
