"""`replog cluster …`: what any cluster is like; a local cluster of real processes, and its faults."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from replog.cli.cluster_description import describe
from replog.cli.options import ClusterDirectory, OutputFormat
from replog.command.ending import PROBLEM_FOUND
from replog.command.output import Format, note, print_rows

if TYPE_CHECKING:
    from replog.local_cluster.local_cluster import LocalCluster

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode="markdown",
    help="Describe any cluster; run a local one of real processes, with faults. Start with `replog cluster up`.",
)
app.command()(describe)

BrokerId = Annotated[int, typer.Argument(metavar="BROKER", help="The broker's id, as `cluster status` shows it.")]
Timeout = Annotated[float, typer.Option("--timeout", metavar="SECONDS", min=0.0, help="How long to wait.")]


def _cluster(directory: Path, brokers: int | None = None, secure: bool = False) -> "LocalCluster":
    from replog.local_cluster.local_cluster import LocalCluster

    return LocalCluster(directory, brokers, secure=secure)


@app.command()
def up(
    directory: ClusterDirectory,
    brokers: Annotated[
        int | None, typer.Option(metavar="N", help="How many brokers; as many as the directory has, else 3.")
    ] = None,
    timeout: Annotated[
        float, typer.Option(metavar="SECONDS", min=0.0, help="How long to wait without any progress.")
    ] = 60.0,
    secure: Annotated[
        bool, typer.Option("--secure", help="A new cluster: TLS everywhere, an authority of its own, ACLs.")
    ] = False,
) -> None:
    """Start a controller and brokers, and wait until all of them serve.

    On a directory whose cluster runs in part, what is missing is started again on its own data. The processes outlive
    this command; ports are free loopback ports, the same ones every time while they stay free.

    Example: `replog cluster up --brokers 5 --directory /tmp/five`
    """
    cluster = _cluster(directory, brokers, secure).up(timeout, note)
    note(f"the cluster in {cluster.directory} is up; its brokers are at")
    print(cluster.bootstrap)
    if cluster.client_config.exists():
        note(f"clients that name them need REPLOG_CLIENT_CONFIG={cluster.client_config}")


@app.command()
def down(directory: ClusterDirectory, timeout: Timeout = 40.0) -> None:
    """Stop every process cleanly: leaderships move away, logs are flushed, then the controller goes.

    What does not stop in time is killed and named, and the exit status is 1. Data stays.
    """
    killed = _cluster(directory).down(timeout, note)
    if killed:
        note(f"killed after {timeout:g} s: {', '.join(killed)}; their logs in {directory} say what they were doing")
        raise typer.Exit(PROBLEM_FOUND)
    note("stopped")


@app.command()
def status(directory: ClusterDirectory, output: OutputFormat = Format.TABLE) -> None:
    """Show processes, addresses, states and how many partitions each broker leads and replicates.

    States: running, fenced (alive, but the controller counts it out), starting, paused, stopped. Exit status 1 if any
    member is not running, any replica is out of sync, or no broker says so.
    """
    from replog.local_cluster.cluster_file import CONTROLLER

    members = _cluster(directory).status()
    columns = {
        "name": "process",
        "pid": "pid",
        "address": "address",
        "state": "state",
        "leaders": "leads",
        "replicas": "replicas",
        "out_of_sync": "out of sync",
    }
    print_rows([asdict(member) for member in members], columns, output)
    if any(member.state != "running" or (member.out_of_sync != 0 and member.name != CONTROLLER) for member in members):
        raise typer.Exit(PROBLEM_FOUND)


@app.command()
def kill(broker: BrokerId, directory: ClusterDirectory) -> None:
    """Kill a broker with SIGKILL, as a crash would. `replog cluster up` starts it again on its own data.

    Example: `replog cluster kill 2`
    """
    _cluster(directory).kill(broker)
    note(f"killed broker {broker}")


@app.command()
def pause(broker: BrokerId, directory: ClusterDirectory) -> None:
    """Pause a broker with SIGSTOP: it keeps its connections and answers nothing."""
    _cluster(directory).pause(broker)
    note(f"paused broker {broker}")


@app.command()
def resume(broker: BrokerId, directory: ClusterDirectory) -> None:
    """Resume a paused broker with SIGCONT."""
    _cluster(directory).resume(broker)
    note(f"resumed broker {broker}")
