"""`replog`: every command in one place.

A command imports what it needs when it runs, so that `--help` is quick."""

import io
import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from replog.cli import (
    acl,
    audit,
    broker,
    cluster,
    consume,
    controller,
    log,
    offsets,
    partition,
    produce,
    sim,
    tls,
    topic,
)
from replog.cli.options import BootstrapServer, ConfigFile, Overrides, bootstrap_server, settings
from replog.command.app import App
from replog.command.ending import PROBLEM_FOUND, run
from replog.command.output import note
from replog.release import VERSION

app = App(
    name="replog",
    help="""A Kafka-faithful replicated log: brokers, clients, offline tools and audits.

Data goes to stdout, everything else to stderr. Exit status: 0 ok, 1 a problem was found, 2 bad use, 130 interrupted.

Commands ask the brokers of `--bootstrap-server`, else of `REPLOG_BOOTSTRAP_SERVER`, else of the local cluster.

A first minute:

* `replog cluster up` starts a controller and three brokers
* `replog topic create --topic greetings --partitions 3`
* `echo 'hello' | replog produce --topic greetings`
* `replog consume --topic greetings --from-beginning --max-messages 1`
* `replog cluster kill 2; replog cluster status; replog cluster up`
* `replog demo` does all of it with a real data set, a crash and an audit
""",
)


def version() -> None:
    """Print the version of replog that this command is."""
    print(f"replog {VERSION}")


def _version(wanted: bool) -> None:
    if wanted:
        version()
        raise typer.Exit


@app.callback()
def _root(
    _: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Options before the command."""


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
    from replog.rpc.serving import READY
    from replog.rpc.transports import client_tls, tls_of

    given = tls_of(settings(config, override), str(config or "--override")) if config or override else client_tls()
    if not is_serving(address, given, READY if ready else ""):
        note(f"{address} is not ready" if ready else f"{address} does not serve")
        raise typer.Exit(PROBLEM_FOUND)


app.add_typer(cluster.app, name="cluster")
app.add_typer(topic.app, name="topic")
app.add_typer(partition.app, name="partition")
app.add_typer(offsets.offsets_app, name="offsets")
app.add_typer(offsets.records_app, name="records")
app.add_typer(acl.app, name="acl")
app.add_typer(tls.app, name="tls")
app.command()(produce.produce)
app.command()(consume.consume)
app.add_typer(log.app, name="log")
app.add_typer(audit.app, name="audit")
app.add_typer(sim.app, name="sim")
app.command()(console)
app.command()(demo)
app.command()(health)
app.add_typer(broker.app, name="broker")
app.command()(broker.broker_config)
app.command()(acl.client_quota)
app.add_typer(controller.app, name="controller")
app.command()(version)


def main() -> None:
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # names of files may be any bytes
    sys.exit(run(lambda: app(prog_name="replog")))
