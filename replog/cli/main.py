"""`replog`: every command in one place. A command imports what it needs when it runs, so that `--help` is quick."""

import io
import sys
from typing import Annotated

import typer

from replog.cli import (
    acl,
    audit,
    broker,
    client_quota,
    cluster,
    console,
    consume,
    controller,
    demo,
    health,
    log,
    offsets,
    partition,
    produce,
    sim,
    tls,
    topic,
)
from replog.command.app import App
from replog.command.ending import run
from replog.release import VERSION

app = App(
    name="replog",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
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
app.command()(console.console)
app.command()(demo.demo)
app.command()(health.health)
app.add_typer(broker.app, name="broker")
app.command()(broker.broker_config)
app.command()(client_quota.client_quota)
app.add_typer(controller.app, name="controller")
app.command()(version)


def main() -> None:
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # names of files may be any bytes
    sys.exit(run(lambda: app(prog_name="replog")))
