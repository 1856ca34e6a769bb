"""Printing: listings as a table or as JSON on stdout, notes on stderr."""

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from cluster.cli.options import Format

UNLIMITED = 1 << 20  # columns


def note(message: str) -> None:
    """Something for the person, not for the pipe."""
    print(message, file=sys.stderr)


def print_rows(
    rows: Sequence[Mapping[str, Any]],
    columns: Mapping[str, str],
    output: Format,
    line: Callable[[Mapping[str, Any]], str] | None = None,
) -> None:
    """`rows` as a table of `columns` (key to heading), or as one JSON array of whole rows.

    A pipe has no edge to wrap at. On a terminal that is too narrow for the table each row is one `line`, if that is
    given; else cells are folded.
    """
    if output is Format.JSON:
        print(json.dumps(list(rows), indent=2))
        return
    from rich import box
    from rich.console import Console
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
    for key, heading in columns.items():
        numeric = any(isinstance(row[key], int) and not isinstance(row[key], bool) for row in rows)
        table.add_column(heading, justify="right" if numeric else "left", overflow="fold")
    for row in rows:
        table.add_row(*(cell(row[key]) for key in columns))
    console = Console(highlight=False, markup=False)
    width = console.measure(table, options=console.options.update(max_width=UNLIMITED)).maximum
    if not console.is_terminal:
        console.width = width
    elif line is not None and width > console.width:
        print("\n".join(map(line, rows)))
        return
    console.print(table)


def cell(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if value is None or value == -1:
        return "-"
    if isinstance(value, list | tuple):
        return ",".join(map(str, value)) or "-"
    return str(value)
