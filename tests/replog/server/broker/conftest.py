"""A controller and brokers in one event loop: real gRPC on loopback, real logs, real SQLite, no processes."""

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import suppress
from inspect import isawaitable
from pathlib import Path
from typing import Any

import pytest

from replog.client import Admin
from replog.client.records import encode_batch
from replog.config.processes import BrokerConfig, ControllerConfig
from replog.errors import ErrorCode
from replog.log.log import Log
from replog.rpc import methods
from replog.rpc.codec import WithRecords
from replog.rpc.transport import Channel, Server
from replog.rpc.transports import H2Transport
from replog.rpc.v1 import controller_pb2, log_pb2
from replog.server.broker.broker import Broker
from replog.server.broker.cleaning.cleaning_process import CleaningProcess
from replog.server.clock import SystemClock
from replog.server.controller.active_controller import ActiveController
from replog.server.controller.formatting import format_cluster, is_formatted
from replog.server.controller.service import ControllerService
from replog.server.controller.sqlite_store import SqliteStore, StoreInThread
from replog.topic import TopicPartition

TP = TopicPartition("t", 0)
SESSION_MS = 6000  # on a busy machine nothing may be heard of a broker for seconds
CALL_S = 60.0


def batch(*values: bytes) -> bytes:
    """One client batch of these values."""
    return bytes(encode_batch([(1000 + number, None, value, ()) for number, value in enumerate(values)]))


def produce_request(
    tp: TopicPartition, records: bytes, *, acks: int = -1, timeout_ms: int = 30_000, correlation_id: int = 0
) -> WithRecords[log_pb2.ProduceRequest]:
    """Of one batch."""
    named = log_pb2.ProducePartition(topic=tp.topic, partition=tp.partition, records_size=len(records))
    head = log_pb2.ProduceRequest(acks=acks, timeout_ms=timeout_ms, partitions=[named], correlation_id=correlation_id)
    return WithRecords(head, (records,))


def fetch_request(tp: TopicPartition, offset: int = 0, **request: Any) -> log_pb2.FetchRequest:
    """A consumer's, of one partition."""
    named = log_pb2.FetchPartition(
        topic=tp.topic, partition=tp.partition, fetch_offset=offset, partition_max_bytes=1 << 20
    )
    return log_pb2.FetchRequest(**{"min_bytes": 1, "max_bytes": 1 << 20, **request}, partitions=[named])


async def eventually(
    condition: Callable[[], bool | Awaitable[bool]], timeout_s: float = 60, what: Callable[[], object] = str
) -> None:
    """Until `condition` holds; on a timeout the failure shows what `what` gives. What it looks up may be to come."""
    missing: object = ""
    with suppress(TimeoutError):
        async with asyncio.timeout(timeout_s):
            while True:
                try:
                    holds = condition()
                    if await holds if isawaitable(holds) else holds:
                        return
                except KeyError as error:
                    missing = error
                await asyncio.sleep(0.01)
    raise AssertionError(f"did not come true within {timeout_s} s: {what()} {missing}")


