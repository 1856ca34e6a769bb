"""A controller and brokers in one event loop: real gRPC on loopback, real logs, real SQLite, no processes."""

import random
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from cluster.broker.broker import Broker
from cluster.clock import SystemClock
from cluster.controller.controller import Controller
from cluster.controller.service import ControllerService
from cluster.controller.sqlite_store import SqliteStore
from replog.config import BrokerConfig, ControllerConfig
from replog.rpc import methods
from replog.rpc.channel import GrpcTransport
from replog.rpc.server import Server


class InProcessCluster:
    """Start brokers one by one with `start_broker`; whatever still runs is stopped at the end."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.brokers: dict[int, Broker] = {}
        self.controller_address = ""
        self._controller: Controller | None = None
        self._server: Server | None = None

    async def start_controller(self) -> None:
        config = ControllerConfig(
            listeners="127.0.0.1:0", metadata_log_dir=self.directory / "controller", broker_session_timeout_ms=1500
        )
        store = SqliteStore(config.metadata_log_dir)
        self._controller = Controller(config, store, SystemClock(), random.Random(1))
        await self._controller.start()
        self._server = Server(config.listeners)
        self._server.add(methods.CONTROLLER, ControllerService(self._controller))
        self.controller_address = await self._server.start()

    def config(self, broker_id: int, **overrides: object) -> BrokerConfig:
        settings = {
            "node_id": broker_id,
            "listeners": "127.0.0.1:0",
            "controller_listener": self.controller_address,
            "log_dirs": self.directory / f"broker-{broker_id}",
            "broker_heartbeat_interval_ms": 100,
            "broker_session_timeout_ms": 1500,
            "replica_fetch_backoff_ms": 50,
            "replica_lag_time_max_ms": 2000,
        }
        return BrokerConfig.model_validate(settings | overrides)

    async def start_broker(self, broker_id: int, **overrides: object) -> Broker:
        broker = Broker(self.config(broker_id, **overrides), GrpcTransport(), SystemClock(), random.Random(broker_id))
        await broker.start()
        self.brokers[broker_id] = broker
        return broker

    async def stop_broker(self, broker_id: int) -> None:
        await self.brokers.pop(broker_id).stop()

    async def stop(self) -> None:
        for broker_id in list(self.brokers):
            await self.stop_broker(broker_id)
        assert self._controller is not None
        assert self._server is not None
        await self._controller.stop()
        await self._server.stop(0)


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[InProcessCluster]:
    cluster = InProcessCluster(tmp_path)
    await cluster.start_controller()
    yield cluster
    await cluster.stop()
