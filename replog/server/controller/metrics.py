"""A controller's metrics, under the names of Kafka's by the usual rules of its JMX exporter."""

from collections import Counter
from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from replog.metadata.values import NO_LEADER, VERDICTS, StandingAudit
from replog.server.controller.active_controller import ActiveController
from replog.server.metrics.families import gauges, labelled
from replog.server.work import in_slices


async def controller_metrics(controller: ActiveController) -> list[Metric]:
    """Return a controller's metrics. One that does not decide shows that, and the metadata that it knows."""
    image = controller.state.image
    count = Counter[str]()
    async for _, state in in_slices(list(image.partitions.items())):
        count["offline"] += state.leader == NO_LEADER
        count["waiting"] += state.leader == NO_LEADER and not state.isr and not state.elr
        count["imbalance"] += state.leader != state.replicas[0]
    brokers = image.brokers.values()
    imbalance = "Partitions that another than their first replica leads"
    unclean = "Partitions that got a leader which may lack committed records"
    waiting = "Partitions without a leader where no replica is known to have everything: all are asked how far they go"
    return [
        *gauges(
            "kafka_controller_kafkacontroller_",
            ("activecontrollercount", "1 at the controller that decides", int(controller.decides)),
            ("globaltopiccount", "Topics", len(image.topics)),
            ("globalpartitioncount", "Partitions", len(image.partitions)),
            ("offlinepartitionscount", "Partitions without a leader", count["offline"]),
            ("preferredreplicaimbalancecount", imbalance, count["imbalance"]),
            ("activebrokercount", "Brokers that serve", sum(broker.active for broker in brokers)),
            ("fencedbrokercount", "Brokers that are registered and fenced", sum(b.fenced for b in brokers)),
            ("lastappliedrecordoffset", "The version of the metadata", image.version),
        ),
        CounterMetricFamily(
            "kafka_controller_controllerstats_uncleanleaderelections", unclean, controller.tally["unclean elections"]
        ),
        *gauges(
            "replog_controller_",
            ("store_behind", "1 if a broker knows newer metadata: nothing is decided", controller.is_behind.is_set()),
            ("partitions_without_complete_replica", waiting, count["waiting"]),
        ),
        *_audit(image.audit),
    ]


def _audit(audit: StandingAudit | None) -> Iterator[Metric]:
    """Yields metrics of the last audit; none before an audit has reported."""
    if audit is None:
        return
    verdicts, text = {word: audit.verdict == word for word in VERDICTS}, "1 at the verdict that the audit gave last"
    yield labelled(GaugeMetricFamily, "replog_audit_last_verdict", text, "verdict", verdicts)
    yield from gauges(
        "replog_audit_",
        ("last_success_timestamp_seconds", "When replicas were last proved equal", audit.consistent_at_ms / 1000),
        ("last_timestamp_seconds", "When the audit reported last", audit.at_ms / 1000),
        ("diverged_partitions", "Partitions in which its last round has findings", audit.diverged_partitions),
        ("compared_partitions", "Partitions that it compares", audit.partitions),
    )
