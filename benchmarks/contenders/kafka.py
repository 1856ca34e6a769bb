"""Apache Kafka as a contender: a controller and three brokers in JVMs of their own, with the options of its scripts."""

import asyncio
import contextlib
import os
import signal
import subprocess
from collections.abc import AsyncIterator, Awaitable, Mapping
from pathlib import Path

from aiokafka import AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.errors import KafkaError, for_code

from benchmarks.contenders import BROKERS, CONTROLLER, POLL_S, DescribedPartition, Send, broker_name, close_in_time
from replog.local_cluster.ports import HOST, free_port
from tests.interop.kafka import Kafka as Programs

CONTROLLER_ID = 100
JVM = (
    "-Xmx1G", "-Xms1G", "-server", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20", "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent", "-Djava.awt.headless=true",
)  # fmt: skip
_CLUSTER_ID = "4L6g3nShT-eMCtK--X86sw"
_PROPERTIES = """\
process.roles={role}
node.id={id}
controller.quorum.voters={controller_id}@{controller}
listeners={listener}://{address}
controller.listener.names=CONTROLLER
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
log.dirs={data}
auto.create.topics.enable=false
min.insync.replicas=2
"""
_UNKNOWN_TOPIC = 3


class Kafka:
    """`benchmarks.contenders.Contender`."""

    name = "kafka"

    def __init__(self, home: Path) -> None:
        """Raises NoKafka."""
        self._programs = Programs()
        self._home = home
        ports: list[int] = []
        for _ in (CONTROLLER, *BROKERS):
            ports.append(free_port(ports))
        names = [CONTROLLER, *map(broker_name, BROKERS)]
        self._addresses = {name: f"{HOST}:{port}" for name, port in zip(names, ports, strict=True)}
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._admin: AIOKafkaAdminClient | None = None

    async def start(self) -> None:
        async with asyncio.TaskGroup() as formatting:
            for name in self._addresses:
                formatting.create_task(asyncio.to_thread(self._format, name))
        for name in self._addresses:
            self._launch(name)
        while self._admin is None:
            admin = AIOKafkaAdminClient(bootstrap_servers=self.bootstrap)
            try:
                await admin.start()
                if len((await admin.describe_cluster())["brokers"]) == len(BROKERS):
                    self._admin = admin
            except (KafkaError, OSError):
                await asyncio.sleep(0.2)
            finally:
                if self._admin is None:
                    await admin.close()

    def _format(self, name: str) -> None:
        home, controls = self._home / name, name == CONTROLLER
        home.mkdir(parents=True)
        properties = _PROPERTIES.format(
            role="controller" if controls else "broker",
            id=CONTROLLER_ID if controls else name.rpartition("-")[2],
            controller_id=CONTROLLER_ID,
            controller=self._addresses[CONTROLLER],
            listener="CONTROLLER" if controls else "PLAINTEXT",
            address=self._addresses[name],
            data=home / "data",
        )
        (home / "server.properties").write_text(properties)
        self._programs.run("kafka.tools.StorageTool", "format", "-t", _CLUSTER_ID, "-c", home / "server.properties")

    def _launch(self, name: str) -> None:
        home = self._home / name
        with (home / "log").open("ab") as output:
            self._processes[name] = self._programs.start(
                "kafka.Kafka", home / "server.properties", output=output, jvm=JVM
            )

    async def close(self) -> None:
        if self._admin is not None:
            await self._admin.close()
        for process in self._processes.values():
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
        for process in self._processes.values():
            await asyncio.to_thread(process.wait, 30)

    @property
    def bootstrap(self) -> str:
        return ",".join(address for name, address in self._addresses.items() if name != CONTROLLER)

    @property
    def pids(self) -> Mapping[str, int]:
        return {name: process.pid for name, process in self._processes.items() if process.poll() is None}

    @property
    def addresses(self) -> Mapping[str, str]:
        return self._addresses

    def data_directory(self, broker: int) -> Path:
        return self._home / broker_name(broker) / "data"

    async def create(self, topic: str, partitions: int) -> None:
        assert self._admin is not None
        answer = await self._admin.create_topics([NewTopic(topic, partitions, 3)])
        _check(answer.topic_errors)

    async def delete(self, topic: str) -> None:
        assert self._admin is not None
        _check((await self._admin.delete_topics([topic])).topic_error_codes)

    async def describe(self, topic: str) -> list[DescribedPartition]:
        """A broker that is down may be asked first: poll again."""
        assert self._admin is not None
        (described,) = await self._admin.describe_topics([topic])
        if described["error_code"] == _UNKNOWN_TOPIC:
            return []
        return [
            DescribedPartition(p["leader"], tuple(p["replicas"]), frozenset(p["isr"])) for p in described["partitions"]
        ]

    def producer(self) -> contextlib.AbstractAsyncContextManager[Send]:
        return producer(self.bootstrap)

    def kill(self, broker: int) -> None:
        os.killpg(self._processes[broker_name(broker)].pid, signal.SIGKILL)

    async def stop(self, broker: int) -> None:
        process = self._processes[broker_name(broker)]
        process.terminate()
        while process.poll() is None:
            await asyncio.sleep(POLL_S)

    def launch(self, broker: int) -> None:
        self._launch(broker_name(broker))


@contextlib.asynccontextmanager
async def producer(bootstrap: str) -> AsyncIterator[Send]:
    """`Contender.producer`."""
    producing = AIOKafkaProducer(
        bootstrap_servers=bootstrap, acks="all", enable_idempotence=True, request_timeout_ms=120_000
    )
    await producing.start()

    async def send(topic: str, partition: int, value: bytes) -> Awaitable[object]:
        outcome: Awaitable[object] = await producing.send(topic, value, partition=partition)
        return outcome

    try:
        yield send
    finally:
        await close_in_time(producing.stop)


def _check(errors: list[tuple[object, ...]]) -> None:
    """Raises the KafkaError of the first topic that has one."""
    for _, code, *details in errors:
        if code:
            raise for_code(code)(*details)
