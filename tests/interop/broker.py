"""A Kafka broker with a directory and a controller of its own: a node of one, or one of a few."""

import contextlib
import os
import signal
import socket
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from replog.local_cluster.ports import HOST, free_port
from tests.interop.kafka import Kafka

START_TIMEOUT_S = 180
STOP_TIMEOUT_S = 120
_CLUSTER_ID = "4L6g3nShT-eMCtK--X86sw"
_PROPERTIES = """\
process.roles=broker,controller
node.id={node.id}
controller.quorum.voters={voters}
listeners=PLAINTEXT://{host}:{node.port},CONTROLLER://{host}:{node.controller_port}
controller.listener.names=CONTROLLER
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
log.dirs={data}
auto.create.topics.enable=false
offsets.topic.num.partitions=1
offsets.topic.replication.factor=1
transaction.state.log.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
broker.session.timeout.ms=60000
log.cleaner.backoff.ms=200
log.cleaner.dedupe.buffer.size=4000000
"""


@dataclass(frozen=True)
class Node:
    """Who it is, and where on this machine its broker and its controller listen."""

    id: int
    port: int
    controller_port: int


def nodes(count: int) -> list[Node]:
    """Nodes 1 to `count` on ports that are free."""
    ports: list[int] = []
    for _ in range(2 * count):
        ports.append(free_port(ports))
    return [Node(number, *ports[2 * number - 2 : 2 * number]) for number in range(1, count + 1)]


class KafkaBroker:
    """May be started and stopped many times; `kill` leaves nothing running."""

    def __init__(self, kafka: Kafka, home: Path, cluster: Sequence[Node] = (), number: int = 1, more: str = "") -> None:
        """A formatted directory, under `home`. One node of `cluster`, or all of its own; `more` properties."""
        cluster = cluster or nodes(1)
        node = next(node for node in cluster if node.id == number)
        self.kafka = kafka
        self.data = home / "data"
        self.log_file = home / "broker.log"
        self._port = node.port
        self._properties = home / "server.properties"
        self._process: subprocess.Popen[bytes] | None = None
        home.mkdir(parents=True)
        voters = ",".join(f"{voter.id}@{HOST}:{voter.controller_port}" for voter in cluster)
        self._properties.write_text(_PROPERTIES.format(host=HOST, node=node, voters=voters, data=self.data) + more)
        kafka.run("kafka.tools.StorageTool", "format", "-t", _CLUSTER_ID, "-c", self._properties)

    @property
    def address(self) -> str:
        return f"{HOST}:{self._port}"

    def start(self) -> None:
        """Returns once it takes connections."""
        self.launch()
        self.wait_until_serving()

    def launch(self) -> None:
        """Returns at once."""
        with self.log_file.open("ab") as output:
            self._process = self.kafka.start("kafka.Kafka", self._properties, output=output)

    def wait_until_serving(self) -> None:
        """Until it takes connections."""
        assert self._process is not None
        deadline = time.monotonic() + START_TIMEOUT_S
        while True:
            try:
                socket.create_connection((HOST, self._port), timeout=1).close()
            except OSError:
                assert self._process.poll() is None, f"Kafka has ended:\n{self.log_tail()}"
                assert time.monotonic() < deadline, f"Kafka does not serve in {START_TIMEOUT_S} s:\n{self.log_tail()}"
                time.sleep(0.1)
            else:
                return

    def stop(self) -> None:
        """In order, as Kafka's own script does it."""
        self.ask_to_stop()
        self.wait_until_stopped()

    def ask_to_stop(self) -> None:
        """Returns at once."""
        assert self._process is not None
        self._process.terminate()

    def wait_until_stopped(self) -> None:
        """It must have marked its directory as closed in order."""
        assert self._process is not None
        try:
            self._process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"Kafka does not stop in {STOP_TIMEOUT_S} s:\n{self.log_tail()}") from None
        assert (self.data / ".kafka_cleanshutdown").exists(), self.log_tail()

    def kill(self) -> None:
        """As a crash does it."""
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait(STOP_TIMEOUT_S)

    def log_tail(self) -> str:
        return "\n".join(self.log_file.read_text(errors="replace").splitlines()[-40:])

    # -- its tools

    def produce(self, topic: str, count: int, size: int, compression: str = "none", *options: object) -> None:
        """Random records of `size` bytes."""
        self.kafka.run(
            "org.apache.kafka.tools.ProducerPerformance",
            "--topic", topic, "--num-records", count, "--record-size", size, "--throughput", -1, *options,
            "--producer-props", f"bootstrap.servers={self.address}", f"compression.type={compression}",
            "batch.size=4000",
        )  # fmt: skip

    def produce_lines(self, topic: str, lines: str, compression: str) -> None:
        """Lines of headers, key and value, between tabs; NULL is null."""
        self.kafka.run(
            "org.apache.kafka.tools.ConsoleProducer",
            "--bootstrap-server", self.address, "--topic", topic, "--compression-codec", compression,
            "--batch-size", 600, "--property", "parse.key=true", "--property", "parse.headers=true",
            "--property", "null.marker=NULL",
            stdin=lines,
        )  # fmt: skip

    def consume(self, topic: str, count: int, isolation: str = "read_uncommitted", timeout_s: float = 60) -> list[str]:
        """One line a record: timestamp, offset, headers, key and value, between tabs. Fewer than `count` if no more
        come for so long."""
        done = self.kafka.try_run(
            "org.apache.kafka.tools.consumer.ConsoleConsumer",
            "--bootstrap-server", self.address, "--topic", topic, "--partition", 0, "--offset", "earliest",
            "--isolation-level", isolation, "--max-messages", count, "--timeout-ms", int(timeout_s * 1000),
            *(f"--property=print.{what}=true" for what in ("timestamp", "offset", "headers", "key")),
        )  # fmt: skip
        return [line for line in done.stdout.splitlines() if "\t" in line]  # 4.3 says there what is deprecated
