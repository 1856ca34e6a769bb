"""replog: a controller and three brokers with their default settings, and the client of `replog_client.py`.

There are three: over the default transport, over the other one, and with TLS and an authorizer. Settings that a local
cluster changes are set back to their defaults.
"""

import asyncio
import contextlib
import inspect
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks.peers.peer import BROKERS, ClusterPeer, DescribedPartition, Settings
from replog.client import Admin, Producer
from replog.config.processes import BrokerConfig, ControllerConfig
from replog.errors import ErrorCode, ReplogError
from replog.local_cluster.local_cluster import LocalCluster
from replog.local_cluster.processes import ProcessState, end
from replog.rpc.transports import CLIENT_CONFIG, DEFAULT, TRANSPORTS

LOCAL_TO_BROKERS = ("broker_heartbeat_interval_ms", "replica_fetch_backoff_ms", "replica_lag_time_max_ms")
(_OTHER,) = TRANSPORTS.keys() - {DEFAULT}
_DEFAULTS = inspect.signature(Producer).parameters


class ReplogPeer(ClusterPeer):
    name = "replog"
    transport = DEFAULT
    secure = False  # True: TLS and an authorizer; this process and its children have the super user's certificate
    defaults = Settings(_DEFAULTS["batch_size"].default, round(_DEFAULTS["linger_ms"].default))
    warm_up_mb = 100

    def __init__(self, home: Path) -> None:
        fields = BrokerConfig.model_fields
        settings = {name.replace("_", "."): str(fields[name].default) for name in LOCAL_TO_BROKERS}
        settings["rpc.transport"] = self.transport
        self.local = LocalCluster(home, len(BROKERS), settings, secure=self.secure)
        os.environ[CLIENT_CONFIG] = str(self.local.client_config) if self.secure else ""
        self._closing = contextlib.AsyncExitStack()

    async def start(self) -> None:
        session_ms = ControllerConfig.model_fields["broker_session_timeout_ms"].default
        path = self.local.directory / "controller" / "controller.properties"
        path.parent.mkdir(parents=True)
        path.write_text(f"broker.session.timeout.ms={session_ms}\nrpc.transport={self.transport}\n")
        await asyncio.to_thread(self.local.up)
        self._admin = await self._closing.enter_async_context(Admin(self.bootstrap))

    async def close(self) -> None:
        await self._closing.aclose()
        with contextlib.suppress(ReplogError):  # there is no cluster
            processes = [member.process for member in self.local.state.members if member.process is not None]
            await asyncio.to_thread(end, processes)

    @property
    def members(self) -> Mapping[str, int]:
        members = self.local.state.members
        return {each.name: each.pid for each in members if each.pid and each.state is not ProcessState.STOPPED}

    @property
    def bootstrap(self) -> str:
        return self.local.bootstrap

    def data_directory(self, broker: int) -> Path:
        return self.local.data_directory(broker)

    async def create(self, topic: str, partitions: int) -> None:
        await self._admin.create_topic(topic, partitions, replication_factor=3)

    async def delete(self, topic: str) -> None:
        await self._admin.delete_topic(topic)

    async def describe(self, topic: str) -> list[DescribedPartition]:
        try:
            described = await self._admin.describe_topic(topic)
        except ReplogError as error:
            if error.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                raise
            return []
        return [DescribedPartition(p.leader, p.replicas, frozenset(p.isr)) for p in described.partitions]

    async def kill(self, broker: int) -> None:
        await asyncio.to_thread(self.local.kill, broker)

    async def launch(self, broker: int) -> None:
        await asyncio.to_thread(self.local.start, broker)

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
