"""`replog health`: for scripts and probes that restart processes."""

from typing import Annotated

import typer

from replog.cli.options import ConfigFile, Overrides, settings
from replog.command.ending import PROBLEM_FOUND
from replog.command.output import note


def health(
    address: Annotated[str, typer.Argument(metavar="HOST:PORT", help="A broker's or controller's listener.")],
    ready: Annotated[
        bool, typer.Option("--ready", help="Ask a broker whether all of its replicas are in sync, too.")
    ] = False,
    config: ConfigFile = None,
    override: Overrides = None,
) -> None:
    """Ask one process whether it serves; exit status 1 if not.

    With `--ready` a broker says that it serves, and that each of its replicas whose partition has a leader is in sync.
    When all brokers say so, one of them may be restarted. Probes that speak grpc.health.v1 ask its service `ready`. The
    certificate comes from the environment, as for all commands (REPLOG_CLIENT_CONFIG), or from the settings of a
    process, such as the one that is probed.

    Example: `until replog health --ready broker-1:9092; do sleep 1; done`"""
    from replog.local_cluster.probe import is_serving
    from replog.rpc.health import READY
    from replog.rpc.transports import client_tls, tls_of

    given = tls_of(settings(config, override), str(config or "--override")) if config or override else client_tls()
    if not is_serving(address, given, READY if ready else ""):
        note(f"{address} is not ready" if ready else f"{address} does not serve")
        raise typer.Exit(PROBLEM_FOUND)
