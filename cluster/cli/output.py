"""Printing: listings as a table or as JSON on stdout, notes on stderr."""

import json
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from cluster.cli.options import Format


def note(message: str) -> None:
    """Something for the person, not for the pipe."""
    print(message, file=sys.stderr)


def print_rows(rows: Sequence[Mapping[str, Any]], columns: Mapping[str, str], output: Format) -> None:
    """`rows` as a table of `columns` (key to heading), or as one JSON array of whole rows."""
    if output is Format.JSON:
        print(json.dumps(list(rows), indent=2))
        return
    from rich import box
    from rich.console import Console
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for key, heading in columns.items():
        numeric = any(isinstance(row[key], int) for row in rows)
        table.add_column(heading, justify="right" if numeric else "left", overflow="fold")
    for row in rows:
        table.add_row(*(cell(row[key]) for key in columns))
    console = Console(highlight=False, markup=False)
    if not console.is_terminal:
        console.width = 200  # a pipe has no edge to wrap at
    console.print(table)


def cell(value: Any) -> str:
    if value is None or value == -1:
        return "-"
    if isinstance(value, list | tuple):
        return ",".join(map(str, value)) or "-"
    return str(value)
