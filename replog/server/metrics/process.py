"""The metrics of every process."""

import contextlib
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from time import monotonic
from typing import Protocol

import structlog
from prometheus_client import ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from replog.rpc.peer import Peer
from replog.rpc.tasks import for_good
from replog.rpc.tls import Tls
from replog.server.log_lines import LogLines
from replog.server.metrics.certificates import certificate_metrics
from replog.server.metrics.endpoint import Families, MetricsEndpoint
from replog.server.metrics.families import labelled
from replog.server.metrics.loop_lag import measure
from replog.server.metrics.times import Times, shown
from replog.server.slow_steps import SlowSteps

log = structlog.get_logger()

DISKS = Path("/proc/self/io")


class Shown(Protocol):
    """Settings of the metrics endpoint."""

    @property
    def metrics_listener(self) -> str: ...

    @property
    def allow_plaintext(self) -> bool: ...


@asynccontextmanager
async def shown_at(
    config: Shown, families: Families, steps: SlowSteps, tls: Tls | None, other_tls: Tls | None = None
) -> AsyncIterator[None]:
    """Show `families` and the metrics of the process at `metrics.listener`. Raises INVALID_CONFIG.

    Enter it first: then a long start can be watched, and a process that cannot listen leaves nothing behind.
    `other_tls` has the certificate that the process shows elsewhere."""
    if not config.metrics_listener:
        yield
        return
    lag = Times()

    async def all_families(asks: Peer) -> list[Metric]:
        shown_ones = [each for each in (tls, other_tls) if each is not None]
        return [*await families(asks), *process_metrics(steps, lag), certificate_metrics(shown_ones)]

    endpoint = MetricsEndpoint(config.metrics_listener, all_families, tls, allow_plaintext=config.allow_plaintext)
    log.info("metrics", address=await endpoint.start())
    measuring = for_good(measure(lag), "measure the loop's lag")
    try:
        yield
    finally:
        measuring.cancel()
        await endpoint.stop()


def process_metrics(steps: SlowSteps, lag: Times) -> Iterable[Metric]:
    """Yields CPU, memory and descriptors under Prometheus's own names, bytes of disks, and the event loop, which stands
    for all of Kafka's threads."""
    idle = steps.idle_share()
    yield from ProcessCollector(registry=None).collect()
    yield from _disks()
    for name in (
        "kafka_network_socketserver_networkprocessoravgidle_percent",
        "kafka_server_kafkarequesthandlerpool_requesthandleravgidle_percent",
    ):
        yield GaugeMetricFamily(
            name, "Of the last one to two minutes, in which the event loop had nothing to do, 0 to 1", value=idle
        )
    yield shown(
        "replog_event_loop_lag_seconds", "How late the event loop did what was due", {(): lag}, monotonic(), unit="s"
    )
    yield GaugeMetricFamily(
        "replog_event_loop_longest_step_seconds",
        "The longest step of the event loop in the last one to two minutes",
        value=steps.longest_s(),
    )
    yield CounterMetricFamily(
        "replog_log_lines_lost", "Lines of the log that nobody read in time, or that found no room", value=LogLines.lost
    )
    text = "Steps of the event loop of 0.05 s or more, by name"
    yield labelled(CounterMetricFamily, "replog_event_loop_slow_steps", text, "step", steps.slow)


def _disks() -> Iterable[Metric]:
    """Yields bytes read and written; nothing if the kernel does not count them."""
    with contextlib.suppress(OSError):
        moved = dict(line.split(": ") for line in DISKS.read_text().splitlines())
        for name, text in (("read", "Bytes that were fetched from disks"), ("write", "Bytes that were sent to disks")):
            value = int(moved[f"{name}_bytes"])
            yield GaugeMetricFamily(f"kafka_server_kafkaserver_linux_disk_{name}_bytes", text, value=value)
