"""`/metrics` of real processes, over HTTP."""

import re
import shutil
import subprocess
import urllib.request
from pathlib import Path

import pytest

from replog.local_cluster.local_cluster import LocalCluster
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
