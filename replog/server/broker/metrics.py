"""A broker's metrics, under the names of Kafka's by the usual rules of its JMX exporter.

They are made on request, in slices of the event loop: some microseconds for each replica."""

from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from typing import Any

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from leader.fetch_session import FetchSession
from leader.partition_leader import PartitionLeader
from replog.config.properties import MAX_LONG
from replog.log.directories.log_directory import LogDirectory
from replog.log.files.open_files import OPEN_FILES
from replog.metadata.values import PartitionState, out_of_sync
from replog.server.broker.context import DAMAGE, Traffic
from replog.server.broker.control.lifecycle import BrokerState
from replog.server.broker.replicas.hosted_replicas import HostedPartition
from replog.server.broker.replicas.replica_manager import ReplicaManager
from replog.server.metrics.families import gauges, labelled, shown
from replog.server.work import in_slices

_STATES = {  # KIP-631's numbers
    BrokerState.STARTING: 1,
    BrokerState.RECOVERY: 2,
    BrokerState.RUNNING: 3,
    BrokerState.PENDING_CONTROLLED_SHUTDOWN: 6,
    BrokerState.SHUTTING_DOWN: 7,
}
_TRAFFIC = {  # Kafka's name, ours, and the help text
    "messagesin": ("messages_in", "Records that producers sent"),
    "bytesin": ("bytes_in", "Bytes that producers sent"),
    "bytesout": ("bytes_out", "Bytes that consumers took"),
    "replicationbytesin": ("copied_in", "Bytes that were copied from leaders"),
    "replicationbytesout": ("copied_out", "Bytes that followers copied"),
    "totalproducerequests": ("produces", "Batches that came"),
    "failedproducerequests": ("failed_produces", "Batches that were refused, or not known to be safe in time"),
    "totalfetchrequests": ("fetches", "Answers that had something to say of a partition"),
    "failedfetchrequests": ("failed_fetches", "Of these, those with an error"),
}


async def broker_metrics(manager: ReplicaManager, state: BrokerState) -> list[Metric]:
    now_s = manager.context.clock.monotonic_s()
    replicas = ReplicaMetrics(
        manager.context.config.node_id, Counter(offlinereplicacount=len(manager.replicas.unreachable))
    )
    async for tp, hosted in in_slices(list(manager.replicas.hosted.items())):
        replicas.add(hosted, manager.context.image.partitions.get(tp))
    fetching = set[FetchSession[Any]]()
    async for sessions in in_slices(list(manager.sessions.watching.values())):
        fetching.update(sessions)
    manager.context.traffic.forget_gone()
    ahead = "How far the clock is ahead of the controller's; beyond 300 either way nothing is deleted by time"
    return [
        *replicas.families(),
        *_traffic(manager.context.traffic),
        shown(
            "kafka_network_requestmetrics_totaltimems",
            "How long requests took to be answered, their waits included",
            {(request,): times for request, times in manager.context.traffic.requests.items()},
            now_s,
            ("request",),
        ),
        shown(
            "kafka_log_logflushstats_logflushrateandtimems",
            "How long flushes of logs took, those of a disk together",
            {(): manager.context.traffic.flushes},
            now_s,
        ),
        *gauges(
            "",
            ("replog_open_log_files", "Files of logs that are open", len(OPEN_FILES.get())),
            ("replog_open_log_files_limit", "… at most", OPEN_FILES.get().limit),
            ("replog_clock_ahead_seconds", ahead, manager.context.time.ahead_ms / 1000),
            ("kafka_server_kafkaserver_brokerstate", "3 is running (KIP-631)", _STATES[state]),
        ),
        *_waiting(manager, sum(session.pending is not None for session in fetching)),
    ]


def directory_metrics(directories: Collection[LogDirectory], traffic: Traffic) -> Iterator[Metric]:
    offline = {directory.path: directory.offline is not None for directory in directories}
    uncleanable = {directory.path: traffic.uncleanable.get(directory.path, 0) for directory in directories}
    strays = {directory.path: traffic.strays.get(directory.path, 0) for directory in directories}
    cleaner, text = "kafka_log_logcleanermanager_uncleanable_partitions_count", "Logs that a cleaning failed on"
    by_directory = (
        ("kafka_log_logmanager_logdirectoryoffline", "1 if its disk has failed", "logDirectory", offline),
        (cleaner, f"{text}, to be tried again", "logDirectory", uncleanable),
        ("replog_stray_replicas", "Replicas that were set aside, and that nobody deletes", "log_directory", strays),
    )
    yield from (labelled(GaugeMetricFamily, *gauge) for gauge in by_directory)
    yield from gauges(
        "",
        ("kafka_log_logmanager_offlinelogdirectorycount", "Log directories whose disk failed", sum(offline.values())),
        ("replog_oldest_stray_seconds", "For how long the oldest of these has been there", traffic.oldest_stray_s),
        ("replog_undeleted_files", "Deleted replicas and files that cannot be removed", traffic.undeleted),
    )


