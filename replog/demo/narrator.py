"""Prints the demo's progress: one line a step, a bar if there is something to count, the results of checks."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn


class Narrator:
    """Prints to stdout, and keeps the checks that failed."""

    def __init__(self) -> None:
        self.console = Console(highlight=False)
        self.failures: list[str] = []
        self._started = monotonic()

    @contextmanager
    def step(self, title: str) -> Iterator[None]:
        """Show a spinner on a terminal while a step runs; `done` prints the outcome."""
        self._started = monotonic()
        with self.console.status(title):
            yield

    @contextmanager
    def counted(self, title: str, total: int) -> Iterator[Callable[[int], None]]:
        """Show a bar on a terminal while a step runs; yield the function that sets its count."""
        self._started = monotonic()
        columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
        bar = Progress(
            *columns, TimeElapsedColumn(), console=self.console, transient=True, disable=not self.console.is_terminal
        )
        with bar:
            task = bar.add_task(title, total=total)
            yield lambda count: bar.update(task, completed=count)

    def done(self, outcome: str, holds: bool = True) -> None:
        """Print the last step's outcome. If it does not hold, the demo fails."""
        mark = "[green]✓[/]" if holds else "[red]✗[/]"
        self.console.print(f"{mark} {outcome} [dim]({monotonic() - self._started:.1f} s)[/]", soft_wrap=True)
        if not holds:
            self.failures.append(outcome)

    def tell(self, line: str) -> None:
        """Print something that happens within a step."""
        self.console.print(f"  {line}", soft_wrap=True)
