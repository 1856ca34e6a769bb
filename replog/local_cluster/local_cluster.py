"""`LocalCluster`: controllers, brokers and etcds as operating-system processes under one directory.

The directory holds everything: `cluster.json`, and per process its properties file, its data and its log file
(`controller/controller.properties`, `broker-1/broker.properties`, `broker-1/data`, `broker-1/broker.log`). Processes
outlive the process that started them; any later `LocalCluster` on the same directory finds them again."""

import signal
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path
from random import SystemRandom
from typing import Any, Self

from replog.config.properties import load_properties
from replog.controller.cluster_state import new_cluster_id
from replog.errors import ErrorCode
from replog.local_cluster import etcds, probe
from replog.local_cluster.cluster_file import (
    BROKER,
    CONTROLLER,
    ETCD,
    ClusterFile,
    EtcdMember,
    LocalMember,
    MemberStatus,
    incomplete,
    locked,
    member_status,
)
from replog.local_cluster.probe import PATIENCE_S, Progress, wait_for
from replog.local_cluster.processes import (
    ProcessId,
    ProcessState,
    end,
    send_signal,
    spawn,
    state_of,
    terminate,
    told,
    wait_until_stopped,
    why_ended,
)
from replog.local_cluster.settings import LocalSettings
from replog.rpc.serving import READY
from replog.rpc.tls import Tls
from replog.rpc.transports import client_tls
from replog.server.controller.formatting import format_cluster, is_formatted

STOP_TIMEOUT_S, SIGNAL_TIMEOUT_S, POLL_S = 40.0, 5.0, 0.1
TOPICS_S = 10.0  # the timeout of an answer that lists all partitions: thousands take a busy broker seconds
MAX_BROKERS, MAX_CONTROLLERS = 100, 9

_refused = ErrorCode.INVALID_REQUEST.error
Wait = Callable[[Callable[[], str], str], None]  # takes what is missing, and the text of a failure


