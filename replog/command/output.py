"""Printing: listings as a table or as JSON on stdout, notes and progress on stderr."""

import base64
import json
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import StrEnum
from typing import Any

PAGE = 1000  # rows of a table, which Rich lays out in half a second
_BYTES = ("size", "usable_bytes", "total_bytes")
_STATES = {
    **dict.fromkeys(("active", "running"), "green"),
    **dict.fromkeys(("cordoned", "standby", "starting", "stopping", "paused"), "yellow"),
    **dict.fromkeys(("fenced", "stopped", "silent"), "bold red"),
}
PRINT_EVERY_S = 30.0  # if stderr is no terminal


class Format(StrEnum):
    TABLE = "table"
    JSON = "json"


def note(message: str) -> None:
    """Print a message for the person, not for the pipe."""
    print(harmless(message), file=sys.stderr)


def harmless(text: str) -> str:
    """Escape characters that a terminal would obey or cannot show: anybody may have named a file."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in "\n\t" else c.encode("unicode_escape").decode() for c in text)


def print_rows(rows: Sequence[Mapping[str, Any]], columns: Mapping[str, str] | Iterable[str], output: Format) -> None:
    """Print `rows` as tables of `columns`, from keys to headings or just keys, or as one JSON array of whole rows."""
    if output is Format.JSON:
        print(json.dumps(list(rows), indent=2))
        return
    from rich.text import Text

    from replog.command.terminal import TerminalWriter, table_of

    if not isinstance(columns, Mapping):
        columns = {name: name.replace("_", " ") for name in columns}
    for first in range(0, len(rows) or 1, PAGE):
        page = rows[first : first + PAGE]
        numbers = [heading for key, heading in columns.items() if any(type(row[key]) is int for row in page)]
        table = table_of(*columns.values(), right=numbers)
        for row in page:
            table.add_row(*(Text(_text(key, row[key]), style=_style(key, row[key])) for key in columns))
        TerminalWriter().table(table)


def _style(key: str, value: Any) -> str:
    """Return the colour of a value that is wrong, or well. Rich leaves it out in pipes and with NO_COLOR."""
    if key == "state":
        return _STATES.get(value, "bold red")
    right = {"leader": value != -1, "out_of_sync": value in (0, -1), "error": value == "NONE"}
    return "" if right.get(key, True) else "bold red"


def _text(key: str, value: Any) -> str:
    return bytes_text(value) if key in _BYTES and value >= 0 else cell(value)


def cell(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if value is None or value == -1:
        return "-"
    if isinstance(value, list | tuple):
        return harmless(",".join(map(str, value))) or "-"
    return harmless(str(value))


def bytes_text(count: int) -> str:
    """Format a size as `12.3 MB`, in powers of 1000."""
    size, units = float(count), ["B", "kB", "MB", "GB", "TB"]
    while size >= 1000 and len(units) > 1:
        size /= 1000
        units.pop(0)
    return f"{size:.0f} {units[0]}" if units[0] == "B" else f"{size:.1f} {units[0]}"


def text_or_base64(value: bytes | None) -> Any:
    """Return a string if the bytes are UTF-8, else {"base64": …}, so that nothing is lost."""
    if value is None:
        return None
    try:
        return value.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(value).decode()}


@contextmanager
def progress(total: int) -> Iterator[Callable[[int], None]]:
    """Yields a function to call with the bytes just done; how many are is shown as `status` does."""
    done = 0
    with status() as show:

        def on_bytes(size: int) -> None:
            nonlocal done
            before, done = done, done + size
            if before >> 20 != done >> 20:
                show(f"{bytes_text(done)} of {bytes_text(total)}")

        yield on_bytes


@contextmanager
def status() -> Iterator[Callable[[str], None]]:
    """Yields a function to call with a line of progress. If stderr is no terminal, one is printed now and then."""
    if not sys.stderr.isatty():
        yield _now_and_then()
        return
    from rich.console import Console

    with Console(stderr=True, highlight=False).status("") as status:
        yield status.update


def _now_and_then() -> Callable[[str], None]:
    printed_s = time.monotonic()

    def show(line: str) -> None:
        nonlocal printed_s
        if time.monotonic() - printed_s >= PRINT_EVERY_S:
            printed_s = time.monotonic()
            note(line)

    return show
