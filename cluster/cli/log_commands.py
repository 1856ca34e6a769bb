"""`replog log …`: offline, on the files of a replica."""

from pathlib import Path
from typing import Annotated

import typer

from cluster.cli.errors import PROBLEM_FOUND
from cluster.cli.options import Format, OutputFormat

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode="markdown",
    help="Look into the files of a replica, ours or Apache Kafka's. Never writes.",
)


@app.callback()
def _group() -> None:
    """Keeps `log` a group although it has one command."""


@app.command()
def dump(
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILE…",
            help="`.log`, `.index`, `.timeindex`, `.digest`, epoch checkpoint.",
        ),
    ],
    deep: Annotated[bool, typer.Option("--deep", help="Print the records of each batch too.")] = False,
    output: OutputFormat = Format.TABLE,
) -> None:
    """Print what is in the files of a partition's directory: batches, index entries, leader epochs.

    Every batch's CRC is checked. Damage is printed where it is; the exit status is then 1. JSON is one object a line.

    Example: `replog log dump --deep data/flights-0/00000000000000000000.log`
    """
    from cluster.cli.dump import dump_files
    from replog.errors import ErrorCode, ReplogError

    missing = [str(path) for path in files if not path.is_file()]
    if missing:
        raise ReplogError(ErrorCode.INVALID_REQUEST, f"no such file: {', '.join(missing)}")
    if dump_files(files, deep, output is Format.JSON):
        raise typer.Exit(PROBLEM_FOUND)
