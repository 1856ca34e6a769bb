"""Faults of a real cluster fire the alerts that they should and no others, and when they are over, so are these.

The rules are the shipped ones, with all their patience: promtool runs them on what was scraped, as if each state of the
cluster had lasted for an hour and more.
"""

import re
import shutil
import subprocess
import urllib.request
from contextlib import suppress
from pathlib import Path

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from replog.client.descriptions import ElectionType
from replog.client.sync import SyncAdmin, SyncProducer
from replog.errors import ReplogError
from replog.local_cluster.local_cluster import LocalCluster
from replog.topic import TopicPartition
from tests.damage.vocabulary import flip
from tests.replog.processes.test_older_store import Cluster
from tests.replog.waiting import until

RULES = Path(__file__).parents[3] / "deploy" / "prometheus" / "replog.rules.yml"
NAMES = set(re.findall(r"\b(?:kafka|replog)_\w+", RULES.read_text()))
PROMTOOL = shutil.which("promtool") or ""
MINUTES = 80  # of each state: longer than any rule looks back
SOON = 30  # minutes after its begin everything has fired that is to fire
OF_THE_MACHINE = "ReplogEventLoopHeld|ReplogSlowFlushes|ReplogLowDiskSpace"  # which other tests use, too
FIRING = f'group by (alertname) (ALERTS{{alertstate="firing", alertname!~"{OF_THE_MACHINE}"}})'
U = TopicPartition("u", 0)

pytestmark = [
    pytest.mark.processes,
    pytest.mark.plaintext("over TLS /metrics needs a client's certificate: test_process"),
    pytest.mark.skipif(not PROMTOOL, reason="no promtool here: apt-get install prometheus"),
]

Samples = dict[str, float]  # by series


class Observer:
    """What Prometheus would have seen of a cluster."""

    def __init__(self, cluster: LocalCluster) -> None:
        self._cluster = cluster
        self._states: list[tuple[Samples, Samples, list[str], list[str]]] = []

    def scraped(self) -> Samples:
        samples: Samples = {}
        for member in self._cluster.state.members:
            where, address = f'instance="{member.name}", job="replog"', self._cluster.metrics_address(member)
            try:
                with urllib.request.urlopen(f"http://{address}/metrics", timeout=30) as answer:
                    text = answer.read().decode()
            except OSError:
                samples[f"up{{{where}}}"] = 0
                continue
            samples[f"up{{{where}}}"] = 1
            for family in text_string_to_metric_families(text):
                for sample in family.samples:
                    if sample.name in NAMES:
                        labels = "".join(f', {name}="{value}"' for name, value in sample.labels.items())
                        samples[f"{sample.name}{{{where}{labels}}}"] = sample.value
        return samples

    def sum_of(self, name: str) -> float:
        return sum(value for series, value in self.scraped().items() if series.startswith(f"{name}{{"))

    def saw(self, *alerts: str, later: tuple[str, ...] | None = None, since: Samples | None = None) -> None:
        """The state of now, which began as it was at `since`, fires these, and after an hour it fires `later`."""
        end = self.scraped()
        fires = sorted(f"Replog{alert}" for alert in alerts)
        self._states.append((since or end, end, fires, fires if later is None else sorted(later)))

    def judge(self, path: Path) -> str:
        """What promtool says against it; empty: nothing."""
        every = sorted({series for begin, end, *_ in self._states for series in (*begin, *end)})
        checks = [
            {
                "expr": FIRING,
                "eval_time": f"{at}m",
                "exp_samples": [{"labels": f'{{alertname="{alert}"}}', "value": 1} for alert in alerts],
            }
            for number, (_, _, soon, later) in enumerate(self._states)
            for at, alerts in ((number * MINUTES + SOON, soon), ((number + 1) * MINUTES - 1, later))
        ]
        test = {
            "interval": "1m",
            "input_series": [
                {"series": series, "values": " ".join(_lasting(series, begin, end) for begin, end, *_ in self._states)}
                for series in every
            ],
            "promql_expr_test": checks,
        }
        path.write_text(yaml.safe_dump({"rule_files": [str(RULES)], "evaluation_interval": "1m", "tests": [test]}))
        done = subprocess.run([PROMTOOL, "test", "rules", str(path)], capture_output=True, text=True, check=False)
        return "" if done.returncode == 0 else done.stdout + done.stderr


