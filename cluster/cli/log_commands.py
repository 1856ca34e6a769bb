"""`replog log …`: offline, on the files of a replica."""

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode="markdown",
    help="Look into the files of a stopped (or copied) replica, ours or Apache Kafka's. Never writes.",
)


@app.command()
def dump() -> None:
    """x"""
