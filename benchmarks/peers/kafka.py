"""Apache Kafka 4.1: a controller and three brokers with their default settings, and `kafka_client/` in one warm JVM.

Producing and consuming are timed by Kafka's own ProducerPerformance and ConsumerPerformance, as they print it.
"""

import contextlib
import re
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path

from benchmarks.beside import Beside
from benchmarks.contenders import create_in_sync
from benchmarks.contenders.kafka import JVM, Kafka
from benchmarks.peers.peer import CLIENT, PARTITIONS, CannotRun, Settings
from tests.interop.kafka import Kafka as Programs
from tests.interop.kafka import NoKafka

_SOURCE = Path(__file__).parent / "kafka_client" / "Client.java"
_CONSUME_TIMEOUT_MS = 200_000  # until the next record: a busy machine takes its time
_HEAP = ("-Xms512m", "-Xmx512m")  # as the scripts of Kafka's tools
_TOTAL = re.compile(r"^(\d+) records sent, ([\d.]+) records/sec .* 99\.9th\.$", re.MULTILINE)


def produced(output: str, records: int) -> float:
    """Seconds, from what ProducerPerformance prints at its end. Raises ValueError if it did not send all."""
    totals = _TOTAL.findall(output)
    if len(totals) != 1 or int(totals[0][0]) != records:
        raise ValueError(f"ProducerPerformance was to send {records} records and says: {output}")
    return records / float(totals[0][1])


def consumed(output: str, records: int) -> float:
    """Seconds of fetching, without those of joining a group, from ConsumerPerformance's table. Raises ValueError."""
    lines = output.strip().splitlines() or [""]
    row = dict(zip(lines[0].split(", "), lines[-1].split(", "), strict=False))
    read = int(row.get("data.consumed.in.nMsg", 0))
    if read < records:
        raise ValueError(f"ConsumerPerformance was to read {records} records and says: {output}")
    return int(row["fetch.time.ms"]) / 1000 * records / read


class KafkaPeer:
    """`benchmarks.peers.peer.Peer`."""

    name = "Kafka"
    defaults = Settings(16_384, 5)
    warm_up_mb = 1000  # its JVMs compile for that long

    @contextlib.asynccontextmanager
    async def running(self, home: Path) -> AsyncIterator[None]:
        try:
            self._cluster, programs = Kafka(home), Programs()
        except NoKafka as error:
            raise CannotRun(str(error)) from None
        self._home = home
        command = programs.command(str(_SOURCE), [], "error", (*_HEAP, *JVM))
        try:
            await self._cluster.start()
            async with Beside.program("Kafka's client", command) as self._client:
                yield
        finally:
            await self._cluster.close()

    @property
    def pids(self) -> Mapping[str, int]:
        return {**self._cluster.pids, CLIENT: self._client.pid}

    async def create(self, topic: str) -> None:
        await create_in_sync(self._cluster, topic, PARTITIONS)

    async def end(self, topic: str) -> None:
        """It stays: its files would be removed a minute after a deletion, while other rows are measured."""

    async def produce(self, topic: str, record_bytes: int, records: int, settings: Settings) -> float:
        payload = self._home / f"{record_bytes}-bytes"
        payload.write_text("x" * record_bytes)  # otherwise it spends its time on making records of random letters
        options: list[object] = [
            "--topic",
            topic,
            "--num-records",
            records,
            "--throughput",
            -1,
            "--payload-file",
            payload,
        ]
        properties = [f"{name}={value}" for name, value in self._properties(settings).items()]
        output = await self._run("ProducerPerformance", *options, "--producer-props", *properties)
        return produced(output, records)

    async def pace(
        self, topic: str, record_bytes: int, records: int, per_second: float, warm_up: int, settings: Settings
    ) -> Sequence[float]:
        answer = await self._client.order(
            "pace",
            topic=topic,
            partitions=PARTITIONS,
            record_bytes=record_bytes,
            records=records,
            per_second=per_second,
            warm_up=warm_up,
            settings=self._properties(settings),
        )
        return [wait / 1e6 for wait in answer["waits_us"]]

    async def consume(self, topic: str, record_bytes: int, records: int) -> float:
        options: list[object] = ["--bootstrap-server", self._cluster.bootstrap, "--topic", topic]
        options += ["--messages", records, "--timeout", _CONSUME_TIMEOUT_MS]
        return consumed(await self._run("ConsumerPerformance", *options), records)

    def _properties(self, settings: Settings) -> dict[str, str]:
        """Acks of all and an idempotent producer are defaults."""
        given = {"batch.size": settings.batch_bytes, "linger.ms": settings.linger_ms}
        properties = {name: str(value) for name, value in given.items() if value is not None}
        return {"bootstrap.servers": self._cluster.bootstrap, **properties}

    async def _run(self, program: str, *arguments: object) -> str:
        name = f"org.apache.kafka.tools.{program}"
        return str((await self._client.order("run", program=name, arguments=[*map(str, arguments)]))["output"])
