"""`replog demo`: the whole story."""

import os
from pathlib import Path
from typing import Annotated

import typer


def demo(
    directory: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="An empty or new directory for everything.", show_default="below build/demo"),
    ] = None,
) -> None:
    """Replicate 336,776 real records through a crash, then let Spark prove that nothing was lost.

    A controller and three brokers start as processes; every flight that left New York in 2013 is produced with
    acks=all; half-way a broker is killed with SIGKILL and later restarted on its own data; everything acknowledged is
    read back and compared; the stopped replicas are audited; one bit of a copy is flipped and must be found.

    Takes about two minutes. Exit status 0 only if every step held. Everything is kept for a closer look: the stopped
    cluster's data (about 100 MB), the damaged copy and the reports."""
    from replog.demo.story import run
    from replog.rpc.transports import CLIENT_CONFIG
    from replog.server import logging

    logging.configure_command()
    os.environ[CLIENT_CONFIG] = ""  # the demo's cluster has no TLS; another cluster may be set here
    raise typer.Exit(run(directory))
