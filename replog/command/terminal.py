"""Output for people: tables and paragraphs that fit a terminal, and are not folded in a pipe."""

import textwrap
from collections.abc import Sequence

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

_UNLIMITED = 1 << 20  # columns
_LABEL = 8  # columns


class _Console(Console):
    def on_broken_pipe(self) -> None:
        """Raises, otherwise Rich would end the process with 1, which means DIVERGED after an audit."""
        raise BrokenPipeError


class TerminalWriter:
    """Writes to stdout, or to stderr. Texts are Rich's markup, except those of `paragraph`."""

    def __init__(self, *, stderr: bool = False) -> None:
        self.console = _Console(stderr=stderr, highlight=False)
        if not self.console.is_terminal:
            self.console.width = _UNLIMITED

    @property
    def colours(self) -> bool:
        return self.console.is_terminal and not self.console.no_color

    def line(self, markup: str) -> None:
        """Write one line, however long."""
        self.console.print(markup, soft_wrap=True)

    def table(self, table: Table) -> None:
        """Write a table. On a narrow terminal cells are folded."""
        self.console.print(table)

    def fits(self, table: Table) -> bool:
        """Return True if no cell needs to be folded."""
        wanted = self.console.measure(table, options=self.console.options.update(max_width=_UNLIMITED))
        return wanted.maximum <= self.console.width

    def paragraph(self, label: str, text: str) -> None:
        """Write a label in the margin and a text beside it."""
        if self.console.is_terminal:
            width = max(self.console.width - _LABEL, 20)
            text = "\n".join(textwrap.wrap(text, width, break_on_hyphens=False) or [""])
            text = text.replace("\n", "\n" + " " * _LABEL)
        self.line(f"[bold]{label:<{_LABEL}}[/]{escape(text)}")


def table_of(*columns: str, right: Sequence[str] = ()) -> Table:
    """Return an empty table; the columns in `right` hold numbers."""
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
    for column in columns:
        table.add_column(column, overflow="fold", justify="right" if column in right else "left")
    return table