def _traffic(traffic: Traffic) -> Iterator[Metric]:
    """Yields a value for each topic, and the sum without a topic, like Kafka's."""
    for name, (counter, text) in _TRAFFIC.items():
        family = CounterMetricFamily(f"kafka_server_brokertopicmetrics_{name}", text, labels=("topic",))
        total = getattr(traffic.gone, counter)
        for topic, passed in traffic.topics.items():
            count = getattr(passed, counter)
            family.add_metric((topic,), count)
            total += count
        family.add_sample(f"kafka_server_brokertopicmetrics_{name}_total", {}, total)
        yield family
    errors = CounterMetricFamily(
        "kafka_network_requestmetrics_errors", "Errors in answers, one of each partition", labels=("request", "error")
    )
    for (request, error), count in traffic.errors.items():
        errors.add_metric((request, error.name), count)
    yield errors
    damage = {kind: traffic.damage[kind] for kind in DAMAGE}
    yield labelled(CounterMetricFamily, "replog_damage", "Damage of records that was met, by where", "kind", damage)
    for name, text, value in (
        ("isrshrinks", "Times that a leader here has taken a follower out of an in-sync set", traffic.isr_shrinks),
        ("isrexpands", "… has taken one in again", traffic.isr_expands),
    ):
        yield CounterMetricFamily(f"kafka_server_replicamanager_{name}", text, value=value)


def _waiting(manager: ReplicaManager, fetches: int) -> Iterator[Metric]:
    produces, deletions = manager.produces.purgatory.delayed, manager.record_deletions.purgatory.delayed
    waiting = {"Produce": produces, "Fetch": fetches, "DeleteRecords": deletions}
    name = "kafka_server_delayedoperationpurgatory_purgatorysize"
    yield labelled(GaugeMetricFamily, name, "Requests that wait", "delayedOperation", waiting)
    budgets = {"answers": manager.sessions.answers, "waiting_produces": manager.waiting_produces}
    used, capacity = ({name: getattr(b, what) for name, b in budgets.items()} for what in ("used", "capacity"))
    text = "Of a bound on memory, what is in use"
    yield labelled(GaugeMetricFamily, "replog_budget_used_bytes", text, "budget", used)
    yield labelled(GaugeMetricFamily, "replog_budget_capacity_bytes", "A bound on memory", "budget", capacity)


_COUNTS = (
    ("partitioncount", "Replicas here"),
    ("leadercount", "Partitions that are led here"),
    ("underreplicatedpartitions", "Of these, those with replicas out of sync"),
    ("underminisrpartitioncount", "… with fewer in sync than acks=all needs"),
    ("atminisrpartitioncount", "… with just as many as acks=all needs"),
    ("reassigningpartitions", "… that move"),
    ("offlinereplicacount", "Replicas here whose disk or files have failed"),
)
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
    counts: Counter[str]  # keys are Kafka's names
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
        self.counts["partitioncount"] += 1
        self.counts["offlinereplicacount"] += hosted.log.failure is not None
        if state is not None:
            self._add_throttle(hosted, state, labels)
        if hosted.leader is not None:
            self._add_leader(hosted.leader, state, labels)
        elif hosted.follower is not None and hosted.follower.lag is not None:
            self.max_lag = max(self.max_lag, hosted.follower.lag)
            self._set("kafka_server_fetcherlagmetrics_consumerlag", labels, hosted.follower.lag)

    def _add_leader(self, leader: PartitionLeader, state: PartitionState | None, labels: tuple[str, str]) -> None:
        in_sync, least = len(leader.state.isr), leader.min_insync_replicas
        self.counts["leadercount"] += 1
        if state is not None:
            is_behind = bool(out_of_sync(state.replicas, leader.state.isr, state.adding))
            self.counts["underreplicatedpartitions"] += is_behind
            self.counts["reassigningpartitions"] += state.reassigning
            self._set("kafka_cluster_partition_underreplicated", labels, is_behind)
            self._set("kafka_cluster_partition_replicascount", labels, len(state.replicas) - len(state.adding))
        self.counts["underminisrpartitioncount"] += in_sync < least
        self.counts["atminisrpartitioncount"] += in_sync == least
        self._set("kafka_cluster_partition_underminisr", labels, in_sync < least)
        self._set("kafka_cluster_partition_atminisr", labels, in_sync == least)
        self._set("kafka_cluster_partition_insyncreplicascount", labels, in_sync)

    def _add_throttle(self, hosted: HostedPartition, state: PartitionState, labels: tuple[str, str]) -> None:
        """Add the throttle that holds up a replica now. It holds none in sync, and a list without a rate holds none."""
        behind = set(state.replicas) - set(state.isr)
        for by, held in (("move", behind & set(hosted.moving)), ("list", behind - set(hosted.moving))):
            if hosted.leader is not None:
                side, quota = "leader", hosted.quota_for(min(held)) if held else None
            else:
                side, quota = "follower", hosted.follower_quota if self.broker_id in held else None
            if quota is not None and quota.rate < MAX_LONG:
                self.throttles.add_metric((*labels, side, by), quota.rate)

    def _set(self, name: str, labels: tuple[str, str], value: float) -> None:
        self.per_partition[name].add_metric(labels, value)

    def families(self) -> Iterator[Metric]:
        yield from gauges("kafka_server_replicamanager_", *((*row, self.counts[row[0]]) for row in _COUNTS))
        name, text = "kafka_server_replicafetchermanager_maxlag", "The largest lag of a follower here, records"
        yield labelled(GaugeMetricFamily, name, text, "clientId", {"Replica": self.max_lag})
        yield self.throttles
        yield from self.per_partition.values()
