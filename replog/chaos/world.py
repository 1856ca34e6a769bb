"""Starts, hurts and repairs a controller, four brokers and two clients, each a process as if on its own machine."""

import asyncio
import contextlib
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from replog.chaos.client import TOPICS
from replog.chaos.network import Network
from replog.chaos.volume import Volume
from replog.client import Admin, SyncAdmin
from replog.local_cluster import probe
from replog.local_cluster.cluster_file import incomplete
from replog.local_cluster.processes import log_tail
from replog.local_cluster.settings import BROKER_SETTINGS, CONTROLLER_SETTINGS
from replog.server.controller.formatting import format_cluster
from replog.topic import TopicPartition

WAITED = 0.4  # too much, as the share of time for which processes that could run waited for a CPU
OTHERS = 0.4  # the least share of all CPU time that must have gone to others, or to other machines on the host
CONTROLLER = "controller"
BROKERS = ("broker-1", "broker-2", "broker-3")  # these have the replicas that clients write to
BYSTANDER = "broker-4"  # it has no replica, and clients ask it first
SERVERS = (CONTROLLER, *BROKERS, BYSTANDER)
CLIENTS = ("client-1", "client-2")
MACHINES = (*SERVERS, *CLIENTS)
PORT, METRICS_PORT = 9092, 9100
START_TIMEOUT_S = 60.0
IN_SYNC_TIMEOUT_S = 120.0
COMMAND_TIMEOUT_S = 120.0
STOP_TIMEOUT_S = 150.0  # a producer may flush for as long as a delivery may take
PATIENCE = 3
POLL_S = 0.2
CLIENT_PACE_S = 0.05


class Account(NamedTuple):
    """The CPU time of processes since they began, in seconds."""

    at_s: float
    processes: dict[int, tuple[float, float]]  # the time that each ran, and that it waited to run


class Starved(Exception):
    """A deadline was missed on a machine that had too little CPU: no verdict on replog."""


def account(pids: Iterable[int]) -> Account:
    """Return the account of processes; empty if the kernel keeps none."""
    processes = {}
    for pid in pids:
        with contextlib.suppress(OSError):  # it has ended
            ran, waited, _ = Path(f"/proc/{pid}/schedstat").read_text().split()
            processes[pid] = int(ran) / 1e9, int(waited) / 1e9
    return Account(time.monotonic(), processes)


def strain(before: Account, after: Account) -> str:
    """Say how short of CPU processes were meanwhile; empty if they had enough, or used most of it themselves."""
    spent = [
        (ran - before.processes[pid][0], waited - before.processes[pid][1])
        for pid, (ran, waited) in after.processes.items()
        if pid in before.processes
    ]
    ran_s, waited_s = sum(ran for ran, _ in spent), sum(waited for _, waited in spent)
    share = waited_s / (ran_s + waited_s or 1.0)
    own = ran_s / ((after.at_s - before.at_s) * (os.cpu_count() or 1) or 1.0)
    if share < WAITED or own > 1 - OTHERS:
        return ""
    return (
        f"the cluster waited for a CPU {share:.0%} of the time that it could have run, and got {own:.0%} of all of it"
    )


