"""`LocalCluster`: a controller and brokers as operating-system processes under one directory.

The directory holds everything: `cluster.json`, and per process its properties file, its data and its log file
(`controller/controller.properties`, `broker-1/broker.properties`, `broker-1/data`, `broker-1/broker.log`). Processes
outlive the process that started them; any later `LocalCluster` on the same directory finds them again.
"""

import contextlib
import fcntl
import re
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Self

from replog.errors import ErrorCode, ReplogError
from replog.local_cluster import probe
from replog.local_cluster.cluster_file import (
    CA_CERTIFICATE,
    CLIENT_FILE,
    CONTROLLER,
    TLS_DIRECTORY,
    ClusterFile,
    LocalMember,
)
from replog.local_cluster.ports import HOST, free_port, is_free
from replog.local_cluster.processes import (
    ProcessId,
    ProcessState,
    send_signal,
    spawn,
    state_of,
    terminate,
    wait_until_stopped,
)
from replog.local_cluster.status import MemberStatus, member_status, out_of_sync
from replog.local_cluster.waiting import PATIENCE_S, Progress, wait_for
from replog.log.files.replacing import write_atomically
from replog.properties import load_properties
from replog.rpc.peer import Role
from replog.rpc.tls import Tls
from replog.rpc.transports import client_tls
from replog.server.controller.formatting import format_cluster, is_formatted

STOP_TIMEOUT_S = 40.0
SIGNAL_TIMEOUT_S = 5.0
POLL_S = 0.1
TOPICS_S = 10.0  # for one answer that lists all partitions: a busy broker takes seconds for thousands
MAX_BROKERS = 100
CLIENT_NAME = "admin"  # whose certificate the commands show
GUARD = {  # of a secure cluster
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": f"User:{CLIENT_NAME}",
}
LOG_TAIL_LINES, LOG_TAIL_BYTES = 12, 16 << 10

# A local cluster notices a dead process within seconds: it has no slow network to be patient with.
CONTROLLER_SETTINGS = {"broker.session.timeout.ms": "3000"}
BROKER_SETTINGS = {
    "broker.heartbeat.interval.ms": "500",
    "replica.fetch.backoff.ms": "200",
    "replica.lag.time.max.ms": "10000",
}
_FILE_HEAD = "# Settings here are kept, except addresses and the first of log.dirs. It holds from the next start on."

_LOADING = re.compile(r'"progress": "([^"]*)", "event": "loading logs"')

Wait = Callable[[Callable[[], str], str], None]  # until nothing is missing; the words for a failure