class LocalCluster:
    """The cluster in `directory`. Calls block, each with a deadline; use `asyncio.to_thread` on an event loop.

    As a context manager it is up on entry, and on exit every process is stopped, cleanly if possible."""

    def __init__(
        self,
        directory: Path,
        brokers: int | None = None,
        broker_settings: Mapping[str, str] | None = None,
        *,
        controllers: int | None = None,
        secure: bool = False,
    ) -> None:
        """`brokers`: default as many as the directory has, else 3. `broker_settings` go into every broker's file.
        `controllers`: default as many as it has, else one, on SQLite; several share three etcds. `secure`: a new
        cluster has its own authority, TLS on all connections, and an authorizer, for which commands are a super user;
        an existing cluster keeps what it has."""
        self._secure = secure
        self.directory = directory.absolute()
        self._wanted = brokers
        self._controllers = controllers
        self._settings = LocalSettings(self.directory, dict(broker_settings or {}))
        self.ended: dict[str, str] = {}  # brokers that ended when they were started, and the reasons

    @property
    def state(self) -> ClusterFile:
        """The saved state. Raises INVALID_REQUEST if no cluster was ever started in the directory."""
        if (state := ClusterFile.load(self.directory)) is None:
            here = self.directory
            raise _refused(f"there is no cluster in {here}; start one with: replog cluster up --directory {here}")
        return state

    @property
    def bootstrap(self) -> str:
        return self.state.bootstrap

    @property
    def tls(self) -> Tls | None:
        return client_tls(str(self.client_config)) if self.client_config.exists() else None

    @property
    def client_config(self) -> Path:
        """The file of settings with which clients reach a secure cluster."""
        return self._settings.client_config

    def home(self, member: LocalMember) -> Path:
        return self.directory / member.name

    def data_directory(self, broker_id: int) -> Path:
        return self.home(self.state.broker(broker_id)) / "data"

    def metrics_address(self, member: LocalMember) -> str:
        return load_properties(self.home(member) / f"{member.kind}.properties")["metrics.listener"]

    def log_file(self, member: LocalMember) -> Path:
        return self.home(member) / f"{member.kind}.log"

    def up(self, patience_s: float = PATIENCE_S, progress: Progress = lambda _: None, *, partly: bool = False) -> Self:
        """Start what does not run, and wait until every broker serves and is unfenced.

        `partly`: brokers that end, unless all do, are noted in `ended`, and the others serve. On failure or
        interruption the processes that this call started are stopped again. Raises BROKER_NOT_AVAILABLE with the end of
        the log of a process that ended, REQUEST_TIMED_OUT after `patience_s` without any progress, INVALID_REQUEST."""
        path = str(self.directory)
        if "," in path or not path.isprintable():  # a comma in log.dirs would begin another directory
            raise _refused(f"{path!r} cannot hold a cluster: it has a comma, or what cannot be printed; use another")
        wait = partial(wait_for, patience_s=patience_s, progress=progress)
        started: list[LocalMember] = []
        with locked(self.directory):
            state = self._plan()
            try:
                etcds.check_data(state, self.directory)
                kinds: Sequence[Sequence[LocalMember]] = ([], state.etcds, state.controllers, state.brokers)
                for needed, kind in pairwise(kinds):
                    for member in kind:
                        if member.state is ProcessState.STOPPED:
                            progress(f"starting {member.name} on {member.address}")
                            self._start(state, member, started)
                    self._wait_until_serving(kind, wait, needed, partly=partly and kind is state.brokers)
                    if kind is state.etcds:
                        self._format(state)
                progress("waiting until every broker is unfenced")
                self._wait_until_unfenced(state, wait)
            except BaseException:
                self._stop(state, started, 5.0, progress)
                raise
        return self

    def start(self, broker_id: int, patience_s: float = PATIENCE_S) -> None:
        """Start one broker on its own data and wait until it serves and every running broker is unfenced."""
        with locked(self.directory):
            state = self.state
            self._start_one(state, state.broker(broker_id), partial(wait_for, patience_s=patience_s))

    def down(self, timeout_s: float = STOP_TIMEOUT_S, progress: Progress = lambda _: None) -> list[str]:
        """Stop the brokers together, then the controllers, then etcds, all cleanly (SIGTERM).

        Processes that still run after `timeout_s` are killed, and their names returned."""
        with locked(self.directory):
            state = self.state
            return self._stop(state, state.members, timeout_s, progress)

    def forget(self, broker_id: int) -> None:
        """Stop a broker that has left the cluster, and never start it again. Its directory stays."""
        with locked(self.directory):
            state = self.state
            gone = state.broker(broker_id)
            self._stop(state, [gone], STOP_TIMEOUT_S)
            state.brokers.remove(gone)
            state.left.append(broker_id)
            state.save(self.directory)

    def rolling_restart(self, patience_s: float = PATIENCE_S, progress: Progress = lambda _: None) -> None:
        """Stop and start every controller and broker in order, one after the other, while clients go on.

        A broker is only stopped when no broker has a replica that is out of sync. Raises BROKER_NOT_AVAILABLE before
        the first restart if a process does not run, REQUEST_TIMED_OUT after `patience_s` without any progress."""
        wait = partial(wait_for, patience_s=patience_s, progress=progress)
        with locked(self.directory):
            state = self.state
            for member in (*state.controllers, *state.brokers):
                self._check_alive(member)
            for member in (*state.controllers, *state.brokers):
                self._wait_until_ready(state, wait)
                progress(f"restarting {member.name}")
                if killed := self._stop(state, [member], STOP_TIMEOUT_S):
                    raise ErrorCode.REQUEST_TIMED_OUT.error(
                        f"{killed[0]} did not stop within {STOP_TIMEOUT_S:g} s and was killed; its log says why: "
                        f"{self.log_file(member)}; start it with: replog cluster up --directory {self.directory}"
                    )
                self._start_one(state, member, wait)
            self._wait_until_ready(state, wait)

    def __enter__(self) -> Self:
        return self.up()

    def __exit__(self, *_: object) -> None:
        self.down()

    def kill(self, name: int | str) -> None:
        """Send SIGKILL to a broker by its id, or to any process by its name, and wait until it has ended."""
        with locked(self.directory):
            state = self.state
            member = state.member(str(name))
            end([self._signal(member, signal.SIGKILL)])
            member.process = None
            state.save(self.directory)

    def pause(self, name: int | str) -> None:
        """Send SIGSTOP, and wait until the process has stopped; it lives but is silent, as in a garbage collection."""
        process = self._signal(self.state.member(str(name)), signal.SIGSTOP)
        deadline = time.monotonic() + SIGNAL_TIMEOUT_S
        while state_of(process) is ProcessState.RUNNING and time.monotonic() < deadline:
            time.sleep(POLL_S)

    def resume(self, name: int | str) -> None:
        self._signal(self.state.member(str(name)), signal.SIGCONT)

    def _signal(self, member: LocalMember, number: signal.Signals) -> ProcessId:
        process = member.process
        if process is None or not send_signal(process, number):
            raise ErrorCode.BROKER_NOT_AVAILABLE.error(
                f"{member.name} is not running; start it with: replog cluster up --directory {self.directory}"
            )
        return process

    def metadata(self) -> Any:
        """Return the GetMetadataResponse of the first running broker that answers. Raises BROKER_NOT_AVAILABLE."""
        if (answer := self._metadata()) is None:
            raise ErrorCode.BROKER_NOT_AVAILABLE.error(
                f"no broker of {self.directory} answers; start them with: replog cluster up --directory "
                f"{self.directory}"
            )
        return answer

    def _metadata(self) -> Any:
        answers = (probe.metadata_of(broker.address, TOPICS_S, tls=self.tls) for broker in self.state.running)
        return next((answer for answer in answers if answer is not None), None)

    def status(self) -> list[MemberStatus]:
        metadata = self._metadata()
        return [member_status(member, metadata) for member in self.state.members]

    def wait_for_full_isr(self, topic: str | None = None, patience_s: float = PATIENCE_S) -> None:
        """Wait until every running broker sees a leader and all replicas in sync in each partition of `topic`, or of
        all topics. Raises REQUEST_TIMED_OUT, with some partitions, after `patience_s` without any progress."""

        def missing() -> str:
            for broker in self.state.running:
                metadata = probe.metadata_of(broker.address, TOPICS_S, tls=self.tls)
                if metadata is None:
                    return f"{broker.name} does not answer"
                if behind := incomplete(metadata, topic):
                    return f"{broker.name} sees {len(behind)} such as {', '.join(behind[:8])}"
            return ""

        wait_for(missing, "not every replica came in sync", patience_s)

    def _plan(self) -> ClusterFile:
        """Return and save the cluster as it shall be: with all wanted brokers, and free ports for stopped members."""
        state = ClusterFile.load(self.directory)
        count = (len(state.brokers) if state else 3) if self._wanted is None else self._wanted
        if not 1 <= count <= MAX_BROKERS:
            raise _refused(f"brokers={count}: choose from 1 to {MAX_BROKERS}")
        if state is not None and count < len(state.brokers):
            raise _refused(
                f"{self.directory} holds a cluster of {len(state.brokers)} brokers, more than {count}; "
                f"use another directory or say --brokers {len(state.brokers)}"
            )
        if state is None:
            state = self._new_state()
        elif self._controllers not in (None, len(state.controllers)):
            raise _refused(
                f"{self.directory} holds a cluster of {len(state.controllers)} controllers, and keeps that number; "
                f"use another directory to have {self._controllers}"
            )
        if self._secure and not self._settings.secure:
            raise _refused(f"the cluster in {self.directory} was made without TLS; say --secure when a new one is made")
        state.add_brokers(count - len(state.brokers))
        state.free_ports()
        state.save(self.directory)
        return state

    def _new_state(self) -> ClusterFile:
        """Return a new cluster without brokers. Its certificates, and a store on SQLite, are made here."""
        count = 1 if self._controllers is None else self._controllers
        if not 1 <= count <= MAX_CONTROLLERS:
            raise _refused(f"controllers={count}: choose from 1 to {MAX_CONTROLLERS}")
        state = ClusterFile.new(count, etcds.ETCDS if count > 1 else 0)
        if state.etcds:
            etcds.find_program()
        elif is_formatted(store := self.home(state.controller) / "data"):
            return state
        cluster_id = new_cluster_id(SystemRandom()) if state.etcds else format_cluster(store)
        if self._secure and not (state.etcds and self._settings.secure):
            self._settings.make_secure(cluster_id, etcds=bool(state.etcds))
        return state

    def _start(self, state: ClusterFile, member: LocalMember, started: list[LocalMember]) -> None:
        """Write the member's properties, spawn it, and save its process id, otherwise the process could be lost."""
        data = self.home(member) / "data"
        data.mkdir(parents=True, exist_ok=True, mode=0o700 if member.kind == ETCD else 0o777)
        if isinstance(member, EtcdMember):
            files = self._settings.etcd_files(member)
            command = etcds.command(member, state.etcds, data, files)
        else:
            path = self._settings.write(state, member)
            command = [sys.executable, "-P", "-m", "replog.cli", member.kind, "--config", str(path)]
        member.process = spawn(command, self.log_file(member))
        started.append(member)
        state.save(self.directory)

    def _start_one(self, state: ClusterFile, member: LocalMember, wait: Wait) -> None:
        if member.state is ProcessState.STOPPED:
            self._start(state, member, [])
        self._wait_until_serving([member], wait)
        self._wait_until_unfenced(state, wait)

    def _format(self, state: ClusterFile) -> None:
        """Put the metadata of a new cluster into the etcds, once."""
        if state.etcds and not state.formatted:
            path = self._settings.write(state, state.controller)
            etcds.format_once(load_properties(path), str(path), self._settings.cluster_id())
            state.formatted = True
            state.save(self.directory)

    def _stop(
        self, state: ClusterFile, members: list[LocalMember], timeout_s: float, progress: Progress = lambda _: None
    ) -> list[str]:
        """Stop brokers, then controllers, then etcds: SIGTERM, and SIGKILL after `timeout_s` (at once if 0). Return the
        names of those that had to be killed."""
        killed: list[str] = []
        for kind, words in ((BROKER, "the brokers"), (CONTROLLER, "the controller"), (ETCD, "the etcds")):
            if not (chosen := [member for member in members if member.kind == kind]):
                continue
            progress(f"stopping {words}" + "s" * (kind == CONTROLLER and len(chosen) > 1))
            running = {member.name: process for member in chosen if (process := member.process) is not None}
            for process in running.values() if timeout_s > 0 else ():
                terminate(process)
            left = wait_until_stopped(running.values(), timeout_s)
            end(left)
            killed += [name for name, process in running.items() if process in left]
            for member in chosen:
                member.process = None
        state.save(self.directory)
        return killed

    def _wait_until_serving(
        self, members: Sequence[LocalMember], wait: Wait, needed: Sequence[LocalMember] = (), *, partly: bool = False
    ) -> None:
        waiting = list(members)
        self.ended = {}

        def missing() -> str:
            self._check_any_alive(needed)
            for member in list(waiting):
                if partly and member.state is ProcessState.STOPPED and len(self.ended) + 1 < len(members):
                    self.ended[member.name] = why_ended(self.log_file(member))
                    waiting.remove(member)
                    continue
                self._check_alive(member)
                tls = self._settings.etcd_tls(member) if member.kind == ETCD else self.tls
                if probe.is_serving(member.address, tls):
                    waiting.remove(member)
            return ", ".join(f"{member.name} ({member.address}{told(self.log_file(member))})" for member in waiting)

        wait(missing, f"not serving in time (logs: {self.directory}/*/*.log)")

    def _wait_until_unfenced(self, state: ClusterFile, wait: Wait) -> None:
        """Wait until every running broker knows that every running broker is unfenced."""
        running = state.running

        def missing() -> str:
            self._check_any_alive(state.controllers)
            for broker in running:
                self._check_alive(broker)
                metadata = probe.metadata_of(broker.address, without_topics=True, tls=self.tls)
                known = {other.broker_id for other in metadata.brokers if not other.fenced} if metadata else set()
                if unseen := [other for other in running if other.node_id not in known]:
                    why = "".join(dict.fromkeys(told(self.log_file(each)) for each in (broker, *unseen)))
                    return f"{broker.name} does not see {', '.join(other.name for other in unseen)}{why}"
            return ""

        wait(missing, f"not unfenced in time (logs: {self.directory}/*/*.log)")

    def _wait_until_ready(self, state: ClusterFile, wait: Wait) -> None:
        def missing() -> str:
            behind = [b.name for b in state.brokers if not probe.is_serving(b.address, self.tls, READY)]
            return f"{', '.join(behind)} not in sync" if behind else ""

        wait(missing, "not every replica came in sync")

    def _check_any_alive(self, members: Sequence[LocalMember]) -> None:
        """Raise, with the reason of the first, if all of them ended: what is waited for would never come."""
        if all(member.state is ProcessState.STOPPED for member in members):
            for member in members:
                self._check_alive(member)

    def _check_alive(self, member: LocalMember) -> None:
        if member.state is ProcessState.STOPPED:
            raise ErrorCode.BROKER_NOT_AVAILABLE.error(f"{member.name} ended: {why_ended(self.log_file(member))}")
