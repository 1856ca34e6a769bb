"""`replog consume`: records in, lines of text or of JSON out."""

import json
import select
import sys
from collections.abc import Collection
from functools import partial
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from replog.cli.asking import partitions_of
from replog.cli.options import BootstrapServer, bootstrap_server, number
from replog.command.output import note, text_or_base64
from replog.config.properties import MAX_INT, MAX_LONG
from replog.errors import ErrorCode, ReplogError
from replog.topic import validate_topic_name

if TYPE_CHECKING:
    from replog.client import Consumer, Record

IDLE_POLL_S = 3600.0
PRINTED = ("timestamp", "partition", "offset", "headers", "key", "value")  # Kafka's console consumer has this order
_TIMESTAMPS = ("CreateTime", "LogAppendTime")

RecordFormat = Literal["lines", "key:value", "json"]


def consume(
    topic: Annotated[str, typer.Option(help="What to read.")],
    bootstrap: BootstrapServer = None,
    partition: Annotated[int | None, number(help="Read only this partition.")] = None,
    from_beginning: Annotated[bool, typer.Option("--from-beginning", help="Start at the first record there is.")] = (
        False
    ),
    offset: Annotated[int | None, typer.Option(min=0, max=MAX_LONG, help="Start here; needs --partition.")] = None,
    max_messages: Annotated[int | None, typer.Option(min=1, max=MAX_LONG, help="Stop after so many records.")] = None,
    timeout_ms: Annotated[
        int | None, typer.Option(min=1, max=MAX_INT, help="Stop after this time without a record.")
    ] = None,
    isolation_level: Annotated[
        Literal["read_uncommitted", "read_committed"],
        typer.Option(
            metavar="LEVEL",
            help="`read_uncommitted`; or `read_committed`, which skips aborted transactions and waits for open ones.",
        ),
    ] = "read_uncommitted",
    client_rack: Annotated[
        str, typer.Option(metavar="RACK", help="Read from replicas in this rack, if brokers select by rack.")
    ] = "",
    output: Annotated[
        RecordFormat, typer.Option("--format", metavar="FORMAT", help="lines: the value; key:value; or json.")
    ] = "lines",
    print_: Annotated[
        str,
        typer.Option(
            "--print",
            metavar="FIELD,…",
            help="Instead, as Kafka's console consumer: these of timestamp, partition, offset, headers, key, value.",
        ),
    ] = "",
) -> None:
    """Print records as they come, from now on or from an earlier offset, until stopped.

    Records of one partition come in order. Ends at --max-messages, at --timeout-ms, or by Ctrl-C.

    `--format json` writes all there is of a record, and `replog produce --format json` takes that. `--print` has tabs
    between the fields, in its own order; it prints null for a missing one, and NO_HEADERS.

    Examples:

    * `replog consume --topic greetings --from-beginning --timeout-ms 2000`
    * `replog consume --topic greetings --print timestamp,key,value`
    * `replog consume --topic greetings --partition 0 --offset 42 --max-messages 1 --format json`"""
    import asyncio

    from replog.client import Consumer
    from replog.server import logging

    validate_topic_name(topic)
    if offset is not None and partition is None:
        raise typer.BadParameter("an offset needs a partition: add --partition", param_hint="--offset")
    if offset is not None and from_beginning:
        raise typer.BadParameter("either a number or --from-beginning", param_hint="--offset")
    if print_ and output != "lines":
        raise typer.BadParameter("either --print or --format", param_hint="--print")
    fields = parse_printed(print_) if print_ else ()
    logging.configure_command()
    brokers = bootstrap_server(bootstrap)

    async def run() -> None:
        partitions = await partitions_of(brokers, topic, partition)
        async with Consumer(
            brokers,
            isolation_level=isolation_level,
            auto_offset_reset="error" if offset is not None else "earliest" if from_beginning else "latest",
            client_rack=client_rack,
        ) as consumer:
            consumer.assign(partitions)
            if offset is not None:
                consumer.seek(partitions[0], offset)
            await _print_records(consumer, output, fields, max_messages, timeout_ms)

    asyncio.run(run())


async def _print_records(
    consumer: "Consumer", output: RecordFormat, fields: tuple[str, ...], most: int | None, timeout_ms: int | None
) -> None:
    """Print records until the limit, until none came for `timeout_ms`, or until cancelled."""
    from replog.rpc.tasks import of_commands

    printed = 0
    try:
        while most is None or printed < most:
            records = await consumer.fetch(timeout_ms / 1000 if timeout_ms is not None else IDLE_POLL_S)
            if not records and timeout_ms is not None:
                break
            records = records[: None if most is None else most - printed]
            await of_commands.do(partial(_write, b"".join(_line(record, output, fields) for record in records)))
            printed += len(records)
    except ReplogError as error:
        error.message = error.message.replace("; seek to", "; use --offset to")
        raise
    finally:
        is_gone = isinstance(sys.exc_info()[1], BrokenPipeError)  # the count would look like a line of `head`
        if not is_gone and select.select((), (2,), (), 0)[1]:  # it would wait for the same full pipe with `2>&1`
            note(f"{printed} records")


def _write(data: bytes) -> None:
    """Write past the buffer: Python would wait for its lock as it ends."""
    stdout, rest = getattr(sys.stdout.buffer, "raw", sys.stdout.buffer), memoryview(data)
    while rest:
        rest = rest[stdout.write(rest) :]  # a signal may cut it short


def _line(record: "Record", output: RecordFormat, fields: tuple[str, ...]) -> bytes:
    if fields:
        return printed(record, fields)
    if output == "lines":
        return (record.value or b"") + b"\n"
    if output == "key:value":
        return (record.key or b"") + b":" + (record.value or b"") + b"\n"
    return to_json(record)


def parse_printed(text: str) -> tuple[str, ...]:
    """Parse `key,value`. Raises INVALID_REQUEST."""
    fields = tuple(field.strip() for field in text.split(","))
    for field in fields:
        if field not in PRINTED:
            raise ErrorCode.INVALID_REQUEST.error(f"--print {field!r} is none of {', '.join(PRINTED)}")
    return fields


def printed(record: "Record", fields: Collection[str]) -> bytes:
    """Format a line like Kafka's console consumer: these of its fields, with tabs between them."""
    parts = {
        "timestamp": f"{_TIMESTAMPS[record.timestamp_type]}:{record.timestamp}".encode(),
        "partition": f"Partition:{record.partition}".encode(),
        "offset": f"Offset:{record.offset}".encode(),
        "headers": b",".join(name.encode() + b":" + _bytes(value) for name, value in record.headers) or b"NO_HEADERS",
        "key": _bytes(record.key),
        "value": _bytes(record.value),
    }
    return b"\t".join(parts[name] for name in PRINTED if name in fields) + b"\n"


def _bytes(value: bytes | None) -> bytes:
    return b"null" if value is None else value


def to_json(record: "Record") -> bytes:
    """Format a record as one JSON object, which `from_json` parses. Bytes that are no text are base64."""
    fields = {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp": record.timestamp,
        "leader_epoch": record.leader_epoch,
        "key": text_or_base64(record.key),
        "value": text_or_base64(record.value),
        "headers": [[name, text_or_base64(value)] for name, value in record.headers],
    }
    return json.dumps(fields, ensure_ascii=False).encode() + b"\n"
