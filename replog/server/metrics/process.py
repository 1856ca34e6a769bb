"""What every process shows of itself."""

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Protocol

import structlog
from prometheus_client import ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from replog.rpc.peer import Peer
from replog.rpc.tls import Tls
from replog.server.metrics.endpoint import Families, MetricsEndpoint
from replog.server.slow_steps import SlowSteps

log = structlog.get_logger()


class Shown(Protocol):
    """The settings that decide where metrics are shown."""

    @property
    def metrics_listener(self) -> str: ...

    @property
    def allow_plaintext(self) -> bool: ...


@asynccontextmanager
async def shown_at(config: Shown, families: Families, steps: SlowSteps, tls: Tls | None) -> AsyncIterator[None]:
    """Meanwhile, `families` and those of the process can be seen where `metrics.listener` says. Raises INVALID_CONFIG.

    Enter it before anything else begins: one that starts for long is then seen to start, and one that cannot listen
    leaves nothing behind.
    """
    if not config.metrics_listener:
        yield
        return

    async def all_families(asks: Peer) -> list[Metric]:
        return [*await families(asks), *process_metrics(steps)]

    endpoint = MetricsEndpoint(config.metrics_listener, all_families, tls, allow_plaintext=config.allow_plaintext)
    log.info("metrics", address=await endpoint.start())
    try:
        yield
    finally:
        await endpoint.stop()


def process_metrics(steps: SlowSteps) -> Iterable[Metric]:
    """CPU, memory and descriptors under Prometheus's own names, and the steps of the event loop."""
    yield from ProcessCollector(registry=None).collect()
    yield GaugeMetricFamily(
        "replog_event_loop_longest_step_seconds",
        "The longest step of the event loop in the last one to two minutes",
        value=steps.longest_s(),
    )
    slow = CounterMetricFamily(
        "replog_event_loop_slow_steps", "Steps of the event loop of 0.1 s or more, by name", labels=("step",)
    )
    for name, count in steps.slow.items():
        slow.add_metric((name,), count)
    yield slow
