"""A broker's metrics, under the names of Kafka's by the usual rules of its JMX exporter.

They are made on request, in slices of the event loop: some microseconds for each replica."""

from collections.abc import Collection, Iterator
from typing import Any

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from leader.fetch_session import FetchSession
from replog.log.directories.log_directory import LogDirectory
from replog.log.files.open_files import OPEN_FILES
from replog.server.broker.control.broker_standing import BrokerState
from replog.server.broker.replicas.replica_manager import ReplicaManager
from replog.server.broker.replicas.replica_metrics import ReplicaMetrics
from replog.server.broker.traffic import DAMAGE, TopicTraffic, Traffic
from replog.server.metrics.families import labelled
from replog.server.metrics.times import shown
from replog.server.slices import in_slices

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
    replicas = ReplicaMetrics(manager.context.config.node_id, offline=len(manager.replicas.unreachable))
    async for tp, hosted in in_slices(list(manager.replicas.hosted.items())):
        replicas.add(hosted, manager.context.image.partitions.get(tp))
    fetching = set[FetchSession[Any]]()
    async for sessions in in_slices(list(manager.sessions.watching.values())):
        fetching.update(sessions)
    manager.context.traffic.forget_gone()
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
        GaugeMetricFamily("replog_open_log_files", "Files of logs that are open", value=len(OPEN_FILES.get())),
        GaugeMetricFamily("replog_open_log_files_limit", "… at most", value=OPEN_FILES.get().limit),
        GaugeMetricFamily(
            "replog_clock_ahead_seconds",
            "How far the clock is ahead of the controller's; beyond 300 either way nothing is deleted by time",
            value=manager.context.time.ahead_ms / 1000,
        ),
        *_waiting(manager, sum(session.pending is not None for session in fetching)),
        GaugeMetricFamily("kafka_server_kafkaserver_brokerstate", "3 is running (KIP-631)", value=_STATES[state]),
    ]


def directory_metrics(directories: Collection[LogDirectory], traffic: Traffic) -> Iterator[Metric]:
    yield GaugeMetricFamily(
        "kafka_log_logmanager_offlinelogdirectorycount",
        "Log directories whose disk has failed",
        value=sum(directory.offline is not None for directory in directories),
    )
    offline = {directory.path: directory.offline is not None for directory in directories}
    uncleanable = {directory.path: traffic.uncleanable.get(directory.path, 0) for directory in directories}
    strays = {directory.path: traffic.strays.get(directory.path, 0) for directory in directories}
    cleaner, text = "kafka_log_logcleanermanager_uncleanable_partitions_count", "Logs that a cleaning failed on"
    gauges = (
        ("kafka_log_logmanager_logdirectoryoffline", "1 if its disk has failed", "logDirectory", offline),
        (cleaner, f"{text}, to be tried again", "logDirectory", uncleanable),
        ("replog_stray_replicas", "Replicas that were set aside, and that nobody deletes", "log_directory", strays),
    )
    yield from (labelled(GaugeMetricFamily, *gauge) for gauge in gauges)
    yield GaugeMetricFamily(
        "replog_oldest_stray_seconds", "For how long the oldest of these has been there", value=traffic.oldest_stray_s
    )
    yield GaugeMetricFamily(
        "replog_undeleted_files", "Deleted replicas and files that cannot be removed", value=traffic.undeleted
    )


def _traffic(traffic: Traffic) -> Iterator[Metric]:
    """Yields a value for each topic, and the sum without a topic, like Kafka's."""
    for name, (counter, text) in _TRAFFIC.items():
        family = CounterMetricFamily(f"kafka_server_brokertopicmetrics_{name}", text, labels=("topic",))
        total = _count(traffic.gone, counter)
        for topic, passed in traffic.topics.items():
            family.add_metric((topic,), _count(passed, counter))
            total += _count(passed, counter)
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


def _count(passed: TopicTraffic, counter: str) -> int:
    return int(getattr(passed, counter))


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
