"""`replog offsets get` and `replog records delete`: the ends of partitions, and moving their beginning."""

from pathlib import Path
from typing import Annotated, Any

import typer

from replog.cli.asking import ask, named_partitions
from replog.cli.options import BootstrapServer, OutputFormat, check, number
from replog.cli.reassignment_plan import by_partition, is_number
from replog.command.app import App
from replog.command.output import Format, print_rows
from replog.config.properties import MAX_LONG, number_in
from replog.errors import ErrorCode
from replog.topic import TopicPartition

offsets_app = App(help="Look up offsets.")
records_app = App(help="Delete the oldest records.")
TIMES = {"latest": -1, "earliest": -2, "-1": -1, "-2": -2}
END = -1

Partitions = Annotated[list[int] | None, number("--partition", metavar="N", help="Only this one; may be repeated.")]


@offsets_app.command()
def get(
    topic: Annotated[str | None, typer.Option(metavar="NAME", help="Default: all topics.")] = None,
    partition: Partitions = None,
    time: Annotated[
        str, typer.Option(metavar="WHEN", help="`latest`, `earliest`, or milliseconds since 1970.")
    ] = "latest",
    bootstrap: BootstrapServer = None,
    output: OutputFormat = Format.TABLE,
) -> None:
    """Show offsets of partitions: the end, the beginning, or the first record at or after a time.

    The end is the high watermark: what consumers may read is below it. Where no record is so late there is no offset.

    Examples:

    * `replog offsets get --topic flights`
    * `replog offsets get --topic flights --time 1700000000000`"""
    when = TIMES.get(time)
    remedy = "is no time; use latest, earliest or 1700000000000"
    check(when is not None or number_in(time) is not None, f"--time {time[:60]!r} {remedy}")

    async def looked_up(admin: Any) -> dict[TopicPartition, Any]:
        wanted = await named_partitions(admin, topic, partition)
        return await admin.list_offsets(dict.fromkeys(wanted, int(time) if when is None else when))  # type: ignore[no-any-return]

    offsets = ask(bootstrap, looked_up)
    rows = [{**tp._asdict(), "offset": each.offset if each else None} for tp, each in sorted(offsets.items())]
    print_rows(rows, ("topic", "partition", "offset"), output)


@records_app.command()
def delete(
    topic: Annotated[str | None, typer.Option(metavar="NAME", help="The topic.")] = None,
    partition: Partitions = None,
    before: Annotated[
        str | None, typer.Option(metavar="OFFSET", help="Delete what is before it; `end`: all there is.")
    ] = None,
    file: Annotated[
        Path | None,
        typer.Option(
            "--offset-json-file",
            metavar="FILE",
            exists=True,
            dir_okay=False,
            help="Offsets of partitions, as kafka-delete-records.sh.",
        ),
    ] = None,
    bootstrap: BootstrapServer = None,
    output: OutputFormat = Format.TABLE,
) -> None:
    """Delete the oldest records of partitions for good, on all replicas; shows where each begins now.

    Only what is committed can be deleted. It is gone for readers at once; whole segments of it leave the disk soon.

    Examples:

    * `replog records delete --topic flights --partition 0 --before 5000`
    * `replog records delete --topic flights --before end`"""
    named = topic is not None and before is not None
    check((file is None) == named, "use --topic with --before, or --offset-json-file")
    end = END if before == "end" else None
    if before is not None and end is None and number_in(before) is None:
        raise ErrorCode.INVALID_REQUEST.error(
            f"--before {before[:60]!r} is no offset; use a number from 0 to {MAX_LONG}, or end for all there is"
        )

    listed = None if file is None else offsets_of(file.read_text(errors="replace"), str(file))

    async def deleted(admin: Any) -> dict[TopicPartition, int]:
        wanted = listed
        if wanted is None:
            assert before is not None
            wanted = dict.fromkeys(await named_partitions(admin, topic, partition), int(before) if end is None else end)
        return await admin.delete_records(wanted)  # type: ignore[no-any-return]

    rows = [{**tp._asdict(), "log_start": start} for tp, start in sorted(ask(bootstrap, deleted).items())]
    print_rows(rows, ("topic", "partition", "log_start"), output)


def offsets_of(text: str, source: str) -> dict[TopicPartition, int]:
    """Parse the file of kafka-delete-records.sh. Raises INVALID_REQUEST."""

    def offset(row: Any) -> int | None:
        return int(row["offset"]) if is_number(row["offset"], END, MAX_LONG) else None

    return by_partition(text, f"{source} names no offsets", "offset", "42", offset)
