"""A broker's metrics of its replicas, of each and of all together."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from prometheus_client.core import GaugeMetricFamily, Metric

from leader.partition_leader import PartitionLeader
from replog.config.properties import MAX_LONG
from replog.metadata.values import PartitionState, out_of_sync
from replog.server.broker.replicas.hosted_partition import HostedPartition
from replog.server.metrics.families import labelled

_PER_PARTITION = {
    "kafka_log_log_size": "Bytes of a replica's segments",
    "kafka_log_log_logstartoffset": "The first offset of a replica",
    "kafka_log_log_logendoffset": "The offset after the last of a replica",
    "kafka_server_fetcherlagmetrics_consumerlag": "Records that a follower lacks below its leader's high watermark",
    "kafka_cluster_partition_underreplicated": "1 if replicas of a partition that is led here are out of sync",
    "kafka_cluster_partition_underminisr": "1 if fewer are in sync than acks=all needs",
    "kafka_cluster_partition_atminisr": "1 if just as many are in sync as acks=all needs",
    "kafka_cluster_partition_insyncreplicascount": "In-sync replicas of a partition that is led here",
    "kafka_cluster_partition_replicascount": "Replicas of a partition that is led here, without those being added",
}


@dataclass(slots=True)
class ReplicaMetrics:
    """Metrics of replicas. `add` each replica, then take the `families`."""

    broker_id: int
    count: int = 0
    leaders: int = 0
    under_replicated: int = 0
    under_min_isr: int = 0
    at_min_isr: int = 0
    reassigning: int = 0
    offline: int = 0
    max_lag: int = 0
    throttles: GaugeMetricFamily = field(
        default_factory=lambda: GaugeMetricFamily(
            "replog_replica_throttle_bytes_per_second",
            "The rate to which a throttle holds copies of replicas that are not in sync",
            labels=("topic", "partition", "side", "by"),
        )
    )
    per_partition: dict[str, GaugeMetricFamily] = field(
        default_factory=lambda: {
            name: GaugeMetricFamily(name, text, labels=("topic", "partition")) for name, text in _PER_PARTITION.items()
        }
    )

    def add(self, hosted: HostedPartition, state: PartitionState | None) -> None:
        """Add a replica, with its partition's state by the metadata."""
        labels = (hosted.topic_partition.topic, str(hosted.topic_partition.partition))
        log = hosted.log
        self._set("kafka_log_log_size", labels, log.size)
        self._set("kafka_log_log_logstartoffset", labels, log.log_start_offset)
        self._set("kafka_log_log_logendoffset", labels, log.log_end_offset)
        self.count += 1
        self.offline += hosted.log.failure is not None
        if state is not None:
            self._add_throttle(hosted, state, labels)
        if hosted.leader is not None:
            self._add_leader(hosted.leader, state, labels)
        elif hosted.follower is not None and hosted.follower.lag is not None:
            self.max_lag = max(self.max_lag, hosted.follower.lag)
            self._set("kafka_server_fetcherlagmetrics_consumerlag", labels, hosted.follower.lag)

    def _add_leader(self, leader: PartitionLeader, state: PartitionState | None, labels: tuple[str, str]) -> None:
        in_sync, least = len(leader.state.isr), leader.min_insync_replicas
        self.leaders += 1
        if state is not None:
            lacking = bool(out_of_sync(state.replicas, leader.state.isr, state.adding))
            self.under_replicated += lacking
            self.reassigning += state.reassigning
            self._set("kafka_cluster_partition_underreplicated", labels, lacking)
            self._set("kafka_cluster_partition_replicascount", labels, len(state.replicas) - len(state.adding))
        self.under_min_isr += in_sync < least
        self.at_min_isr += in_sync == least
        self._set("kafka_cluster_partition_underminisr", labels, in_sync < least)
        self._set("kafka_cluster_partition_atminisr", labels, in_sync == least)
        self._set("kafka_cluster_partition_insyncreplicascount", labels, in_sync)

    def _add_throttle(self, hosted: HostedPartition, state: PartitionState, labels: tuple[str, str]) -> None:
        """Add the throttle that holds up a replica now. It holds none in sync, and a list without a rate holds none."""
        lacking = set(state.replicas) - set(state.isr)
        for by, held in (("move", lacking & set(hosted.moving)), ("list", lacking - set(hosted.moving))):
            if hosted.leader is not None:
                side, quota = "leader", hosted.quota_for(min(held)) if held else None
            else:
                side, quota = "follower", hosted.follower_quota if self.broker_id in held else None
            if quota is not None and quota.rate < MAX_LONG:
                self.throttles.add_metric((*labels, side, by), quota.rate)

    def _set(self, name: str, labels: tuple[str, str], value: float) -> None:
        self.per_partition[name].add_metric(labels, value)

    def families(self) -> Iterator[Metric]:
        for name, text, value in (
            ("partitioncount", "Replicas here", self.count),
            ("leadercount", "Partitions that are led here", self.leaders),
            ("underreplicatedpartitions", "Of these, those with replicas out of sync", self.under_replicated),
            ("underminisrpartitioncount", "… with fewer in sync than acks=all needs", self.under_min_isr),
            ("atminisrpartitioncount", "… with just as many as acks=all needs", self.at_min_isr),
            ("reassigningpartitions", "… that move", self.reassigning),
            ("offlinereplicacount", "Replicas here whose disk or files have failed", self.offline),
        ):
            yield GaugeMetricFamily(f"kafka_server_replicamanager_{name}", text, value=value)
        name, text = "kafka_server_replicafetchermanager_maxlag", "The largest lag of a follower here, records"
        yield labelled(GaugeMetricFamily, name, text, "clientId", {"Replica": self.max_lag})
        yield self.throttles
        yield from self.per_partition.values()
