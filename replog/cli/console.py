"""`replog console`: a page that shows a running cluster."""

from pathlib import Path
from typing import Annotated

import typer

from replog.cli.options import BootstrapServer, bootstrap_server
from replog.command.output import note


def console(
    bootstrap: BootstrapServer = None,
    listener: Annotated[
        str, typer.Option(metavar="HOST:PORT", help="Where browsers come. Others than loopback need --keystore.")
    ] = "127.0.0.1:8080",
    keystore: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            exists=True,
            dir_okay=False,
            help="Key and certificate for browsers, in PEM; they must show one, too.",
        ),
    ] = None,
    audit: Annotated[
        Path | None,
        typer.Option(metavar="DIR", file_okay=False, help="Show what an audit wrote there with --report-dir."),
    ] = None,
) -> None:
    """Show any cluster in a browser, live: partitions and replicas, what changed and why, brokers, the last audit.

    It reads only, and shows what its own certificate may describe. It asks the cluster once a second while somebody
    looks, whatever their number, and nothing while nobody does. Stop it with Ctrl-C.

    Example: `replog console --audit /var/lib/audit/last`"""
    from replog.console.process import serve
    from replog.server import logging

    logging.configure(30)
    brokers = bootstrap_server(bootstrap)
    note(f"the console is at http{'s' if keystore else ''}://{listener}/")
    serve(brokers, listener, keystore, audit)
