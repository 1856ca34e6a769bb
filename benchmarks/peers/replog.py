"""replog: a controller and three brokers with their default settings, and the client of `replog_client.py`.

There are three: over the default transport, over the other one, and with TLS and an authorizer. Settings that a local
cluster changes are set back to their defaults.
"""

import asyncio
import contextlib
import inspect
import os
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Mapping, Sequence
from pathlib import Path

from benchmarks.peers.peer import (
    BROKERS,
    CONTROLLER,
    POLL_S,
    Cluster,
    DescribedPartition,
    Send,
    Settings,
    broker_name,
    close_in_time,
)
from replog.client import Admin, Producer
from replog.config.processes import BrokerConfig, ControllerConfig
from replog.errors import ErrorCode, ReplogError
from replog.local_cluster.local_cluster import LocalCluster
from replog.local_cluster.processes import (
    ProcessId,
    ProcessState,
    send_signal,
    spawn,
    state_of,
    terminate,
    wait_until_stopped,
)
from replog.rpc.transports import CLIENT_CONFIG, DEFAULT, TRANSPORTS

_LOCAL_TO_BROKERS = ("broker_heartbeat_interval_ms", "replica_fetch_backoff_ms", "replica_lag_time_max_ms")
(_OTHER,) = TRANSPORTS.keys() - {DEFAULT}
_DEFAULTS = inspect.signature(Producer).parameters


class ReplogPeer(Cluster):
    name = "replog"
    transport = DEFAULT
    secure = False  # True: TLS and an authorizer; this process and its children have the super user's certificate
    defaults = Settings(_DEFAULTS["batch_size"].default, round(_DEFAULTS["linger_ms"].default))
    warm_up_mb = 100

    def __init__(self, home: Path) -> None:
        fields = BrokerConfig.model_fields
        settings = {name.replace("_", "."): str(fields[name].default) for name in _LOCAL_TO_BROKERS}
        settings["rpc.transport"] = self.transport
        self._cluster = LocalCluster(home, len(BROKERS), settings, secure=self.secure)
        os.environ[CLIENT_CONFIG] = str(self._cluster.client_config) if self.secure else ""
        self._running: dict[str, ProcessId] = {}
        self._admin: Admin | None = None

    async def start(self) -> None:
        session_ms = ControllerConfig.model_fields["broker_session_timeout_ms"].default
        path = self._cluster.directory / "controller" / "controller.properties"
        path.parent.mkdir(parents=True)
        path.write_text(f"broker.session.timeout.ms={session_ms}\nrpc.transport={self.transport}\n")
        try:
            await asyncio.to_thread(self._cluster.up)
        finally:
            with contextlib.suppress(ReplogError):
                self._running = {m.name: m.process for m in self._cluster.state.members if m.process is not None}
        self._admin = Admin(self._cluster.bootstrap)

    async def close(self) -> None:
        if self._admin is not None:
            await self._admin.close()
        for process in self._running.values():
            send_signal(process, signal.SIGKILL)
        await asyncio.to_thread(wait_until_stopped, list(self._running.values()), 10.0)

    @property
    def members(self) -> Mapping[str, int]:
        return {
            name: process.pid
            for name, process in self._running.items()
            if state_of(process) is not ProcessState.STOPPED
        }

    @property
    def addresses(self) -> Mapping[str, str]:
        state = self._cluster.state
        return {CONTROLLER: state.controller.address} | {broker.name: broker.address for broker in state.brokers}

    @property
    def bootstrap(self) -> str:
        return self._cluster.bootstrap

    def log(self, name: str) -> str:
        (member,) = (member for member in self._cluster.state.members if member.name == name)
        return self._cluster.log_file(member).read_text()

    def data_directory(self, broker: int) -> Path:
        return self._cluster.data_directory(broker)

    async def create(self, topic: str, partitions: int) -> None:
        assert self._admin is not None
        await self._admin.create_topic(topic, partitions, replication_factor=3)

    async def delete(self, topic: str) -> None:
        assert self._admin is not None
        await self._admin.delete_topic(topic)

    async def describe(self, topic: str) -> list[DescribedPartition]:
        assert self._admin is not None
        try:
            described = await self._admin.describe_topic(topic)
        except ReplogError as error:
            if error.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                raise
            return []
        return [DescribedPartition(p.leader, p.replicas, frozenset(p.isr)) for p in described.partitions]

    def producer(self) -> contextlib.AbstractAsyncContextManager[Send]:
        return producer(self.bootstrap)

    def kill(self, broker: int) -> None:
        send_signal(self._running[broker_name(broker)], signal.SIGKILL)

    async def stop(self, broker: int) -> None:
        process = self._running[broker_name(broker)]
        terminate(process)
        while state_of(process) is not ProcessState.STOPPED:
            await asyncio.sleep(POLL_S)

    def launch(self, broker: int) -> None:
        member = self._cluster.state.broker(broker)
        properties = self._cluster.home(member) / "broker.properties"
        arguments = ["-m", "replog.cli", "broker", "--config", str(properties)]
        self._running[member.name] = spawn(arguments, self._cluster.log_file(member))

    def client_command(self) -> Sequence[str]:
        return [sys.executable, "-m", "benchmarks.peers.replog_client", self.bootstrap, self.transport]

    def options(self, settings: Settings) -> Mapping[str, object]:
        options = {"batch_size": settings.batch_bytes, "linger_ms": settings.linger_ms}
        return {name: value for name, value in options.items() if value is not None}


class OtherReplogPeer(ReplogPeer):
    name = f"replog, {_OTHER}"
    transport = _OTHER


class SecureReplogPeer(ReplogPeer):
    name = "replog, TLS"
    secure = True


@contextlib.asynccontextmanager
async def producer(bootstrap: str) -> AsyncIterator[Send]:
    producing = await Producer(bootstrap).start()

    async def send(topic: str, partition: int, value: bytes) -> Awaitable[object]:
        return await producing.send(topic, value, partition=partition)

    try:
        yield send
    finally:
        await close_in_time(producing.close)
