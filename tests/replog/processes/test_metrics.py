"""`/metrics` of real processes, over HTTP."""

import re
import shutil
import socket
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from replog.client import SyncAdmin
from replog.local_cluster.local_cluster import LocalCluster
from replog.local_cluster.ports import free_port
from replog.metadata.values import StandingAudit
from tests.replog.waiting import until

# What the rules and the dashboard for Kafka that come with Strimzi ask of a broker or controller itself.
STRIMZI = {
    *("kafka_cluster_partition_atminisr", "kafka_cluster_partition_underminisr"),
    "kafka_controller_controllerstats_uncleanleaderelections_total",
    "kafka_controller_kafkacontroller_activecontrollercount",
    *("kafka_controller_kafkacontroller_offlinepartitionscount", "kafka_log_log_size"),
    *("kafka_log_logmanager_offlinelogdirectorycount", "kafka_network_socketserver_networkprocessoravgidle_percent"),
    *("kafka_server_brokertopicmetrics_bytesin_total", "kafka_server_brokertopicmetrics_bytesout_total"),
    "kafka_server_brokertopicmetrics_failedfetchrequests_total",
    "kafka_server_brokertopicmetrics_failedproducerequests_total",
    *("kafka_server_brokertopicmetrics_messagesin_total", "kafka_server_brokertopicmetrics_totalfetchrequests_total"),
    "kafka_server_brokertopicmetrics_totalproducerequests_total",
    "kafka_server_kafkarequesthandlerpool_requesthandleravgidle_percent",
    *("kafka_server_kafkaserver_linux_disk_read_bytes", "kafka_server_kafkaserver_linux_disk_write_bytes"),
    *("kafka_server_replicamanager_leadercount", "kafka_server_replicamanager_partitioncount"),
    *("kafka_server_replicamanager_underminisrpartitioncount", "kafka_server_replicamanager_underreplicatedpartitions"),
    *("kafka_server_socket_server_metrics_connection_count", "process_open_fds"),
}
NOT_SHOWN = (  # beginnings of what these, and those for KRaft and consumer groups, ask besides
    *("kafka_server_raftmetrics_", "kafka_server_raftchannelmetrics_", "kafka_server_brokermetadatametrics_"),
    *("jvm_", "kafka_consumergroup_", "kafka_topic_", "kubelet_volume_stats_available_bytes", "container_"),
)
PROMTOOL = shutil.which("promtool")
DOCUMENT = Path(__file__).parents[3] / "docs" / "metrics.md"
NAME = re.compile(r"\b(?:kafka|replog)_\w+")

pytestmark = [pytest.mark.processes, pytest.mark.plaintext("over TLS it needs a client's certificate: test_process")]


def scraped(address: str) -> str:
    with urllib.request.urlopen(f"http://{address}/metrics", timeout=30) as answer:
        return answer.read().decode()


def documented(heading: str) -> set[str]:
    return set(NAME.findall(DOCUMENT.read_text().partition(f"\n## {heading}\n")[2].partition("\n## ")[0]))


def test_every_process_of_a_local_cluster_shows_its_metrics(tmp_path, replog):
    with LocalCluster(tmp_path / "cluster", brokers=1) as cluster:
        members = {member.name: cluster.metrics_address(member) for member in cluster.state.members}
        until(lambda: "kafka_server_kafkaserver_brokerstate 3.0" in scraped(members["broker-1"]), "a broker that runs")
        assert "kafka_controller_kafkacontroller_activecontrollercount 1.0" in scraped(members["controller"])
        made = replog("topic", "create", "--topic", "t", "--partitions", "1", "--bootstrap-server", cluster.bootstrap)
        assert made.returncode == 0, made.stderr
        until(lambda: 'kafka_log_log_size{partition="0",topic="t"}' in scraped(members["broker-1"]), "a replica")
        with SyncAdmin(cluster.bootstrap) as admin:
            admin.report_audit(StandingAudit("CONSISTENT", "deep", 1, (), 1, (), 0))
        texts = [scraped(address) for address in members.values()]
        samples = {line.partition(" ")[0].partition("{")[0] for text in texts for line in text.splitlines()}
        assert samples >= STRIMZI
        assert not [name for name in samples if name.startswith(NOT_SHOWN)]
        assert all(f"`{name}" in DOCUMENT.read_text() for name in NOT_SHOWN)
        for name, text in zip(members, texts, strict=True):
            own = "Brokers" if name.startswith("broker") else "Controllers"
            assert set(NAME.findall(text)) == documented(own) | documented("Each process")
            assert "process_resident_memory_bytes" in text
            if PROMTOOL is not None:
                done = subprocess.run([PROMTOOL, "check", "metrics"], input=text, capture_output=True, text=True)
                unusual = [line for line in done.stderr.splitlines() if not line.startswith("kafka_")]
                assert not unusual, "names and labels are Kafka's, or as Prometheus has them"


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
            assert process.wait(300) == 0
        finally:
            process.kill()


@pytest.mark.parametrize("program", WAITS)
def test_a_process_whose_port_for_metrics_is_taken_begins_nothing(tmp_path, program):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        with started(program, tmp_path, metrics_listener=address) as process:
            try:
                out, _ = process.communicate(timeout=300)
            finally:
                process.kill()
    assert process.returncode == 2
    assert f"metrics.listener={address}: " in out
    assert "each process of a host needs a port of its own" in out
    assert not (tmp_path / "data").exists()