class InProcessCluster:
    """Start brokers one by one with `start_broker`; whatever still runs is stopped at the end."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.transport = H2Transport()
        self.brokers: dict[int, Broker] = {}
        self.controller_address = ""
        self.controller: ActiveController
        self._server: Server
        self._channels: dict[str, Channel] = {}
        self._rng = random.Random(1)

    async def start_controller(self, **overrides: object) -> None:
        settings = {
            "listeners": "127.0.0.1:0",
            "metadata_log_dir": self.directory / "controller",
            "broker_session_timeout_ms": SESSION_MS,
        }
        config = ControllerConfig.model_validate(settings | overrides)
        if not is_formatted(config.metadata_log_dir):
            format_cluster(config.metadata_log_dir, rng=self._rng)
        store = StoreInThread(SqliteStore(config.metadata_log_dir))
        self.controller = ActiveController(config, store, self.transport, SystemClock(), self._rng)
        await self.controller.start()
        self._server = self.transport.listen(config.listeners)
        self._server.add(methods.CONTROLLER, ControllerService(self.controller))
        self.controller_address = await self._server.start()

    def config(self, broker_id: int, **overrides: object) -> BrokerConfig:
        settings = {
            "node_id": broker_id,
            "listeners": "127.0.0.1:0",
            "controller_listener": self.controller_address,
            "log_dirs": self.directory / f"broker-{broker_id}",
            "broker_heartbeat_interval_ms": 100,
            "replica_fetch_backoff_ms": 50,
            "replica_lag_time_max_ms": 10_000,
        }
        return BrokerConfig.model_validate(settings | overrides)

    def new_broker(self, broker_id: int, **overrides: object) -> Broker:
        config = self.config(broker_id, **overrides)
        return Broker(config, self.transport, SystemClock(), self._rng, CleaningProcess())

    async def start_broker(self, broker_id: int, **overrides: object) -> Broker:
        broker = self.new_broker(broker_id, **overrides)
        await broker.start()
        self.brokers[broker_id] = broker
        await eventually(lambda: not self.controller.state.image.brokers[broker_id].fenced)
        await eventually(lambda: all(self._knows(other, broker_id) for other in self.brokers.values()))
        return broker

    def _knows(self, other: Broker, broker_id: int) -> bool:
        """A client may ask any broker, so all must have heard that this one is active."""
        broker = other.manager.context.image.brokers.get(broker_id)
        return broker is not None and not broker.fenced

    async def start_brokers(self, *broker_ids: int, **overrides: object) -> None:
        await asyncio.gather(*(self.start_broker(broker_id, **overrides) for broker_id in broker_ids))

    async def begin(
        self, count: int, partitions: int = 1, *, brokers: Mapping[str, object] | None = None, **configs: str
    ) -> Broker:
        """Brokers 1 to `count` with these settings, and topic t with a replica on each of them. Returns broker 1."""
        await self.start_brokers(*range(1, count + 1), **(brokers or {}))
        await self.create_topic("t", partitions, count, **configs)
        return self.brokers[1]

    async def stop_broker(self, broker_id: int) -> None:
        await self.brokers.pop(broker_id).stop()

    async def crash_broker(self, broker_id: int) -> None:
        """As a killed process leaves it: nothing handed over, flushed or marked. It is fenced at once (CT-21)."""
        await self.brokers.pop(broker_id)._release()

    async def restart_all(self) -> None:
        """The controller comes back at another port."""
        ids = list(self.brokers)
        await asyncio.gather(*map(self.stop_broker, ids))
        await self.controller.stop()
        await self._server.stop(0)
        await self.start_controller()
        await self.start_brokers(*ids)

    async def stop(self) -> None:
        await asyncio.gather(*(self.stop_broker(broker_id) for broker_id in list(self.brokers)))
        for channel in self._channels.values():
            await channel.close()
        await self.controller.stop()
        await self._server.stop(0)
        await asyncio.sleep(0.01)  # else the loop may end before a connection that was being accepted has

    # -- as a client

    def channel(self, address: str) -> Channel:
        if address not in self._channels:
            self._channels[address] = self.transport.connect(address)
        return self._channels[address]

    async def create_topic(self, topic: str, partitions: int = 1, replication_factor: int = 3, **configs: str) -> None:
        """Create it and wait until every partition is led, and every replica is there."""
        await self.ask_for_topic(topic, partitions, replication_factor, **configs)
        for partition in range(partitions):
            await self.led(TopicPartition(topic, partition))
            await self.hosted(TopicPartition(topic, partition))

    async def ask_for_topic(self, topic: str, partitions: int, replication_factor: int, **configs: str) -> None:
        request = controller_pb2.CreateTopicRequest(
            topic=topic,
            partitions=partitions,
            replication_factor=replication_factor,
            configs={name.replace("_", "."): value for name, value in configs.items()},
        )
        await self.control("create_topic", request)

    async def delete_topic(self, topic: str) -> None:
        await self.control("delete_topic", controller_pb2.DeleteTopicRequest(topic=topic))

    async def control(self, method: str, request: Any) -> Any:
        """The controller's answer."""
        return await self.channel(self.controller_address).call(methods.Controller[method], request, CALL_S)

    def admin(self) -> Admin:
        return Admin([broker.address for broker in self.brokers.values()], timeout_ms=60_000)

    async def allocate_producer_ids(self) -> None:
        """A block of them, 0 to 999 if it is the first, known to every broker."""
        await self.any_channel().call(methods.Log["init_producer_id"], log_pb2.InitProducerIdRequest(), CALL_S)
        given = self.controller.state.image.next_producer_id
        await eventually(lambda: all(b.manager.context.image.next_producer_id == given for b in self.brokers.values()))

    def leader(self, tp: TopicPartition) -> int:
        return self.controller.state.image.partitions[tp].leader

    async def led(self, tp: TopicPartition) -> None:
        """Until the leader that the controller has chosen has heard of it."""

        def leads() -> bool:
            state = self.controller.state.image.partitions[tp]
            broker = self.brokers.get(state.leader)
            hosted = broker.manager.replicas.hosted.get(tp) if broker is not None else None
            role = hosted.leader if hosted is not None else None
            return role is not None and role.leader_epoch == state.leader_epoch

        await eventually(leads, what=lambda: self.controller.state.image.partitions[tp])

    async def hosted(self, tp: TopicPartition) -> None:
        """Until those of the brokers here that have a replica of it know of it."""
        replicas = self.controller.state.image.partitions[tp].replicas
        brokers = [self.brokers[broker_id] for broker_id in replicas if broker_id in self.brokers]
        await eventually(lambda: all(tp in broker.manager.replicas.hosted for broker in brokers))

    def isr(self, tp: TopicPartition) -> set[int]:
        return set(self.controller.state.image.partitions[tp].isr)

    def log(self, broker_id: int, tp: TopicPartition) -> Log:
        return self.brokers[broker_id].manager.replicas.hosted[tp].log

    def to_leader(self, tp: TopicPartition) -> Channel:
        return self.channel(self.brokers[self.leader(tp)].address)

    async def produce(
        self, tp: TopicPartition, records: bytes, acks: int = -1, timeout_ms: int = 30_000
    ) -> tuple[ErrorCode, int, str]:
        """Error, base offset, message."""
        request = produce_request(tp, records, acks=acks, timeout_ms=timeout_ms)
        channel = self.to_leader(tp) if tp in self.controller.state.image.partitions else self.any_channel()
        response = await channel.call(methods.Log["produce_once"], request, CALL_S)
        result = response.answers[0].partitions[0]
        return ErrorCode(result.error_code), result.base_offset, result.error_message

    def any_channel(self) -> Channel:
        return self.channel(next(iter(self.brokers.values())).address)

    async def fetch(
        self, tp: TopicPartition, offset: int, channel: Channel | None = None, **fields: Any
    ) -> tuple[log_pb2.FetchPartitionResult, bytes]:
        """`fields`: of the request."""
        request = fetch_request(tp, offset, **{"max_wait_ms": 100, **fields})
        response = await (channel or self.to_leader(tp)).call(methods.Log["fetch_once"], request, CALL_S)
        return response.head.partitions[0], b"".join(bytes(piece) for piece in response.records)


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[InProcessCluster]:
    cluster = InProcessCluster(tmp_path)
    await cluster.start_controller()
    yield cluster
    await cluster.stop()
