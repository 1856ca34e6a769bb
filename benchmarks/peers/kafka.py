"""Apache Kafka 4.1: a controller and three brokers in JVMs with the options of its scripts, and `kafka_client/` in one.

Kafka's own ProducerPerformance and ConsumerPerformance measure producing and consuming.
"""

import asyncio
import contextlib
import os
import re
import signal
import subprocess
from collections.abc import AsyncIterator, Awaitable, Mapping, Sequence
from pathlib import Path

from aiokafka import AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.errors import KafkaError, for_code

from benchmarks.peers.peer import (
    BROKERS,
    CONTROLLER,
    POLL_S,
    CannotRun,
    Cluster,
    DescribedPartition,
    Send,
    Settings,
    broker_name,
    close_in_time,
)
from replog.local_cluster.ports import HOST, free_port
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
_CONSUME_TIMEOUT_MS = 200_000  # the longest wait for the next record, on a busy machine
_HEAP = ("-Xms512m", "-Xmx512m")  # the options of Kafka's scripts for tools
_TOTAL = re.compile(r"^(\d+) records sent, ([\d.]+) records/sec .* 99\.9th\.$", re.MULTILINE)


def produced(output: str, records: int) -> float:
    """Return the seconds from the last line of ProducerPerformance. Raises ValueError if it did not send all."""
    totals = _TOTAL.findall(output)
    if len(totals) != 1 or int(totals[0][0]) != records:
        raise ValueError(f"ProducerPerformance was to send {records} records and says: {output}")
    return records / float(totals[0][1])


def consumed(output: str, records: int) -> float:
    """Return the seconds of fetching, without joining a group, of ConsumerPerformance's table. Raises ValueError."""
    lines = output.strip().splitlines() or [""]
    row = dict(zip(lines[0].split(", "), lines[-1].split(", "), strict=False))
    read = int(row.get("data.consumed.in.nMsg", 0))
    if read < records:
        raise ValueError(f"ConsumerPerformance was to read {records} records and says: {output}")
    return int(row["fetch.time.ms"]) / 1000 * records / read


class KafkaPeer(Cluster):
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
    def members(self) -> Mapping[str, int]:
        return {name: process.pid for name, process in self._processes.items() if process.poll() is None}

    def client_command(self) -> Sequence[str]:
        return self._programs.command(str(_SOURCE), [], "error", (*_HEAP, *JVM))

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

    async def produce(self, topic: str, record_bytes: int, records: int, settings: Settings) -> float:
        payload = self._home / f"{record_bytes}-bytes"
        payload.write_text("x" * record_bytes)  # otherwise it spends most of its time on random records
        options: list[object] = ["--topic", topic, "--num-records", records, "--throughput", -1]
        options += ["--payload-file", payload]
        properties = [f"{name}={value}" for name, value in self.options(settings).items()]
        output = await self._run("ProducerPerformance", *options, "--producer-props", *properties)
        return produced(output, records)

    async def consume(self, topic: str, record_bytes: int, records: int) -> float:
        options: list[object] = ["--bootstrap-server", self.bootstrap, "--topic", topic]
        options += ["--messages", records, "--timeout", _CONSUME_TIMEOUT_MS]
        return consumed(await self._run("ConsumerPerformance", *options), records)

    def options(self, settings: Settings) -> Mapping[str, object]:
        """Return the client's properties; acks of all and an idempotent producer are defaults."""
        given = {"batch.size": settings.batch_bytes, "linger.ms": settings.linger_ms}
        properties = {name: str(value) for name, value in given.items() if value is not None}
        return {"bootstrap.servers": self.bootstrap, **properties}

    async def _run(self, program: str, *arguments: object) -> str:
        name = f"org.apache.kafka.tools.{program}"
        return str((await self.client.order("run", program=name, arguments=[*map(str, arguments)]))["output"])


@contextlib.asynccontextmanager
async def producer(bootstrap: str) -> AsyncIterator[Send]:
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
    """Raise the KafkaError of the first topic that has one."""
    for _, code, *details in errors:
        if code:
            raise for_code(code)(*details)
