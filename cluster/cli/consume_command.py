"""`replog consume`: records in, lines out."""

from enum import StrEnum
from typing import Annotated

import typer

from cluster.cli.options import BootstrapServer, bootstrap_server


class RecordFormat(StrEnum):
    LINES = "lines"
    KEY_VALUE = "key:value"
    JSON = "json"


class IsolationLevel(StrEnum):
    READ_UNCOMMITTED = "read_uncommitted"
    READ_COMMITTED = "read_committed"


def consume(
    topic: Annotated[str, typer.Option(help="What to read.")],
    bootstrap: BootstrapServer = None,
    partition: Annotated[int | None, typer.Option(min=0, help="Read this partition alone.")] = None,
    from_beginning: Annotated[bool, typer.Option("--from-beginning", help="Start at the first record there is.")] = (
        False
    ),
    offset: Annotated[int | None, typer.Option(min=0, help="Start here; needs --partition.")] = None,
    max_messages: Annotated[int | None, typer.Option(min=1, help="Stop after so many records.")] = None,
    timeout_ms: Annotated[int | None, typer.Option(min=1, help="Stop when nothing came for so long.")] = None,
    isolation_level: Annotated[
        IsolationLevel,
        typer.Option(
            metavar="LEVEL",
            help="`read_uncommitted`; or `read_committed`, which skips aborted transactions and waits for open ones.",
        ),
    ] = IsolationLevel.READ_UNCOMMITTED,
    client_rack: Annotated[
        str, typer.Option(metavar="RACK", help="Read from replicas in this rack where brokers select by rack.")
    ] = "",
    output: Annotated[
        RecordFormat, typer.Option("--format", help="Value alone; key, colon, value; or one JSON object a record.")
    ] = RecordFormat.LINES,
) -> None:
    """Print records as they come, from now on or from an earlier offset, until stopped.

    Records of one partition come in order. Ends at --max-messages, at --timeout-ms, or by Ctrl-C.

    Examples: `replog consume --topic greetings --from-beginning --timeout-ms 2000`,
    `replog consume --topic greetings --partition 0 --offset 42 --max-messages 1 --format json`
    """
    import asyncio

    from cluster import logging
    from cluster.cli.consume_records import Start, consume_records
    from replog.topic import validate_topic_name

    validate_topic_name(topic)
    if offset is not None and partition is None:
        raise typer.BadParameter("an offset is one partition's; say --partition too", param_hint="--offset")
    if offset is not None and from_beginning:
        raise typer.BadParameter("either a number or --from-beginning", param_hint="--offset")
    logging.configure(30)
    start = Start(topic, partition, offset, from_beginning, isolation_level.value, client_rack)
    asyncio.run(consume_records(bootstrap_server(bootstrap), start, output, max_messages, timeout_ms))
