"""The families that a broker shows, under the names that Kafka's have by the usual rules of its JMX exporter.

Made when somebody asks, in slices of the event loop: some microseconds for each replica.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from leader.partition_leader import PartitionLeader
from replog.log.files.open_files import OPEN_FILES
from replog.metadata.values import PartitionState, out_of_sync
from replog.server.broker.control.broker_standing import BrokerState
from replog.server.broker.replicas.hosted_partition import HostedPartition
from replog.server.broker.replicas.replica_manager import ReplicaManager
from replog.server.broker.replicas.traffic import TopicTraffic, Traffic
from replog.server.metrics.times import shown
from replog.server.slices import in_slices

_STATES = {  # KIP-631's numbers
    BrokerState.STARTING: 1,
    BrokerState.RECOVERY: 2,
    BrokerState.RUNNING: 3,
    BrokerState.PENDING_CONTROLLED_SHUTDOWN: 6,
    BrokerState.SHUTTING_DOWN: 7,
}
_TRAFFIC = {  # Kafka's name, ours, and what it is
    "messagesin": ("messages_in", "Records that producers sent"),
    "bytesin": ("bytes_in", "Bytes that producers sent"),
    "bytesout": ("bytes_out", "Bytes that consumers took"),
    "replicationbytesin": ("copied_in", "Bytes that were copied from leaders"),
    "replicationbytesout": ("copied_out", "Bytes that followers copied"),
    "failedproducerequests": ("failed_produces", "Batches that were refused"),
}

_PER_PARTITION = {
    "kafka_log_log_size": "Bytes of a replica's segments",
    "kafka_log_log_logstartoffset": "The first offset of a replica",
    "kafka_log_log_logendoffset": "The offset after the last of a replica",
    "kafka_server_fetcherlagmetrics_consumerlag": "Records that a follower lacks below its leader's high watermark",
    "kafka_cluster_partition_underreplicated": "1 if replicas of a partition that is led here are out of sync",
    "kafka_cluster_partition_underminisr": "1 if fewer are in sync than acks=all needs",
    "kafka_cluster_partition_insyncreplicascount": "In-sync replicas of a partition that is led here",
    "kafka_cluster_partition_replicascount": "Replicas of a partition that is led here, without those being added",
}


@dataclass(slots=True)
class Replicas:
    """What is counted over all replicas, and the families that have a value of each."""

    leaders: int = 0
    under_replicated: int = 0
    under_min_isr: int = 0
    at_min_isr: int = 0
    reassigning: int = 0
    offline: int = 0
    max_lag: int = 0
    per_partition: dict[str, GaugeMetricFamily] = field(
        default_factory=lambda: {
            name: GaugeMetricFamily(name, text, labels=("topic", "partition")) for name, text in _PER_PARTITION.items()
        }
    )

    def add(self, hosted: HostedPartition, state: PartitionState | None) -> None:
        """`state`: what the metadata say of it."""
        labels = (hosted.topic_partition.topic, str(hosted.topic_partition.partition))
        log = hosted.log
        self._set("kafka_log_log_size", labels, log.size)
        self._set("kafka_log_log_logstartoffset", labels, log.log_start_offset)
        self._set("kafka_log_log_logendoffset", labels, log.log_end_offset)
        self.offline += hosted.is_offline
        if hosted.leader is not None:
            self._add_leader(hosted.leader, state, labels)
        elif hosted.follower is not None and hosted.follower.lag is not None:
            self.max_lag = max(self.max_lag, hosted.follower.lag)
            self._set("kafka_server_fetcherlagmetrics_consumerlag", labels, hosted.follower.lag)

    def _add_leader(self, leader: PartitionLeader, state: PartitionState | None, labels: tuple[str, str]) -> None:
        in_sync, least = len(leader.isr), leader.min_insync_replicas
        self.leaders += 1
        if state is not None:
            lacking = bool(out_of_sync(state.replicas, leader.isr, state.adding))
            self.under_replicated += lacking
            self.reassigning += state.reassigning
            self._set("kafka_cluster_partition_underreplicated", labels, lacking)
            self._set("kafka_cluster_partition_replicascount", labels, len(state.replicas) - len(state.adding))
        self.under_min_isr += in_sync < least
        self.at_min_isr += in_sync == least
        self._set("kafka_cluster_partition_underminisr", labels, in_sync < least)
        self._set("kafka_cluster_partition_insyncreplicascount", labels, in_sync)

    def _set(self, name: str, labels: tuple[str, str], value: float) -> None:
        self.per_partition[name].add_metric(labels, value)


async def broker_metrics(manager: ReplicaManager, state: BrokerState) -> list[Metric]:
    now_s = manager.clock.monotonic_s()
    replicas = Replicas()
    async for tp, hosted in in_slices(list(manager.hosted.items())):
        replicas.add(hosted, manager.image.partitions.get(tp))
    manager.traffic.forget(manager.image.topics)
    return [
        *_of_replicas(replicas, len(manager.hosted)),
        *replicas.per_partition.values(),
        *_traffic(manager.traffic),
        shown(
            "kafka_network_requestmetrics_totaltimems",
            "How long requests took to be answered, their waits included",
            {(request,): times for request, times in manager.traffic.requests.items()},
            now_s,
            ("request",),
        ),
        shown(
            "kafka_log_logflushstats_logflushrateandtimems",
            "How long flushes of logs took, those of a disk together",
            {(): manager.traffic.flushes},
            now_s,
        ),
        GaugeMetricFamily("replog_open_log_files", "Files of logs that are open", value=len(OPEN_FILES.get())),
        GaugeMetricFamily("replog_open_log_files_limit", "… at most", value=OPEN_FILES.get().limit),
        *_waiting(manager),
        GaugeMetricFamily("kafka_server_kafkaserver_brokerstate", "3 is running (KIP-631)", value=_STATES[state]),
    ]


def _of_replicas(replicas: Replicas, count: int) -> Iterator[Metric]:
    for name, text, value in (
        ("partitioncount", "Replicas here", count),
        ("leadercount", "Partitions that are led here", replicas.leaders),
        ("underreplicatedpartitions", "Of these, those with replicas out of sync", replicas.under_replicated),
        ("underminisrpartitioncount", "… with fewer in sync than acks=all needs", replicas.under_min_isr),
        ("atminisrpartitioncount", "… with just as many as acks=all needs", replicas.at_min_isr),
        ("reassigningpartitions", "… that move", replicas.reassigning),
        ("offlinereplicacount", "Replicas here whose disk has failed", replicas.offline),
    ):
        yield GaugeMetricFamily(f"kafka_server_replicamanager_{name}", text, value=value)
    lag = GaugeMetricFamily(
        "kafka_server_replicafetchermanager_maxlag", "The largest lag of a follower here, records", labels=("clientId",)
    )
    lag.add_metric(("Replica",), replicas.max_lag)
    yield lag


def _traffic(traffic: Traffic) -> Iterator[Metric]:
    """A value of each topic; and without a topic the sum, as Kafka's."""
    for name, (counter, text) in _TRAFFIC.items():
        family = CounterMetricFamily(f"kafka_server_brokertopicmetrics_{name}", text, labels=("topic",))
        total = _count(traffic.gone, counter)
        for topic, passed in traffic.topics.items():
            family.add_metric((topic,), _count(passed, counter))
            total += _count(passed, counter)
        family.add_sample(f"kafka_server_brokertopicmetrics_{name}_total", {}, total)
        yield family
    for name, text, value in (
        ("isrshrinks", "Times that a leader here has taken a follower out of an in-sync set", traffic.isr_shrinks),
        ("isrexpands", "… has taken one in again", traffic.isr_expands),
    ):
        yield CounterMetricFamily(f"kafka_server_replicamanager_{name}", text, value=value)


def _count(passed: TopicTraffic, counter: str) -> int:
    return int(getattr(passed, counter))


def _waiting(manager: ReplicaManager) -> Iterator[Metric]:
    size = GaugeMetricFamily(
        "kafka_server_delayedoperationpurgatory_purgatorysize", "Requests that wait", labels=("delayedOperation",)
    )
    size.add_metric(("Produce",), manager.produces.purgatory.delayed)
    size.add_metric(("DeleteRecords",), manager.record_deletions.purgatory.delayed)
    yield size
    used = GaugeMetricFamily("replog_budget_used_bytes", "Of a bound on memory, what is in use", labels=("budget",))
    capacity = GaugeMetricFamily("replog_budget_capacity_bytes", "A bound on memory", labels=("budget",))
    for name, budget in (("answers", manager.answers), ("waiting_produces", manager.waiting_produces)):
        used.add_metric((name,), budget.used)
        capacity.add_metric((name,), budget.capacity)
    yield used
    yield capacity