def _lasting(series: str, begin: Samples, end: Samples) -> str:
    """In promtool's notation, a sample each minute: what grew grew evenly."""
    if series not in end:
        return f"stale _x{MINUTES - 1}"
    first = begin.get(series, end[series])
    return f"{first:.9f}{(end[series] - first) / (MINUTES - 1):+.9f}x{MINUTES - 1}"


def test_each_fault_fires_its_alerts_and_its_end_ends_them(tmp_path):
    cluster = Cluster(tmp_path / "cluster", brokers=3)
    one, home = tmp_path / "cluster" / "broker-1", tmp_path / "cluster" / "broker-3" / "data"
    one.mkdir(parents=True)
    (one / "broker.properties").write_text(f"log.dirs={one / 'data'},{one / 'disk'}\n")
    seen = Observer(cluster)

    with cluster, SyncAdmin(cluster.bootstrap) as admin:
        bootstrap = cluster.bootstrap
        safe = {"min.insync.replicas": "2"}
        admin.create_topic("t", assignment=[(1, 2, 3), (2, 3, 1)], configs=safe)
        admin.create_topic("alone", assignment=[(3,)])
        admin.create_topic("u", assignment=[(2, 3)], configs={"min.insync.replicas": "1"})
        with SyncProducer(bootstrap) as producer:
            for topic in ("t", "alone", "u"):
                producer.send(topic, b"x")
        cluster.wait_for_full_isr()
        seen.saw()

        cluster.kill(3)
        until(lambda: seen.sum_of("kafka_server_replicamanager_underreplicatedpartitions") == 3, "replicas out of sync")
        until(lambda: seen.sum_of("kafka_controller_kafkacontroller_offlinepartitionscount") == 1, "no leader")
        seen.saw("ProcessGone", "FencedBrokers", "OfflinePartitions", "UnderReplicatedPartitions")

        cluster.kill(2)
        until(lambda: seen.sum_of("kafka_server_replicamanager_underminisrpartitioncount") == 2, "too few in sync")
        began = seen.scraped()
        with SyncProducer(bootstrap, delivery_timeout_ms=2000) as producer, suppress(ReplogError):
            producer.send("t", b"x")
        seen.saw(
            *("ProcessGone", "FencedBrokers", "OfflinePartitions", "UnderReplicatedPartitions"),
            *("UnderMinIsrPartitions", "FailedProduces"),
            since=began,
        )

        cluster.up()
        cluster.wait_for_full_isr()
        seen.saw("UncleanElection", later=())  # all replicas of two topics were killed: the last leaders lead again

        cluster.kill(3)
        until(lambda: admin.describe_topic("u").partitions[0].isr == (2,), "broker 3 out of the in-sync set")
        cluster.kill(2)
        flip(next(path for path in home.glob("t-*/*.log") if path.stat().st_size), -1)
        cluster.start(3)
        until(lambda: admin.describe_topic("u").partitions[0].leader == -1, "no leader")
        (elected,) = admin.elect_leaders(ElectionType.UNCLEAN, [U]).values()
        assert elected.leader == 3, elected
        cluster.start(2)
        cluster.wait_for_full_isr()
        seen.saw("UncleanElection", "Damage", later=())

        cluster.kill("controller")
        seen.saw("ProcessGone", "NoActiveController")
        older = cluster.copy_store("older")
        cluster.up()
        cluster.wait_for_full_isr()
        seen.saw()

        (one / "disk").rename(one / "broken")
        until(lambda: seen.sum_of("kafka_log_logmanager_offlinelogdirectorycount") == 1, "a failed directory")
        until(lambda: seen.sum_of("kafka_server_replicamanager_underreplicatedpartitions") > 0, "replicas out of sync")
        seen.saw("OfflineLogDirectory", "UnderReplicatedPartitions")
        cluster.kill(1)
        (one / "broken").rename(one / "disk")
        cluster.start(1)
        cluster.wait_for_full_isr()
        seen.saw()

        admin.create_topic("late", partitions=1, replication_factor=3)
        cluster.kill("controller")
        newest = cluster.copy_store("newest")
        cluster.put_back(older)
        with cluster.running("controller"):
            until(lambda: seen.sum_of("replog_controller_store_behind") == 1, "a controller that is told so")
            seen.saw("StoreBehind", "NoActiveController")
        cluster.put_back(newest)
        cluster.up()
        cluster.wait_for_full_isr()
        seen.saw()
    assert seen.judge(tmp_path / "seen.yml") == ""