class LocalCluster:
    """The cluster in `directory`. Calls block, each with a deadline; use `asyncio.to_thread` on an event loop.

    As a context manager: up on entry, and on exit every process stopped, cleanly where that is possible.
    """

    def __init__(
        self,
        directory: Path,
        brokers: int | None = None,
        broker_settings: Mapping[str, str] | None = None,
        *,
        secure: bool = False,
    ) -> None:
        """`brokers`: as many as the directory already has, else 3. `broker_settings` go into every broker's file.

        `secure`: a new cluster has an authority of its own, all its connections TLS, and an authorizer, to which the
        commands are a super user; a cluster keeps what it has.
        """
        self._secure = secure
        self.directory = directory.absolute()
        self._wanted = brokers
        self._broker_settings = dict(broker_settings or {})

    # -- state ---------------------------------------------------------------------------------------------------

    @property
    def state(self) -> ClusterFile:
        """Raises INVALID_REQUEST if no cluster was ever started in the directory."""
        state = ClusterFile.load(self.directory)
        if state is None:
            raise ReplogError(
                ErrorCode.INVALID_REQUEST,
                f"there is no cluster in {self.directory}; start one with: replog cluster up --directory "
                f"{self.directory}",
            )
        return state

    @property
    def bootstrap(self) -> str:
        return self.state.bootstrap

    @property
    def tls(self) -> Tls | None:
        """For clients of this cluster: None without TLS."""
        return client_tls(str(self.client_config)) if self.client_config.exists() else None

    @property
    def client_config(self) -> Path:
        """How clients reach a secure cluster."""
        return self.directory / TLS_DIRECTORY / CLIENT_FILE

    def home(self, member: LocalMember) -> Path:
        return self.directory / member.name

    def data_directory(self, broker_id: int) -> Path:
        return self.home(self.state.broker(broker_id)) / "data"

    def log_file(self, member: LocalMember) -> Path:
        return self.home(member) / ("controller.log" if member.name == CONTROLLER else "broker.log")

    # -- up and down ---------------------------------------------------------------------------------------------

    def up(self, patience_s: float = PATIENCE_S, progress: Progress = lambda _: None) -> Self:
        """Start what does not run, and wait until every broker serves and is unfenced.

        On failure or interruption the processes that this call started are stopped again. Raises BROKER_NOT_AVAILABLE
        with the end of the log of a process that ended, REQUEST_TIMED_OUT after `patience_s` without any progress,
        INVALID_REQUEST.
        """
        wait = partial(wait_for, patience_s=patience_s, progress=progress)
        started: list[LocalMember] = []
        with self._locked():
            state = self._plan()
            try:
                if state.controller.state is ProcessState.STOPPED:
                    progress(f"starting the controller on {state.controller.address}")
                    self._start(state, state.controller, started)
                self._wait_until_serving([state.controller], wait)
                for broker in state.brokers:
                    if broker.state is ProcessState.STOPPED:
                        progress(f"starting {broker.name} on {broker.address}")
                        self._start(state, broker, started)
                self._wait_until_serving(state.brokers, wait)
                progress("waiting until every broker is unfenced")
                self._wait_until_unfenced(state, wait)
            except BaseException:
                _stop(state, started, 5.0)
                state.save(self.directory)
                raise
        return self

    def start(self, broker_id: int, patience_s: float = PATIENCE_S) -> None:
        """Start one broker on its own data and wait until it serves and every running broker is unfenced."""
        wait = partial(wait_for, patience_s=patience_s)
        with self._locked():
            state = self.state
            broker = state.broker(broker_id)
            if broker.state is ProcessState.STOPPED:
                self._start(state, broker, [])
            self._wait_until_serving([broker], wait)
            self._wait_until_unfenced(state, wait)

    def down(self, timeout_s: float = STOP_TIMEOUT_S, progress: Progress = lambda _: None) -> list[str]:
        """Stop the brokers together, then the controller, all cleanly (SIGTERM).

        What still runs after `timeout_s` is killed; the names of those processes are returned.
        """
        with self._locked():
            state = self.state
            progress("stopping the brokers")
            killed = _stop(state, state.brokers, timeout_s)
            progress("stopping the controller")
            killed += _stop(state, [state.controller], timeout_s)
            state.save(self.directory)
        return killed

    def __enter__(self) -> Self:
        return self.up()

    def __exit__(self, *_: object) -> None:
        self.down()

    # -- faults --------------------------------------------------------------------------------------------------

    def kill(self, broker_id: int) -> None:
        """SIGKILL: as a crash of the process. Returns once it is gone."""
        with self._locked():
            state = self.state
            broker = state.broker(broker_id)
            process = self._signal(broker, signal.SIGKILL)
            wait_until_stopped([process], 10.0)
            broker.process = None
            state.save(self.directory)

    def pause(self, broker_id: int) -> None:
        """SIGSTOP: the process lives and says nothing, as a very long garbage collection would. Back once it stands."""
        process = self._signal(self.state.broker(broker_id), signal.SIGSTOP)
        deadline = time.monotonic() + SIGNAL_TIMEOUT_S
        while state_of(process) is ProcessState.RUNNING and time.monotonic() < deadline:
            time.sleep(POLL_S)

    def resume(self, broker_id: int) -> None:
        """SIGCONT."""
        self._signal(self.state.broker(broker_id), signal.SIGCONT)

    def _signal(self, member: LocalMember, number: signal.Signals) -> ProcessId:
        process = member.process
        if process is None or not send_signal(process, number):
            raise ReplogError(
                ErrorCode.BROKER_NOT_AVAILABLE,
                f"{member.name} is not running; start it with: replog cluster up --directory {self.directory}",
            )
        return process

    # -- views ---------------------------------------------------------------------------------------------------

    def metadata(self) -> Any:
        """What the first running broker that answers knows (a GetMetadataResponse). Raises BROKER_NOT_AVAILABLE."""
        state = self.state
        for broker in state.brokers:
            if (
                broker.state is ProcessState.RUNNING
                and (answer := probe.metadata_of(broker.address, TOPICS_S, tls=self.tls)) is not None
            ):
                return answer
        raise ReplogError(
            ErrorCode.BROKER_NOT_AVAILABLE,
            f"no broker of {self.directory} answers; start them with: replog cluster up --directory {self.directory}",
        )

    def status(self) -> list[MemberStatus]:
        try:
            metadata = self.metadata()
        except ReplogError as error:
            if error.code is not ErrorCode.BROKER_NOT_AVAILABLE:
                raise
            metadata = None
        return [member_status(member, metadata) for member in self.state.members]

    def wait_for_full_isr(self, topic: str | None = None, patience_s: float = PATIENCE_S) -> None:
        """Until every running broker sees every replica of `topic` (of all topics) in sync and a leader for each.

        Raises REQUEST_TIMED_OUT naming some partitions that are not, after `patience_s` without any progress.
        """

        def missing() -> str:
            for broker in self.state.brokers:
                if broker.state is not ProcessState.RUNNING:
                    continue
                metadata = probe.metadata_of(broker.address, TOPICS_S, tls=self.tls)
                if metadata is None:
                    return f"{broker.name} does not answer"
                behind = out_of_sync(metadata, topic)
                if behind:
                    return f"{broker.name} sees {len(behind)} such as {', '.join(behind[:8])}"
            return ""

        wait_for(missing, "not every replica came in sync", patience_s)

    # -- steps ---------------------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        """One command at a time changes a cluster."""
        self.directory.mkdir(parents=True, exist_ok=True)
        with (self.directory / ".cluster.lock").open("w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise ReplogError(
                    ErrorCode.INVALID_REQUEST,
                    f"another command is changing the cluster in {self.directory}; wait until it has finished",
                ) from None
            yield

    def _plan(self) -> ClusterFile:
        """The cluster as it shall be: as many brokers as wanted, every stopped member on a port that is free."""
        state = ClusterFile.load(self.directory)
        count = self._wanted or (len(state.brokers) if state else 3)
        if not 1 <= count <= MAX_BROKERS:
            raise ReplogError(ErrorCode.INVALID_REQUEST, f"brokers={count}: choose from 1 to {MAX_BROKERS}")
        if state is not None and count < len(state.brokers):
            raise ReplogError(
                ErrorCode.INVALID_REQUEST,
                f"{self.directory} holds a cluster of {len(state.brokers)} brokers, more than {count}; "
                f"use another directory or say --brokers {len(state.brokers)}",
            )
        taken = [member.port for member in state.members] if state else []
        if state is None:
            taken.append(free_port(taken))
            state = ClusterFile(controller=LocalMember(name=CONTROLLER, node_id=0, port=taken[0]), brokers=[])
            metadata = self.home(state.controller) / "data"
            if not is_formatted(metadata):
                cluster_id = format_cluster(metadata)
                if self._secure:
                    self._make_authority(cluster_id)
        if self._secure and not self.client_config.exists():
            raise ReplogError(
                ErrorCode.INVALID_REQUEST,
                f"the cluster in {self.directory} was made without TLS; say --secure when a new one is made",
            )
        for node_id in range(len(state.brokers) + 1, count + 1):
            taken.append(free_port(taken))
            state.brokers.append(LocalMember(name=f"broker-{node_id}", node_id=node_id, port=taken[-1]))
        for member in state.members:
            if member.state is ProcessState.STOPPED:
                member.process = None
                if not is_free(member.port):
                    member.port = free_port(taken)
                    taken.append(member.port)
        state.save(self.directory)
        return state

    def _start(self, state: ClusterFile, member: LocalMember, started: list[LocalMember]) -> None:
        """Write the member's properties and spawn it; noted in `cluster.json` before anything is waited for."""
        home = self.home(member)
        (home / "data").mkdir(parents=True, exist_ok=True)
        kind = "controller" if member.name == CONTROLLER else "broker"
        path = home / f"{kind}.properties"
        settings = [f"{name}={value}" for name, value in self._properties(state, member, path).items()]
        write_atomically(path, "\n".join([_FILE_HEAD, *settings, ""]).encode())
        member.process = spawn(["-m", "replog.cli", kind, "--config", str(path)], self.log_file(member))
        started.append(member)
        state.save(self.directory)

    def _make_authority(self, cluster_id: str) -> None:
        from replog.local_cluster import authority  # which takes a while to load

        tls = self.directory / TLS_DIRECTORY
        authority.init(tls, cluster_id)
        keystore = authority.issue(tls, Role.CLIENT, CLIENT_NAME)
        settings = _security(tls, keystore)
        write_atomically(self.client_config, "".join(f"{name}={value}\n" for name, value in settings.items()).encode())

    def _keystore(self, member: LocalMember) -> dict[str, str]:
        """Nothing without TLS."""
        tls = self.directory / TLS_DIRECTORY
        if not self.client_config.exists():
            return {}
        role, name = (Role.CONTROLLER, CONTROLLER) if member.name == CONTROLLER else (Role.BROKER, str(member.node_id))
        path = tls / f"{role}-{name}.pem"
        if not path.exists():
            from replog.local_cluster import authority

            authority.issue(tls, role, name)
        return _security(tls, path)

    def _properties(self, state: ClusterFile, member: LocalMember, path: Path) -> dict[str, str]:
        """What the member's file held before stays, except what the supervisor decides; `log.dirs` may be longer."""
        before = load_properties(path) if path.exists() else {}
        guard = GUARD if self.client_config.exists() else {}
        address = {
            "listeners": f"{HOST}:{member.port}",
            "metrics.listener": self._metrics_address(state, before.get("metrics.listener", "")),
            **self._keystore(member),
        }
        if member.name == CONTROLLER:
            defaults = {
                **CONTROLLER_SETTINGS,
                **guard,
                "default.replication.factor": str(min(3, len(state.brokers))),
                "min.insync.replicas": str(min(2, len(state.brokers))),
            }
            return {**defaults, **before, **address, "metadata.log.dir": str(path.parent / "data")}
        decided = {
            "node.id": str(member.node_id),
            **address,
            "controller.listener": state.controller.address,
        }
        if before.get("log.dirs", "").split(",")[0] != str(path.parent / "data"):  # of this directory, not of a copy's
            decided["log.dirs"] = str(path.parent / "data")
        return {**BROKER_SETTINGS, **guard, **before, **self._broker_settings, **decided}

    @staticmethod
    def _metrics_address(state: ClusterFile, before: str) -> str:
        """The one that it had, if nobody else has taken it meanwhile."""
        port = int(before.rpartition(":")[2] or 0)
        return before if port and is_free(port) else f"{HOST}:{free_port(member.port for member in state.members)}"

    def metrics_address(self, member: LocalMember) -> str:
        """Where it shows `/metrics`."""
        kind = "controller" if member.name == CONTROLLER else "broker"
        return load_properties(self.directory / member.name / f"{kind}.properties")["metrics.listener"]

    def _wait_until_serving(self, members: list[LocalMember], wait: Wait) -> None:
        waiting = list(members)

        def missing() -> str:
            for member in list(waiting):
                self._check_alive(member)
                if probe.is_serving(member.address, self.tls):
                    waiting.remove(member)
            return ", ".join(f"{member.name} ({member.address}{self._loading(member)})" for member in waiting)

        wait(missing, f"not serving in time (logs: {self.directory}/*/*.log)")

    def _loading(self, member: LocalMember) -> str:
        """What a broker that starts has last said of its logs."""
        told = _LOADING.findall(log_tail(self.log_file(member)))
        return f", {told[-1]}" if told else ""

    def _wait_until_unfenced(self, state: ClusterFile, wait: Wait) -> None:
        """Until every running broker knows that every running broker is unfenced."""
        running = [broker for broker in state.brokers if broker.state is ProcessState.RUNNING]
        wanted = {broker.node_id for broker in running}

        def missing() -> str:
            for broker in running:
                self._check_alive(broker)
                metadata = probe.metadata_of(broker.address, without_topics=True, tls=self.tls)
                known = {other.broker_id for other in metadata.brokers if not other.fenced} if metadata else set()
                if wanted - known:
                    return f"{broker.name} does not see {', '.join(f'broker-{i}' for i in sorted(wanted - known))}"
            return ""

        wait(missing, f"not unfenced in time (logs: {self.directory}/*/*.log)")

    def _check_alive(self, member: LocalMember) -> None:
        if member.state is ProcessState.STOPPED:
            raise ReplogError(
                ErrorCode.BROKER_NOT_AVAILABLE,
                f"{member.name} ended; the last lines of {self.log_file(member)}:\n{log_tail(self.log_file(member))}",
            )


def _security(tls: Path, keystore: Path) -> dict[str, str]:
    return {
        "security.protocol": "SSL",
        "ssl.keystore.location": str(keystore),
        "ssl.truststore.location": str(tls / CA_CERTIFICATE),
    }


def _stop(state: ClusterFile, members: list[LocalMember], timeout_s: float) -> list[str]:
    """SIGTERM all, SIGKILL what is left after `timeout_s` (at once if 0); names of the killed."""
    running = [(member, process) for member in members if (process := member.process) is not None]
    if timeout_s > 0:
        for _, process in running:
            terminate(process)
    left = wait_until_stopped([process for _, process in running], timeout_s)
    for process in left:
        send_signal(process, signal.SIGKILL)
    wait_until_stopped(left, 10.0)
    for member, _ in running:
        member.process = None
    return [member.name for member, process in running if process in left]


def log_tail(path: Path) -> str:
    """The last lines, indented, for an error message."""
    try:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - LOG_TAIL_BYTES))
            lines = file.read().decode(errors="replace").splitlines()
    except OSError as error:
        return f"(cannot read it: {error})"
    return "\n".join("  " + line for line in lines[-LOG_TAIL_LINES:]) or "  (it is empty)"