class ChaosWorld:
    """The processes. Calls that block have deadlines, and raise AssertionError with the end of a log after them."""

    def __init__(self, directory: Path, seed: int, holds_s: tuple[float, float], patient: bool) -> None:
        """A fault lasts between `holds_s`. `patient`: use default settings, not a local cluster's shorter times."""
        self.directory = directory
        self._holds_s = holds_s
        self._patient = patient
        self.network = Network(MACHINES, seed)
        self.volumes: dict[str, Volume] = {}
        self.no_volumes = ""  # the reason, if no machine has one
        self.may_end: set[str] = set()  # brokers that may end by themselves, since their disk was hurt
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._killed: set[str] = set()
        self._paused: set[str] = set()
        self._lives = dict.fromkeys(CLIENTS, 0)
        try:
            for name in SERVERS:
                self.volumes[name] = Volume(directory / f"{name}.image", directory / name)
        except OSError as error:
            self.volumes, self.no_volumes = {}, str(error)

    # -- names and places

    def address(self, name: str) -> str:
        return f"{self.network.address(name)}:{PORT}"

    @property
    def bootstrap(self) -> str:
        return ",".join(map(self.address, (BYSTANDER, *BROKERS)))

    def metadata(self) -> Any:
        """Return the metadata of the first broker that answers, or None."""
        for broker in BROKERS:
            if broker not in self._paused and (answer := probe.metadata_of(self.address(broker))) is not None:
                return answer
        return None

    async def leader(self, partition: TopicPartition) -> str | None:
        metadata = await asyncio.to_thread(self.metadata)
        for topic in metadata.topics if metadata is not None else ():
            for state in topic.partitions:
                if (topic.topic, state.partition) == partition and state.leader > 0:
                    return BROKERS[state.leader - 1]
        return None

    def life(self, client: str) -> str:
        """Return the name that a client's process has in its notes; each process numbers its records from 1."""
        return f"{client}.{self._lives[client]}"

    async def lasting(self, rng: random.Random, story: str) -> str:
        """Let a fault last for some seconds. Return its story, with them."""
        seconds = rng.uniform(*self._holds_s)
        await asyncio.sleep(seconds)
        return f"{story} for {seconds:.1f} s"

    def runs(self, name: str) -> bool:
        return self._processes[name].poll() is None

    # -- processes

    async def start(self) -> None:
        """Start all processes, and create the topics."""
        format_cluster(self.directory / CONTROLLER / "data")
        for name in SERVERS:
            self.launch(name)
        await self.wait_until_in_sync(START_TIMEOUT_S)
        async with Admin(self.bootstrap, timeout_ms=60_000) as admin:
            for topic, configs in TOPICS.items():
                await admin.create_topic(topic, configs=configs, assignment=[(1, 2, 3), (2, 3, 1), (3, 1, 2)])
        for name in CLIENTS:
            self.launch(name)

    def launch(self, name: str, environment: Mapping[str, str] | None = None) -> None:
        """Start a process on its machine, with `environment` added; do not wait for it."""
        if name in CLIENTS:
            self._lives[name] += 1
            life = self.life(name)
            notes = self.directory / f"{life}.notes"
            arguments = ["replog.chaos.client", life, self.bootstrap, str(notes), str(CLIENT_PACE_S)]
        else:
            arguments = ["replog.cli", "controller" if name == CONTROLLER else "broker"]
            arguments += ["--config", str(self._properties(name))]
        self.begin(name, self.network.enter(name), arguments, environment=environment)

    def begin(
        self,
        name: str,
        where: Sequence[str],
        arguments: Sequence[str],
        *,
        stdin: bytes = b"",
        environment: Mapping[str, str] | None = None,
    ) -> None:
        """Run a module of Python under that name, on the machine that `where` enters."""
        given = self.directory / f"{name}.stdin"
        given.write_bytes(stdin)
        with self.log(name).open("ab") as log, given.open("rb") as read:
            self._processes[name] = subprocess.Popen(
                [*where, sys.executable, "-P", "-m", *arguments],
                stdin=read,
                stdout=log,
                stderr=subprocess.STDOUT,
                env={**os.environ, **(environment or {})},
            )
        self._killed.discard(name)

    def command(self, name: str, *arguments: str, stdin: bytes = b"") -> None:
        """Start an operator's command on the run's own machine."""
        self.begin(name, (), ["replog.cli", *arguments, "--bootstrap-server", self.bootstrap], stdin=stdin)

    async def commanded(self, *arguments: str, stdin: bytes = b"") -> None:
        """Run an operator's command; it must end in time, and with status 0."""
        told = f"replog {' '.join(arguments)}"
        self.command("command", *arguments, stdin=stdin)
        await self.until(
            lambda: "it runs on" if self.runs("command") else "", COMMAND_TIMEOUT_S, f"{told} does not end"
        )
        status = self._processes["command"].returncode
        assert status == 0, f"{told} ended with status {status}:\n{log_tail(self.log('command'))}"

    async def no_move_is_left(self) -> None:
        """Wait until no move goes on, no throttle is left, and every broker takes new replicas."""
        with SyncAdmin(self.bootstrap, timeout_ms=60_000) as admin:

            def missing() -> str:
                if moves := admin.list_partition_reassignments():
                    return f"moves are left: {moves}"
                left = {each.broker_id: each.configs for each in admin.describe_cluster().brokers if each.configs}
                return f"settings of brokers are left: {left}" if left else ""

            await self.until(missing, IN_SYNC_TIMEOUT_S, "not all is undone")

    def empty(self, name: str) -> None:
        """Empty the disk of a broker, which must not run."""
        for path in (self.directory / name / "data").iterdir():
            shutil.rmtree(path) if path.is_dir() else path.unlink()

    def resident_mib(self, name: str) -> float:
        statm = Path(f"/proc/{self._processes[name].pid}/statm").read_text()
        return int(statm.split()[1]) * os.sysconf("SC_PAGE_SIZE") / (1 << 20)

    def log(self, name: str) -> Path:
        return self.directory / f"{name}.log"

    def _properties(self, name: str) -> Path:
        data = self.directory / name / "data"
        data.mkdir(parents=True, exist_ok=True)
        settings = {"listeners": self.address(name), "allow.plaintext": "true"}  # nobody else is on this network
        if name == CONTROLLER:
            settings |= {"metadata.log.dir": str(data)} | ({} if self._patient else CONTROLLER_SETTINGS)
        else:
            settings |= {"node.id": name[-1], "log.dirs": str(data), "controller.listener": self.address(CONTROLLER)}
            settings |= {} if self._patient else BROKER_SETTINGS
            settings |= {"log.retention.check.interval.ms": "2000"}  # retention looks while a clock is wrong
            settings |= {"metrics.listener": f"{self.network.address(name)}:{METRICS_PORT}"}
        path = self.directory / f"{name}.properties"
        path.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        return path

    def kill(self, name: str) -> None:
        """Send SIGKILL, and wait until the process has ended."""
        self._killed.add(name)
        self._paused.discard(name)
        self._processes[name].kill()
        self._processes[name].wait(STOP_TIMEOUT_S)

    def pause(self, name: str) -> None:
        if name in self._processes:
            self._paused.add(name)
            self._processes[name].send_signal(signal.SIGSTOP)

    def resume(self, name: str) -> None:
        if name in self._paused:
            self._paused.discard(name)
            self._processes[name].send_signal(signal.SIGCONT)

    def ask_to_stop(self, name: str) -> None:
        """Send SIGTERM, without waiting."""
        self._killed.add(name)
        self._processes[name].terminate()

    async def stopped(self, name: str) -> None:
        """Wait until a process that was asked to stop has ended with status 0."""
        await self.until(
            lambda: "" if not self.runs(name) else "it still runs", STOP_TIMEOUT_S, f"{name} does not stop"
        )
        status = self._processes[name].returncode
        assert status == 0, f"{name} stopped with status {status}:\n{log_tail(self.log(name))}"

    # -- healing

    async def mend(self) -> None:
        """Repair links and disks, resume and start processes. Raises AssertionError if one ended without a reason."""
        self.network.mend()
        for volume in self.volumes.values():
            await asyncio.to_thread(volume.repair)
        for name in list(self._paused):
            self.resume(name)
        for name in MACHINES:
            if not self.runs(name):
                wanted = name in self._killed or name in self.may_end
                assert wanted, f"{name} has ended by itself:\n{log_tail(self.log(name))}"
                self.launch(name)

    async def wait_until_in_sync(self, timeout_s: float = IN_SYNC_TIMEOUT_S) -> None:
        """Wait until every broker sees every broker unfenced, and every replica in sync.

        A broker may still end because of a disk that is repaired by now; then it is started again.
        """

        def missing() -> str:
            for name in (*BROKERS, BYSTANDER):
                if not self.runs(name):
                    assert name in self.may_end, f"{name} has ended by itself:\n{log_tail(self.log(name))}"
                    self.launch(name)
            for name in (*BROKERS, BYSTANDER):
                metadata = probe.metadata_of(self.address(name))
                if metadata is None:
                    return f"{name} does not answer"
                unfenced = {broker.broker_id for broker in metadata.brokers if not broker.fenced}
                if len(unfenced) < len(BROKERS) + 1:
                    return f"{name} sees only {sorted(unfenced)}"
                if behind := incomplete(metadata, None):
                    return f"{name} sees {', '.join(behind)}"
            return ""

        await self.until(missing, timeout_s, "not every replica came in sync")
        self.may_end.clear()

    async def until(self, missing: Callable[[], str], timeout_s: float, failure: str) -> None:
        """Wait until nothing is missing. On a machine short of CPU it waits three times as long, and raises Starved."""
        begun, before = time.monotonic(), self.account()
        while reason := await asyncio.to_thread(missing):
            if (waited_s := time.monotonic() - begun) >= timeout_s:
                reason = f"{failure} within {waited_s:.0f} s: {reason}"
                short = strain(before, self.account())
                assert short, reason
                if waited_s >= timeout_s * PATIENCE:
                    raise Starved(f"{reason}; {short}")
            await asyncio.sleep(POLL_S)

    def account(self) -> Account:
        return account(process.pid for process in self._processes.values() if process.poll() is None)
