"""A command's progress on stderr: all the time if that is a terminal, else now and then."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from replog.command.output import note

PRINT_EVERY_S = 30.0  # if stderr is no terminal


@contextmanager
def progress(total: int) -> Iterator[Callable[[int], None]]:
    """Yields a function to call with the bytes just done. It shows a bar if stderr is a terminal."""
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TimeRemainingColumn, TransferSpeedColumn

    columns = BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn()
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=total)
        pending = 0

        def on_bytes(size: int) -> None:
            nonlocal pending
            pending += size
            if pending >= 1 << 20:
                bar.update(task, advance=pending)
                pending = 0

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
