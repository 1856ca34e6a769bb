"""How far a command has got, on stderr and only if that is a terminal."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def progress(total: int) -> Iterator[Callable[[int], None]]:
    """Something to call with bytes that were done; shows a bar if stderr is a terminal."""
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
    """Something to call with a line that says how far it is; shown if stderr is a terminal."""
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.console import Console

    with Console(stderr=True, highlight=False).status("") as status:
        yield status.update
