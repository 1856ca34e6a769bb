"""Apache Kafka 4.1: a controller and three brokers in JVMs with the options of its scripts, and `kafka_client/`."""

import asyncio
import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.errors import for_code

from benchmarks.peers.peer import BROKERS, CONTROLLER, CannotRun, ClusterPeer, DescribedPartition, Settings, broker_name
from replog.local_cluster.ports import HOST, free_port
from tests.interop.cluster import admin_of
from tests.interop.kafka import Kafka as Programs
from tests.interop.kafka import NoKafka

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
_SOURCE = Path(__file__).parent / "kafka_client" / "Client.java"
_HEAP = ("-Xms512m", "-Xmx512m")  # the options of Kafka's scripts for tools


class KafkaPeer(ClusterPeer):
    name = "Kafka"
    defaults = Settings(16_384, 5)
    warm_up_mb = 1000  # its JVMs still compile until then

    def __init__(self, home: Path) -> None:
        try:
            self._programs = Programs()
        except NoKafka as error:
            raise CannotRun(str(error)) from None
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
        self._admin = await admin_of(self.bootstrap.split(","))

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
    def members(self) -> Mapping[str, int]:
        return {name: process.pid for name, process in self._processes.items() if process.poll() is None}

    def client_command(self) -> Sequence[str]:
        return self._programs.command(str(_SOURCE), [self.bootstrap], "error", (*_HEAP, *JVM))

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
        """Describe a topic. It may ask a broker that is down, and raise: poll again."""
        assert self._admin is not None
        (described,) = await self._admin.describe_topics([topic])
        if described["error_code"] == _UNKNOWN_TOPIC:
            return []
        return [
            DescribedPartition(p["leader"], tuple(p["replicas"]), frozenset(p["isr"])) for p in described["partitions"]
        ]

    async def kill(self, broker: int) -> None:
        os.killpg(self._processes[broker_name(broker)].pid, signal.SIGKILL)

    async def launch(self, broker: int) -> None:
        self._launch(broker_name(broker))

    def options(self, settings: Settings) -> Mapping[str, object]:
        """Return the client's properties; acks of all and an idempotent producer are defaults."""
        given = {"batch.size": settings.batch_bytes, "linger.ms": settings.linger_ms}
        return {name: str(value) for name, value in given.items() if value is not None}


def _check(errors: list[tuple[object, ...]]) -> None:
    """Raise the KafkaError of the first topic that has one."""
    for _, code, *details in errors:
        if code:
            raise for_code(code)(*details)
