"""`/metrics` of real processes, over HTTP."""

import re
import shutil
import socket
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from replog.local_cluster.local_cluster import LocalCluster
from replog.local_cluster.ports import free_port
from tests.replog.waiting import until

PROMTOOL = shutil.which("promtool")
DOCUMENT = Path(__file__).parents[3] / "docs" / "metrics.md"
NAME = re.compile(r"\b(?:kafka|replog)_\w+")

pytestmark = [pytest.mark.processes, pytest.mark.plaintext("over TLS it needs a client's certificate: test_endpoint")]


def scraped(address: str) -> str:
    with urllib.request.urlopen(f"http://{address}/metrics", timeout=30) as answer:
        return answer.read().decode()


def test_every_process_of_a_local_cluster_shows_its_metrics(tmp_path):
    with LocalCluster(tmp_path / "cluster", brokers=1) as cluster:
        members = {member.name: cluster.metrics_address(member) for member in cluster.state.members}
        until(lambda: "kafka_server_kafkaserver_brokerstate 3.0" in scraped(members["broker-1"]), "a broker that runs")
        assert "kafka_controller_kafkacontroller_activecontrollercount 1.0" in scraped(members["controller"])
        for address in members.values():
            text = scraped(address)
            assert set(NAME.findall(text)) <= set(NAME.findall(DOCUMENT.read_text()))
            assert "process_resident_memory_bytes" in text
            assert "replog_event_loop_longest_step_seconds" in text
            if PROMTOOL is not None:
                done = subprocess.run([PROMTOOL, "check", "metrics"], input=text, capture_output=True, text=True)
                assert not [line for line in done.stderr.splitlines() if "camelCase" not in line]  # as Kafka's labels


ABSENT = "127.0.0.1:1"  # nobody listens there
WAITS = {  # what a process is told so that it waits for another one before it serves, and what it shows meanwhile
    "broker": (f"controller.listener={ABSENT}", "kafka_server_kafkaserver_brokerstate 1.0"),
    "controller": (f"metadata.etcd.endpoints={ABSENT}", "kafka_controller_kafkacontroller_activecontrollercount 0.0"),
}


def started(program: str, home: Path, **settings: str) -> subprocess.Popen[str]:
    own = {"listeners": f"127.0.0.1:{free_port([])}", "log.dirs": str(home / "data"), "node.id": "1"}
    if program == "controller":
        own = {"listeners": own["listeners"], "metadata.store": "etcd"}
    words = [f"--override={name}={value}" for name, value in own.items()]
    words += [f"--override={name.replace('_', '.')}={value}" for name, value in settings.items()]
    return subprocess.Popen(
        [sys.executable, "-m", "replog.cli", program, f"--override={WAITS[program][0]}", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


@pytest.mark.parametrize("program", WAITS)
def test_a_process_that_starts_can_be_told_from_one_that_is_gone(tmp_path, program):
    address = f"127.0.0.1:{free_port([])}"
    with started(program, tmp_path, metrics_listener=address) as process:

        def shown() -> bool:
            assert process.poll() is None, process.stdout.read()
            try:
                return WAITS[program][1] in scraped(address)
            except OSError:
                return False

        try:
            until(shown, "metrics of a process that starts")
            process.terminate()
            assert process.wait(60) == 0
        finally:
            process.kill()


@pytest.mark.parametrize("program", WAITS)
def test_a_process_whose_port_for_metrics_is_taken_begins_nothing(tmp_path, program):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        with started(program, tmp_path, metrics_listener=address) as process:
            try:
                out, _ = process.communicate(timeout=50)
            finally:
                process.kill()
    assert process.returncode == 2
    assert f"metrics.listener={address}: " in out
    assert "each process of a host needs a port of its own" in out
    assert not (tmp_path / "data").exists()
