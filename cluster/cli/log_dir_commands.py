"""`replog partition move` and `replog partition log-dirs`: replicas in the log directories of their brokers."""

import os
from typing import Annotated, Any

import typer

from cluster.cli.asking import ask
from cluster.cli.options import BootstrapServer, Format, OutputFormat
from cluster.cli.output import note, print_rows


def move(
    topic: Annotated[str, typer.Option("--topic", metavar="NAME", help="The partition's topic.")],
    partition: Annotated[int, typer.Option(metavar="N", min=0, help="Which of its partitions.")],
    broker: Annotated[int, typer.Option(metavar="ID", min=0, help="The broker whose replica shall move.")],
    log_dir: Annotated[str, typer.Option(metavar="PATH", help="Where to: one of that broker's log.dirs.")],
    wait: Annotated[bool, typer.Option("--wait", help="Wait until it is there.")] = False,
    timeout: Annotated[float, typer.Option(metavar="SECONDS", min=0.0, help="How long to wait.")] = 600.0,
    bootstrap: BootstrapServer = None,
) -> None:
    """Move a replica to another log directory of its broker while it is used.

    The broker copies it, and then changes over in one step. Naming the directory where it is calls a move off. A
    replica that is not on the broker yet will be created in that directory.

    Exit status 1 if `--wait` gave up: the move goes on.

    Example: `replog partition move --topic flights --partition 0 --broker 1 --log-dir /disk2/replog --wait`
    """
    from replog.errors import ErrorCode, ReplogError
    from replog.topic import TopicPartition

    if not os.path.isabs(log_dir):
        raise ReplogError(
            ErrorCode.INVALID_REQUEST, f"--log-dir {log_dir!r} is relative; say the path as partition log-dirs shows it"
        )
    log_dir = os.path.normpath(log_dir)
    tp = TopicPartition(topic, partition)

    async def moved(admin: Any) -> bool:
        error = (await admin.alter_replica_log_dirs(broker, {tp: log_dir}))[tp]
        if error is not None and error.code is not ErrorCode.REPLICA_NOT_AVAILABLE:
            raise error
        if error is None and wait:
            from cluster.cli.moving import wait_for

            await wait_for(admin, tp, broker, log_dir, timeout)
        return error is None

    if ask(bootstrap, moved):
        note(f"{tp} {'is in' if wait else 'moves to'} {log_dir} of broker {broker}")
    else:
        note(f"{tp} is not on broker {broker}; if it is placed there, it will be created in {log_dir}")


def log_dirs(
    broker: Annotated[
        list[int] | None, typer.Option(metavar="ID", min=0, help="Of this broker only; may be repeated.")
    ] = None,
    topic: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Show each replica of this topic; may be repeated."),
    ] = None,
    bootstrap: BootstrapServer = None,
    output: OutputFormat = Format.TABLE,
) -> None:
    """Show the brokers' log directories: how much is in them, and how much room there is.

    With `--topic`, show where its replicas are, how large they are, and how many records they lack: below the high
    watermark, or, for a copy in the making, of what the replica has.
    """

    async def described(admin: Any) -> Any:
        for name in topic or []:
            await admin.describe_topic(name)  # raises if there is none
        brokers = broker or [found.broker_id for found in (await admin.describe_cluster()).brokers if not found.fenced]
        return await admin.describe_log_dirs(brokers, topic or [])

    found = [(broker_id, directory) for broker_id, all_ in ask(bootstrap, described).items() for directory in all_]
    if topic:
        rows = [
            {
                "broker": broker_id,
                "log_dir": directory.log_dir,
                "topic": tp.topic,
                "partition": tp.partition,
                "size": info.size,
                "offset_lag": info.offset_lag,
                "is_future": info.is_future,
            }
            for broker_id, directory in found
            for tp, info in directory.replicas
        ]
        columns = ("broker", "log_dir", "topic", "partition", "size", "offset_lag", "is_future")
    else:
        rows = [
            {
                "broker": broker_id,
                "log_dir": directory.log_dir,
                "error": directory.error.name,
                "replicas": len(directory.replicas),
                "size": sum(info.size for _, info in directory.replicas),
                "usable_bytes": directory.usable_bytes,
                "total_bytes": directory.total_bytes,
            }
            for broker_id, directory in found
        ]
        columns = ("broker", "log_dir", "error", "replicas", "size", "usable_bytes", "total_bytes")
    print_rows(rows, {name: name.replace("_", " ") for name in columns}, output)
